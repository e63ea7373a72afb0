"""Published data sets in their own layouts below `root`, and fetching those that torchvision fetches.

CIFAR-10 and CIFAR-100 have two official layouts, binary and Python pickles. ImageNet16-120 is pickles in the folder
`ImageNet16` that hold all 1,000 classes of ImageNet at 16×16, labelled from 1; the data set is the first 120 of them
(NAS-Bench-201), 151,700 training images and, for testing, the 6,000 of `val_data`. Fashion-MNIST is four files in
MNIST's own layout (idx), usually packed with gzip.
"""

import gzip
import importlib
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from nesbs.data.pickles import Part, read_labelled
from nesbs.data.settings import DATASETS
from nesbs.data.split import Split, make_split
from nesbs.errors import NesbsError, did_you_mean

CIFAR_SHAPE = (3, 32, 32)
AT_ONCE = 1000  # records of a binary file that are read together
IMAGENET16_CLASSES, IMAGENET16_SHAPE = 120, (3, 16, 16)
FASHION_SHAPE = (1, 28, 28)
FASHION_LARGEST = 60_000 * math.prod(FASHION_SHAPE)  # bytes of its largest file, unpacked
FASHION_PLACES = ("", "fashion-mnist", "FashionMNIST/raw")  # below data.root; the last is torchvision's
ELSEWHERE = {  # how to get what torchvision does not fetch
    "fashion-mnist": "is given out at github.com/zalandoresearch/fashion-mnist, and is in Debian's package "
    "dataset-fashion-mnist: put its four files into one folder",
    "fashion-mini": "is inside the package: there is nothing to fetch",
    "imagenet": "is given out by image-net.org to those who register: unpack ILSVRC 2012 into train/ and val/",
    "imagenet16-120": "is given out with NAS-Bench-201 (github.com/D-X-Y/NAS-Bench-201): unpack it into ImageNet16/",
}
_FASHION = "T-shirt/top, trouser, pullover, dress, coat, sandal, shirt, sneaker, bag, ankle boot"
FASHION_CLASSES = tuple(_FASHION.split(", "))
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


BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))
CIFAR = {
    "cifar10": Layout(
        "CIFAR-10", CLASSES_10, "cifar-10-batches-bin", "cifar-10-batches-py", BATCHES, "test_batch", 1, "labels"
    ),
    "cifar100": Layout(
        "CIFAR-100", CLASSES_100, "cifar-100-binary", "cifar-100-python", ("train",), "test", 2, "fine_labels"
    ),
}


def load_cifar(name: str, root: Path) -> tuple[Split, Split]:
    """Read both parts of `cifar10` or `cifar100` from whichever layout lies below `root`, the binary one first."""
    layout = CIFAR[name]
    if (root / layout.binary).is_dir():
        folder, read = root / layout.binary, _read_binary
    elif (root / layout.python).is_dir():
        folder, read = root / layout.python, _read_python
    else:
        raise NesbsError(
            f"{root} has no folder {layout.binary} or {layout.python}: unpack a release of {layout.title} there "
            f"(data.root), or fetch it with `nesbs datasets {name} --root {root} --download`"
        )
    train = make_split(*read(layout, folder, layout.train), layout.classes, source=str(folder))
    return train, make_split(*read(layout, folder, (layout.test,)), layout.classes, source=str(folder), like=train)


def load_imagenet16(root: Path) -> tuple[Split, Split]:
    """Read the training and the test part; classes are called by their published numbers, "1" to "120"."""
    folder = root / "ImageNet16"
    if not folder.is_dir():
        raise NesbsError(f"{root} has no folder ImageNet16: unpack it as NAS-Bench-201 gives it out (data.root)")
    names = tuple(str(number) for number in range(1, IMAGENET16_CLASSES + 1))
    files = [f"train_data_batch_{number}" for number in range(1, 11)]
    train = make_split(*_read_imagenet16(folder, files), names, source=str(folder))
    return train, make_split(*_read_imagenet16(folder, ("val_data",)), names, source=str(folder), like=train)


def load_fashion_mnist(root: Path) -> tuple[Split, Split]:
    """Read both parts of Fashion-MNIST from the folder below `root` that holds its files."""
    parts = []
    for part in ("train", "t10k"):
        images = _read_idx(_idx_file(root, f"{part}-images-idx3-ubyte"), FASHION_SHAPE[1:])
        labels = _read_idx(_idx_file(root, f"{part}-labels-idx1-ubyte"), ())
        parts.append((torch.from_numpy(images).reshape(-1, *FASHION_SHAPE), torch.from_numpy(labels.astype(np.int64))))
    train = make_split(*parts[0], FASHION_CLASSES, source=f"{root}, training part")
    return train, make_split(*parts[1], FASHION_CLASSES, source=f"{root}, test part", like=train)


def download(name: str, root: Path) -> bool:
    """Fetch CIFAR-10 or CIFAR-100 into `root` through torchvision unless it is there; return whether it was fetched."""
    if name in ELSEWHERE:
        raise NesbsError(f"--download: {name} {ELSEWHERE[name]}")
    if name not in CIFAR:
        raise NesbsError(f"--download takes a named data set, found {name}: {did_you_mean(name, DATASETS)}")
    layout = CIFAR[name]
    if any((root / folder).is_dir() for folder in (layout.binary, layout.python)):
        return False
    try:
        datasets = importlib.import_module("torchvision.datasets")
    except ModuleNotFoundError:
        raise NesbsError("--download needs torchvision: install it with `pip install 'nesbs[vision]'`") from None
    except Exception as error:  # its compiled part does not fit every torch
        raise NesbsError(
            f"--download: torchvision is installed but cannot be imported ({_first_line(error)}): install the one "
            "made for this torch with `pip install 'nesbs[vision]'`"
        ) from None
    try:
        root.mkdir(parents=True, exist_ok=True)
        getattr(datasets, name.upper())(root=str(root), download=True)
    except (OSError, RuntimeError, EOFError) as error:
        raise NesbsError(
            f"--download: {name} could not be fetched ({_first_line(error)}): is there a network? Else copy "
            f"{layout.binary} or {layout.python} into {root}"
        ) from None
    return True


def _read_binary(layout: Layout, folder: Path, names: Sequence[str]) -> tuple[Tensor, Tensor]:
    length = layout.label_bytes + math.prod(CIFAR_SHAPE)
    paths = [folder / f"{name}.bin" for name in names]
    for path in paths:
        if not path.is_file():
            raise NesbsError(f"there is no file {path}: the copy is not whole, unpack the release again")
        size = path.stat().st_size
        if size == 0 or size % length:
            raise NesbsError(f"{path} is {size} bytes long, not a multiple of {length}: it is cut short, copy it again")

    def pieces() -> Iterator[Part]:  # read one at a time, so that a set is never in memory twice
        for path in paths:
            with open(path, "rb") as file:
                while content := file.read(AT_ONCE * length):
                    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, length)
                    yield records[:, layout.label_bytes :], records[:, layout.label_bytes - 1]

    return _joined(pieces(), sum(path.stat().st_size for path in paths) // length, CIFAR_SHAPE)


def _read_python(layout: Layout, folder: Path, names: Sequence[str]) -> tuple[Tensor, Tensor]:
    pickles = read_labelled(folder, names, layout.label_key, math.prod(CIFAR_SHAPE), "the release")
    parts = list(pickles)
    return _joined(_emptied(parts), sum(len(labels) for _, labels in parts), CIFAR_SHAPE)


def _read_imagenet16(folder: Path, names: Sequence[str]) -> tuple[Tensor, Tensor]:
    parts: list[Part] = []
    pickles = read_labelled(folder, names, "labels", math.prod(IMAGENET16_SHAPE), "ImageNet16")
    for name, (images, labels) in zip(names, pickles, strict=True):
        low, high = labels.min(), labels.max()
        if low < 1 or high > 1000:
            raise NesbsError(f"{folder / name}: labels must lie between 1 and 1000, found {low} to {high}")
        first = labels <= IMAGENET16_CLASSES
        parts.append((images[first], labels[first] - 1))
    return _joined(_emptied(parts), sum(len(labels) for _, labels in parts), IMAGENET16_SHAPE)


def _idx_file(root: Path, name: str) -> Path:
    """The file of this name, packed or not, in any of the folders that may hold it."""
    for place in FASHION_PLACES:
        for path in (root / place / name, root / place / f"{name}.gz"):
            if path.is_file():
                return path
    raise NesbsError(f"{root} has no file {name} or {name}.gz: put the four files of Fashion-MNIST there (data.root)")


def _read_idx(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """The bytes of an idx file, (items, *shape): two zeros, 8 for bytes, the number of axes, their lengths, the items.

    Lengths are four bytes each, the highest first.
    """
    axes = 1 + len(shape)
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            head = np.frombuffer(file.read(4 + 4 * axes), dtype=np.uint8)
            start, lengths = head[:4].tolist(), head[4:].view(">u4").tolist() if len(head) == 4 + 4 * axes else []
            if start != [0, 0, 8, axes] or tuple(lengths[1:]) != shape:
                raise NesbsError(f"{path} is not what Fashion-MNIST has there (found the bytes {bytes(head).hex()})")
            wanted = math.prod(lengths)
            content = file.read(min(wanted, FASHION_LARGEST) + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise NesbsError(f"{path} cannot be read ({_first_line(error)}): copy it again") from None
    if len(content) != wanted:
        raise NesbsError(f"{path} says that it holds {wanted:,} bytes and does not: it is cut short, copy it again")
    return np.frombuffer(bytearray(content), dtype=np.uint8).reshape(lengths)


def _emptied(parts: list[Part]) -> Iterator[Part]:
    """Hand out every part and drop it from the list, so that it is freed as soon as it has been copied."""
    while parts:
        yield parts.pop(0)


def _joined(parts: Iterator[Part], count: int, shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """Copy parts into tensors made once: images (count, *shape) uint8 and labels (count,) int64."""
    images, labels = np.empty((count, *shape), dtype=np.uint8), np.empty(count, dtype=np.int64)
    done = 0
    for pixels, numbers in parts:
        end = done + len(numbers)
        images[done:end], labels[done:end], done = pixels.reshape(-1, *shape), numbers, end
    return torch.from_numpy(images), torch.from_numpy(labels)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
