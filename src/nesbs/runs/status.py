"""What of a run is done, what is running and what remains: from its records and the files that are there."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nesbs.records import ComparisonRecords, MetricsRecord, Recipe, RunRecord, RunRecords
from nesbs.runs.folder import CHECKPOINT
from nesbs.runs.folder_lock import find_lock, in_words, is_at_work
from nesbs.training.checkpoint import finished_epochs

DONE, RUNNING, STOPPED, TO_DO = "done", "running", "stopped", "to do"
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
    for name, finished, progress in _planned(folder, records):
        entry = record.stage(name)
        begun = entry.seconds is not None or bool(progress)
        first_open = not finished and all(stage.state == DONE for stage in stages)
        state = DONE if finished else RUNNING if at_work and first_open else STOPPED if begun else TO_DO
        stages.append(StageStatus(name, state, entry.seconds, entry.device, "" if finished else progress))
    planned = {stage.name for stage in stages}
    others = ((name, entry) for name, entry in (record.stages or {}).items() if name not in planned)
    stages += [StageStatus(name, RAN, entry.seconds, entry.device) for name, entry in others]
    return RunStatus(tuple(stages), _process(folder, finished=all(stage.state in (DONE, RAN) for stage in stages)))


def comparison_status(folder: Path) -> tuple[dict[str, tuple[str, ...]], str]:
    """Return the methods that are measured under each seed of a comparison, and whether a process is at work on it."""
    records = ComparisonRecords.read(folder)
    measured = {
        seed: tuple(sorted(path.stem for path in (folder / seed / "rivals").glob("*.json") if "." not in path.stem))
        for seed in records.seeds
    }
    finished = records.comparison is not None or records.curves is not None
    return measured, _process(folder, finished=finished)


def _planned(folder: Path, records: RunRecords) -> Iterator[tuple[str, bool, str]]:
    """Every stage that the recipe asks for: its name, whether its result is there, and how far it is in words."""
    recipe = records.recipe or Recipe()
    if recipe.ensemble.architectures is None:
        for name, file, epochs in (
            ("supernet", "supernet.safetensors", recipe.supernet.epochs),
            ("posterior", "posterior.json", 0),
            ("selection", "selection.json", 0),
        ):
            yield name, (folder / file).is_file(), _epochs(folder / f"supernet.{CHECKPOINT}", epochs)
    yield _networks(folder / "members", "members", recipe)
    if recipe.evaluation.uniform:
        yield _networks(folder / "uniform", "uniform", recipe)
    yield "evaluation", (folder / MetricsRecord.FILE).is_file(), ""
    if records.distilled is not None:
        if (folder / "labels").is_dir():
            yield _networks(folder / "labels" / "members", "labels", recipe)
        yield "distilled", records.distilled.kept is not None, ""


def _networks(folder: Path, name: str, recipe: Recipe) -> tuple[str, bool, str]:
    """How many of an ensemble's networks are trained."""
    size, epochs = recipe.ensemble.size, recipe.members.epochs
    missing = [place for place in range(size) if not (folder / f"{place}.safetensors").is_file()]
    behind = [finished_epochs(folder / f"{place}.{CHECKPOINT}") for place in missing]
    progress = f"{size - len(missing)} of {size} networks" if len(missing) < size or any(behind) else ""
    if any(behind):
        progress += f", epoch {max(behind)} of {epochs}"
    return name, not missing, progress


def _epochs(checkpoint: Path, epochs: int) -> str:
    behind = finished_epochs(checkpoint) if epochs else 0
    return f"epoch {behind} of {epochs}" if behind else ""


def _process(folder: Path, *, finished: bool) -> str:
    """Whether a process is at work on a folder, in words."""
    lock = find_lock(folder)
    if lock is None:
        return "finished; no process is at work" if finished else "no process is at work; the same command resumes"
    who, at_work = in_words(lock), is_at_work(lock)
    if at_work is None:
        return f"in use by {who}; from here nobody can know whether it still is"
    return f"at work: {who}" if at_work else f"stopped: {who} has ended; the same command resumes"
