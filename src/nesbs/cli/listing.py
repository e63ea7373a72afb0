"""The commands that list what there is: recipes, datasets, zoo."""

from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

from nesbs import files
from nesbs.cli.options import Changes, Common
from nesbs.data import DATASETS, describe, download, load_dataset
from nesbs.errors import NesbsError, did_you_mean
from nesbs.records.recipe import Recipe
from nesbs.report import cells_as_text, draw_cells
from nesbs.runs.recipe import apply_changes, described_keys, recipe_names, recipe_text
from nesbs.spaces import get_space
from nesbs.spaces import zoo as published


def recipes(
    *,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Show this one whole.")] = None,
    keys: Annotated[bool, typer.Option("--keys", help="Every setting with its default, as --set takes it.")] = False,
    common: Common,
) -> None:
    """The recipes inside the package; with a name, its text."""
    if keys and name is not None:
        raise NesbsError("--keys lists the settings of all recipes: leave the name out")
    if name is not None:
        if name not in recipe_names():
            raise NesbsError(f"unknown recipe {name}: {did_you_mean(name, recipe_names())}")
        common.print(recipe_text(name).rstrip("\n"))
    elif keys:
        for key, default, about in described_keys():
            common.print(f"{key}={default}", *([f"    {about}"] if about else []))
    else:
        for each in recipe_names():
            header = takewhile(lambda line: line.startswith("#"), recipe_text(each).splitlines())
            common.print(each, *("    " + line.removeprefix("#").strip() for line in header))


def datasets(
    *,
    path: Annotated[str | None, typer.Argument(metavar="NAME|PATH", help="Load this one and count it.")] = None,
    root: Annotated[str | None, typer.Option("--root", metavar="FOLDER", help="The recipe's data.root.")] = None,
    changes: Changes = None,
    fetch: Annotated[bool, typer.Option("--download", help="Fetch CIFAR into --root first.")] = False,
    common: Common,
) -> None:
    """The named data sets; with a name or a path, its content."""
    if path is None and (root or changes or fetch):
        raise NesbsError("--root, --set and --download need the NAME or PATH of a data set")
    if path is not None:
        common.print(dataset_text(path, root, changes or [], fetch=fetch))
        return
    for name, source in DATASETS.items():
        needs = [f"    needs in data.root: {source.needs}"] if source.needs else []
        common.print(name, f"    {source.about}", *needs)
    common.print("In place of a name: a folder (a sub-folder of images a class), a .csv (path,label) or an .npz file.")


def zoo(
    *,
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Draw this one's cells.")] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE.svg", help="Also draw them as a picture.")] = None,
    common: Common,
) -> None:
    """Published cells and their sizes; with a name, its cells."""
    if name is None:
        if out is not None:
            raise NesbsError("--out draws one cell: name it")
        common.print(*(f"{each}\n{entry_text(each)}" for each in published))
        return
    if out is not None and out.suffix.lower() != ".svg":
        raise NesbsError(f"--out draws an SVG, such as {out.with_suffix('.svg')}, found {out}")
    space, architecture = get_space(published.entry(name).space), published[name]
    common.print(f"{name}\n{entry_text(name)}\n", cells_as_text(space, architecture), architecture)
    if out is not None:
        files.write_text(out, draw_cells(space, architecture, name))


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
        download(settings.name, files.expanded(settings.root))
    return describe(load_dataset(**settings.model_dump()))


def entry_text(name: str) -> str:
    """What is known about one published cell.

    >>> print(entry_text("darts-v2"))
        3.35 million parameters (published as 3.3)
        quark0/darts@f276dd3 cnn/genotypes.py, second order
    """
    entry = published.entry(name)
    return f"    {entry.size:.2f} million parameters ({entry.checked})\n    {entry.source}"
