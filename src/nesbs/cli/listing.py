"""What there is, as text: recipes, settings, data sets, published cells."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nesbs.data import DATASETS, describe, download, load_dataset
from nesbs.errors import NesbsError, did_you_mean
from nesbs.records.recipe import Recipe
from nesbs.runs.recipe import apply_changes, described_keys, recipe_names, recipe_text
from nesbs.spaces import zoo


def settings_text() -> str:
    """Every setting with its default, as `--set` takes it, and what it is for."""
    return "\n".join(
        f"{key}={default}" + (f"\n    {about}" if about else "") for key, default, about in described_keys()
    )


def recipes_text(name: str | None = None) -> str:
    """A recipe whole, or the headers of all.

    >>> recipes_text("toy").splitlines()[1]
    '# command:  nesbs run toy --out runs/toy'
    """
    if name is not None:
        if name not in recipe_names():
            raise NesbsError(f"unknown recipe {name}: {did_you_mean(name, recipe_names())}")
        return recipe_text(name).rstrip("\n")
    lines = []
    for known in recipe_names():
        lines.append(known)
        for line in recipe_text(known).splitlines():
            if not line.startswith("#"):
                break
            lines.append("    " + line.removeprefix("#").strip())
    return "\n".join(lines)


def datasets_text() -> str:
    """The named data sets and what each needs."""
    named = [
        f"{name}\n    {known.about}" + (f"\n    needs in data.root: {known.needs}" if known.needs else "")
        for name, known in DATASETS.items()
    ]
    return "\n".join([*named, "A folder of images (a sub-folder a class) or an .npz file works in place of a name."])


def dataset_text(name: str, root: str | None, changes: Sequence[str], *, fetch: bool) -> str:
    """What a data set holds; fetched first where that is asked for."""
    strange = [change for change in changes if not change.strip().startswith("data.")]
    if strange:
        raise NesbsError(f"--set {strange[0]}: only settings of the section data matter here")
    values = {"data": {"name": name, "root": root}}
    apply_changes(values, changes)
    settings = Recipe.of(values).data
    if fetch:
        if settings.root is None:
            raise NesbsError("--download needs --root FOLDER: where to put the data set")
        download(settings.name, Path(settings.root).expanduser())
    return describe(load_dataset(**settings.model_dump()))


def zoo_text() -> str:
    """The published cells with their sizes, sources and what the sizes were held against."""
    return "\n".join(f"{name}\n{entry_text(name)}" for name in zoo)


def entry_text(name: str) -> str:
    """What is known about one published cell.

    >>> print(entry_text("darts-v2"))
        3.35 million parameters (published as 3.3)
        quark0/darts@f276dd3 cnn/genotypes.py, second order
    """
    entry = zoo.entry(name)
    return f"    {entry.size:.2f} million parameters ({entry.checked})\n    {entry.source}"
