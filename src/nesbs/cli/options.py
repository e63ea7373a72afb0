"""The options of the commands: one kind each, with its help; what their values mean, and how a command ends."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import typer

from nesbs.cli.progress import StoppedError
from nesbs.errors import NesbsError

RecipeName = Annotated[str, typer.Argument(metavar="RECIPE", help="A name from `nesbs recipes`, or a YAML file.")]
Out = Annotated[Path, typer.Option("--out", metavar="RUN", help="The run folder.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Changes = Annotated[list[str] | None, typer.Option("--set", metavar="SECTION.NAME=VALUE", help="Change a setting.")]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", min=0, help="Instead of the recipe's.")]
Device = Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda", help="Where to compute.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no table; errors only.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show a traceback with an error.")]
Human = Annotated[
    str | None, typer.Option("--human", metavar="FILE", help="Compare with people's labels (.npy, .npz; CIFAR-10H).")
]
Unseen = Annotated[
    str | None, typer.Option("--unseen", metavar="NAME|PATH", help="Tell the test images from another data set's.")
]
UnseenRoot = Annotated[
    str | None, typer.Option("--unseen-root", metavar="FOLDER", help="The data.root of the other data set.")
]
CorruptionNames = Annotated[
    str | None,
    typer.Option(
        "--corruptions", metavar="all|NAME,NAME", help="Measure on corrupted test images (names: nesbs recipes --keys)."
    ),
]


def chosen_device(name: str) -> str:
    """The device that --device names; `auto` is a GPU where there is one."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise NesbsError(f"--device {name}: choose one of: auto, cpu, cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise NesbsError("--device cuda: no GPU that torch can use was found; take --device cpu")
    return name


SMALLER = "take a smaller batch_size, channels or data.size"


def numbers(text: str, option: str) -> tuple[int, ...]:
    """Whole numbers with commas between them.

    >>> numbers("1, 3,5", "--sizes")
    (1, 3, 5)
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise NesbsError(f"{option} takes whole numbers with commas between them, found {text!r}") from None


def decimals(text: str, option: str) -> tuple[float, ...]:
    """Numbers with commas between them.

    >>> decimals("0.1,1,-10", "--deltas")
    (0.1, 1.0, -10.0)
    """
    try:
        found = tuple(float(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or not all(math.isfinite(value) for value in found):
        raise NesbsError(f"{option} takes numbers with commas between them, found {text!r}")
    return found


def budget(text: str) -> tuple[int | None, float | None]:
    """What --budget names: architectures that may be judged, or seconds that a search may take.

    >>> budget("50"), budget("90s")
    ((50, None), (None, 90.0))
    """
    number, unit = (text[:-1], "s") if text.endswith("s") else (text, "")
    try:
        value = float(number) if unit else int(number)
    except ValueError:
        value = 0
    if not 0 < value < math.inf:
        raise NesbsError(f"--budget takes architectures, such as 50, or seconds, such as 90s; found {text!r}")
    return (None, value) if unit else (int(value), None)


def ended(command: Callable[[], object], *, debug: bool) -> None:
    """Run a command and end: bad input with code 2 and its message (or a traceback), Ctrl-C with 130."""
    try:
        code = command()
    except NesbsError as error:
        if debug:
            raise
        _fail(str(error))
    except StoppedError:
        print("stopped; the same command goes on from here", file=sys.stderr)
        raise SystemExit(130) from None
    except OSError as error:
        if debug:
            raise
        _fail(f"{error.strerror or error}: {error.filename}" if error.filename else str(error))
    except (MemoryError, torch.OutOfMemoryError) as error:
        if debug:
            raise
        _fail(f"{str(error).splitlines()[0] if str(error) else 'out of memory'}: {SMALLER}")
    except Exception as error:
        if "can't allocate memory" in str(error) and not debug:
            _fail(f"not enough memory: {SMALLER}")
        # Wrong options and missing arguments; the parser's exceptions carry their message like this.
        if not hasattr(error, "format_message"):
            raise
        _fail(f"{error.format_message()} (nesbs --help, nesbs COMMAND --help)")
    raise SystemExit(code if isinstance(code, int) else 0)


def _fail(message: str) -> None:
    print(f"error: {message}", file=sys.stderr)
    raise SystemExit(2)
