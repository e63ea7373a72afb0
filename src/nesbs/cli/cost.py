"""`nesbs cost`: what a recipe or one of the paper's tables would take, before anything is started."""

from pathlib import Path
from typing import Annotated

import typer

from nesbs import files
from nesbs.cli.options import Changes, Common, numbers
from nesbs.errors import NesbsError
from nesbs.report.cost import cost_as_text
from nesbs.reproduce.cost import experiment_cost
from nesbs.reproduce.spec import NAMES, SCALES, experiment
from nesbs.runs.cost import recipe_cost
from nesbs.runs.recipe import load_recipe
from nesbs.runs.step_times import StepTimes

MOST_GPUS = 10_000


def cost(
    *,
    name: Annotated[
        str, typer.Argument(metavar="RECIPE|NAME", help="Of `nesbs recipes`, a YAML file, or of `nesbs reproduce`.")
    ],
    gpus: Annotated[str, typer.Option("--gpus", metavar="N,N", help="How many GPUs; 1,8,64 by default.")] = "1,8,64",
    scale: Annotated[
        str | None,
        typer.Option("--scale", metavar="smoke|hour|paper", help="Of a NAME of `nesbs reproduce`; paper by default."),
    ] = None,
    steps: Annotated[
        Path | None,
        typer.Option("--steps", metavar="FILE", help="Your machine's, of `python -m benchmarks --json FILE`."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write the figures here.")] = None,
    changes: Changes = None,
    common: Common,
) -> None:
    """Hours of a recipe or a table of the paper, reckoned.

    A row for each stage: its time on one GPU, and from its beginning to its end on so many. Step times are those of one
    NVIDIA H200, or of the machine that FILE is from; for networks of other sizes they are scaled by multiply-adds.
    Below the table: what runs side by side with --workers or --ray, what was measured, what was scaled and what is not
    counted, and how many bytes travel between machines. Nothing is trained.
    """
    of = f"nesbs run {name}{''.join(f' --set {change}' for change in changes or ())}"
    counts = numbers(gpus, "--gpus", int)
    if not all(1 <= count <= MOST_GPUS for count in counts):
        raise NesbsError(f"--gpus takes numbers from 1 to {MOST_GPUS:,}, found {gpus}")
    times = StepTimes.recorded() if steps is None else StepTimes.read(steps)
    if name in NAMES or (name.startswith(("table", "fig-")) and not Path(name).suffix):
        if scale not in (None, *SCALES):
            raise NesbsError(f"--scale takes one of {', '.join(SCALES)}, found {scale}")
        record = experiment_cost(experiment(name), scale or "paper", times, counts, changes=tuple(changes or ()))
    elif scale is not None:
        raise NesbsError(f"--scale is for the names of `nesbs reproduce`, and {name} is none")
    else:
        record = recipe_cost(load_recipe(name, changes or ()), times, counts, of=of)
    common.print(cost_as_text(record))
    if out is not None:
        record.write(files.expanded(out))
