"""The posterior as heat maps: a table for all decisions of one cell that have the same choices."""

import math
from collections.abc import Sequence
from typing import Any

from nesbs.errors import NesbsError
from nesbs.records import PosteriorRecord
from nesbs.spaces import get_space


def posterior_tables(posterior: PosteriorRecord) -> list[dict[str, Any]]:
    """The heat maps: decisions of one kind of cell with the same choices share a table of decisions by choices."""
    kinds = _kinds(posterior.space or "")
    groups: dict[str, dict[tuple[str, ...], list[dict[str, Any]]]] = {}
    for variable in posterior.variables or ():
        choices, name = variable.choices or (), variable.name or ""
        probabilities = ((variable.probabilities or ()) + (None,) * len(choices))[: len(choices)]
        most = max((p for p in probabilities if p is not None), default=None)
        kind = next((kind for kind in kinds if name.startswith(f"{kind} ")), "")
        row = {
            "name": name.removeprefix(f"{kind} "),
            "activity": variable.activity,
            "cells": [(p, p is not None and p == most) for p in probabilities],
            "entropy": entropy(probabilities),
        }
        groups.setdefault(kind, {}).setdefault(choices, []).append(row)
    return [
        {
            "kind": kind,
            "choices": choices,
            "rows": rows,
            # 1 up to rounding: the decision always plays a part, and a column saying so would be noise.
            "partial": any(row["activity"] is not None and row["activity"] < 0.9995 for row in rows),
        }
        for kind, by_choices in groups.items()
        for choices, rows in by_choices.items()
    ]


def entropy(probabilities: Sequence[float | None]) -> float | None:
    """The entropy of one decision in nats; None where a probability is missing.

    >>> round(entropy([0.5, 0.5, 0.0]), 4), entropy([1.0]), entropy([0.5, None])
    (0.6931, 0.0, None)
    """
    if not probabilities or any(p is None or p < 0 for p in probabilities):
        return None
    return abs(math.fsum(p * math.log(p) for p in probabilities if p))


def _kinds(space_name: str) -> tuple[str, ...]:
    """The kinds of cell that decisions are named after; none where a space has one kind, or is not known."""
    try:
        kinds = get_space(space_name).kinds
    except NesbsError:
        return ()
    return kinds if len(kinds) > 1 else ()
