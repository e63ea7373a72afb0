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
import re
from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator
from pydantic_core import ErrorDetails

from nesbs.errors import NesbsError, did_you_mean, expect, expect_whole, named, shown

P = ParamSpec("P")
R = TypeVar("R")

# Bounds that settings share: far beyond any use, so that what exceeds them is a slip.
MAX_SEED = 2**63 - 1
MAX_SEEDS = 1_000  # of a comparison
MAX_EPOCHS = 100_000
MAX_STEPS = 10_000_000
MAX_BATCH = 1_000_000
MAX_IMAGES = 1_000_000_000
MAX_ARCHITECTURES = 100_000
MAX_MEMBERS = 1_000
MAX_CELLS = 100
MAX_CHANNELS = 16_384
MAX_PIXELS = 2_048  # a side of an image
MAX_WEIGHT = 1e6  # learning rates, penalties, weights of a term
MAX_DELTA = 1e6
MAX_SECONDS = 1e9
MIN_TEMPERATURE, MAX_TEMPERATURE = 1e-6, 1e6
MAX_VALUES = 1_000  # in a list
NO_TEXT = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\ud800-\\udfff]")  # control characters, halves of one


if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)


class _Answering(ModelMetaclass):
    """Lets a class that is called with wrong values, `Pgd(steps=0)`, answer as `Settings.of` does."""

    def __call__(self, **values: Any) -> Any:
        try:
            return super().__call__(**values)
        except ValidationError as error:
            raise _answer(self, error) from None  # type: ignore[arg-type]


class Settings(BaseModel, metaclass=_Answering):
    """Base of every stage's settings: a field has a type, a range and a default with its source."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, value: object, info: ValidationInfo) -> object:
        """Refuse what Python would take for a number or a text: yes and no, and characters that no file name has."""
        values = value if isinstance(value, list | tuple) else (value,)
        kinds = _kinds(cls.model_fields[info.field_name or ""].annotation)
        is_number = (int in kinds or float in kinds) and bool not in kinds
        if is_number and any(isinstance(each, bool) for each in values):
            raise ValueError("input should be a number (YAML reads yes, no, on and off as true and false)")
        if any(isinstance(each, str) and NO_TEXT.search(each) for each in values):
            raise ValueError("input should be text without control characters")
        return value

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Check `values` and build the settings, or raise one `NesbsError` with every complaint."""
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise _answer(cls, error) from None

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Any]) -> Self:
        """Build the settings from those of a function's arguments (`locals()`) that have a setting's name."""
        return cls.of({name: arguments[name] for name in cls.model_fields if name in arguments})


def checked_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function answer an unknown keyword with a `NesbsError` that names the nearest one.

    What all such functions take is checked here: `seed` is a whole number, `on_…` a function or None.
    """
    names = inspect.signature(function).parameters

    @wraps(function)
    def call(*arguments: P.args, **keywords: P.kwargs) -> R:
        unknown = [name for name in keywords if name not in names]
        if unknown:
            raise NesbsError(f"unknown setting {unknown[0]}: {did_you_mean(unknown[0], names)}")
        for name, value in keywords.items():
            if name == "seed":
                expect_whole(value, name, least=0)
            elif name.startswith("on_") and value is not None:
                expect(value, Callable, f"{name} must be a function")  # type: ignore[arg-type]
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


def _kinds(annotation: Any) -> list[Any]:
    """An annotation and the types it is made of: of `tuple[int, ...] | None` also int and None."""
    return [annotation, *(kind for part in get_args(annotation) for kind in _kinds(part))]


def _answer(model: type[BaseModel], error: ValidationError) -> NesbsError:
    """One error with the first ten complaints."""
    complaints = _complaints(model, error)
    more = [f"and {len(complaints) - 10} more"] if len(complaints) > 10 else []
    return NesbsError("; ".join([*complaints[:10], *more]))


def _complaints(model: type[BaseModel], error: ValidationError) -> list[str]:
    """One complaint a key (a union of types reports each of its arms: the first is enough)."""
    complaints: dict[str, str] = {}
    for entry in error.errors():
        location = [str(part) for part in entry["loc"]]
        if entry["type"] == "extra_forbidden":
            key = named(".".join(location))
            text = f"unknown setting {key}: {did_you_mean(key, keys(model))}"
        else:
            key = _setting(model, location)
            text = f"{key}: {_message(entry)}" if key else _message(entry)
            given = entry["input"]
            together = isinstance(given, dict) and key not in keys(model)  # that do not go together: they are named
            unknown = isinstance(given, str) and given != "" and f" {given}: " in text  # named, too
            if entry["type"] != "value_error" or not (together or unknown):
                text += f", found {shown(given)}"
        complaints.setdefault(key, text)
    return list(complaints.values())


def _message(entry: ErrorDetails) -> str:
    """What is wrong with a setting, in the user's words."""
    if entry["type"] == "model_type":
        return "input should be settings, such as {name: value}"
    message = entry["msg"].removeprefix("Value error, ").replace("a valid tuple", "a list").replace("Tuple", "List")
    return message[:1].lower() + message[1:]


def _setting(model: type[BaseModel], location: list[str]) -> str:
    """The key that the user wrote: the arms of a union put the arm's name behind it."""
    settings = set(keys(model))
    for end in range(len(location), 0, -1):
        key = ".".join(location[:end])
        if key in settings or (end == 1 and key in model.model_fields):
            return key
    return ".".join(location)
