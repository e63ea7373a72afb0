"""Data sets in `.npz` files: `x_train`, `y_train`, `x_test`, `y_test`, or `x` and `y` to be split."""

import math
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np
import torch

from nesbs.data.dataset import stratified
from nesbs.data.sample_weights import check_weights
from nesbs.data.settings import DataSettings
from nesbs.data.split import Split, check_lengths, make_split
from nesbs.errors import NesbsError, printable

TEST_FRACTION = 0.2  # of each class, where a source has no test part of its own


def load_npz(path: Path, memory_limit: float = DataSettings().memory_limit) -> tuple[Split, Split]:
    """Read the training and the test part of an `.npz` file of images (uint8; grey, or colour with channels last).

    An array `classes` of strings names the classes; without it there are as many as the largest training label says.
    An array `sample_weights` has a weight for each training image (see `batches`).
    Arrays of more than `memory_limit` GiB are refused before they are read.
    """
    return splits(read_arrays(path, memory_limit, ": raise data.memory_limit if that is right"), str(path))


def splits(arrays: Mapping[str, np.ndarray], source: str, test_fraction: float = TEST_FRACTION) -> tuple[Split, Split]:
    """Check the arrays of a data set, named as in an `.npz` file, and return its training and its test part.

    Where the arrays have none, the test part is `test_fraction` of each class. `sample_weights` are those of `x_train`
    or of `x`.
    """
    weights = _weights(arrays)
    if {"x_train", "y_train", "x_test", "y_test"} <= arrays.keys():
        images, test_images = (_images(arrays[name], source) for name in ("x_train", "x_test"))
        labels, test_labels = (_labels(arrays[name], source) for name in ("y_train", "y_test"))
    elif {"x", "y"} <= arrays.keys():
        images, labels = _images(arrays["x"], source), _labels(arrays["y"], source)
        check_lengths(images, labels, source)
        rest, held_out = stratified(labels, test_fraction, seed=0)
        images, labels, test_images, test_labels = images[rest], labels[rest], images[held_out], labels[held_out]
        weights = weights if weights is None else weights[rest]
    else:
        raise NesbsError(
            f"{source}: needs the arrays x_train, y_train, x_test, y_test (or x and y), "
            f"found {printable(', '.join(arrays))[:200] or 'none'}"
        )
    if "classes" in arrays:
        names = tuple(
            name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
            for name in np.atleast_1d(arrays["classes"])
        )
    else:
        present = sorted(set(labels.tolist()))
        if present and present[0] >= 0 and present != list(range(len(present))):
            missing = next(i for i, label in enumerate(present) if label != i)
            raise NesbsError(f"{source}: no training image has label {missing}: number the classes from 0 without gaps")
        names = tuple(str(i) for i in range(len(present)))
    train = make_split(images, labels, names, source=f"{source}, training part")
    if weights is not None:
        train = replace(train, sample_weights=weights)
    if bool((labels == labels[0]).all()):
        raise NesbsError(
            f"{source}: all training images are of class {names[labels[0]]}: two classes or more are needed"
        )
    if len(test_labels) == 0 and test_fraction == 0:
        return train, train.subset(test_labels)
    return train, make_split(test_images, test_labels, names, source=f"{source}, test part", like=train)


def read_arrays(path: Path, limit: float, advice: str = "") -> dict[str, np.ndarray]:
    """Read the arrays of an `.npz` file by their names, or the one of an `.npy` file by the file's name.

    Headers are checked before any memory is taken: no array is larger than what the file holds of it, and together
    they take at most `limit` GiB (`advice` says what to do where they do not).
    """
    if not path.is_file():
        raise NesbsError(f"there is no file {path}")
    left = limit * 2**30
    arrays: dict[str, np.ndarray] = {}
    try:
        if not zipfile.is_zipfile(path):
            with open(path, "rb") as file:
                if not file.read(6).startswith((b"PK", np.lib.format.MAGIC_PREFIX)):  # PK: of a zip file cut short
                    raise NesbsError("is no .npz or .npy file")
                file.seek(0)
                return {path.name: _read_array(file, path.stat().st_size, left)}
        with zipfile.ZipFile(path) as archive:
            for entry in archive.infolist():
                if not entry.filename.endswith(".npy"):
                    continue
                with archive.open(entry) as file:
                    array = _read_array(file, entry.file_size, left)
                left -= array.nbytes
                arrays[entry.filename.removesuffix(".npy")] = array
        return arrays
    except _TooLargeError as error:
        raise NesbsError(f"{path}: its arrays take more than {limit:g} GiB of memory ({error}){advice}") from None
    except NesbsError as error:
        raise NesbsError(f"{path} {error}") from None
    except MemoryError as error:
        raise NesbsError(f"{path}: there is not enough memory for its arrays ({error})") from None
    except Exception as error:  # a damaged archive or header may end in any exception
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise NesbsError(f"{path} is not a whole .npz file ({reason}): copy it again") from None


class _TooLargeError(Exception):
    """An array that takes more memory than it may."""


def _read_array(file: IO[bytes], stored: int, left: float) -> np.ndarray:
    """The array in a file of `stored` bytes, where its header asks for no more than those and than `left`."""
    version = np.lib.format.read_magic(file)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, kind = read_header(file)
    if kind.hasobject:
        raise NesbsError("is no .npz file of numbers (it holds Python objects): save plain numbers with np.savez")
    needed = math.prod(shape) * kind.itemsize
    if needed > stored:
        raise ValueError(f"an array of {needed:,} bytes in a file of {stored:,}")
    if needed > left:
        raise _TooLargeError(f"one of {needed / 2**30:,.1f} GiB")
    file.seek(0)
    array: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
    return array


def _images(array: np.ndarray, source: str) -> torch.Tensor:
    """(images, height, width[, channels]) bytes to (images, channels, height, width)."""
    if array.dtype != np.uint8:
        raise NesbsError(f"{source}: images must be uint8 (0 to 255), found {array.dtype}")
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[-1] in (1, 3):
        array = array.transpose(0, 3, 1, 2)
    else:
        raise NesbsError(
            f"{source}: images must be (images, height, width) or (…, 1 or 3 channels last), found {array.shape}"
        )
    return torch.from_numpy(np.ascontiguousarray(array))


def _weights(arrays: Mapping[str, np.ndarray]) -> torch.Tensor | None:
    """Weights of the training images, one for each, where there are any."""
    if "sample_weights" not in arrays:
        return None
    array, counted = arrays["sample_weights"], arrays.get("y_train", arrays.get("y", np.empty(0)))
    if array.dtype.kind not in "iuf":
        raise NesbsError(f"sample_weights must be numbers, found {array.dtype}")
    weights = torch.from_numpy(array.astype(np.float64))
    check_weights(weights, counted.size)
    return weights


def _labels(array: np.ndarray, source: str) -> torch.Tensor:
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise NesbsError(f"{source}: labels must be whole numbers on one axis, found {array.dtype} {array.shape}")
    return torch.from_numpy(array.astype(np.int64))
