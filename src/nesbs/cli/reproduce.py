"""`nesbs reproduce`: run what is missing of one of the paper's tables or figures, then draw it from its record."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from nesbs.cli.options import Changes, Spread
from nesbs.errors import NesbsError, did_you_mean
from nesbs.records import ExperimentRecord
from nesbs.reproduce.cost import statement
from nesbs.reproduce.drawing import write
from nesbs.reproduce.running import run
from nesbs.reproduce.spec import NAMES, SCALES, Experiment, ScaleName, experiment
from nesbs.reproduce.work import Work, of_the_experiment

DEFAULT = Path("nesbs-reproduce")


def reproduce(
    *,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Which; their names are above.")] = None,
    scale: Annotated[str, typer.Option(metavar="smoke|hour|paper", help="How large.")] = "smoke",
    out: Annotated[
        Path, typer.Option("--out", metavar="FOLDER", help="Holds all names, which share what they train there.")
    ] = DEFAULT,
    draw_only: Annotated[bool, typer.Option("--draw", help="Draw what the record has; run nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Begin at scale paper without asking.")] = False,
    changes: Changes = None,
    common: Spread,
) -> None:
    """What the paper shows, by name, with its figures beside ours.

    \b
    table1           NAS-Bench-201
    table2           DARTS space on CIFAR
    table3           ImageNet
    table4           attack and defence
    table5           ATE and PPD
    table6           how well estimates rank
    table7           post-training against best-response posterior
    fig-delta        two Gaussians under several δ
    fig-tradeoff     single networks, trained several times
    fig-discrepancy  likeliest against best architecture
    fig-efficiency   test error against budget
    fig-temperature  the same under several τ
    fig-diversity    test error against δ
    all              every one of them

    \b
    --scale smoke: minutes on a CPU, on the data inside the package.
    --scale hour: meant for minutes a name on a GPU; needs --set data.root=FOLDER.
    --scale paper: the full setting; says what it costs and asks; without a
    terminal it wants --yes.

    Without a name: the names, one line each. Ends with a table in Markdown, LaTeX and CSV and a figure in PNG and SVG,
    all drawn from FOLDER/SCALE/NAME/record.json. The same command resumes. --set changes every recipe of
    the experiment.
    """
    if name is None:
        width = max(map(len, NAMES))
        common.print(*(f"{each.name:<{width}}  {each.shows}: {each.about}" for each in map(experiment, NAMES)))
        common.print("nesbs reproduce NAME [--scale smoke|hour|paper]; nesbs reproduce --help")
        return
    if scale not in SCALES:
        raise NesbsError(f"--scale: {did_you_mean(scale, SCALES)}, found {scale}")
    if name != "all" and name not in NAMES:
        raise NesbsError(f"unknown name {name}: {did_you_mean(name, [*NAMES, 'all'])}")
    chosen = [experiment(each) for each in (NAMES if name == "all" else (name,))]
    changed = of_the_experiment(changes or ())
    if changed and len(chosen) == 1 and chosen[0].kind == "gaussians":
        raise NesbsError(f"{name} has no recipe: --set has no effect on it")
    if draw_only and (changed or common.seed is not None):
        raise NesbsError("--draw draws what the record has: --set and --seed have no effect on it")
    if scale == "paper" and not draw_only:
        _confirm_cost(chosen, tuple(changes or ()), yes=yes)
    for each in chosen:
        own = () if each.kind == "gaussians" else tuple(changes or ())  # it has no recipe to change
        work = Work(each, scale, out, own, common.seed, common.chosen_device())
        _one(work, draw_only=draw_only, common=common)


def _one(work: Work, *, draw_only: bool, common: Spread) -> None:
    """Run one experiment, unless it is drawn only, and draw it."""
    if draw_only:
        record = ExperimentRecord.find(work.folder)
        if record is None:
            path = work.folder / ExperimentRecord.FILE
            raise NesbsError(f"there is no record {path} yet: leave --draw out")
    else:
        if not common.quiet and work.scale_name == "hour":
            print(statement(work.experiment, work.scale_name, work.changes), file=sys.stderr)
        with common.progress() as progress, common.at_work() as workers:
            work.progress, work.workers = progress, workers
            record = run(work)
    table, written = write(work.folder, work.experiment, record)
    common.print(table, *written)


def _confirm_cost(chosen: list[Experiment], changes: tuple[str, ...], *, yes: bool) -> None:
    """Say what the full setting costs; raise unless the user agrees."""
    scale: ScaleName = "paper"
    for each in chosen:
        print(statement(each, scale, changes), file=sys.stderr)
    if yes or all(each.kind == "gaussians" for each in chosen):
        return
    if not sys.stdin.isatty():
        raise NesbsError("--scale paper costs what is said above: add --yes to begin, or take --scale hour or smoke")
    if not typer.confirm("Begin?", err=True):
        raise NesbsError("not begun: --scale hour and --scale smoke cost less")
