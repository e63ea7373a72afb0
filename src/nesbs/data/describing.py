"""A data set described in a few lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from nesbs.data.image_folder import SAMPLE
from nesbs.data.split import Dataset
from nesbs.data.streaming import FileImages


def describe(data: Dataset) -> str:
    """Describe a data set: counts, sizes, mean and deviation, where the images are, every class, and what was left out.

    >>> from nesbs.data import load_dataset
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
    if data.broken:
        yield f"{len(data.broken)} {'image is' if len(data.broken) == 1 else 'images are'} left out:"
        yield from (f"    {reason}" for reason in data.broken)
