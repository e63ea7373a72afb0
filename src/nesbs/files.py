"""Files appear whole or not at all: atomic writes and checked reads of JSON, text and tensors."""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open

from nesbs.errors import NesbsError

ABOUT = "about"  # the key under which a file of tensors keeps text about them
AGAIN = "remove it and run the same command again"  # how to get a file that is whole
PART = ".part"  # ends the name of a file that is still being written


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PART, dir=path.parent)
        os.close(handle)
    except OSError as error:
        raise NesbsError(f"cannot write {path}: {error.strerror}") from None
    temporary = Path(name)
    try:
        yield temporary
        with open(temporary, "rb+") as written:
            os.fsync(written.fileno())
        # mkstemp makes files private; ours are as readable as the umask says.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:
        raise NesbsError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from None
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`, atomically."""
    with _replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` to `path`, atomically."""
    with _replacing(path) as temporary:
        temporary.write_bytes(content)


def read_text(path: Path) -> str:
    """Read the text of a file; a missing or unreadable one is a `NesbsError`."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NesbsError(f"there is no file {path}") from None
    except OSError as error:
        raise NesbsError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise NesbsError(f"{path} is not text") from None


def write_json(path: Path, value: Any) -> None:
    """Write plain data as JSON, atomically; the same value gives the same bytes."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read the plain data in a JSON file; a broken one is a `NesbsError`."""
    try:
        return json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise NesbsError(f"{path} is not valid JSON (line {error.lineno}): {AGAIN}") from None


def read_mapping(path: Path) -> dict[str, Any]:
    """Read the mapping in a JSON file; anything else is a `NesbsError`."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise NesbsError(f"{path} must hold a mapping, found {type(value).__name__}: {AGAIN}")
    return value


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], **metadata: str) -> None:
    """Write named tensors (and some text about them) as safetensors, atomically."""
    with _replacing(path) as temporary:
        plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        # One key: safetensors writes several in any order, and the same contents should be the same bytes.
        safetensors.torch.save_file(plain, temporary, metadata={ABOUT: json.dumps(metadata, sort_keys=True)})


def read_tensors(path: Path, device: torch.device | str = "cpu") -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Read the tensors of a safetensors file and the text stored with them."""
    if not path.is_file():
        raise NesbsError(f"there is no file {path}")
    try:
        with safe_open(path, framework="pt", device=str(device)) as opened:
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
            about = json.loads((opened.metadata() or {}).get(ABOUT, "{}"))
            return tensors, dict(about)
    except (SafetensorError, OSError, ValueError, TypeError) as error:
        raise NesbsError(f"{path} is not a whole safetensors file ({error}): {AGAIN}") from None


def load_into(module: torch.nn.Module, tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Put tensors into a module; raise a `NesbsError` where they do not belong to it."""
    try:
        module.load_state_dict(dict(tensors))
    except RuntimeError as error:
        first = str(error).splitlines()[1:2]
        raise NesbsError(f"{path} does not fit this recipe:{''.join(first)}") from None
