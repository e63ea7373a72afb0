"""Published data sets that are Python pickles, read without letting them run anything.

A pickle is a program for a small machine that can import and call. Two things stand in its way here. Before
anything is built the program is read through: only the steps that numbers, strings, lists, dicts and arrays
need are let pass, and none that would take memory the file does not pay for. And the names it may import
are not numpy's own but stand-ins, which check what they are given and make an array of the file's bytes.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nesbs.errors import NesbsError

# What picklers of protocols 2 to 5 write for dicts, lists, tuples, numbers, strings and arrays.
_NEEDED = (
    "PROTO FRAME STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 LONG4 BINFLOAT "
    "BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8 BYTEARRAY8 "
    "BINUNICODE SHORT_BINUNICODE BINUNICODE8 EMPTY_LIST APPEND APPENDS EMPTY_DICT SETITEM SETITEMS "
    "EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 BINPUT LONG_BINPUT MEMOIZE BINGET LONG_BINGET "
    "GLOBAL STACK_GLOBAL REDUCE BUILD"
)
Part = tuple[np.ndarray, np.ndarray]  # images (images, …) uint8 and labels (images,), whole numbers
STEPS = frozenset(_NEEDED.split())
MOST_STEPS = 2_000_000  # the largest published file, CIFAR-100's for training, has a quarter of a million
# What makes values that a pickle may use twice: strings, and what is imported or called.
SHARED = {name for name in STEPS if "STRING" in name or "BYTES" in name or "UNICODE" in name}
SHARED |= {"GLOBAL", "STACK_GLOBAL", "REDUCE"}
MOST_TUPLES = 10_000  # an array has seven; hashing one nested deeper would overrun the machine's stack
KINDS = {f"{kind}{width}" for kind in "iuf" for width in (1, 2, 4, 8)} - {"f1", "f2"} | {"b1"}


def read_pickle(path: Path) -> dict[str, Any]:
    """Read the dict in a pickle file: strings to arrays, lists, numbers or strings; anything else is refused.

    Keys that Python 2 wrote as bytes come as strings. Arrays are read-only and hold numbers.
    """
    if not path.is_file():
        raise NesbsError(f"there is no file {path}")
    blob = path.read_bytes()
    try:
        _look_through(blob, path)
        content = _Unpickler(blob, path).load()
    except NesbsError:
        raise
    except Exception as error:  # a damaged pickle may end in any exception, as Python's manual says
        raise NesbsError(
            f"{path} is not a whole pickle ({str(error) or type(error).__name__}): copy it again"
        ) from None
    if not isinstance(content, dict):
        raise NesbsError(f"{path} holds a {type(content).__name__}, not the dict of a published data set")
    for key in content:
        if not isinstance(key, (str, bytes)):
            raise _refused(path, f"has a key that is {_describe(key)}")
    return {_text(key): value.array(path) if isinstance(value, _Array) else value for key, value in content.items()}


def read_labelled(folder: Path, names: Sequence[str], label_key: str, width: int, release: str) -> Iterator[Part]:
    """Yield images (images, `width`) uint8 and labels (images,) int64 of each of the pickles `names` in a folder."""
    paths = [folder / name for name in names]
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise NesbsError(f"there is no file {missing[0]}: the copy is not whole, unpack {release} again")
    for path in paths:
        entries = read_pickle(path)
        for key in ("data", label_key):
            if key not in entries:
                raise NesbsError(f"{path} has no entry {key}, found {', '.join(sorted(entries))[:200] or 'none'}")
        images, labels = entries["data"], _integers(entries[label_key], f"{path}: {label_key}")
        if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != (width,):
            raise NesbsError(f"{path}: data must be bytes of shape (images, {width}), found {_describe(images)}")
        if len(images) != len(labels) or len(images) == 0:
            raise NesbsError(f"{path}: {len(images)} images but {len(labels)} labels: copy it again")
        yield images, labels


def _integers(values: object, name: str) -> np.ndarray:
    """Labels: a list of whole numbers or an array of them, as (images,) int64."""
    if isinstance(values, list) and all(type(value) is int and abs(value) < 2**31 for value in values):
        return np.array(values, dtype=np.int64)
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iu":
        return values.astype(np.int64)
    raise NesbsError(f"{name} must be a list of whole numbers, found {_describe(values)}")


def _look_through(blob: bytes, path: Path) -> None:
    """Refuse a pickle by its steps, before any of them is taken."""
    tuples = 0
    before = ""  # the step before, which made what a step that numbers its value numbers
    made_by: dict[int, str] = {}
    for count, (step, argument, place) in enumerate(pickletools.genops(io.BytesIO(blob))):
        if step.name not in STEPS:
            asked = f"{step.name} {argument if isinstance(argument, (str, int)) else ''}".strip()[:80]
            raise _refused(path, f"has the step {asked} at byte {place}")
        if step.name == "GLOBAL" and (asked := str(argument).replace(" ", ".")) not in NAMES:
            raise _refused(path, f"asks for {asked[:80]}")
        if step.name in ("BINPUT", "LONG_BINPUT") and int(argument or 0) > count:
            raise _refused(path, f"numbers its {count} values up to {argument}")  # would make room for as many
        if step.name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            made_by[len(made_by) if argument is None else int(argument)] = before
        elif step.name in ("BINGET", "LONG_BINGET") and made_by.get(int(argument or 0)) not in SHARED:
            raise _refused(
                path, f"uses value {argument} twice"
            )  # a tuple of tuples of … one tuple takes for ever to hash
        if step.name not in ("FRAME", "PROTO"):
            before = step.name
        tuples += step.name.startswith("TUPLE")
        if count > MOST_STEPS or tuples > MOST_TUPLES:
            raise _refused(path, f"has more than {MOST_STEPS:,} steps or {MOST_TUPLES:,} tuples")


class _Unpickler(pickle.Unpickler):
    def __init__(self, blob: bytes, path: Path) -> None:
        super().__init__(io.BytesIO(blob), fix_imports=False, encoding="bytes")
        self._path = path
        self._left = len(blob)  # bytes that may still be encoded: no more than the file has

    def find_class(self, module: str, name: str) -> _StandIn:
        asked = f"{_text(module)}.{_text(name)}"
        if asked not in NAMES:
            raise _refused(self._path, f"asks for {asked[:80]}")
        return _StandIn(asked, self._encode if asked == ENCODE else NAMES[asked], self._path)

    def _encode(self, text: object, encoding: object) -> bytes:
        """How Python 3 writes bytes for Python 2."""
        if not isinstance(text, str) or _text(encoding) not in ("latin1", "latin-1"):
            raise ValueError("only latin1")
        self._left -= len(text)
        if self._left < 0:
            raise ValueError("the same text over and over")
        return text.encode("latin1")


class _StandIn:
    """A name that a pickle may import: it can be called with the right arguments and no more."""

    __slots__ = ("_call", "_name", "_path")

    def __init__(self, name: str, call: Callable[..., object], path: Path) -> None:
        self._name, self._call, self._path = name, call, path

    def __call__(self, *arguments: object) -> object:
        try:
            return self._call(*arguments)
        except (TypeError, ValueError) as error:
            raise _refused(self._path, f"calls {self._name} wrongly ({str(error)[:80]})") from None

    def __setstate__(self, state: object) -> None:
        raise _refused(self._path, f"changes {self._name}")


class _Dtype:
    """Stands for an array's type of number; the byte order comes with the state."""

    def __init__(self, kind: object, *flags: object) -> None:
        text = _text(kind).lstrip("<>|=")
        if text not in KINDS:
            raise ValueError(f"arrays of {text!r} are no numbers")
        self._kind, self._order = text, "|" if text[1] == "1" else "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        # (version, byte order, subdtype, names, fields, …): no record types.
        if any(part is not None for part in state[2:5]) or _text(state[1]) not in ("<", ">", "|", "="):
            raise ValueError("a type of number with fields")
        self._order = _text(state[1])

    def numpy(self) -> np.dtype[Any]:
        return np.dtype(self._order.replace("=", "<") + self._kind)


class _Array:
    """Stands for an array: its shape and type are believed only where the bytes bear them out."""

    def __init__(self, state: tuple[Any, ...] | None = None) -> None:
        self._state = state

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._state = state

    def array(self, path: Path) -> np.ndarray:
        if self._state is None:
            raise NesbsError(f"{path} has an array without content: copy it again")
        try:
            _, shape, dtype, columns_first, content = self._state
            kind = dtype.numpy()
            if not isinstance(content, (bytes, bytearray)) or not all(type(n) is int and 0 <= n < 2**48 for n in shape):
                raise ValueError("its content or its shape is of the wrong kind")
            if math.prod(shape) * kind.itemsize != len(content):
                raise ValueError(f"shape {shape} of {kind} needs {math.prod(shape) * kind.itemsize} bytes")
            order = "F" if columns_first in (True, "F", b"F") else "C"
            array = np.frombuffer(content, kind).reshape(shape, order=order)  # type: ignore[call-overload]
        except (TypeError, ValueError, AttributeError) as error:
            raise _refused(path, f"has an array that does not fit its bytes ({str(error)[:80]})") from None
        array.flags.writeable = False
        return array  # type: ignore[no-any-return]


def _reconstruct(kind: object, shape: object, code: object) -> _Array:
    return _Array()  # empty as numpy's is until its state comes


def _frombuffer(content: object, dtype: object, shape: object, order: object) -> _Array:
    return _Array((1, shape, dtype, order, content))


def _forbidden(*arguments: object) -> object:
    raise ValueError("it is not called in a data set")


ENCODE = "_codecs.encode"
NAMES: dict[str, Callable[..., object]] = {
    "numpy.ndarray": _forbidden,  # named, never called: _reconstruct makes arrays
    "numpy.dtype": _Dtype,
    "numpy.core.multiarray._reconstruct": _reconstruct,
    "numpy._core.multiarray._reconstruct": _reconstruct,
    "numpy.core.numeric._frombuffer": _frombuffer,
    "numpy._core.numeric._frombuffer": _frombuffer,
    ENCODE: _forbidden,  # the unpickler's own
}


def _refused(path: Path, what: str) -> NesbsError:
    return NesbsError(f"{path} {what}, which no data set needs: refused, and nothing of it was run; get a clean copy")


def _text(value: object) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


def _describe(value: object) -> str:
    return f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
