"""The recipe on the page: the settings that differ from their defaults, and those in which runs differ."""

from collections.abc import Sequence

import yaml

from nesbs.records import Recipe
from nesbs.records.recipe import flatten
from nesbs.report import formats


def changes(recipe: Recipe) -> list[tuple[str, str, str]]:
    """The settings that differ from their defaults: (key, default, value here).

    >>> changes(Recipe.of({"seed": 3, "ensemble": {"size": 3, "combine": "logits"}}))
    [('seed', '0', '3'), ('ensemble.combine', 'probabilities', 'logits')]
    """
    return [(key, default, here) for key, (default, here) in differing([Recipe(), recipe])]


def differing(recipes: Sequence[Recipe | None]) -> list[tuple[str, list[str]]]:
    """The settings in which recipes differ from each other: (key, its value in each); a dash where there is none.

    >>> differing([Recipe(), Recipe(seed=1), None])[0]
    ('seed', ['0', '1', '–'])
    """
    flat = [flatten(recipe.model_dump(mode="json")) if recipe else {} for recipe in recipes]
    keys = dict.fromkeys(key for values in flat for key in values)
    rows = {key: [values.get(key) for values in flat] for key in keys}
    return [(key, [as_yaml(value) for value in row]) for key, row in rows.items() if any(v != row[0] for v in row)]


def as_yaml(value: object) -> str:
    """A setting's value as YAML writes it on one line.

    >>> as_yaml([0.0, 1.0]), as_yaml(None), as_yaml("fashion-mini")
    ('[0.0, 1.0]', '–', 'fashion-mini')
    """
    if value is None:
        return formats.NOTHING
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...").strip()
