"""Data sets in `.npz` files: `x_train`, `y_train`, `x_test`, `y_test`, or `x` and `y` to be split."""

import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch

from nesbs.data.split import Split, make_split, stratified
from nesbs.errors import NesbsError

TEST_FRACTION = 0.2  # of each class, where a source has no test part of its own


def load_npz(path: Path) -> tuple[Split, Split]:
    """Read the training and the test part of an `.npz` file of images (uint8; grey, or colour with channels last).

    An array `classes` of strings names the classes; without it there are as many as the largest training label says.
    """
    arrays = _read(path)
    if {"x_train", "y_train", "x_test", "y_test"} <= arrays.keys():
        images, test_images = (_images(arrays[name], path) for name in ("x_train", "x_test"))
        labels, test_labels = (_labels(arrays[name], path) for name in ("y_train", "y_test"))
    elif {"x", "y"} <= arrays.keys():
        images, labels = _images(arrays["x"], path), _labels(arrays["y"], path)
        if len(labels) != len(images) or len(labels) == 0:
            raise NesbsError(f"{path}: {len(images)} images but {len(labels)} labels")
        rest, held_out = stratified(labels, TEST_FRACTION, seed=0)
        images, labels, test_images, test_labels = images[rest], labels[rest], images[held_out], labels[held_out]
    else:
        raise NesbsError(
            f"{path}: needs the arrays x_train, y_train, x_test, y_test (or x and y), "
            f"found {', '.join(arrays) or 'none'}"
        )
    if "classes" in arrays:
        names = tuple(str(name) for name in np.atleast_1d(arrays["classes"]))
    else:
        present = sorted(set(labels.tolist()))
        if present and present[0] >= 0 and present != list(range(len(present))):
            missing = next(i for i, label in enumerate(present) if label != i)
            raise NesbsError(f"{path}: no training image has label {missing}: number the classes from 0 without gaps")
        names = tuple(str(i) for i in range(len(present)))
    train = make_split(images, labels, names, source=f"{path}, training part")
    return train, make_split(test_images, test_labels, names, source=f"{path}, test part", like=train)


def _read(path: Path) -> dict[str, np.ndarray]:
    if not path.is_file():
        raise NesbsError(f"there is no file {path}")
    try:
        with open(path, "rb") as handle, np.load(handle, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, zipfile.BadZipFile, zlib.error, TypeError, EOFError, OSError, AttributeError) as error:
        if "allow_pickle" in str(error):
            raise NesbsError(
                f"{path} is no .npz file of numbers (it holds Python objects, or is no archive): save images as uint8 "
                "and labels as whole numbers with np.savez"
            ) from None
        raise NesbsError(f"{path} is not a whole .npz file ({error}): copy it again") from None


def _images(array: np.ndarray, path: Path) -> torch.Tensor:
    """(images, height, width[, channels]) bytes to (images, channels, height, width)."""
    if array.dtype != np.uint8:
        raise NesbsError(f"{path}: images must be uint8 (0 to 255), found {array.dtype}")
    if array.ndim == 3:
        array = array[:, None]
    elif array.ndim == 4 and array.shape[-1] in (1, 3):
        array = array.transpose(0, 3, 1, 2)
    else:
        raise NesbsError(
            f"{path}: images must be (images, height, width) or (…, 1 or 3 channels last), found {array.shape}"
        )
    return torch.from_numpy(np.ascontiguousarray(array))


def _labels(array: np.ndarray, path: Path) -> torch.Tensor:
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise NesbsError(f"{path}: labels must be whole numbers on one axis, found {array.dtype} {array.shape}")
    return torch.from_numpy(array.astype(np.int64))
