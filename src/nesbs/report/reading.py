"""Records are read with care: any part may be missing, null or of another kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Record = Mapping[str, Any]


def mapping(value: Any) -> Record:
    """The value where it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def sequence(value: Any) -> list[Any]:
    """The value where it is a list, else an empty one."""
    return list(value) if isinstance(value, list | tuple) else []
