"""The posterior as heat maps: a table for all decisions of one cell that have the same choices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nesbs.errors import NesbsError
from nesbs.report import words
from nesbs.report.reading import Record, mapping, sequence
from nesbs.spaces import get_space


def posterior_tables(posterior: Record) -> dict[str, Any] | None:
    """The heat maps: decisions of one kind of cell with the same choices share a table of decisions by choices."""
    if not posterior:
        return None
    kinds = _kinds(str(posterior.get("space")))
    groups: dict[str, dict[tuple[str, ...], list[dict[str, Any]]]] = {}
    for variable in map(mapping, sequence(posterior.get("variables"))):
        choices = tuple(str(choice) for choice in sequence(variable.get("choices")))
        given = sequence(variable.get("probabilities"))
        known = [p if words.is_number(p) else None for p in (given + [None] * len(choices))[: len(choices)]]
        most = max((p for p in known if p is not None), default=None)
        activity, name = variable.get("activity"), str(variable.get("name"))
        kind = next((kind for kind in kinds if name.startswith(f"{kind} ")), "")
        row = {
            "name": name.removeprefix(f"{kind} "),
            "activity": activity if words.is_number(activity) else None,
            "cells": [(p, p is not None and p == most) for p in known],
            "entropy": entropy(known),
        }
        groups.setdefault(kind, {}).setdefault(choices, []).append(row)
    tables = [
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
    own, uniform = posterior.get("entropy"), posterior.get("log_size")
    gap = uniform - own if words.is_number(own) and words.is_number(uniform) else None
    return {
        "tables": tables,
        "entropy": own,
        "uniform_entropy": uniform,
        "kl": max(gap, 0.0) if gap is not None else None,
        "temperature": posterior.get("temperature"),
    }


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
