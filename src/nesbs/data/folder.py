"""A folder of images: one sub-folder a class, or `train/` and `test/` of such."""

from __future__ import annotations

import contextlib
import statistics
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps

from nesbs.data.arrays import TEST_FRACTION
from nesbs.data.split import Split, make_split, stratified
from nesbs.errors import NesbsError

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}
LARGEST = 64  # pixels a side unless asked for: NAS-Bench-201 networks are made for small images


def load_folder(path: Path, size: int | None = None) -> tuple[Split, Split]:
    """Training and test part of a folder; a folder without `train/` and `test/` (or `val/`) is split for you.

    Images go to `size` × `size`, by default to the multiple of 4 nearest to their median shorter side (at
    most 64): every search space takes that. Grey images stay grey unless a colour image is among them.
    """
    train_part, test_part = _parts(path)
    names, train_files = _files(train_part, least=2)
    test_files: list[tuple[Path, int]] = []
    if test_part is not None:
        test_names, found = _files(test_part, least=1)
        strangers = sorted(set(test_names) - set(names))
        if strangers:
            raise NesbsError(f"{test_part}: class {strangers[0]} has no folder in {train_part}")
        test_files = [(file, names.index(test_names[label])) for file, label in found]
    looks = [_look(file) for file, _ in train_files + test_files]
    side = size or min(LARGEST, nearest_multiple(statistics.median(short for short, _ in looks)))
    mode = "L" if all(grey for _, grey in looks) else "RGB"

    def arrays(pairs: list[tuple[Path, int]]) -> tuple[torch.Tensor, torch.Tensor]:
        pixels = np.stack([_read(file, mode, side) for file, _ in pairs])
        return torch.from_numpy(pixels), torch.tensor([label for _, label in pairs])

    images, labels = arrays(train_files)
    if test_part is not None:
        train = make_split(images, labels, names, source=str(train_part))
        return train, make_split(*arrays(test_files), names, source=str(test_part), like=train)
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


def _parts(path: Path) -> tuple[Path, Path | None]:
    """The folders of training and test images: `train/` beside `test/` or `val/`, in any case, or all in one."""
    inside = {entry.name.lower(): entry for entry in path.iterdir() if entry.is_dir()}
    if "train" not in inside:
        return path, None
    test = next((inside[name] for name in ("test", "val", "valid", "validation") if name in inside), None)
    return inside["train"], test


def _files(root: Path, least: int) -> tuple[tuple[str, ...], list[tuple[Path, int]]]:
    """Class names and (file, label) of every image, in the order of their names."""
    folders = sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith((".", "__")))
    found = {
        folder.name: sorted(
            file for file in folder.rglob("*") if file.suffix.lower() in ENDINGS and not file.name.startswith(".")
        )
        for folder in folders
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
    except (
        OSError,
        ValueError,
        SyntaxError,
        EOFError,
        struct.error,
        zlib.error,
        Image.DecompressionBombError,
    ) as error:
        raise NesbsError(f"{file} cannot be read as an image ({error}): mend it or take it out") from None


def _look(file: Path) -> tuple[int, bool]:
    """An image's shorter side and whether it is grey, from its header alone."""
    with _opened(file) as image:
        return min(image.size), image.mode in ("1", "L", "LA", "I", "F") or image.mode.startswith("I;16")


def _read(file: Path, mode: str, side: int) -> np.ndarray:
    """One image as (channels, side, side) bytes: the middle square, resized."""
    with _opened(file) as opened:
        image = ImageOps.exif_transpose(opened)
        if image.mode.startswith("I") or image.mode == "F":
            image = _to_bytes(image)
        width, height = image.size
        short = min(width, height)
        left, top = (width - short) // 2, (height - short) // 2
        square = image.convert(mode).crop((left, top, left + short, top + short))
        pixels = np.asarray(square.resize((side, side), Image.Resampling.BILINEAR))
        return pixels[None] if mode == "L" else pixels.transpose(2, 0, 1)


def _to_bytes(image: Image.Image) -> Image.Image:
    """A grey image of more than 8 bits, by its upper byte (converting would cut everything above 255 to white)."""
    values = np.asarray(image).astype(np.float64)
    scale = 257 if values.max(initial=0) > 255 else 1
    return Image.fromarray((values / scale).clip(0, 255).astype(np.uint8))
