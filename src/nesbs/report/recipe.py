"""The resolved recipe, and what in it is not as a recipe that says nothing would be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from nesbs.records.recipe import Recipe, flatten
from nesbs.report import words
from nesbs.report.reading import Record


def changes(recipe: Record) -> list[tuple[str, str, str]]:
    """The settings that differ from their defaults: (key, default, value here).

    >>> changes({"seed": 3, "ensemble": {"size": 3, "combine": "logits"}})
    [('seed', '0', '3'), ('ensemble.combine', 'probabilities', 'logits')]
    """
    default = flatten(Recipe().model_dump(mode="json"))
    here = flatten(dict(recipe))
    return [(key, said(default.get(key)), said(value)) for key, value in here.items() if value != default.get(key)]


def differing(recipes: Sequence[Record]) -> list[tuple[str, list[str]]]:
    """The settings in which recipes differ from each other: (key, its value in each).

    >>> differing([{"seed": 0, "data": {"name": "a"}}, {"seed": 1, "data": {"name": "a"}}])
    [('seed', ['0', '1'])]
    """
    flat = [flatten(dict(recipe)) for recipe in recipes]
    keys = dict.fromkeys(key for one in flat for key in one)
    values = {key: [one.get(key) for one in flat] for key in keys}
    return [(key, [said(value) for value in row]) for key, row in values.items() if any(v != row[0] for v in row)]


def said(value: Any) -> str:
    """A setting's value as YAML writes it on one line.

    >>> said([0.0, 1.0]), said(None), said("fashion-mini")
    ('[0.0, 1.0]', '–', 'fashion-mini')
    """
    if value is None:
        return words.NOTHING
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...").strip()
