"""The options that commands share, each written once with its help, and what their values mean."""

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
import typer

from nesbs.cli.progress import progress_shown
from nesbs.cli.tracking import check_track, tracked
from nesbs.cluster import Workers
from nesbs.cluster.on_ray import connected
from nesbs.cluster.torchrun import processes
from nesbs.errors import NesbsError, printable, shown
from nesbs.records.recipe import Recipe
from nesbs.records.whole_folder import check_begun
from nesbs.runs.folder import begun
from nesbs.runs.folder_lock import locked
from nesbs.runs.recipe import load_recipe
from nesbs.runs.stage_progress import Progress
from nesbs.settings import MAX_ARCHITECTURES, MAX_MEMBERS, MAX_SEED, MAX_VALUES
from nesbs.training import make_current

Number = TypeVar("Number", int, float)
RecipeName = Annotated[str, typer.Argument(metavar="RECIPE", help="A name from `nesbs recipes`, or a YAML file.")]
Out = Annotated[Path, typer.Option("--out", metavar="RUN", help="The run folder.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Root = Annotated[str | None, typer.Option(metavar="FOLDER", help="Where the data are now, if they were moved.")]
Changes = Annotated[list[str] | None, typer.Option("--set", metavar="SECTION.NAME=VALUE", help="Change a setting.")]


@dataclass(frozen=True)
class Common:
    """The options of every command."""

    quiet: Annotated[bool, typer.Option("--quiet", help="No progress and no output; errors only.")] = False
    debug: Annotated[bool, typer.Option("--debug", help="Show a traceback with an error.")] = False

    def print(self, *texts: object) -> None:
        """Print each text on a line of its own, unless --quiet."""
        if not self.quiet:
            print(printable("\n".join(map(str, texts)), keep="\n"))

    def progress(self) -> AbstractContextManager[Progress]:
        """Show progress inside a `with` block, unless --quiet."""
        return progress_shown(self.quiet)


@dataclass(frozen=True)
class OnDevice(Common):
    """The options of every command that computes."""

    device: Annotated[
        str,
        typer.Option("--device", metavar="auto|cpu|cuda|cuda:N", help="Where to compute; cuda:1 is the second GPU."),
    ] = "auto"

    def chosen_device(self) -> str:
        """The device that --device names; `auto` is a GPU where there is one."""
        name, count = self.device, torch.cuda.device_count() if torch.cuda.is_available() else 0
        if name == "auto":
            return "cuda" if count else "cpu"
        if name == "cpu":
            return name
        if not re.fullmatch(r"cuda(:\d{1,4})?", name):
            raise NesbsError(f"--device {name}: choose one of: auto, cpu, cuda, or cuda:N for GPU number N")
        if count == 0:
            raise NesbsError(f"--device {name}: no GPU that torch can use was found; take --device cpu")
        if name != "cuda" and int(name.removeprefix("cuda:")) >= count:
            raise NesbsError(f"--device {name}: there is no such GPU; the last one is cuda:{count - 1}")
        make_current(name)
        return name


@dataclass(frozen=True)
class Computing(OnDevice):
    """The options of every command that trains or measures."""

    seed: Annotated[
        int | None,
        typer.Option("--seed", metavar="N", min=0, max=MAX_SEED, help="Instead of the recipe's; a run keeps its own."),
    ] = None

    @contextmanager
    def writing(self, folder: Path, *, new: bool = False) -> Iterator[Progress]:
        """Show progress inside a `with` block in which no other process may write to the folder.

        A run or a comparison must be in it already, unless it may be `new`.
        """
        if new:
            begun(folder)  # a folder of something else is refused before its lock is made
        else:
            check_begun(folder)
        with self.progress() as progress, locked(folder):
            yield progress

    def recipe(self, name: str, changes: Sequence[str] | None) -> Recipe:
        """The recipe with the changes of --set, under the seed of --seed."""
        return load_recipe(name, changes or (), seed=self.seed)


@dataclass(frozen=True)
class Spread(Computing):
    """The options of every command whose work can be done by several processes or machines."""

    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", metavar="N", min=1, max=MAX_MEMBERS, help="Processes at work; on Ray: at most so many."
        ),
    ] = None
    ray: Annotated[
        str | None,
        typer.Option("--ray", metavar="auto|HOST:PORT", help="Work on this Ray cluster (docs/cluster.md)."),
    ] = None
    gpus_each: Annotated[
        float | None,
        typer.Option("--gpus-each", metavar="G", min=0.01, max=1, help="Of each worker: 0.5 lets two share a GPU."),
    ] = None

    @contextmanager
    def at_work(self) -> Iterator[Workers | None]:
        """Have the workers that the options ask for inside a `with` block; None: those that the recipe names."""
        if processes() > 1 and (self.workers or self.ray):
            raise NesbsError("--workers and --ray train many networks, torchrun trains each with all its processes")
        if self.gpus_each and not (self.workers or self.ray):
            raise NesbsError("--gpus-each is the share of each worker: say how many by --workers, or where by --ray")
        if self.ray is not None:
            with connected(self.ray):
                yield Workers(self.workers, on_ray=True, gpus_each=self.gpus_each)
        else:
            yield None if self.workers is None else Workers(self.workers, gpus_each=self.gpus_each)


@dataclass(frozen=True)
class OneTraining(Computing):
    """The options of every command that trains what it was asked for."""

    track: Annotated[
        str | None,
        typer.Option("--track", metavar="tensorboard", help="Write losses and measures into RUN/tensorboard."),
    ] = None

    @contextmanager
    def writing(self, folder: Path, *, new: bool = False) -> Iterator[Progress]:
        """The same, with what --track asks for."""
        check_track(self.track)
        with super().writing(folder, new=new) as shown, tracked(shown, self.track) as progress:
            yield progress


@dataclass(frozen=True)
class Training(OneTraining, Spread):
    """The options of every command that trains several networks."""


def with_common_options(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function as a command: its parameter `common` becomes the options that its type lists."""
    own = inspect.signature(function, eval_str=True).parameters
    kind = own["common"].annotation
    shared = inspect.signature(kind, eval_str=True).parameters

    def command(**values: Any) -> None:
        common = kind(**{name: values.pop(name) for name in shared})
        function(**values, common=common)

    command.__name__, command.__doc__ = function.__name__, function.__doc__
    parameters = [*(each for name, each in own.items() if name != "common"), *shared.values()]
    keyword_only = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    command.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]
    return command


def numbers(text: str, option: str, kind: type[Number]) -> tuple[Number, ...]:
    """Numbers with commas between them.

    >>> numbers("1, 3,5", "--sizes", int), numbers("0.1,-10", "--deltas", float)
    ((1, 3, 5), (0.1, -10.0))
    """
    try:
        values = tuple(kind(part) for part in text.split(","))
    except ValueError:
        values = ()
    if not values or len(values) > MAX_VALUES or not all(-1e12 < value < 1e12 for value in values):
        whole = "whole " if kind is int else ""
        raise NesbsError(f"{option} takes {whole}numbers with commas between them, found {shown(text)}")
    return values


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
    if not 0 < value <= (1e9 if unit else MAX_ARCHITECTURES):
        most = f"up to {MAX_ARCHITECTURES:,} architectures, such as 50, or seconds, such as 90s"
        raise NesbsError(f"--budget takes {most}; found {shown(text)}")
    return (None, value) if unit else (int(value), None)
