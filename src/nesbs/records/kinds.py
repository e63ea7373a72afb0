"""The kinds of fields that records have, each lenient where JSON is read."""

from collections.abc import Callable
from statistics import fmean
from typing import Annotated, Any, TypeVar

from pydantic import AllowInfNan, BeforeValidator, Field, Strict, ValidationError, ValidationInfo, WrapValidator

LENIENT = {"lenient": True}  # the context under which JSON is read
T = TypeVar("T")


def _none_where_wrong(value: Any, handler: Callable[[Any], Any], info: ValidationInfo) -> Any:
    """Validate a value; where JSON is read, one of another kind is None."""
    try:
        return handler(value)
    except ValidationError:
        if info.context is not LENIENT:
            raise
        return None


def _empty_where_wrong(value: Any, info: ValidationInfo) -> Any:
    return () if info.context is LENIENT and not isinstance(value, list | tuple) else value


def _as_text(value: Any, info: ValidationInfo) -> Any:
    return str(value) if info.context is LENIENT else value


Flag = Annotated[bool, Strict()]
Count = Annotated[int, Strict(), Field(ge=-(2**63), lt=2**63)]  # what fits into 64 bits
# An integer stays one, so that it is written as it was read; infinite values and NaN are no numbers.
Number = Count | Annotated[float, Strict(), AllowInfNan(False)]
Maybe = Annotated[T | None, WrapValidator(_none_where_wrong)]  # an entry of a list or table: None where it is wrong
Numbers = tuple[Maybe[Number], ...]
Matrix = tuple[Annotated[Numbers, BeforeValidator(_empty_where_wrong)], ...]
Texts = tuple[Annotated[str, BeforeValidator(_as_text)], ...]
TextTable = dict[str, Annotated[str, BeforeValidator(_as_text)]]
NumberTable = dict[str, Maybe[Number]]
Columns = dict[str, Maybe[Numbers]]  # numbers, by what they measure
# Lists and tables (dict[str, …]) of records: an entry of another kind is an empty one, so that places and names stay.
Many = Annotated[tuple[T, ...], BeforeValidator(_empty_where_wrong)]


def known_mean(values: Numbers) -> float | None:
    """The mean of the numbers among the values, None where there are none.

    >>> known_mean((1.0, None, 2.0)), known_mean(())
    (1.5, None)
    """
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def whole_sum(values: Numbers) -> Number | None:
    """The sum of the values; None where one is missing, or all are."""
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
