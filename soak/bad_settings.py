"""Every setting of a recipe with a value of the wrong type, out of range, no number, huge, or empty."""

from __future__ import annotations

import typing
from collections.abc import Callable
from functools import cache
from random import Random
from types import NoneType
from typing import Any, Literal

from pydantic.fields import FieldInfo

from nesbs.records.recipe import Recipe
from nesbs.runs.recipe import AS_WRITTEN
from nesbs.settings import keys
from soak.commands import OUT, RIVALS, SMALL, settings
from soak.inputs import Input

IGNORED = ("data.root", "evaluation.unseen_root")  # paths that nothing reads unless another setting asks for them
TOGETHER = {  # what makes a setting matter
    "evaluation.severities": "evaluation.corruptions=all",
    "search.trials": "search.tune=bayesian",
    "search.delta_range": "search.tune=bayesian",
    "search.gain": "search.judge=posterior",
    "search.gain_pool": "search.judge=posterior",
    **{f"search.judge_{name}": "search.judge=trained" for name in ("candidates", "epochs", "pool", "seconds")},
    "posterior.gumbel_temperature": "posterior.estimator=straight-through",
    "posterior.entropy": "posterior.evidence=auto",
    "members.drop_path_schedule": "members.drop_path=0.2",
    "supernet.nesterov": "supernet.momentum=0.5",
}
Value = tuple[str, bool]  # as --set takes it, and whether it must be refused


def make(random: Random, number: int) -> Input:
    """One setting, one kind of wrong value: all of them in turn."""
    every = [(key, kind) for kind in KINDS for key in keys(Recipe)]
    key, kind = every[number % len(every)]
    field = field_of(key)
    text, refused = random.choice(KINDS[kind](key, field))
    others = [TOGETHER[key]] if key in TOGETHER else []
    if key.startswith("rivals."):
        command: tuple[str, ...] = ("compare", "toy", "--methods", "nes-re,mc-droppath,rsps", "--seeds", "1")
        command += settings(*SMALL, *(rival for rival in RIVALS if not rival.startswith(f"{key}=")))
    else:
        command = ("run", "toy", *settings(*SMALL, "evaluation.uniform=true"))
    command = (*command, *settings(*others), "--out", OUT)
    return Input(f"{key}: {kind}", (*command, *settings(f"{key}={text}")), refused, mended=command)


@cache
def field_of(key: str) -> FieldInfo:
    """The field behind a key."""
    model: Any = Recipe
    *sections, name = key.split(".")
    for section in sections:
        model = model.model_fields[section].annotation
    field: FieldInfo = model.model_fields[name]
    return field


def atoms(annotation: Any) -> set[Any]:
    """The plain types that a setting may have; `Literal` for a choice of words."""
    if typing.get_origin(annotation) is Literal:
        return {Literal}
    arguments = typing.get_args(annotation)
    if typing.get_origin(annotation) in (tuple, list):
        return {tuple}
    if typing.get_origin(annotation) is typing.Annotated:
        return atoms(arguments[0])
    return set[Any]().union(*map(atoms, arguments)) if arguments else {annotation}


def limits(field: FieldInfo) -> dict[str, float]:
    """The bounds of a number."""
    return {
        name: getattr(each, name) for each in field.metadata for name in ("ge", "gt", "le", "lt") if hasattr(each, name)
    }


def wrong_type(key: str, field: FieldInfo) -> list[Value]:
    """A mapping, a list of lists, a word."""
    refused = key not in IGNORED
    values = [("{a: 1}", refused), ("[[1], [2]]", refused)]
    if str not in atoms(field.annotation):
        values.append(("many", refused))
    if int in atoms(field.annotation) and float not in atoms(field.annotation):
        values.append(("1.5", True))
    return values


def out_of_range(key: str, field: FieldInfo) -> list[Value]:
    """Just outside the bounds; a word that is no choice."""
    kinds, bounds = atoms(field.annotation), limits(field)
    step = 1 if int in kinds and float not in kinds else 1e-3
    outside = {"ge": -step, "gt": 0, "le": step, "lt": 0}
    if bounds:
        return [(str(value + outside[name]), True) for name, value in bounds.items()]
    return [("-1", False)] if kinds & {int, float} else [("nonsense", key not in IGNORED)]


def no_number(key: str, field: FieldInfo) -> list[Value]:
    """Not a number, or infinite."""
    return [(text, key not in IGNORED) for text in (".nan", ".inf", "-.inf", "[.nan]")]


def huge(key: str, field: FieldInfo) -> list[Value]:
    """More than any machine has room or time for, or next to nothing."""
    values = [("1000000", False), (str(10**18), False), (str(10**30), False), ("9" * 5000, False)]
    if float in atoms(field.annotation):
        values += [("1e300", False), ("1e-300", False), ("-1e300", False)]
    return values


def empty(key: str, field: FieldInfo) -> list[Value]:
    """Nothing, an empty text, an empty list."""
    kinds = atoms(field.annotation)
    refused = not (NoneType in kinds or key in IGNORED)
    values = [("", refused), ("null", refused)]
    if key not in AS_WRITTEN:
        values += [('""', str not in kinds), ("[]", tuple not in kinds), ("{}", True)]
    return values


KINDS: dict[str, Callable[[str, FieldInfo], list[Value]]] = {
    "wrong type": wrong_type,
    "out of range": out_of_range,
    "no number": no_number,
    "huge": huge,
    "empty": empty,
}
