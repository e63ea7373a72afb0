"""Where a recipe comes from: the recipes inside the package, a YAML file, and `section.name=value` changes."""

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from nesbs import files
from nesbs.data import DATASETS
from nesbs.errors import NesbsError, did_you_mean, expect, shown
from nesbs.records.recipe import Recipe, flatten, parse_yaml, read_yaml
from nesbs.settings import Settings, keys

# Names and paths, taken as written and not as YAML reads them: a folder may be called 2024-01-15.
AS_WRITTEN = ("data.name", "data.root", "evaluation.human", "evaluation.unseen", "evaluation.unseen_root")


Changes = Iterable[str] | Mapping[str, object]  # section.name=value, as `--set` takes them, or values by key


def recipe_names() -> list[str]:
    """The recipes inside the package.

    >>> "demo" in recipe_names()
    True
    """
    folder = resources.files("nesbs") / "recipes"
    return sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml"))


def recipe_text(name: str) -> str:
    """The YAML of a recipe: a name from `recipe_names` or a path to a file."""
    if name in recipe_names():
        return (resources.files("nesbs") / "recipes" / f"{name}.yaml").read_text(encoding="utf-8")
    path = Path(name)
    if path.is_dir():
        raise NesbsError(f"{name} is a folder, not a recipe: {did_you_mean(name, recipe_names())}")
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return files.read_text(path)
    raise NesbsError(f"unknown recipe {name}: {did_you_mean(name, recipe_names())}")


def load_recipe(name: str | Path, changes: Changes = (), **top: Any) -> Recipe:
    """Read a recipe, apply changes (`section.name=value`, or values by key) and top-level values that are not None.

    >>> load_recipe("toy", ["supernet.epochs=3"], seed=7).supernet.epochs
    3
    """
    expect(name, (str, Path), "a recipe is given by its name or its file")
    return _changed(parse_yaml(recipe_text(str(name)), str(name)), changes, top)


def _changed(values: dict[str, Any], changes: Changes, top: Mapping[str, Any]) -> Recipe:
    """The recipe of `values` with `section.name=value` changes and top-level values that are not None."""
    apply_changes(values, changes)
    values.update({key: value for key, value in top.items() if value is not None})
    return Recipe.of(values)


def apply_changes(values: dict[str, Any], changes: Changes, settings: type[Settings] | None = None) -> None:
    """Put changes into a mapping of settings: a recipe's or others.

    >>> values = {"data": {"name": "cifar10"}}
    >>> apply_changes(values, ["data.size=24"])
    >>> values
    {'data': {'name': 'cifar10', 'size': 24}}
    """
    if isinstance(changes, str):
        raise NesbsError(f"changes must be a list of texts such as [{changes!r}], found {changes!r}")
    settable = keys(settings or Recipe)
    for key, value in changes.items() if isinstance(changes, Mapping) else map(_parsed, changes):
        if key not in settable:
            raise NesbsError(f"unknown setting {key}: {did_you_mean(key, settable)}")
        *sections, name = key.split(".")
        inner = values
        for section in sections:
            inner = inner.setdefault(section, {})
            if not isinstance(inner, dict):
                raise NesbsError(f"section {section} must hold settings, found {shown(inner)}")
        inner[name] = value


def _parsed(change: str) -> tuple[str, object]:
    """The key and the value of `section.name=value`."""
    key, equals, text = change.partition("=")
    if not equals:
        raise NesbsError(f"--set takes section.name=value, found {shown(change)}")
    key = key.strip()
    if key in AS_WRITTEN:
        return key, None if text in ("", "null") else text
    return key, read_yaml(text, f"--set {key}: the value")


def training_recipe(
    architectures: Sequence[str],
    *,
    space: str,
    data: str | None = None,
    size: int | None = None,
    like: Recipe | None = None,
    name: str | None = None,
    changes: Iterable[str] = (),
    **top: Any,
) -> Recipe:
    """A recipe that trains given architectures on a data set, with that data set's network and schedule.

    These are those of the recipe `name`; without one, of the recipe DATA-SPACE where there is such a recipe;
    else of `like`, the run the architectures come from; else of cifar10-SPACE. Without `data` the recipe's own
    data set is taken. `size` copies are trained of a single architecture.

    >>> recipe = training_recipe(["darts-v2"], space="darts", data="imagenet", size=3)
    >>> recipe.members.stem, recipe.ensemble.size, recipe.data.name
    ('imagenet', 3, 'imagenet')
    """
    usual = f"{data}-{space}"
    source = name or (usual if usual in recipe_names() else None)
    if source is None and like is not None:
        values = like.model_dump(mode="json")
        values["data"] = {"size": like.data.size} if data not in DATASETS else {}
    else:
        source = source or f"cifar10-{space}"
        values = parse_yaml(recipe_text(source), source)
    values.setdefault("space", {})["name"] = space
    if data is not None:
        values.setdefault("data", {})["name"] = data
    values["ensemble"] = {
        **(like.ensemble.model_dump(mode="json") if like is not None else values.get("ensemble", {})),
        "architectures": list(architectures),
        "size": size or len(architectures),
    }
    values["evaluation"] = {**values.get("evaluation", {}), "uniform": False}
    if like is not None:
        values["seed"] = like.seed
    return _changed(values, changes, top)


def described_keys() -> list[tuple[str, str, str]]:
    """Every setting: its key, its default as YAML and what it is for.

    >>> described_keys()[0]
    ('seed', '0', '')
    """
    described = []
    for key, default in flatten(Recipe().model_dump(mode="json")).items():
        model: Settings = Recipe()
        *sections, name = key.split(".")
        for section in sections:
            model = getattr(model, section)
        text = yaml.safe_dump(default, default_flow_style=True, width=1000).removesuffix("...\n").strip()
        described.append((key, text, type(model).model_fields[name].description or ""))
    return described
