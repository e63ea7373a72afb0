"""The one exception for bad input; its message says what was wrong, what was found and what to do."""

import difflib
from collections.abc import Iterable


class NesbsError(ValueError):
    """Bad input, or a run that cannot continue; the command shows the message alone and exits with code 2."""


class DivergedError(NesbsError):
    """A training whose loss is no longer a number."""


def expect(value: object, kind: type | tuple[type, ...], what: str) -> None:
    """Raise a `NesbsError` unless `value` is of the type (or one of the types) `kind`.

    `what` says what was expected; the message adds what was found.

    >>> expect([1, 2], list, "layers must be a list of widths")
    >>> expect("relu", list, "layers must be a list of widths")
    Traceback (most recent call last):
    nesbs.errors.NesbsError: layers must be a list of widths, found 'relu'
    >>> expect(range(2), list, "layers must be a list of widths")
    Traceback (most recent call last):
    nesbs.errors.NesbsError: layers must be a list of widths, found a range
    """
    if isinstance(value, kind):
        return
    name = type(value).__name__
    article = "an" if name[0].lower() in "aeiou" else "a"
    plain = value is None or isinstance(value, str | int | float | type)  # short enough to show as it is
    raise NesbsError(f"{what}, found {repr(value) if plain else f'{article} {name}'}")


def expect_all(values: object, kind: type, what: str) -> None:
    """Raise a `NesbsError` unless `values` is a list or tuple of nothing but `kind`.

    >>> expect_all([1, "two"], int, "widths must be a list of whole numbers")
    Traceback (most recent call last):
    nesbs.errors.NesbsError: widths must be a list of whole numbers, found 'two'
    """
    for value in values if isinstance(values, list | tuple) else [values]:
        expect(value, kind, what)
    expect(values, (list, tuple), what)


def printable(text: str, keep: str = "") -> str:
    r"""Return a text from outside as it may be printed: what is no visible character, but `keep`, as its escape.

    File names, class names and the like could otherwise move a terminal's cursor, or pass for lines of ours.

    >>> print(printable("two\nlines\x1b[2J"))
    two\nlines\x1b[2J
    """
    return "".join(one if one.isprintable() or one in keep else ascii(one)[1:-1] for one in text)


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Suggest the right word for a wrong one, as half a sentence.

    >>> did_you_mean("epoch", ["epochs", "cells"])
    'did you mean epochs?'
    >>> did_you_mean("zzz", ["epochs", "cells"])
    'choose one of: epochs, cells'
    >>> did_you_mean("darts", ["p-darts", "darts-v1", "darts-v2", "robnet"])
    'did you mean darts-v1 or darts-v2?'
    """
    choices = list(choices)
    # A dotted key is mostly mistyped in its last part; compare whole keys first, then last parts.
    near = difflib.get_close_matches(word, choices, n=1, cutoff=0.6)
    if not near:
        tails = {choice.rsplit(".", 1)[-1]: choice for choice in choices}
        near = [tails[t] for t in difflib.get_close_matches(word.rsplit(".", 1)[-1], tails, n=1, cutoff=0.6)]
    begins = [choice for choice in choices if word and choice.startswith(word)]
    if 0 < len(begins) <= 4 and not set(near) & set(begins):
        near = [" or ".join(begins)]
    return f"did you mean {near[0]}?" if near else f"choose one of: {', '.join(choices)}"
