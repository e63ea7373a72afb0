"""What of a run is done, what is running and what remains: from its records and the files that are there."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nesbs import files
from nesbs.records import ComparisonRecords, Recipe, RunRecord, RunRecords
from nesbs.runs.folder_lock import find_lock, in_words, is_at_work
from nesbs.runs.plan import planned_stages

DONE, RUNNING, BEGUN, STOPPED, TO_DO = "done", "running", "begun", "stopped", "to do"
NEXT = {"members": "train", "uniform": "train", "evaluation": "evaluate"}  # the command that begins a stage by itself
RAN = "ran"  # a stage that no recipe plans, such as an attack: whether more of it is wanted only its command knows


@dataclass(frozen=True)
class StageStatus:
    """One stage of a run: its name, its state, what it has taken so far, where, and how far it is in words."""

    name: str
    state: str
    seconds: float | None = None
    device: str | None = None
    progress: str = ""


@dataclass(frozen=True)
class RunStatus:
    """The stages of a run in their order, and in words whether a process is at work on it."""

    stages: tuple[StageStatus, ...]
    process: str


def run_status(folder: Path) -> RunStatus:
    """Return how far the run in a folder is; writes nothing, and needs no lock."""
    records = RunRecords.read(folder)
    record, lock = records.record or RunRecord(), find_lock(folder)
    at_work = lock is not None and is_at_work(lock) is not False
    stages: list[StageStatus] = []
    for planned in planned_stages(records.recipe or Recipe(), folder):
        entry = record.stage(planned.name)
        first_open = all(stage.state == DONE for stage in stages)
        begun = (BEGUN if at_work else STOPPED) if entry.seconds is not None or planned.progress else TO_DO
        state = DONE if planned.finished else RUNNING if at_work and first_open else begun
        progress = "" if planned.finished else planned.progress
        stages.append(StageStatus(planned.name, state, entry.seconds, entry.device, progress))
    names = {stage.name for stage in stages}
    others = ((name, entry) for name, entry in (record.stages or {}).items() if name not in names)
    stages += [StageStatus(name, RAN, entry.seconds, entry.device) for name, entry in others]
    ahead = next((stage for stage in stages if stage.state not in (DONE, RAN)), None)
    resumes = "the same command resumes"
    if ahead is not None and ahead.state == TO_DO and ahead.name in NEXT:
        resumes += f", nesbs {NEXT[ahead.name]} {folder} too"
    return RunStatus(tuple(stages), process_in_words(folder, finished=ahead is None, resumes=resumes))


def comparison_status(folder: Path) -> tuple[dict[str, tuple[str, ...]], str]:
    """Return what is measured under each seed of a comparison, and whether a process is at work on it."""
    records = ComparisonRecords.read(folder)
    measured = {seed: (*_methods(folder / seed), *_points(folder / seed)) for seed in records.seeds}
    if records.curves is not None:
        return measured, process_in_words(folder, finished=True)
    if records.comparison is None:
        return measured, process_in_words(folder, finished=False)
    # Seeds or methods may have been added to a comparison that was whole, or one been made of a part of it.
    alike = len({frozenset(names) for names in measured.values()}) == 1
    more = "not every seed has every method: a command that asks for more resumes"
    return measured, process_in_words(folder, finished=alike, resumes=more)


def _methods(run: Path) -> list[str]:
    """The methods of a comparison that are measured in a run folder."""
    return sorted(path.stem for path in (run / "rivals").glob("*.json") if "." not in path.stem)


def _points(run: Path) -> Iterator[str]:
    """How many points of budget curves are measured in a run folder, by all seeds that draw from its supernet."""
    if points := sum(len(files.read_mapping(path)) for path in run.glob("curves*.json")):
        yield f"{points:,} point{'s' * (points > 1)} of curves"


def process_in_words(folder: Path, *, finished: bool, resumes: str = "the same command resumes") -> str:
    """Whether a process is at work on a folder, in words."""
    lock = find_lock(folder)
    if lock is None:
        return "finished; no process is at work" if finished else f"no process is at work; {resumes}"
    who, at_work = in_words(lock), is_at_work(lock)
    if at_work is None:
        return f"in use by {who}; from here nobody can know whether it still is"
    return f"at work: {who}" if at_work else f"stopped: {who} has ended; {resumes}"
