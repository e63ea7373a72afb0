"""The recipe's section `data`, and the data sets known by name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from nesbs import files
from nesbs.settings import MAX_IMAGES, MAX_PIXELS, MAX_SEED, Settings


@dataclass(frozen=True)
class Named:
    """A data set known by name: what it is, and what must lie below `data.root` (nothing for one in the package)."""

    about: str
    needs: str | None
    train_images: int
    image: tuple[int, int, int]  # channels, height, width
    classes: int


DATASETS = {
    "fashion-mini": Named(
        "part of Fashion-MNIST, 6,000 + 2,000 grey images 28×28, 10 classes; inside the package",
        None,
        train_images=6_000,
        image=(1, 28, 28),
        classes=10,
    ),
    "fashion-mnist": Named(
        "Fashion-MNIST, 60,000 + 10,000 grey images 28×28, 10 classes",
        "its four files, train-images-idx3-ubyte and so on, as they are or as .gz (or fashion-mnist/ with them)",
        train_images=60_000,
        image=(1, 28, 28),
        classes=10,
    ),
    "cifar10": Named(
        "CIFAR-10, 50,000 + 10,000 colour images 32×32, 10 classes; --download fetches it",
        "cifar-10-batches-bin/ or cifar-10-batches-py/",
        train_images=50_000,
        image=(3, 32, 32),
        classes=10,
    ),
    "cifar100": Named(
        "CIFAR-100, 50,000 + 10,000 colour images 32×32, 100 classes; --download fetches it",
        "cifar-100-binary/ or cifar-100-python/",
        train_images=50_000,
        image=(3, 32, 32),
        classes=100,
    ),
    "imagenet16-120": Named(
        "ImageNet16-120, 151,700 + 6,000 colour images 16×16, 120 classes",
        "ImageNet16/ with train_data_batch_1 to 10 and val_data",
        train_images=151_700,
        image=(3, 16, 16),
        classes=120,
    ),
    "imagenet": Named(
        "ImageNet (ILSVRC 2012), 1,281,167 + 50,000 colour images, 1,000 classes, streamed at 224×224",
        "train/ and val/ (or imagenet/train/ and imagenet/val/) of a folder a class",
        train_images=1_281_167,
        image=(3, 224, 224),
        classes=1_000,
    ),
}


IN_MEMORY = "<arrays "  # begins the name of images that were given in memory, in the recipe of their run


class DataSettings(Settings):
    """Which images are used and how they are read (recipe section `data`)."""

    name: str = Field("fashion-mini", description="a name from `nesbs datasets`, a folder, an .npz or a .csv file")
    root: str | None = Field(None, description="the folder that holds a named data set's own folder")
    size: int | None = Field(None, ge=8, le=MAX_PIXELS, description="resize images to this many pixels a side")
    resize: Literal["crop", "stretch", "pad"] = Field(
        "crop", description="how a folder's images become square: the middle, all of it stretched, or black bars"
    )
    valid_fraction: float = Field(0.3, gt=0, lt=1, description="held out from the supernet (paper, app. B.2)")
    split_seed: int = Field(
        0,
        ge=0,
        le=MAX_SEED,
        description="which images those are, and those of train_limit and rare_classes; the same for all seeds of a "
        "comparison",
    )
    calibration_fraction: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="of the training images, set aside first: the temperature, thresholds and sets are fitted to "
        "them, and nothing else sees them; 0: to half of the test images",
    )
    class_weights: Literal["none", "balanced"] = Field(
        "none", description="balanced: training shows every class as often, however few images it has"
    )
    rare_classes: tuple[str, ...] = Field(
        (), description="names of classes of which few training images are used, to try the method on such data"
    )
    rare_fraction: float = Field(0.1, gt=0, lt=1, description="of the training images of rare_classes that are used")
    train_limit: int | None = Field(
        None, ge=2, le=MAX_IMAGES, description="use about so many training images, each class in proportion"
    )
    test_limit: int | None = Field(None, ge=1, le=MAX_IMAGES, description="use about so many test images")
    stream: Literal["auto", "always", "never"] = Field(
        "auto", description="read a folder's images as they are needed; auto: ImageNet, and what exceeds memory_limit"
    )
    memory_limit: float = Field(
        8.0,
        gt=0,
        le=1e6,
        description="GiB that images may take: a folder's stream beyond it, an .npz file's are refused",
    )
    workers: int | None = Field(
        None,
        ge=0,
        le=256,
        description="processes that read streamed images, 0: none; by default the cores less one, at most 8",
    )
    random_crop: bool | None = Field(
        None, description="train on random parts of streamed images, resized; by default for ImageNet alone"
    )
    broken_limit: int = Field(10, ge=0, le=MAX_IMAGES, description="leave out up to so many images that cannot be read")

    @field_validator("rare_classes", mode="before")
    @classmethod
    def _texts(cls, names: object) -> object:
        """Class names that YAML takes for numbers are texts; those that it takes for true or false it has changed."""
        if not isinstance(names, list | tuple):
            return names
        if any(isinstance(name, bool) for name in names):
            raise ValueError('classes named yes, no, on, off, true or false need quotes: ["yes"]')
        return tuple(str(name) if isinstance(name, int) else name for name in names)

    @property
    def named(self) -> bool:
        """Return whether `name` is no path."""
        return self.name in DATASETS or not self.name or self.name.startswith(IN_MEMORY)

    @property
    def short_name(self) -> str:
        """What records call the data: of a path its last part, since the folders above are the user's own.

        >>> DataSettings(name="cifar10").short_name, DataSettings(name="/home/me/photos").short_name
        ('cifar10', 'photos')
        """
        return self.name if self.name in DATASETS else Path(self.name).name

    def resolved(self) -> DataSettings:
        """Return the same with absolute paths, so that a run can be resumed from another folder."""

        def whole(path: str) -> str:
            return os.path.realpath(files.expanded(path))

        root = None if self.root is None else whole(self.root)
        return self.model_copy(update={"name": self.name if self.named else whole(self.name), "root": root})

    def moved(self, place: str) -> DataSettings:
        """Return the same where the data lie elsewhere now: the folder of a named data set, or the user's own data."""
        return self.model_copy(update={"root" if self.named else "name": place}).resolved()
