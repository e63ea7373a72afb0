"""A stage's settings: frozen, typed, checked; all complaints are collected into one message.

A public function lists its settings as keywords, each with the default that the settings class has, and hands
them on. So each default is written once, and an editor and `help()` know all of them:

>>> class Oven(Settings):
...     degrees: int = 180
>>> DEFAULT = Oven()
>>> @checked_keywords
... def bake(bread: str, *, degrees: int = DEFAULT.degrees) -> str:
...     settings = Oven.from_arguments(locals())
...     return f"{bread} at {settings.degrees}"
>>> bake("rye", degrees="200")
'rye at 200'
>>> bake("rye", degree=200)
Traceback (most recent call last):
nesbs.errors.NesbsError: unknown setting degree: did you mean degrees?
"""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from nesbs.errors import NesbsError, did_you_mean

P = ParamSpec("P")
R = TypeVar("R")


class Settings(BaseModel):
    """Base of every stage's settings: a field has a type, a range and a default with its source."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Check `values` and build the settings, or raise one `NesbsError` with every complaint."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise NesbsError("; ".join(_complaints(cls, error))) from None

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> Self:
        """Build the settings from those of a function's arguments (`locals()`) that have a setting's name."""
        return cls.of({name: arguments[name] for name in cls.model_fields if name in arguments})


def checked_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function answer an unknown keyword with a `NesbsError` that names the nearest one."""
    names = inspect.signature(function).parameters

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        unknown = [name for name in keywords if name not in names]
        if unknown:
            raise NesbsError(f"unknown setting {unknown[0]}: {did_you_mean(unknown[0], names)}")
        return function(*arguments, **keywords)

    return call


def keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    """List every settable key of nested settings, dotted: `supernet.epochs`."""
    names: list[str] = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        nested = isinstance(inner, type) and issubclass(inner, BaseModel)
        names += keys(inner, f"{prefix}{name}.") if nested else [prefix + name]  # type: ignore[arg-type]
    return names


def _complaints(model: type[BaseModel], error: ValidationError) -> list[str]:
    """One complaint a key (a union of types reports each of its arms: the first is enough)."""
    complaints: dict[str, str] = {}
    for entry in error.errors():
        location = [str(part) for part in entry["loc"]]
        if entry["type"] == "extra_forbidden":
            key = ".".join(location)
            text = f"unknown setting {key}: {did_you_mean(key, keys(model))}"
        else:
            key = _setting(model, location)
            message = entry["msg"].removeprefix("Value error, ")
            message = message[:1].lower() + message[1:]
            text = f"{key}: {message}" if key else message
            if not isinstance(entry["input"], dict):  # settings that do not go together name themselves
                text += f", found {entry['input']!r}"
        complaints.setdefault(key, text)
    return list(complaints.values())


def _setting(model: type[BaseModel], location: list[str]) -> str:
    """The key that the user wrote: the arms of a union put the arm's name behind it."""
    settings = set(keys(model))
    for end in range(len(location), 0, -1):
        key = ".".join(location[:end])
        if key in settings or (end == 1 and key in model.model_fields):
            return key
    return ".".join(location)
