"""Load a `Dataset` by name, from a folder or from a file, and describe it in a few lines of text."""

import hashlib
import os
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal
from zipfile import is_zipfile

import torch

from nesbs import files, rng
from nesbs.data.arrays import load_npz
from nesbs.data.conversion import converted
from nesbs.data.dataset import Dataset, stratified
from nesbs.data.image_files import CSV
from nesbs.data.image_folder import SAMPLE, load_folder, load_imagenet
from nesbs.data.images import View
from nesbs.data.published import CIFAR, FASHION_CLASSES, load_cifar, load_fashion_mnist, load_imagenet16
from nesbs.data.settings import DATASETS, IN_MEMORY, DataSettings
from nesbs.data.split import Split, digest_of
from nesbs.data.streaming import FileImages
from nesbs.errors import NesbsError, did_you_mean, expect
from nesbs.settings import checked_keywords

DEFAULT = DataSettings()


@checked_keywords
def load_dataset(
    name: str | Path = DEFAULT.name,
    *,
    root: str | Path | None = DEFAULT.root,
    size: int | None = DEFAULT.size,
    resize: Literal["crop", "stretch", "pad"] = DEFAULT.resize,
    valid_fraction: float = DEFAULT.valid_fraction,
    split_seed: int = DEFAULT.split_seed,
    calibration_fraction: float = DEFAULT.calibration_fraction,
    class_weights: Literal["none", "balanced"] = DEFAULT.class_weights,
    rare_classes: tuple[str, ...] = DEFAULT.rare_classes,
    rare_fraction: float = DEFAULT.rare_fraction,
    train_limit: int | None = DEFAULT.train_limit,
    test_limit: int | None = DEFAULT.test_limit,
    stream: Literal["auto", "always", "never"] = DEFAULT.stream,
    memory_limit: float = DEFAULT.memory_limit,
    workers: int | None = DEFAULT.workers,
    random_crop: bool | None = DEFAULT.random_crop,
    broken_limit: int = DEFAULT.broken_limit,
) -> Dataset:
    """Load a data set by name, from a folder of images, an `.npz` file or a CSV file of paths and labels.

    `root` is the parent of a named data set's own folder (of `cifar-10-batches-bin` and the like). All settings are
    those of the recipe's section `data` (`DataSettings`).

    >>> data = load_dataset("fashion-mini")
    >>> data.train.images.shape, len(data.search_train), len(data.search_valid)
    (torch.Size([6000, 1, 28, 28]), 4200, 1800)
    """
    arguments = locals()
    expect(name, (str, Path), "name must be the name of a data set, a folder, an .npz or a .csv file")
    expect(root, (str, Path, type(None)), "root must be a folder")
    paths = {"name": str(name), "root": None if root is None else str(root)}
    settings = DataSettings.from_arguments({**arguments, **paths})
    train, test, broken, view, digest = _load(settings)
    train = _with_rare_classes(train, settings)
    if settings.train_limit:
        train = _limit(train, settings.train_limit, seed=settings.split_seed)
    train, aside = _set_aside(train, settings)
    if settings.class_weights == "balanced":
        train = train.balanced()
    if settings.test_limit:
        test = _limit(test, settings.test_limit, seed=0)
    if settings.size is not None:
        train, test = (_sized(split, settings.size) for split in (train, test))
        aside = None if aside is None else _sized(aside, settings.size)
    split = settings.valid_fraction, settings.split_seed
    return Dataset(settings.short_name, train, test, *split, broken, view, aside, digest)


def _sized(split: Split, size: int) -> Split:
    return converted(split, channels=split.channels, size=(size, size))


def _set_aside(train: Split, settings: DataSettings) -> tuple[Split, Split | None]:
    """The training images without those for calibration, and these; None where none are asked for."""
    if settings.calibration_fraction == 0:
        return train, None
    seed = rng.derive(settings.split_seed, "calibration")  # else the search would hold out the same order's next images
    rest, aside = stratified(train.labels, settings.calibration_fraction, seed=seed)
    return train.subset(rest), train.subset(aside)


def _load(settings: DataSettings) -> tuple[Split, Split, tuple[str, ...], View | None, str]:
    if settings.name == "imagenet":
        return load_imagenet(_root(settings), settings)
    path = files.expanded(settings.name)
    if is_in_files(settings.name):
        return load_folder(path, settings)
    train, test = _whole(settings, path)
    if settings.resize != "crop":
        raise NesbsError(f"data.resize={settings.resize} is for image files; {settings.name} has none")
    if settings.stream == "always" or settings.random_crop:
        key = "data.stream=always" if settings.stream == "always" else "data.random_crop"
        raise NesbsError(f"{key} is for image files and imagenet; {settings.name} is kept in memory")
    return train, test, (), None, digest_of(train, test)


def is_in_files(name: str) -> bool:
    """Whether a data set is a folder of images or a CSV file of their paths.

    >>> is_in_files("fashion-mini"), is_in_files("labels.csv")
    (False, True)
    """
    path = files.expanded(name)
    return bool(name) and name not in DATASETS and (os.path.isdir(path) or path.suffix.lower() == CSV)


def _whole(settings: DataSettings, path: Path) -> tuple[Split, Split]:
    """A data set that is read into memory as it is."""
    if settings.name == "fashion-mini":
        return deepcopy(_fashion_mini())
    if settings.name == "fashion-mnist":
        return load_fashion_mnist(_root(settings))
    if settings.name in CIFAR:
        return load_cifar(settings.name, _root(settings))
    if settings.name == "imagenet16-120":
        return load_imagenet16(_root(settings))
    if path.suffix.lower() in (".npz", ".npy") or (os.path.isfile(path) and is_zipfile(path)):
        return load_npz(path, settings.memory_limit)
    name = settings.name[:200]
    if name.startswith(IN_MEMORY):
        raise NesbsError("this run's images were arrays in memory: `fit` with the same arrays goes on with it")
    moved = ""
    if path.is_absolute() and not os.path.exists(path):
        moved = " (if it was moved, put a link to it there; commands on a trained run take its place by --root)"
    choices = did_you_mean(path.name, DATASETS)  # a run's recipe has the whole path
    raise NesbsError(f"no data set, folder, .npz or .csv file {name or repr(name)}{moved}: {choices}")


@cache  # comparisons and experiments would unpack the 6 MB again for every run
def _fashion_mini() -> tuple[Split, Split]:
    train, test = load_npz(Path(__file__).with_name("fashion_mini.npz"))
    return replace(train, class_names=FASHION_CLASSES), replace(test, class_names=FASHION_CLASSES)


def _root(settings: DataSettings) -> Path:
    if settings.root is None:
        raise NesbsError(
            f"data set {settings.name} needs data.root: the folder that holds {DATASETS[settings.name].needs} "
            "(--set data.root=FOLDER; for a trained run --root FOLDER)"
        )
    return files.expanded(settings.root)


def _limit(split: Split, count: int, *, seed: int) -> Split:
    """A random part with every class in proportion."""
    if count >= len(split):
        return split
    return split.subset(stratified(split.labels, 1 - count / len(split), seed=seed)[0]).compact()


def _with_rare_classes(train: Split, settings: DataSettings) -> Split:
    """The training images with a random part of those of the rare classes, each in proportion; the order stays."""
    for name in settings.rare_classes:
        if name not in train.class_names:
            raise NesbsError(f"data.rare_classes: there is no class {name}: {did_you_mean(name, train.class_names)}")
    if not settings.rare_classes:
        return train
    labels = train.labels.cpu()
    numbers = torch.tensor([train.class_names.index(name) for name in settings.rare_classes])
    rare = torch.isin(labels, numbers) & (labels.bincount()[labels] > 1)  # a class's only image stays
    seed = rng.derive(settings.split_seed, "rare classes")
    kept = rare.nonzero()[:, 0][stratified(labels[rare], settings.rare_fraction, seed=seed)[1]]
    return train.subset(torch.cat([(~rare).nonzero()[:, 0], kept]).sort().values).compact()


def describe(data: Dataset) -> str:
    """Describe a data set: counts, sizes, mean and deviation, where the images are, every class, and what was left out.

    Test images that are training images, too, are counted, unless they are streamed.

    >>> print(describe(load_dataset(train_limit=100, test_limit=20)).partition("T-shirt")[0], end="")
    fashion-mini: 100 training and 20 test images, 28×28
    channels 1, mean 0.2873, deviation 0.3540
    kept in memory: 94,080 bytes
    """
    return "\n".join(_lines(data))


def _lines(data: Dataset) -> Iterator[str]:
    train, test = data.train, data.test
    height, width = train.size
    yield f"{data.name}: {len(train)} training and {len(test)} test images, {height}×{width}"
    if data.calibration is not None:
        yield f"{len(data.calibration)} further training images set aside for calibration"
    mean, deviation = (", ".join(f"{value:.4f}" for value in values.tolist()) for values in (train.mean, train.std))
    origin = ""
    if data.name == "imagenet":
        origin = " (as published)"
    elif train.streamed and len(train.stored) > SAMPLE:
        origin = f" (of {SAMPLE:,} training images)"
    yield f"channels {train.channels}, mean {mean}, deviation {deviation}{origin}"
    needed = (len(train) + len(test)) * train.channels * height * width
    if isinstance(train.stored, FileImages):
        workers = train.stored.workers
        readers = f"{workers} process{'' if workers == 1 else 'es'}" if workers else "the training process itself"
        yield f"streamed from their files by {readers}; in memory they would be {needed:,} bytes"
        if train.stored.random_crop:
            yield "training sees random parts of the images, resized"
    else:
        yield f"kept in memory: {needed:,} bytes"
    counts = [split.labels.bincount(minlength=split.classes).tolist() for split in (train, test)]
    for name, in_train, in_test in zip(train.class_names, *counts, strict=True):
        yield f"{name}\n    {in_train} training, {in_test} test"
    if both := in_both_parts(data):
        yield both
    if data.broken:
        yield f"{len(data.broken)} {'image is' if len(data.broken) == 1 else 'images are'} left out:"
        yield from (f"    {reason}" for reason in data.broken)


def in_both_parts(data: Dataset) -> str | None:
    """Say how many training images are test images, too; None where none is, or where they are streamed."""
    if data.train.streamed or not (both := len(_distinct(data.train).intersection(_distinct(data.test)))):
        return None
    what = "image is a test image" if both == 1 else "images are test images"
    return f"{both} training {what}, too: remove one of the two, or the error looks lower than it is"


def _distinct(split: Split) -> set[bytes]:
    """A digest of each different image."""
    parts = torch.arange(len(split), device=split.device).split(1000)
    images = (image for part in parts for image in split.bytes(part).cpu().numpy())
    return {hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in images}
