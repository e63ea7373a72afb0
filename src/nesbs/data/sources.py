"""From a name, a folder or a file to a `Dataset`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import Field

from nesbs.data.arrays import load_npz
from nesbs.data.cifar import FOLDER, load_cifar10
from nesbs.data.folder import load_folder
from nesbs.data.split import Dataset, Split, stratified
from nesbs.errors import NesbsError, did_you_mean
from nesbs.settings import Settings

FASHION_CLASSES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)


@dataclass(frozen=True)
class Named:
    """A data set known by name: what it is and what it needs."""

    about: str
    needs_root: bool


DATASETS = {
    "fashion-mini": Named(
        "part of Fashion-MNIST, 6,000 + 2,000 grey images 28×28, 10 classes; inside the package", False
    ),
    "cifar10": Named(
        f"CIFAR-10, 50,000 + 10,000 colour images 32×32, 10 classes; needs data.root with {FOLDER}/", True
    ),
}


class DataSettings(Settings):
    """What comes in (recipe section `data`)."""

    name: str = Field("fashion-mini", description="a name from `nesbs datasets`, a folder or an .npz file")
    root: str | None = Field(None, description="the folder that holds a named data set's own folder")
    size: int | None = Field(None, ge=8, description="resize images to this many pixels a side")
    valid_fraction: float = Field(0.3, gt=0, lt=1, description="held out from the supernet (paper, app. B.2)")
    split_seed: int = Field(0, ge=0, description="which images those are; the same for all seeds of a comparison")
    train_limit: int | None = Field(None, ge=2, description="use about so many training images")
    test_limit: int | None = Field(None, ge=1, description="use about so many test images")

    def resolved(self) -> DataSettings:
        """The same with whole paths, so that a run can go on from another folder."""

        def whole(path: str) -> str:
            return str(Path(path).expanduser().resolve())

        named = self.name in DATASETS
        root = None if self.root is None else whole(self.root)
        return self.model_copy(update={"name": self.name if named else whole(self.name), "root": root})


def load_dataset(name: str | Path = "fashion-mini", *, root: str | Path | None = None, **settings: object) -> Dataset:
    """Load a data set by name, from a folder of images or from an `.npz` file.

    `root` is the parent of a named data set's own folder (of `cifar-10-batches-bin` and the like). The
    other settings are those of the recipe's section `data`: `size`, `valid_fraction`, `split_seed`,
    `train_limit`, `test_limit`.

    >>> data = load_dataset("fashion-mini")
    >>> data.train.images.shape, len(data.search_train), len(data.search_valid)
    (torch.Size([6000, 1, 28, 28]), 4200, 1800)
    """
    chosen = DataSettings.of({"name": str(name), "root": None if root is None else str(root), **settings})
    train, test = _load(chosen)
    if chosen.size is not None:
        train, test = _resize(train, chosen.size), _resize(test, chosen.size)
    if chosen.train_limit:
        train = _limit(train, chosen.train_limit)
    if chosen.test_limit:
        test = _limit(test, chosen.test_limit)
    short = chosen.name if chosen.name in DATASETS else Path(chosen.name).name
    return Dataset(short, train, test, chosen.valid_fraction, chosen.split_seed)


def _load(settings: DataSettings) -> tuple[Split, Split]:
    if settings.name in DATASETS:
        if not DATASETS[settings.name].needs_root:
            return _fashion_mini()
        if settings.root is None:
            raise NesbsError(f"data set {settings.name} needs data.root: the folder that holds {FOLDER}")
        return load_cifar10(Path(settings.root).expanduser())
    path = Path(settings.name).expanduser()
    if path.is_dir():
        return load_folder(path, settings.size)
    if path.suffix == ".npz" or path.is_file():
        return load_npz(path)
    raise NesbsError(f"no data set, folder or .npz file {settings.name}: {did_you_mean(settings.name, DATASETS)}")


def _fashion_mini() -> tuple[Split, Split]:
    train, test = load_npz(Path(__file__).with_name("fashion_mini.npz"))
    return tuple(Split(s.stored, s.labels, FASHION_CLASSES, s.mean, s.std) for s in (train, test))  # type: ignore[return-value]


def _resize(split: Split, size: int) -> Split:
    if split.size == (size, size):
        return split
    images = torch.empty(len(split), split.channels, size, size, dtype=torch.uint8)
    for part in torch.arange(len(split)).split(1000):  # floats take four times the room: a few images at a time
        resized = torch.nn.functional.interpolate(
            split.bytes(part).float(), (size, size), mode="bilinear", antialias=True, align_corners=False
        )
        images[part] = resized.round_().clamp_(0, 255).to(torch.uint8)
    return Split(images, split.labels, split.class_names, split.mean, split.std)


def _limit(split: Split, count: int) -> Split:
    """A random part with every class in proportion."""
    if count >= len(split):
        return split
    return split.subset(stratified(split.labels, 1 - count / len(split), seed=0)[0]).compact()
