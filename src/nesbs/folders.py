"""Whose a folder is: a run of this recipe, a run of another, something else, or nobody's yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nesbs import files
from nesbs.config import Recipe, parse_yaml
from nesbs.errors import NesbsError

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
