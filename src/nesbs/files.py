"""Files appear whole or not at all: atomic writes and checked reads of JSON, text and tensors."""

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open

from nesbs.errors import NesbsError

ABOUT = "about"  # the key under which a file of tensors keeps text about them
CHECKSUM = "sha256"  # in that text: of the tensors and the rest of it
OF = "of"  # in that text: what the tensors belong to, in words
AGAIN = "remove it and run the same command again"  # how to get a file that is whole
MAX_DEPTH = 50  # of lists and mappings in one another: more than anything that is written here
PART = ".part"  # ends the name of a file that is still being written
WRITER = re.compile(rf"\.(\d+)-(\w*)\.\w+{re.escape(PART)}$")  # the process in such a name, and its start


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that takes its place when the block ends well."""
    try:
        if path.exists() and not path.is_file():  # as root, a device would be replaced
            raise NesbsError(f"cannot write {path}: it is not a file")
        path.parent.mkdir(parents=True, exist_ok=True)
        writer = f"{os.getpid()}-{process_start(os.getpid())}"  # so that nobody sweeps it up meanwhile
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.{writer}.", suffix=PART, dir=path.parent)
        os.close(handle)
    except OSError as error:
        raise _cannot_write(path, error) from None
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
        raise _cannot_write(path, error) from None
    finally:
        discard(temporary)


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder that is not there, or empty, to write into; where the block fails, what it wrote goes again."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise NesbsError(f"{path} is there and not empty: name a new folder")
    try:
        yield path
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


def _cannot_write(path: Path, error: Exception) -> NesbsError:
    """What to say where a file cannot be written; what was there before stays as it was."""
    reason = str(getattr(error, "strerror", None) or error)
    full = any(words in reason.lower() for words in ("no space left", "quota"))
    return NesbsError(f"cannot write {path}: {reason}" + (": make room, the same command resumes" if full else ""))


def discard(path: Path) -> None:
    """Remove a file that nobody needs any more; one that cannot be removed stays."""
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def sweep(folder: Path) -> None:
    """Remove what killed writes have left in a folder and below; what a living process is writing stays."""
    for part in folder.rglob(f".*{PART}"):
        writer = WRITER.search(part.name)
        if writer is None or not is_living(int(writer[1]), writer[2]):
            discard(part)


def process_start(process: int) -> str:
    """When a process was started, in ticks of its machine's clock; empty where the system does not say.

    >>> process_start(os.getpid()) == process_start(os.getpid())
    True
    """
    try:
        # PID (NAME) STATE … with the start as the 20th word behind the name, which may hold blanks and brackets.
        words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "ended" if words[0] in "ZX" else words[19]


def is_living(process: int, start: str) -> bool:
    """Whether the process of this number on this machine is at work and is the one that was started then.

    Where the system does not say when it was started, or whether it is at work, it counts as living.
    """
    if os.name == "nt":
        return True  # signal 0 would reach it there
    try:
        os.kill(process, 0)  # sends nothing
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass  # another user's
    now = process_start(process)
    return not now or not start or now == start


def expanded(path: str | Path) -> Path:
    """A path in which `~` is the home folder; a home that there is not is a `NesbsError`."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise NesbsError(f"{path}: there is no such home folder") from None


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path`, atomically."""
    with _replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` to `path`, atomically."""
    with _replacing(path) as temporary:
        temporary.write_bytes(content)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[TextIO]:
    """Open a text to be written line by line; it takes its place when the block ends well, else nothing is left."""
    with _replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="") as text:
        yield text


def read_text(path: Path) -> str:
    """Read the text of a file; a missing or unreadable one is a `NesbsError`."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():  # a pipe or a device, which may never end
            raise NesbsError(f"{path} is not a file")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise NesbsError(f"there is no file {path}") from None
    except OSError as error:
        raise NesbsError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise NesbsError(f"{path} is not text in UTF-8") from None


def write_json(path: Path, value: Any) -> None:
    """Write plain data as JSON, atomically; the same value gives the same bytes."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any:
    """Read the plain data in a JSON file; a broken one is a `NesbsError`."""
    text = read_text(path)
    try:
        value = json.loads(text)
        if "\\u" in text:  # an escape may stand for half a character, which cannot be written again
            json.dumps(value, ensure_ascii=False).encode()
        check_depth(value)
        return value
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits
        line = f" (line {error.lineno})" if isinstance(error, json.JSONDecodeError) else ""
        raise NesbsError(f"{path} is not valid JSON{line}: {AGAIN}") from None


def check_depth(value: Any, most: int = MAX_DEPTH) -> None:
    """Raise a `NesbsError` where lists and mappings are nested deeper than anything that is written here.

    >>> check_depth({"a": [{"b": [1, 2]}]}, most=3)
    Traceback (most recent call last):
    nesbs.errors.NesbsError: lists and mappings are nested more than 3 deep
    """
    level: dict[int, Any] = {0: [value]}  # each container once: YAML can name one in many places
    for _ in range(most + 1):
        inside = [each.values() if isinstance(each, dict) else each for each in level.values()]
        level = {id(each): each for values in inside for each in values if isinstance(each, dict | list)}
        if not level:
            return
    raise NesbsError(f"lists and mappings are nested more than {most} deep")


def read_mapping(path: Path) -> dict[str, Any]:
    """Read the mapping in a JSON file; anything else is a `NesbsError`."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise NesbsError(f"{path} must hold a mapping, found {type(value).__name__}: {AGAIN}")
    return value


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], **metadata: str) -> None:
    """Write named tensors (and some text about them) as safetensors with a checksum, atomically."""
    with _replacing(path) as temporary:
        plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        about = {**metadata, CHECKSUM: checksum(plain, metadata)}
        # One key: safetensors writes several in any order, and the same contents should be the same bytes.
        safetensors.torch.save_file(plain, temporary, metadata={ABOUT: json.dumps(about, sort_keys=True)})


def file_checksum(path: Path) -> str:
    """The SHA-256 of a file's bytes; one that cannot be read is a `NesbsError`."""
    if not path.is_file():  # nor a pipe, which may never end
        raise NesbsError(f"there is no file {path}")
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise NesbsError(f"cannot read {path}: {error.strerror}") from None


def checksum(tensors: Mapping[str, torch.Tensor], about: Mapping[str, str]) -> str:
    """A digest of tensors on the CPU, with their names and the text about them."""
    digest = hashlib.sha256(json.dumps(dict(about), sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_tensors(
    path: Path, device: torch.device | str = "cpu", *, of: str = ""
) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Read the tensors of a safetensors file and the text stored with them.

    A file that was damaged, or that says it belongs to something else than `of`, is a `NesbsError`.
    """
    if not path.is_file():
        raise NesbsError(f"there is no file {path}")
    try:
        with safe_open(path, framework="pt") as opened:
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (not a dict)
            about = dict(json.loads((opened.metadata() or {})[ABOUT]))
    except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
        raise NesbsError(f"{path} is not a whole safetensors file ({error}): {AGAIN}") from None
    expected = about.pop(CHECKSUM, None)  # files of before there was one have none
    if expected is not None and expected != checksum(tensors, about):
        raise NesbsError(f"{path} is damaged (its checksum is another): {AGAIN}")
    found = about.pop(OF, of)
    if of and found != of:
        raise NesbsError(f"{path} holds {found}, not {of}: {AGAIN}")
    return {name: tensor.to(device) for name, tensor in tensors.items()}, about


def read_about(path: Path) -> dict[str, str]:
    """The text stored with the tensors of a file, from its header alone, unchecked; empty where it cannot be read."""
    try:
        with safe_open(path, framework="pt") as opened:
            return dict(json.loads((opened.metadata() or {})[ABOUT]))
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, RecursionError):
        return {}


def about_json(about: Mapping[str, str], name: str, path: Path) -> Any:
    """Plain data from the text stored with tensors; a `NesbsError` where it is missing or broken."""
    try:
        return json.loads(about[name])
    except (KeyError, TypeError, ValueError, RecursionError):
        raise NesbsError(f"{path} does not say its {name}: {AGAIN}") from None


def load_into(
    module: torch.nn.Module, tensors: Mapping[str, torch.Tensor], path: Path, *, assign: bool = False
) -> None:
    """Put tensors into a module, as its own (`assign`) or by copying; a `NesbsError` where they do not belong to it."""
    try:
        module.load_state_dict(dict(tensors), assign=assign)
    except RuntimeError as error:
        first = str(error).splitlines()[1:2]
        raise NesbsError(f"{path} does not fit this recipe:{''.join(first)}") from None
