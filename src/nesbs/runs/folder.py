"""A run's folder: whether a run may begin or be resumed in it; its choice, measures and data, read back and checked.

A run is resumed only with the recipe that began it (`same_recipe`) and on the same images (`about_data`). One that has
finished no stage gives way to another recipe (`to_resume`, `clear`): nothing is lost but a training that was begun.
"""

import contextlib
import hashlib
import json
from pathlib import Path

from nesbs import files
from nesbs.data import Dataset
from nesbs.ensemble import Selection
from nesbs.errors import NesbsError
from nesbs.posterior import Posterior
from nesbs.records import (
    DistilledRecord,
    LockRecord,
    MetricsRecord,
    Recipe,
    Record,
    RunRecord,
    SelectionRecord,
)
from nesbs.records.metrics import EnsembleMetrics
from nesbs.records.recipe import RECIPE, flatten, parse_yaml
from nesbs.records.run import DataRecord
from nesbs.spaces import Space

# Settings that do not affect results: they may change when a run is resumed.
WITHOUT_EFFECT = {"data.workers", "members.together", "members.workers", "evaluation.shown", "evaluation.map"}
MEMBERS = "members"  # the folder of the chosen ensemble's members, and the stage that trains them
UNIFORM = "uniform"  # those of the uniform-random ensemble
TRACKED = "tensorboard"  # the folder of figures to follow, which are no results
CHECKPOINT = "checkpoint.safetensors"  # ends the name of a training's state
SUPERNET_CHECKPOINT = f"supernet.{CHECKPOINT}"
BEFORE_ANY_STAGE = {
    RECIPE,
    RunRecord.FILE,
    DistilledRecord.FILE,
    "report.html",
}  # files that are there before a stage is finished


def begun(folder: Path) -> bool:
    """Whether a run has begun in the folder; a file or a folder of something else is refused."""
    if folder.exists() and not folder.is_dir():
        raise NesbsError(f"--out {folder} is a file: name a folder")
    if (folder / RECIPE).is_file():
        return True
    # A first write that was killed leaves a part of a file, or the lock; those are ours too.
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    if not all(name.endswith(files.PART) or name.startswith(LockRecord.FILE) for name in names):
        raise NesbsError(f"--out {folder} holds something that is not a run: name another folder")
    return False


def to_resume(folder: Path, recipe: Recipe) -> Recipe | None:
    """The recipe of the run to resume, as `same_recipe` has it; None where a run of this recipe begins.

    It begins in a new folder, or in place of a run of another recipe that has finished no stage (see `clear`).
    """
    if not begun(folder):
        return None
    try:
        return same_recipe(folder, recipe)
    except NesbsError:
        if not _gives_way(folder):
            raise
        return None


def clear(folder: Path) -> bool:
    """Remove what a run that finished no stage left in its folder, but the recipe; whether a checkpoint was among it.

    The recipe stays until it is replaced, so that a clearing that is killed can be repeated.
    """
    left = [path for path in _visible(folder) if path != folder / RECIPE]
    for path in left:
        path.unlink()
    return any(path.name.endswith(CHECKPOINT) for path in left)


def _visible(folder: Path) -> list[Path]:
    """The files in a folder and below, without the hidden ones, which are no results."""
    return [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]


def _gives_way(folder: Path) -> bool:
    """Whether a run or a comparison began in the folder, and no stage has left its result there."""
    sections = parse_yaml(files.read_text(folder / RECIPE), str(folder / RECIPE))
    return set(Recipe.model_fields) <= set(sections) and all(  # a recipe that somebody wrote by hand has only some
        path.name in BEFORE_ANY_STAGE
        or path.name.endswith(CHECKPOINT)
        or path.parent.name == TRACKED
        or _is_given(path)
        for path in _visible(folder)
    )


def _is_given(path: Path) -> bool:
    """Whether a file holds architectures that the recipe gave, which no stage had to find."""
    with contextlib.suppress(NesbsError):
        return path.name == SelectionRecord.FILE and SelectionRecord.read(path).sampler == "given"
    return False


def read_recipe(folder: Path) -> Recipe:
    """The resolved recipe of a run folder."""
    path = folder / RECIPE
    try:
        return Recipe.of(parse_yaml(files.read_text(path), str(path)))
    except NesbsError as error:
        message = str(error).removeprefix(f"recipe {path} ")
        raise NesbsError(f"{path}: {message}: without its recipe a run cannot go on") from None


def same_recipe(folder: Path, recipe: Recipe) -> Recipe:
    """The recipe with the threads the run began with; raises where the run was made by another recipe."""
    earlier = read_recipe(folder)
    if recipe.threads is None:
        recipe = recipe.model_copy(update={"threads": earlier.threads})
    different = [key for key in recipe.differences(earlier) if key not in WITHOUT_EFFECT]
    if different:
        values = (flatten(each.model_dump(mode="json"))[different[0]] for each in (recipe, earlier))
        here, there = (json.dumps(value, ensure_ascii=False) for value in values)  # null, as recipes have it, not None
        raise NesbsError(
            f"{folder} was made by another recipe: {different[0]} is {there} there and {here} here"
            + (f" ({', '.join(different[1:])} differ too)" if different[1:] else "")
            + ": name another folder"
        )
    return recipe


def read_selection(path: Path, space: Space) -> Selection:
    """What was chosen (`selection.json`)."""
    value = files.read_json(path)
    try:
        return Selection.from_json(value, space)
    except NesbsError as error:
        raise NesbsError(f"{path}: {error}: remove it, and the same command chooses again") from None


def read_posterior(path: Path, space: Space) -> Posterior:
    """What was fitted (`posterior.json`)."""
    value = files.read_json(path)
    try:
        posterior = Posterior.from_json(value)
        if posterior.space.name != space.name:
            raise NesbsError(f"it is of space {posterior.space.name}, the recipe's is {space.name}")
    except NesbsError as error:
        raise NesbsError(f"{path}: {error}: remove it, and the same command fits it again") from None
    return posterior


def read_metrics(path: Path) -> MetricsRecord | None:
    """What was measured (`metrics.json`), None where nothing was."""
    if not path.is_file():
        return None
    record = MetricsRecord.read(path)
    if record.data is None or record.test_images is None:
        raise NesbsError(f"{path} is not what `nesbs evaluate` writes: remove it, and the same command measures again")
    return record


def with_others(path: Path, before: MetricsRecord, now: MetricsRecord) -> MetricsRecord:
    """The measures `now`, beside what another process has written since they were read as `before`."""
    latest, merged = read_metrics(path) or MetricsRecord(), {}
    for name in ("ensemble", "uniform"):
        old, new, theirs = ((getattr(record, name) or Record()).to_json() for record in (before, now, latest))
        if theirs:
            own = {key: value for key, value in new.items() if key not in old or old[key] != value}
            merged[name] = EnsembleMetrics.from_json({**new, **theirs, **own})
    return now.replace(**merged)


def about_data(data: Dataset, before: DataRecord | None, folder: Path) -> DataRecord:
    """What a record says of the data set; raises where it is no longer the one the run began with.

    One image more or less in a folder splits it anew: what members have learned from would become test images. So does
    one that takes another's place or name.
    """
    labels = b"".join(split.labels.cpu().numpy().tobytes() for split in (data.train, data.test))
    if data.train.sample_weights is not None:
        labels += data.train.sample_weights.numpy().tobytes()
    now = DataRecord(
        name=data.name,
        train_images=len(data.train),
        test_images=len(data.test),
        search_train=len(data.search_train),
        search_valid=len(data.search_valid),
        **({} if data.calibration is None else {"calibration": len(data.calibration)}),
        size=data.train.size,
        channels=data.train.channels,
        left_out=data.broken,
        classes=data.train.class_names,
        labels=hashlib.sha256(labels).hexdigest()[:16],
        images=data.digest,
    )
    for key in ("classes", "train_images", "test_images", "labels", "images"):
        then, here = (record.to_json().get(key) for record in (before or DataRecord(), now))
        if then is not None and then != here:
            what = ", though not in number" if key in ("labels", "images") else f": {key} {then} then, {here} now"
            raise NesbsError(
                f"{folder}: the images of {data.name} have changed since the run began{what}; put them back, or begin "
                "again in another folder"
            )
    return now
