"""A data set from arrays or tensors in memory, checked: what could mean two things is an error, never a guess."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from nesbs.data.arrays import TEST_FRACTION, splits
from nesbs.data.conversion import converted
from nesbs.data.dataset import Dataset
from nesbs.data.settings import DataSettings
from nesbs.data.split import digest_of
from nesbs.errors import NesbsError, expect, expect_all, shown
from nesbs.settings import checked_keywords

DEFAULT = DataSettings()
SOURCE = "from_arrays"
FLOATS = "(for floats from 0 to 1: multiply by 255 and round)"
LAYOUTS = {
    np.ndarray: "an array is (images, height, width) or (images, height, width, channels)",
    Tensor: "a tensor is (images, height, width) or (images, channels, height, width)",
}

Labels = np.ndarray | Tensor | Sequence[int] | Sequence[str]


@checked_keywords
def from_arrays(
    images: np.ndarray | Tensor,
    labels: Labels,
    test_images: np.ndarray | Tensor | None = None,
    test_labels: Labels | None = None,
    *,
    class_names: Sequence[str] | None = None,
    sample_weights: np.ndarray | Tensor | Sequence[float] | None = None,
    size: int | None = DEFAULT.size,
    valid_fraction: float = DEFAULT.valid_fraction,
    split_seed: int = DEFAULT.split_seed,
    class_weights: Literal["none", "balanced"] = DEFAULT.class_weights,
    test_fraction: float = TEST_FRACTION,
) -> Dataset:
    """Make a data set of images and labels in memory; without a test part a fifth of each class is held out for one.

    Images are an array (images, height, width[, channels]) or a tensor (images[, channels], height, width) of whole
    numbers from 0 to 255, with 1 or 3 channels. They are copied. Labels are one for each image: the number of its
    class from 0, or its name. `class_names` names the numbers, in their order; for labels that are names it says the
    order, which is otherwise the alphabet's. `sample_weights`, one for each training image, say how often
    training shows it beside the others. `test_fraction` of each class is held out where no test part is given; with 0
    there is none. `size`, `valid_fraction`, `split_seed` and `class_weights` are those of the recipe's section `data`.

    >>> images = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    >>> data = from_arrays(images, ["cat", "dog"] * 20)
    >>> data.train, data.test.class_names
    (Split(32 images of 3×8×8, 2 classes), ('cat', 'dog'))
    >>> from_arrays(images / 255, ["cat", "dog"] * 20)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    nesbs.errors.NesbsError: images must be whole numbers from 0 to 255, found float64 ...
    """
    given = DataSettings.from_arguments(locals())
    if (test_images is None) != (test_labels is None):
        raise NesbsError("test_images and test_labels go together: give both, or neither")
    if not isinstance(test_fraction, float | int) or not 0 <= test_fraction < 1:
        raise NesbsError(f"test_fraction must be a number from 0 to below 1, found {shown(test_fraction)}")
    if class_names is not None:
        expect_all(class_names, str, "class_names must be a list of names")
    listed = [
        listed_labels(labels, "labels"),
        *([] if test_labels is None else [listed_labels(test_labels, "test_labels")]),
    ]
    if class_names is None and len({each.dtype.kind == "U" for each in listed}) > 1:
        raise NesbsError("labels and test_labels must be both names or both numbers, or give class_names")
    if class_names is None and listed[0].dtype.kind == "U":
        class_names = np.unique(listed[0]).tolist()
    numbered = [_numbered(each, class_names) for each in listed]
    arrays = {"x": image_bytes(images, "images"), "y": numbered[0]}
    if test_images is not None:
        tests = {"x_test": image_bytes(test_images, "test_images"), "y_test": numbered[1]}
        arrays = {"x_train": arrays["x"], "y_train": arrays["y"], **tests}
    if class_names is not None:
        arrays["classes"] = np.array(class_names, dtype=object)
    if sample_weights is not None:
        arrays["sample_weights"] = _array(sample_weights)
    train, test = splits(arrays, SOURCE, test_fraction)
    digest = digest_of(train, test)
    if given.size is not None:
        square = (given.size, given.size)
        train, test = (converted(split, channels=split.channels, size=square) for split in (train, test))
    if given.class_weights == "balanced":
        train = train.balanced()
    return Dataset("arrays", train, test, given.valid_fraction, given.split_seed, digest=digest)


def image_bytes(images: object, name: str) -> np.ndarray:
    """Return images as bytes with their channels last, copied; an error calls them `name`."""
    expect(images, (np.ndarray, Tensor), f"{name} must be an array or a tensor")
    first = isinstance(images, Tensor)
    array = _array(images)
    if array.dtype.kind not in "iu":
        kind = str(images.dtype).removeprefix("torch.")  # type: ignore[attr-defined]
        raise NesbsError(f"{name} must be whole numbers from 0 to 255, found {kind} {FLOATS}")
    if array.ndim not in (3, 4) or (array.ndim == 4 and array.shape[1 if first else -1] not in (1, 3)):
        layout = LAYOUTS[Tensor if first else np.ndarray]
        raise NesbsError(f"{name}: {layout}, with 1 or 3 channels; found {array.shape}")
    if array.size and not 0 <= array.min() <= array.max() <= 255:
        raise NesbsError(f"{name} must be whole numbers from 0 to 255, found {array.min()} to {array.max()}")
    if first and array.ndim == 4:
        array = array.transpose(0, 2, 3, 1)
    return np.array(array, dtype=np.uint8)


def _array(values: object) -> np.ndarray:
    """An array of an array, a tensor or a list; NumPy does not know every kind of number that torch has."""
    if isinstance(values, Tensor):
        return values.detach().cpu().to(torch.float64 if values.is_floating_point() else values.dtype).numpy()
    return np.asarray(values)


def listed_labels(labels: object, name: str) -> np.ndarray:
    """Return labels on one axis: whole numbers or names."""
    what = f"{name} must be whole numbers or names, one for each image"
    expect(labels, (np.ndarray, Tensor, list, tuple), what)
    try:
        array = _array(labels)
    except ValueError:  # lists of several lengths
        raise NesbsError(f"{what}, found {shown(labels)}") from None
    if array.dtype.kind == "O" and all(isinstance(one, str) for one in array.flat):
        array = array.astype(str)
    mixed = isinstance(labels, list | tuple) and len({isinstance(one, str) for one in labels}) > 1
    if array.ndim != 1 or array.dtype.kind not in "iuU" or mixed:
        raise NesbsError(f"{what}, found {array.dtype} of shape {array.shape}")
    return array


def _numbered(labels: np.ndarray, class_names: Sequence[str] | None) -> np.ndarray:
    """Labels as numbers."""
    if labels.dtype.kind != "U":
        return labels
    places = {name: place for place, name in enumerate(class_names or ())}
    strangers = sorted(set(labels.tolist()) - set(places))
    if strangers:
        raise NesbsError(f"a label is called {shown(strangers[0])}, which is none of the classes {shown(list(places))}")
    return np.array([places[label] for label in labels.tolist()], dtype=np.int64)
