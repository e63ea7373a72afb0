"""Images without labels beside a split's own: what a network may learn from another's answers to them."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch

from nesbs.data.conversion import ArrayView
from nesbs.data.image_files import image_files
from nesbs.data.images import Broken, View, read_header
from nesbs.data.settings import DataSettings
from nesbs.data.split import Split
from nesbs.data.streaming import FileImages, default_workers
from nesbs.errors import NesbsError

NO_LABEL = -1
Read = TypeVar("Read")


def with_unlabelled(
    split: Split, folder: Path, view: View | ArrayView, settings: DataSettings
) -> tuple[Split, list[str]]:
    """Return a split with the images in a folder and below behind its own, labelled −1, and the files they are from.

    They are read as `view` reads images. Where the split's images stay in their files these do, too. Up to
    `data.broken_limit` files that cannot be read are left out.
    """
    if not folder.is_dir():
        raise NesbsError(f"--unlabelled {folder} is no folder of images")
    files = image_files(folder)
    if not files:
        raise NesbsError(f"--unlabelled {folder}: there is no image in it")
    broken = Broken(settings.broken_limit)
    if isinstance(split.stored, FileImages):
        _, files = _read(files, read_header, broken)
        paths = np.array([os.fsencode(file) for file in files])
        stored = replace(split.stored, files=np.concatenate([split.stored.files, paths]))
        before = torch.arange(len(split.stored), device=split.device) if split.index is None else split.index
        after = torch.arange(len(split.stored), len(stored), device=split.device)
        return _joined(split, stored, torch.cat([before, after]), len(files)), files
    size = split.stored[0].numel()
    if (len(split) + len(files)) * size > settings.memory_limit * 2**30:
        raise NesbsError(
            f"--unlabelled {folder}: {len(files):,} images take more than data.memory_limit={settings.memory_limit:g} "
            "GiB: give fewer, or stream the data set (data.stream=always)"
        )
    pixels, read = _read(files, view.read, broken)
    images = torch.from_numpy(np.stack(pixels)).to(split.device)
    return _joined(split, torch.cat([split.bytes(), images]), None, len(read)), read


def _joined(split: Split, stored: torch.Tensor | FileImages, index: torch.Tensor | None, count: int) -> Split:
    labels = torch.cat([split.labels, split.labels.new_full((count,), NO_LABEL)])
    weights = split.sample_weights
    if weights is not None:  # one without a label comes as often as the others do in the mean
        weights = torch.cat([weights, weights.mean().expand(count)])
    return replace(split, stored=stored, labels=labels, index=index, sample_weights=weights)


def _read(files: list[str], read: Callable[[str], Read], broken: Broken) -> tuple[list[Read], list[str]]:
    """What is read of the images that can be, and their files."""

    def attempt(file: str) -> Read | str:
        try:
            return read(file)
        except NesbsError as error:
            return str(error)

    with ThreadPoolExecutor(max(1, default_workers())) as pool:
        answers = list(pool.map(attempt, files))
    for file, answer in zip(files, answers, strict=True):
        if isinstance(answer, str):
            broken.add(file, answer)
    broken.check()
    found = {file: answer for file, answer in zip(files, answers, strict=True) if not isinstance(answer, str)}
    if not found:
        raise NesbsError(f"--unlabelled: no image can be read: {next(iter(broken.reasons.values()))}")
    return list(found.values()), list(found)
