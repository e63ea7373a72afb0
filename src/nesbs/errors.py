"""The one exception for bad input; its message says what was wrong, what was found and what to do."""

import difflib
import errno
import re
import reprlib
from collections.abc import Iterable
from numbers import Integral

# What says, in lower case, that memory ran out where the exception's type does not: torch on a CPU (its allocator,
# oneDNN, C++, sizes beyond 64 bits), CUDA, cuBLAS, cuDNN, and NumPy.
NO_MEMORY = (
    *("can't allocate memory", "cannot allocate memory", "not enough memory", "out of memory", "enforce fail at alloc"),
    *("could not allocate memory", "could not create a memory object", "bad_alloc", "insufficient shared memory"),
    *("size calculation overflowed", "integer multiplication overflow", "array is too big"),
    *("alloc_failed", "allocation_failed"),
)
LONGEST = 100  # characters of a value that a message shows
ASKED_FOR = re.compile(r"allocate (\d+ bytes|[\d.]+ [KMGTPE]?i?B)")  # how torch and NumPy say how much it was


class NesbsError(ValueError):
    """Bad input, or a run that cannot continue; the command shows the message alone and exits with code 2."""


class DivergedError(NesbsError):
    """A training whose loss is no longer a number."""


def out_of_memory(error: BaseException) -> str | None:
    """What to tell the user where an error means that memory ran out, on a CPU or a GPU; else None.

    >>> out_of_memory(MemoryError("Unable to allocate 33.5 GiB for an array"))[:46]
    'not enough memory (33.5 GiB asked for at once)'
    >>> out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    """
    text = str(error)
    known = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
    if not known and not any(words in text.lower() for words in NO_MEMORY):
        return None
    amount = ASKED_FOR.search(text)
    asked = f" ({_in_gib(amount[1])} asked for at once)" if amount else ""
    return (
        f"not enough memory{asked}: take fewer or smaller images, a smaller batch_size, network or ensemble, or a "
        "larger machine; what is finished is kept"
    )


def reader_ended(error: BaseException) -> str | None:
    """What to tell the user where torch says that a process that reads images was ended from outside; else None.

    >>> reader_ended(RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed."))[:45]
    'a process that reads images was ended from ou'
    >>> reader_ended(RuntimeError("Caught KeyError in DataLoader worker process 0."))  # its own error, not its end
    """
    if "DataLoader worker" not in str(error) or "DataLoader worker process" in str(error):
        return None
    reason = str(error).splitlines()[0].rstrip(". ")
    return (
        f"a process that reads images was ended from outside ({reason}): give it more (shared) memory, "
        "or set data.workers=0; what is finished is kept"
    )


def _in_gib(amount: str) -> str:
    number, unit = amount.split()
    return f"{int(number) / 2**30:.1f} GiB" if unit == "bytes" else amount


def shown(value: object) -> str:
    """A value as a message shows it: in part where it is long or deep, without what a terminal would obey.

    >>> shown([1, "two"]), shown(list(range(1000))), shown("\\x1b[31m")
    ("[1, 'two']", '[0, 1, 2, 3, 4, 5, ...]', "'\\\\x1b[31m'")
    """
    short = reprlib.Repr()
    short.maxstring = short.maxother = short.maxlong = LONGEST
    short.maxlevel = 3
    try:
        text = short.repr(value)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    except ValueError:  # Python writes out no number of more than 4,300 digits
        return f"a value of type {type(value).__name__} with a number of thousands of digits"


def named(word: str) -> str:
    """A word of the user's as a message names it: as `shown` has it, without quotes."""
    return shown(word)[1:-1]


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
    # A class has what a protocol asks for, and is no instance.
    is_class = isinstance(value, type) and getattr(kind, "_is_protocol", False)
    if isinstance(value, kind) and not is_class:
        return
    name = type(value).__name__
    article = "an" if name[0].lower() in "aeiou" else "a"
    plain = value is None or isinstance(value, str | int | float | type)  # short enough to show as it is
    raise NesbsError(f"{what}, found {shown(value) if plain else f'{article} {name}'}")


def expect_all(values: object, kind: type, what: str) -> None:
    """Raise a `NesbsError` unless `values` is a list or tuple of nothing but `kind`.

    >>> expect_all([1, "two"], int, "widths must be a list of whole numbers")
    Traceback (most recent call last):
    nesbs.errors.NesbsError: widths must be a list of whole numbers, found 'two'
    """
    for value in values if isinstance(values, list | tuple) else [values]:
        expect(value, kind, what)
    expect(values, (list, tuple), what)


def expect_whole(value: object, name: str, least: int = 1) -> None:
    """Raise a `NesbsError` unless `value` is a whole number, `least` or more.

    >>> expect_whole(3, "layers")
    >>> expect_whole(0.5, "layers")
    Traceback (most recent call last):
    nesbs.errors.NesbsError: layers must be a whole number, at least 1, found 0.5
    """
    what = f"{name} must be a whole number, at least {least}"
    expect(value, Integral, what)
    if isinstance(value, bool) or value < least:  # type: ignore[operator]
        raise NesbsError(f"{what}, found {value}")


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
    >>> did_you_mean("members.lr", ["members.clip", "members.learning_rate"])
    'did you mean members.learning_rate?'
    >>> did_you_mean("darts", ["p-darts", "darts-v1", "darts-v2", "robnet"])
    'did you mean darts-v1 or darts-v2?'
    """
    choices = list(choices)
    *section, last = word.rsplit(".", 1)
    # Initials, as others name a setting: lr for learning_rate. Else a dotted key is mostly mistyped in its last part;
    # compare whole keys first, then last parts.
    spelt = [one for one in choices if len(last) > 1 and [*one.rsplit(".", 1)[:-1], _initials(one)] == [*section, last]]
    near = spelt[:1] or difflib.get_close_matches(word, choices, n=1, cutoff=0.6)
    if not near:
        tails = {choice.rsplit(".", 1)[-1]: choice for choice in choices}
        near = [tails[t] for t in difflib.get_close_matches(last, tails, n=1, cutoff=0.6)]
    begins = [choice for choice in choices if word and choice.startswith(word)]
    if 0 < len(begins) <= 4 and not set(near) & set(begins):
        near = [" or ".join(begins)]
    return f"did you mean {near[0]}?" if near else f"choose one of: {', '.join(choices)}"


def _initials(key: str) -> str:
    return "".join(part[:1] for part in key.rsplit(".", 1)[-1].split("_"))
