"""CIFAR-10 and CIFAR-100 in both official layouts, binary and Python pickles, below `root`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nesbs.data.pickles import Part, read_labelled
from nesbs.data.split import Split, make_split
from nesbs.errors import NesbsError

PIXELS = 3 * 32 * 32  # red, green and blue planes
AT_ONCE = 1000  # records of a binary file read at a time, so that a set is never in memory twice

CLASSES_10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_FINE_LABELS = (
    "apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can "
    "castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin "
    "elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster "
    "man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck "
    "pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk "
    "skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger "
    "tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm"
)
CLASSES_100 = tuple(_FINE_LABELS.split())


@dataclass(frozen=True)
class Layout:
    """The names of one set's folders, files and keys in both of its layouts."""

    title: str
    classes: tuple[str, ...]
    binary: str
    python: str
    train: tuple[str, ...]
    test: str
    label_bytes: int  # before the pixels of a binary record; the last is the label (CIFAR-100: coarse, fine)
    label_key: str  # in the pickles


CIFAR10 = Layout(
    "CIFAR-10",
    CLASSES_10,
    "cifar-10-batches-bin",
    "cifar-10-batches-py",
    tuple(f"data_batch_{number}" for number in range(1, 6)),
    "test_batch",
    label_bytes=1,
    label_key="labels",
)
CIFAR100 = Layout(
    "CIFAR-100",
    CLASSES_100,
    "cifar-100-binary",
    "cifar-100-python",
    ("train",),
    "test",
    label_bytes=2,
    label_key="fine_labels",
)


def load_cifar(layout: Layout, root: Path) -> tuple[Split, Split]:
    """Read the training and the test part from whichever layout lies below `root` (the binary one first)."""
    if (root / layout.binary).is_dir():
        folder, read = root / layout.binary, _read_binary
    elif (root / layout.python).is_dir():
        folder, read = root / layout.python, _read_python
    else:
        raise NesbsError(
            f"{root} has no folder {layout.binary} or {layout.python}: unpack a release of {layout.title} there "
            f"(data.root), or fetch it with `nesbs datasets {layout.title.lower().replace('-', '')} --root {root} "
            "--download`"
        )
    train = make_split(*read(layout, folder, layout.train), layout.classes, source=str(folder))
    return train, make_split(*read(layout, folder, (layout.test,)), layout.classes, source=str(folder), like=train)


def _read_binary(layout: Layout, folder: Path, names: Sequence[str]) -> tuple[Tensor, Tensor]:
    paths = [folder / f"{name}.bin" for name in names]
    record = layout.label_bytes + PIXELS
    counts = [_count(path, record) for path in paths]

    def parts() -> Iterator[Part]:
        for path, count in zip(paths, counts, strict=True):
            with open(path, "rb") as file:
                for start in range(0, count, AT_ONCE):
                    size = min(AT_ONCE, count - start)
                    records = np.frombuffer(file.read(size * record), dtype=np.uint8).reshape(size, record)
                    yield records[:, layout.label_bytes :], records[:, layout.label_bytes - 1].astype(np.int64)

    return fill(parts(), sum(counts), (3, 32, 32))


def _count(path: Path, record: int) -> int:
    if not path.is_file():
        raise NesbsError(f"there is no file {path}: the copy is not whole, unpack the release again")
    size = path.stat().st_size
    if size == 0 or size % record:
        raise NesbsError(f"{path} is {size} bytes long, not a multiple of {record}: it is cut short, copy it again")
    return size // record


def _read_python(layout: Layout, folder: Path, names: Sequence[str]) -> tuple[Tensor, Tensor]:
    return joined(list(read_labelled(folder, names, layout.label_key, PIXELS, "the release")), (3, 32, 32))


def joined(parts: list[Part], shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """Join all parts: images (images, *shape) and labels (images,).

    The list is emptied, so that each part is freed as soon as it has been copied.
    """
    count = sum(len(labels) for _, labels in parts)
    return fill((parts.pop(0) for _ in range(len(parts))), count, shape)


def fill(parts: Iterator[Part], count: int, shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """Copy parts into new tensors: images (count, *shape) uint8 and labels (count,)."""
    images, labels = np.empty((count, *shape), dtype=np.uint8), np.empty(count, dtype=np.int64)
    done = 0
    for pixels, numbers in parts:
        end = done + len(numbers)
        images[done:end], labels[done:end], done = pixels.reshape(-1, *shape), numbers, end
    return torch.from_numpy(images), torch.from_numpy(labels)
