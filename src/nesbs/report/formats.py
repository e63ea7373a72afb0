"""Numbers as text: shares, losses, counts, times and sizes, and a dash where there is none."""

import math
from typing import TypeGuard

NOTHING = "–"


def is_number(value: float | None) -> TypeGuard[float]:
    """Whether a value from a record is a number that can be shown."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def percent(share: float | None) -> str:
    """A share as a percentage.

    >>> percent(0.081)
    '8.10 %'
    """
    return f"{100 * share:.2f} %" if is_number(share) else NOTHING


def share(value: float | None) -> str:
    """A share as a whole percentage.

    >>> share(0.9389), share(0.001)
    ('94 %', '0 %')
    """
    return f"{100 * value:.0f} %" if is_number(value) else NOTHING


def decimal(value: float | None, places: int = 3) -> str:
    """A number with so many places.

    >>> decimal(0.23456), decimal(-0.00001)
    ('0.235', '0.000')
    """
    return f"{value:z.{places}f}" if is_number(value) else NOTHING


def signed(value: float | None, places: int = 3) -> str:
    """A difference with so many places and its sign.

    >>> signed(0.0123, 2), signed(-1.5, 1), signed(0.0)
    ('+0.01', '−1.5', '0.000')
    """
    if not is_number(value):
        return NOTHING
    text = f"{value:+.{places}f}".replace("-", "−")
    return text[1:] if float(f"{value:.{places}f}") == 0 else text


def short(value: float | None, digits: int = 6) -> str:
    """A number as a person writes it, without zeros at the end, to so many digits.

    >>> short(0.50), short(-1.0), short(None), short(0.123456, 3)
    ('0.5', '−1', '–', '0.123')
    """
    return f"{value:.{digits}g}".replace("-", "−") if is_number(value) else NOTHING


def count(value: float | None) -> str:
    """A whole number with separators; a huge one as a power of ten.

    >>> count(15625), count(2.5e18)
    ('15,625', '2.5 × 10¹⁸')
    """
    if not is_number(value):
        return NOTHING
    if abs(value) < 1e9:
        return f"{round(value):,}"
    digits, power = f"{value:.1e}".split("e")
    return f"{digits} × {_power(int(power))}"


def size(logarithm: float | None) -> str:
    """The number whose natural logarithm is given.

    >>> size(math.log(15625)), size(1000.0)
    ('15,625', '10⁴³⁴')
    """
    if not is_number(logarithm):
        return NOTHING
    return count(math.exp(logarithm)) if logarithm < 700 else _power(round(logarithm / math.log(10)))


def duration(seconds: float | None) -> str:
    """A time span.

    >>> duration(12.34), duration(200), duration(7500)
    ('12.3 s', '3 min 20 s', '2 h 5 min')
    """
    if not is_number(seconds):
        return NOTHING
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def memory(size: float | None) -> str:
    """A number of bytes.

    >>> memory(734003200), memory(3 * 2**30)
    ('700 MiB', '3.00 GiB')
    """
    if not is_number(size):
        return NOTHING
    return f"{size / 2**20:.0f} MiB" if size < 2**30 else f"{size / 2**30:.2f} GiB"


def _power(exponent: int) -> str:
    """A power of ten."""
    return "10" + str(exponent).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))
