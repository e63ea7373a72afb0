"""A folder of images: one sub-folder a class, or `train/` and `test/` of such."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from nesbs.data.arrays import TEST_FRACTION
from nesbs.data.split import Split, make_split, stratified
from nesbs.errors import NesbsError

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}
LARGEST = 64  # pixels a side unless asked for: NAS-Bench-201 networks are made for small images


def load_folder(path: Path, size: int | None = None) -> tuple[Split, Split]:
    """Training and test part of a folder; a folder without `train/` and `test/` is split class by class.

    Images go to `size` × `size`, by default to the multiple of 4 nearest to their median shorter side (at
    most 64): every search space takes that. Grey images stay grey unless a colour image is among them.
    """
    parts = [path / "train", path / "test"]
    own_test = all(part.is_dir() for part in parts)
    names, train_files = _files(parts[0] if own_test else path, least=2)
    test_files: list[tuple[Path, int]] = []
    if own_test:
        test_names, found = _files(parts[1], least=1)
        strangers = sorted(set(test_names) - set(names))
        if strangers:
            raise NesbsError(f"{parts[1]}: class {strangers[0]} has no folder in {parts[0]}")
        test_files = [(file, names.index(test_names[label])) for file, label in found]
    looks = [_look(file) for file, _ in train_files + test_files]
    side = size or min(LARGEST, nearest_multiple(statistics.median(short for short, _ in looks)))
    mode = "L" if all(grey for _, grey in looks) else "RGB"

    def arrays(pairs: list[tuple[Path, int]]) -> tuple[torch.Tensor, torch.Tensor]:
        pixels = np.stack([_read(file, mode, side) for file, _ in pairs])
        return torch.from_numpy(pixels), torch.tensor([label for _, label in pairs])

    images, labels = arrays(train_files)
    if own_test:
        train = make_split(images, labels, names, source=str(parts[0]))
        return train, make_split(*arrays(test_files), names, source=str(parts[1]), like=train)
    rest, held_out = stratified(labels, TEST_FRACTION, seed=0)
    if len(held_out) == 0:
        raise NesbsError(f"{path}: too few images to hold some out for testing; put at least two in each class")
    train = make_split(images[rest], labels[rest], names, source=str(path))
    return train, make_split(images[held_out], labels[held_out], names, source=str(path), like=train)


def nearest_multiple(side: float, of: int = 4) -> int:
    """The multiple of `of` nearest to `side`, at least 8.

    >>> nearest_multiple(30), nearest_multiple(29), nearest_multiple(3)
    (32, 28, 8)
    """
    return max(8, int((side + of / 2) // of) * of)


def _files(root: Path, least: int) -> tuple[tuple[str, ...], list[tuple[Path, int]]]:
    """Class names and (file, label) of every image, in the order of their names."""
    folders = sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    found = {
        folder.name: sorted(file for file in folder.rglob("*") if file.suffix.lower() in ENDINGS) for folder in folders
    }
    found = {name: files for name, files in found.items() if files}
    if len(found) < least:
        raise NesbsError(
            f"{root}: needs a sub-folder of images for each class ({least} or more), found "
            + (f"images in {next(iter(found))} alone" if found else "no image")
        )
    return tuple(found), [(file, label) for label, files in enumerate(found.values()) for file in files]


@contextlib.contextmanager
def _opened(file: Path) -> Iterator[Image.Image]:
    try:
        with Image.open(file) as image:
            yield image
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise NesbsError(f"{file} cannot be read as an image ({error}): mend it or take it out") from None


def _look(file: Path) -> tuple[int, bool]:
    """An image's shorter side and whether it is grey, from its header alone."""
    with _opened(file) as image:
        return min(image.size), image.mode in ("1", "L", "I;16")


def _read(file: Path, mode: str, side: int) -> np.ndarray:
    """One image as (channels, side, side) bytes: the middle square, resized."""
    with _opened(file) as image:
        width, height = image.size
        short = min(width, height)
        left, top = (width - short) // 2, (height - short) // 2
        square = image.convert(mode).crop((left, top, left + short, top + short))
        pixels = np.asarray(square.resize((side, side), Image.Resampling.BILINEAR))
        return pixels[None] if mode == "L" else pixels.transpose(2, 0, 1)
