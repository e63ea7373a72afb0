"""Read images in files into splits: a folder of a sub-folder a class, ImageNet, or a CSV of paths and labels."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import torch

from nesbs.data.arrays import TEST_FRACTION
from nesbs.data.dataset import stratified
from nesbs.data.image_files import TEST_NAMES, ImageFiles, find_parts
from nesbs.data.images import Broken, View, read_header
from nesbs.data.settings import DataSettings
from nesbs.data.split import MeanStd, Split, channel_statistics, make_split
from nesbs.data.streaming import FileImages, default_workers
from nesbs.errors import NesbsError
from nesbs.rng import generator

LARGEST = 64  # pixels a side unless asked for: NAS-Bench-201 networks are made for small images
SIZED = 100_000  # files of a folder, up to which their sizes count for its digest
SAMPLE = 2000  # training images that a streamed folder's mean and deviation are taken from
IMAGENET_SIDE = 224
IMAGENET_SHARE = 0.875  # of the shorter side, for testing: 224 of 256
IMAGENET_STATISTICS = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])  # as published


class FolderParts(NamedTuple):
    """What a folder holds: both parts, the reasons why some images were left out, and how its images are read.

    `digest` is a short text that other files have not.
    """

    train: Split
    test: Split
    broken: tuple[str, ...]
    view: View
    digest: str


def load_folder(
    path: Path,
    settings: DataSettings,
    *,
    test_names: Sequence[str] = TEST_NAMES,
    share: float = 1.0,
    colour: bool = False,
    mean_std: MeanStd | None = None,
) -> FolderParts:
    """Load the training part, the test part, the reasons why some images could not be read, and how they are read.

    `path` is a folder or a CSV file. Without `test/` (or `val/`) the images are split for you.

    Images go to `size` × `size`, by default to the multiple of 4 nearest to their median shorter side (at
    most 64): every search space takes that. Grey images stay grey unless a colour image is among them
    (`colour`: always in colour). Where they are too many to be kept (`data.stream`) they stay in their
    files; their mean and deviation are then those of 2,000 training images, the same at every start.
    """
    workers = default_workers() if settings.workers is None else settings.workers
    train_files, test_files = find_parts(path, test_names)
    broken = Broken(settings.broken_limit)
    train, headers = _readable(train_files, broken, workers)
    if test_files is not None:
        test, more = _readable(_like(train, test_files), broken, workers)
        headers += more
    else:
        rest, held_out = stratified(train.labels, TEST_FRACTION, seed=0)
        if len(held_out) == 0:
            raise NesbsError(f"{path}: too few images to hold some out for testing; put at least two in each class")
        train, test = train.at(rest), train.at(held_out)
    side = settings.size or min(LARGEST, nearest_multiple(median(short for short, _ in headers)))
    grey = not colour and all(grey for _, grey in headers)
    view = View("L" if grey else "RGB", side, settings.resize, share)
    digest = _digest(train, test)
    images = train.images(view, broken, workers, bool(settings.random_crop))
    needed = len(headers) * images.shape[1:].numel()
    if settings.stream == "always" or (settings.stream == "auto" and needed > settings.memory_limit * 2**30):
        if mean_std is None:
            sample = torch.randperm(len(images), generator=generator(0, "statistics"))[:SAMPLE]
            mean_std = channel_statistics(images[sample])
            # What turned out to be broken is left out while that is easy.
            train = train.at([place for place, file in enumerate(train.files) if file not in broken.reasons])
            images = train.images(view, broken, workers, images.random_crop)
        first = make_split(images, train.labels, train.names, source=str(train.source), mean_std=mean_std)
        others = test.images(view, broken, workers)
        second = make_split(others, test.labels, train.names, source=str(test.source), like=first)
    else:
        if settings.random_crop:
            raise NesbsError(f"{path}: data.random_crop works on streamed images: set data.stream=always")
        first = _resident(train, images, mean_std=mean_std)
        second = _resident(test, test.images(view, broken, workers), like=first)
    return FolderParts(first, second, tuple(broken.reasons.values()), view, digest)


def load_imagenet(root: Path, settings: DataSettings) -> FolderParts:
    """Load ImageNet: streamed, in colour, with the published mean and deviation.

    For training a random part of each image is resized, for testing the middle square of 87.5 % of its shorter side.
    """
    folders = [folder for folder in (root, root / "imagenet") if (folder / "train").is_dir()]
    if not folders or not (folders[0] / "val").is_dir():
        raise NesbsError(f"{root} has no folders train and val (nor imagenet/train and imagenet/val) of ImageNet")
    changes: dict[str, object] = {"size": settings.size or IMAGENET_SIDE}
    if settings.stream != "never":
        changes |= {"stream": "always", "random_crop": settings.random_crop is not False}
    chosen = settings.model_copy(update=changes)
    return load_folder(
        folders[0],
        chosen,
        test_names=("val",),  # images in test/ have no labels
        share=IMAGENET_SHARE,
        colour=True,
        mean_std=IMAGENET_STATISTICS,
    )


def nearest_multiple(side: float) -> int:
    """Return the multiple of 4 nearest to `side`, at least 8.

    >>> nearest_multiple(30), nearest_multiple(29), nearest_multiple(3)
    (32, 28, 8)
    """
    return max(8, int((side + 2) // 4) * 4)


def _like(train: ImageFiles, test: ImageFiles) -> ImageFiles:
    """The test part with the training part's class names and labels."""
    strangers = sorted(set(test.names) - set(train.names))
    if strangers:
        where = f"is in {test.source} for testing alone, not in {train.source} for training"
        raise NesbsError(f"class {strangers[0]} {where}")
    number = torch.tensor([train.names.index(name) for name in test.names])
    return replace(test, names=train.names, labels=number[test.labels])


def _readable(part: ImageFiles, broken: Broken, workers: int) -> tuple[ImageFiles, list[tuple[int, bool]]]:
    """The files whose header can be read, and each one's shorter side and whether it is grey."""
    # Many files a task: handing over a single one would cost more than reading its header.
    tasks = [part.files[start : start + 256] for start in range(0, len(part.files), 256)]
    with ThreadPoolExecutor(max(1, workers)) as pool:
        answers = [answer for some in pool.map(_headers, tasks) for answer in some]
    return _without_broken(part, answers, broken), [answer for answer in answers if not isinstance(answer, str)]


def _headers(files: list[str]) -> list[tuple[int, bool] | str]:
    """Of every image the shorter side and whether it is grey, or the reason why it cannot be read."""
    answers: list[tuple[int, bool] | str] = []
    for file in files:
        try:
            answers.append(read_header(file))
        except NesbsError as error:
            answers.append(str(error))
    return answers


def _without_broken(
    part: ImageFiles, answers: Sequence[object], broken: Broken, *, every_class: bool = True
) -> ImageFiles:
    """The files without those whose answer is a reason why they cannot be read; some of each class must be left."""
    for file, answer in zip(part.files, answers, strict=True):
        if isinstance(answer, str):
            broken.add(file, answer)
    broken.check()
    readable = part.at([i for i, answer in enumerate(answers) if not isinstance(answer, str)])
    lost = sorted(set(part.labels.tolist()) - set(readable.labels.tolist()))
    if lost and every_class:
        reason = next(a for a, label in zip(answers, part.labels.tolist(), strict=True) if label == lost[0])
        raise NesbsError(f"{part.source}: no image of class {part.names[lost[0]]} can be read: {reason}")
    return readable


def _digest(*parts: ImageFiles) -> str:
    """A short text that other files, other labels or another order have not; where the files lie does not count.

    Of many files names must do: on a network drive it would take minutes to ask for their sizes.
    """
    content, sized = hashlib.sha256(), sum(len(part.files) for part in parts) <= SIZED
    for part in parts:
        for file, label in zip(part.files, part.labels.tolist(), strict=True):
            content.update(os.fsencode(f"{label}/{os.path.basename(file)}/{os.path.getsize(file) if sized else ''}/"))
    return content.hexdigest()[:16]


def _resident(part: ImageFiles, files: FileImages, like: Split | None = None, mean_std: MeanStd | None = None) -> Split:
    """The images of a part, read into memory."""
    images = torch.empty(files.shape, dtype=torch.uint8)
    answers: list[object] = []
    place = 0
    with ThreadPoolExecutor(max(1, files.workers)) as pool:
        numbers = np.array_split(np.arange(len(files)), -(-len(files) // 100))
        for pixels, failed in pool.map(files.read, numbers):
            good = [i for i in range(len(pixels)) if i not in failed]
            images[place : place + len(good)] = pixels[good]
            place += len(good)
            answers += [failed.get(i) for i in range(len(pixels))]
    labels = _without_broken(part, answers, files.broken, every_class=like is None).labels
    source = str(part.source)
    return make_split(images[: len(labels)], labels, part.names, source=source, like=like, mean_std=mean_std)
