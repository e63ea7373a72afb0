"""The stages that a recipe asks for, and how far each is: from the files in the run's folder."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nesbs.records import DistilledRecord, MetricsRecord, Recipe
from nesbs.runs.folder import CHECKPOINT, MEMBERS, SUPERNET_CHECKPOINT, UNIFORM
from nesbs.training.checkpoint import finished_epochs


@dataclass(frozen=True)
class PlannedStage:
    """A stage, its units of work, whether its result is there, and how far it is in words where it is begun.

    Of an ensemble's networks the units are the epochs that are left.
    """

    name: str
    units: int
    finished: bool
    progress: str = ""


def planned_stages(recipe: Recipe, folder: Path) -> Iterator[PlannedStage]:
    """Yield every stage of a run in their order."""
    if recipe.ensemble.architectures is None:
        epochs, fits = recipe.supernet.epochs, recipe.posterior.steps * recipe.posterior.starts
        behind = finished_epochs(folder / SUPERNET_CHECKPOINT)
        progress = f"epoch {behind} of {epochs}" if behind else ""
        chosen = (folder / "selection.json").is_file()  # then nothing asks for the others, which may be gone
        yield PlannedStage("supernet", epochs, chosen or (folder / "supernet.safetensors").is_file(), progress)
        yield PlannedStage("posterior", fits, chosen or (folder / "posterior.json").is_file())
        yield PlannedStage("selection", 1, chosen)
    yield _networks(folder / MEMBERS, MEMBERS, recipe)
    if recipe.evaluation.uniform:
        yield _networks(folder / UNIFORM, UNIFORM, recipe)
    yield PlannedStage("evaluation", 1, (folder / MetricsRecord.FILE).is_file())
    if (distilled := DistilledRecord.find(folder)) is not None:
        if (folder / "labels").is_dir():
            yield _networks(folder / "labels" / MEMBERS, "labels", recipe)
        yield PlannedStage("distilled", 1, distilled.kept is not None)


def _networks(folder: Path, name: str, recipe: Recipe) -> PlannedStage:
    """How many of an ensemble's networks are trained."""
    size, epochs = recipe.ensemble.size, recipe.members.epochs
    missing = [place for place in range(size) if not (folder / f"{place}.safetensors").is_file()]
    behind = [finished_epochs(folder / f"{place}.{CHECKPOINT}") for place in missing]
    progress = f"{size - len(missing)} of {size} networks" if len(missing) < size or any(behind) else ""
    if any(behind):
        progress += f", epoch {max(behind)} of {epochs}"
    return PlannedStage(name, len(missing) * epochs - sum(behind), not missing, progress)
