"""A stage's settings: frozen, typed, checked; complaints are collected and said in the user's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from nesbs.errors import NesbsError, did_you_mean


class Settings(BaseModel):
    """Base of every stage's settings: a field has a type, a range and a default with its source."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Check `values` and build the settings, or raise one `NesbsError` with every complaint.

        >>> class Oven(Settings):
        ...     degrees: int = 180
        >>> Oven.of({"degrees": 200}).degrees
        200
        >>> Oven.of({"degree": 200})
        Traceback (most recent call last):
        nesbs.errors.NesbsError: unknown setting degree: did you mean degrees?
        """
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise NesbsError("; ".join(_complaints(cls, error))) from None


def keys(model: type[BaseModel], prefix: str = "") -> list[str]:
    """Every settable key of nested settings, dotted: `supernet.epochs`."""
    found: list[str] = []
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            found += keys(inner, f"{prefix}{name}.")
        else:
            found.append(prefix + name)
    return found


def _complaints(model: type[BaseModel], error: ValidationError) -> list[str]:
    """One complaint a key (a union of types reports each of its arms: the first is enough)."""
    complaints: dict[str, str] = {}
    for entry in error.errors():
        # Arms of a union put the arm's name behind the key; the key is what the user wrote.
        location = [str(part) for part in entry["loc"]]
        key = _known_prefix(model, location)
        if entry["type"] == "extra_forbidden":
            key = ".".join(location)
            said = f"unknown setting {key}: {did_you_mean(key, keys(model))}"
        else:
            message = entry["msg"].removeprefix("Value error, ")
            message = message[:1].lower() + message[1:]
            said = f"{key}: {message}" if key else message
            if not isinstance(entry["input"], dict):  # settings that do not go together name themselves
                said += f", found {entry['input']!r}"
        complaints.setdefault(key, said)
    return list(complaints.values())


def _known_prefix(model: type[BaseModel], location: list[str]) -> str:
    known = set(keys(model))
    for end in range(len(location), 0, -1):
        key = ".".join(location[:end])
        if key in known or (end == 1 and key in model.model_fields):
            return key
    return ".".join(location)
