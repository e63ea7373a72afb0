"""The command that says how far a run is: status."""

from pathlib import Path
from typing import Annotated

import typer

from nesbs.cli.options import Common
from nesbs.records import is_comparison
from nesbs.report import formats
from nesbs.report.table import Table
from nesbs.runs.status import RunStatus, comparison_status, run_status


def status(
    *,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or the folder of a comparison.")],
    common: Common,
) -> None:
    """What is done, what is running, what remains.

    A line for each stage, with its seconds and its device, then the process at work. Of a comparison: the methods that
    are measured under each seed, or how many points of its curves. Reads what the folder says about itself: while a
    run is going on, too, and in a folder that cannot be written to.
    """
    if is_comparison(run):
        measured, process = comparison_status(run)
        rows = [(seed, ", ".join(methods) or formats.NOTHING) for seed, methods in measured.items()]
        common.print(Table(("Seed", "Measured"), rows).as_text("<10", "<20"), process)
    else:
        state = run_status(run)
        common.print(status_as_text(state), state.process)


def status_as_text(state: RunStatus) -> str:
    """The stages as a table."""
    rows = [
        (each.name, each.state, formats.duration(each.seconds), each.device or formats.NOTHING, f"  {each.progress}")
        for each in state.stages
    ]
    longest = max(len(each.name) for each in state.stages)
    return Table(("Stage", "State", "Time", "Device", ""), rows).as_text(f"<{longest + 2}", "<9", "<14", "<5", "<")
