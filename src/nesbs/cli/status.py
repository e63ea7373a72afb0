"""The command that says how far a run is: status."""

from pathlib import Path
from typing import Annotated

import typer

from nesbs.cli.options import Common
from nesbs.records import is_comparison
from nesbs.report import formats
from nesbs.report.table import Table
from nesbs.reproduce.folder_status import find_reproduction, reproduction_status
from nesbs.runs.status import RunStatus, comparison_status, run_status


def status(
    *,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run, a comparison or of reproduce.")],
    common: Common,
) -> None:
    """What is done, what is running, what remains.

    A line for each stage, with its seconds and its device, then the process at work. Of a comparison: the methods that
    are measured under each seed, or how many points of its curves; of what the paper shows: the names that are done or
    begun. Reads what the folder says about itself: while a run is going on, too, and in a folder that cannot be
    written to.
    """
    if (reproduction := find_reproduction(run)) is not None:
        begun, process = reproduction_status(reproduction)
        names = [
            (scale, name, state, formats.duration(record.seconds), record.device or formats.NOTHING)
            for scale, name, state, record in begun
        ]
        table = Table(("Scale", "Name", "State", "Time", "Device"), names)
        common.print(table.as_text("<8", "<17", "<9", "<14", "<5"), process)
    elif is_comparison(run):
        measured, process = comparison_status(run)
        rows = [(seed, ", ".join(methods) or formats.NOTHING) for seed, methods in measured.items()]
        width = max(8, *map(len, measured)) + 2
        common.print(Table(("Seed", "Measured"), rows).as_text(f"<{width}", "<20"), process)
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
