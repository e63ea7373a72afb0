"""A run's folder: whose it is, and what it keeps of the choice, the measures and the data, read back with care."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from nesbs import files
from nesbs.data import Dataset
from nesbs.ensemble import Selection
from nesbs.errors import NesbsError
from nesbs.records.recipe import Recipe, parse_yaml
from nesbs.spaces import Space

RECIPE = "recipe.yaml"  # written first; what makes a folder a run
# On results: may be another when a run goes on.
WITHOUT_EFFECT = {"data.workers", "members.together", "evaluation.shown", "evaluation.map"}


def begun(folder: Path) -> bool:
    """Whether a run has begun in the folder; a file or a folder of something else is refused."""
    if folder.exists() and not folder.is_dir():
        raise NesbsError(f"--out {folder} is a file: name a folder")
    if (folder / RECIPE).is_file():
        return True
    # A first write that was killed leaves a part of a file; that is ours too.
    if folder.is_dir() and any(entry.suffix != files.PART for entry in folder.iterdir()):
        raise NesbsError(f"--out {folder} holds something that is not a run: name another folder")
    return False


def check(folder: Path) -> None:
    """Raise where no run has begun in the folder."""
    if not (folder / RECIPE).is_file():
        raise NesbsError(f"{folder} is not a run: `nesbs search RECIPE --out {folder}` makes one")


def is_comparison(folder: Path) -> bool:
    """Whether the folder is that of a comparison, whose runs are in it."""
    return (folder / RECIPE).is_file() and any(folder.glob(f"seed-*/{RECIPE}"))


def check_run(folder: Path) -> None:
    """Raise where the folder is a comparison's, in which no run may begin or go on."""
    if is_comparison(folder):
        raise NesbsError(f"{folder} is a comparison; its runs are {folder}/seed-0 and so on: name one of those")


def read_recipe(folder: Path) -> Recipe:
    """The resolved recipe of a run folder."""
    path = folder / RECIPE
    try:
        return Recipe.of(parse_yaml(files.read_text(path), str(path)))
    except NesbsError as error:
        said = str(error).removeprefix(f"recipe {path} ")
        raise NesbsError(f"{path}: {said}: without its recipe a run cannot go on") from None


def same_recipe(folder: Path, recipe: Recipe) -> Recipe:
    """The recipe with the threads the run began with; raises where the run was made by another recipe."""
    kept = read_recipe(folder)
    if recipe.threads is None:
        recipe = recipe.model_copy(update={"threads": kept.threads})
    different = [key for key in recipe.differences(kept) if key not in WITHOUT_EFFECT]
    if different:
        here, there = (_get(r, different[0]) for r in (recipe, kept))
        raise NesbsError(
            f"{folder} was made by another recipe: {different[0]} is {there!r} there and {here!r} here"
            + (f" ({', '.join(different[1:])} differ too)" if different[1:] else "")
            + ": name another folder"
        )
    return recipe


def _get(recipe: Recipe, key: str) -> Any:
    value: Any = recipe
    for part in key.split("."):
        value = getattr(value, part)
    return value


def read_selection(path: Path, space: Space) -> Selection:
    """What was chosen (`selection.json`)."""
    value = files.read_json(path)
    try:
        return Selection.from_json(value, space)
    except NesbsError as error:
        raise NesbsError(f"{path}: {error}: remove it, and the same command chooses again") from None


def read_metrics(path: Path) -> dict[str, Any]:
    """What was measured (`metrics.json`)."""
    value = files.read_mapping(path)
    if not {"data", "test_images"} <= value.keys():
        raise NesbsError(f"{path} is not what `nesbs evaluate` writes: remove it, and the same command measures again")
    return value


def with_others(path: Path, before: Mapping[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The measures `now`, beside what another process has written since they were read as `before`."""
    latest = read_metrics(path) if path.is_file() else {}
    merged = {**now}
    for name in ("ensemble", "uniform"):
        old, new, theirs = (value.get(name) or {} for value in (before, now, latest))
        if theirs:
            own = {key: part for key, part in new.items() if key not in old or old[key] != part}
            merged[name] = {**new, **theirs, **own}
    return merged


def about_data(data: Dataset, before: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What a record says of the data set; raises where it is no longer the one the run began with.

    One image more or less in a folder splits it anew: what members have learned from would become test images.
    """
    now = {
        "name": data.name,
        "train_images": len(data.train),
        "test_images": len(data.test),
        "search_train": len(data.search_train),
        "search_valid": len(data.search_valid),
        "size": list(data.train.size),
        "channels": data.train.channels,
        "left_out": list(data.broken),  # images that could not be read
        "classes": list(data.train.class_names),
        "labels": _digest(data.train.labels, data.test.labels),
    }
    for key in ("classes", "train_images", "test_images", "labels"):
        if key in before and before[key] != now[key]:
            what = ", though not in number" if key == "labels" else f": {key} {before[key]} then, {now[key]} now"
            raise NesbsError(
                f"{folder}: the images of {data.name} have changed since the run began{what}; put them back, or begin "
                "again in another folder"
            )
    return now


def _digest(*labels: Tensor) -> str:
    """A short name for labels in their order."""
    found = hashlib.sha256()
    for some in labels:
        found.update(some.cpu().numpy().tobytes())
    return found.hexdigest()[:16]
