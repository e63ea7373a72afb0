"""What there is in a data set, in words."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nesbs.data.folder import SAMPLE
from nesbs.data.split import Dataset, Split
from nesbs.data.streaming import FileImages


def describe(data: Dataset) -> str:
    """Counts, sizes, mean and deviation, where the images are, every class, and what was left out.

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
    yield f"channels {train.channels}, mean {_numbers(train.mean)}, deviation {_numbers(train.std)}" + _origin(data)
    needed = (len(train) + len(test)) * train.channels * height * width
    if isinstance(train.stored, FileImages):
        workers = train.stored.workers
        readers = f"{workers} process{'' if workers == 1 else 'es'}" if workers else "the training process itself"
        yield f"streamed from their files by {readers}; in memory they would be {needed:,} bytes"
        if train.stored.random_crop:
            yield "training sees random parts of the images, resized"
    else:
        yield f"kept in memory: {needed:,} bytes"
    counts = [_counts(split) for split in (train, test)]
    for name, in_train, in_test in zip(train.class_names, *counts, strict=True):
        yield f"{name}\n    {in_train} training, {in_test} test"
    if data.broken:
        yield f"{len(data.broken)} {'image is' if len(data.broken) == 1 else 'images are'} left out:"
        yield from (f"    {reason}" for reason in data.broken)


def _origin(data: Dataset) -> str:
    if data.name == "imagenet":
        return " (as published)"
    sampled = data.train.streamed and len(data.train.stored) > SAMPLE
    return f" (of {SAMPLE:,} training images)" if sampled else ""


def _counts(split: Split) -> list[int]:
    return split.labels.bincount(minlength=split.classes).tolist()


def _numbers(values: torch.Tensor) -> str:
    return ", ".join(f"{value:.4f}" for value in values.tolist())
