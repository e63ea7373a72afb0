"""What of a folder of `nesbs reproduce` is done, at every scale: from the records that are there."""

from pathlib import Path

from nesbs.records import ExperimentRecord
from nesbs.reproduce.spec import NAMES, SCALES
from nesbs.reproduce.work import MARK
from nesbs.runs.status import BEGUN, DONE, process_in_words


def find_reproduction(folder: Path) -> Path | None:
    """Return the folder of `nesbs reproduce` that this is, or that this is a scale or a name of; None elsewhere."""
    folder = folder.resolve()
    return next((one for one in (folder, *folder.parents[:2]) if (one / MARK).is_file()), None)


def reproduction_status(folder: Path) -> tuple[list[tuple[str, str, str, ExperimentRecord]], str]:
    """Return scale, name, state and record of every name that was begun, and in words whether a process is at work."""
    rows: list[tuple[str, str, str, ExperimentRecord]] = []
    for scale in SCALES:
        for name in NAMES:
            if (record := ExperimentRecord.find(folder / scale / name)) is not None:
                rows.append((scale, name, DONE if record.complete else BEGUN, record))
    return rows, process_in_words(folder, finished=all(state == DONE for _, _, state, _ in rows))
