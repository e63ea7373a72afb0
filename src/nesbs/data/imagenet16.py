"""ImageNet16-120 in its published layout: pickles in the folder `ImageNet16` below `root`.

The pickles hold all 1,000 classes of ImageNet at 16×16, labelled from 1; the data set is the first 120 of them
(NAS-Bench-201), 151,700 training images and, for testing, the 6,000 of `val_data`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from nesbs.data.cifar import joined
from nesbs.data.pickles import read_labelled
from nesbs.data.split import Split, make_split
from nesbs.errors import NesbsError

FOLDER = "ImageNet16"
CLASSES = 120
SHAPE = (3, 16, 16)
TRAIN = tuple(f"train_data_batch_{number}" for number in range(1, 11))
TEST = "val_data"


def load_imagenet16(root: Path) -> tuple[Split, Split]:
    """Read the training and the test part; classes are called by their published numbers, "1" to "120"."""
    folder = root / FOLDER
    if not folder.is_dir():
        raise NesbsError(f"{root} has no folder {FOLDER}: unpack ImageNet16 as NAS-Bench-201 gives it out (data.root)")
    names = tuple(str(number) for number in range(1, CLASSES + 1))
    train = make_split(*_read(folder, TRAIN), names, source=str(folder))
    return train, make_split(*_read(folder, (TEST,)), names, source=str(folder), like=train)


def _read(folder: Path, names: Sequence[str]) -> tuple[Tensor, Tensor]:
    parts = []
    width = SHAPE[0] * SHAPE[1] * SHAPE[2]
    for name, (images, labels) in zip(names, read_labelled(folder, names, "labels", width, "ImageNet16"), strict=True):
        low, high = labels.min(), labels.max()
        if low < 1 or high > 1000:
            raise NesbsError(f"{folder / name}: labels must lie between 1 and 1000, found {low} to {high}")
        first = labels <= CLASSES
        parts.append((images[first], labels[first] - 1))
    return joined(parts, SHAPE)
