"""Which image files a folder or a CSV holds, and to which part and class each belongs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import NoReturn

import numpy as np
import torch
from torch import Tensor

from nesbs.data.images import Broken, View
from nesbs.data.labels_csv import LabelledFile, read_labels
from nesbs.data.split import check_names
from nesbs.data.streaming import FileImages
from nesbs.errors import NesbsError, printable, shown

ENDINGS = {".png", ".jpg", ".jpeg", ".jfif", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}
ENDINGS |= {".heic", ".heif", ".avif", ".jp2"}  # Pillow may not read them: they are then named, not passed over
CSV = ".csv"
TRAIN_NAMES = ("train", "training")
TEST_NAMES = ("test", "testing", "val", "valid", "validation")  # the first that is there is the test part
HIDDEN = (".", "__MACOSX", "__pycache__", "@eaDir")  # how names of folders begin that programs make for themselves


@dataclass(frozen=True)
class ImageFiles:
    """The image files of a training or test part: `files` and `labels` (images,), class `names`."""

    source: Path
    names: tuple[str, ...]
    files: list[str]
    labels: Tensor

    def at(self, index: Tensor | Sequence[int]) -> ImageFiles:
        """Return the files at `index`, in that order."""
        chosen = torch.as_tensor(index, dtype=torch.int64)
        return replace(self, files=[self.files[i] for i in chosen.tolist()], labels=self.labels[chosen])

    def images(self, view: View, broken: Broken, workers: int, random_crop: bool = False) -> FileImages:
        """Return the images, still in their files; paths are one block of bytes, which processes share uncopied."""
        return FileImages(np.array([os.fsencode(file) for file in self.files]), view, broken, workers, random_crop)


def find_parts(path: Path, test_names: Sequence[str]) -> tuple[ImageFiles, ImageFiles | None]:
    """Return the image files of the training part, and of the test part where it is apart.

    `path` is a folder or a CSV file.
    """
    if path.suffix.lower() == CSV and not path.is_dir():
        return _of_csv(path, test_names)
    train, test = _folders(path, test_names)
    parts = _listed(train, least=2), None if test is None else _listed(test, least=1)
    if train != path:
        _warn_of_others(path, train, test)
    return parts


def _of_csv(path: Path, test_names: Sequence[str]) -> tuple[ImageFiles, ImageFiles | None]:
    """The image files that a CSV file lists, in the order of class and file names, by its column `split` if it has one.

    As of folders: the first of `test_names` that a row names is the test part.
    """
    rows = read_labels(path)
    named = {row.part for row in rows}
    if strange := sorted(named.difference(("", *TRAIN_NAMES, *TEST_NAMES))):
        known = ", ".join(TRAIN_NAMES + TEST_NAMES)
        raise NesbsError(f"{path}: a row's split is {shown(strange[0])}; it can be {known}")
    test_name = next((name for name in test_names if name in named), None)
    if others := sorted(named.difference(("", *TRAIN_NAMES, test_name))):
        used = f"of train and {test_name} are"
        warnings.warn(f"{path}: the rows {used} used, not those of {', '.join(others)}", stacklevel=2)
    train = _of_rows(path, [row for row in rows if row.part in ("", *TRAIN_NAMES)], least=2)
    test = [row for row in rows if row.part == test_name]
    return train, _of_rows(path, test, least=1) if test else None


def _of_rows(path: Path, rows: Sequence[LabelledFile], least: int) -> ImageFiles:
    """The image files of one part of a CSV file."""
    names = tuple(dict.fromkeys(row.label for row in rows))
    if len(names) < least:
        present = shown(names[0]) if names else "no image"
        raise NesbsError(f"{path}: needs images of two classes or more to train with, found {present}")
    check_names(names, str(path))
    places = {name: place for place, name in enumerate(names)}
    return ImageFiles(path, names, [row.file for row in rows], torch.tensor([places[row.label] for row in rows]))


def _folders(path: Path, test_names: Sequence[str]) -> tuple[Path, Path | None]:
    """The folders of training and test images: `train/` beside `test/` or `val/`, in any case, or all in one.

    `training/` is such a one beside a test part alone: a class may be called so.
    """
    inside = {entry.name.lower(): entry for entry in path.iterdir() if entry.is_dir()}
    test = next((inside[name] for name in test_names if name in inside), None)
    train = inside.get("train") or (inside.get("training") if test is not None else None)
    if train is None:
        return path, None
    return train, test


def _warn_of_others(path: Path, train: Path, test: Path | None) -> None:
    """Name the folders of images beside both parts."""
    others = sorted(entry for entry in path.iterdir() if entry.is_dir() and entry not in (train, test))
    others = [each for each in others if not each.name.startswith(HIDDEN) and any(walk_images(each, id))]
    if others:
        unused = shown(printable(", ".join(each.name for each in others)))
        used = f"{train.name}/ alone is" if test is None else f"{train.name}/ and {test.name}/ are"
        warnings.warn(f"{path}: {used} used, not {unused}", stacklevel=2)


def _listed(root: Path, least: int) -> ImageFiles:
    """Every image file below `root`, in the order of class and file names."""
    folders = sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.name.startswith(HIDDEN))
    by_class = {folder.name: files for folder in folders if (files := image_files(folder))}
    if len(by_class) < least:
        loose = len(image_files(root))
        present = f"{loose} images and no sub-folder" if loose else "no image"
        if loose and root.name.lower() == "train":
            present += ": `train` holds the training part; rename it if it is a class"
        present = f"images in {next(iter(by_class))} alone" if by_class else present
        raise NesbsError(f"{root}: needs a sub-folder of images for each class ({least} or more), found {present}")
    for name in by_class:
        if not name.isprintable():  # also bytes that are no text
            raise NesbsError(f"{root}: the folder {name!r} has a name that cannot be printed: rename it")
    if empty := [printable(folder.name) for folder in folders if folder.name not in by_class]:
        reason = "no file name there ends as an image's does (.jpg, .png, …)"
        warnings.warn(f"{root}: sub-folders are left out, {reason}: {shown(', '.join(empty))}", stacklevel=2)
    labels = torch.tensor([label for label, files in enumerate(by_class.values()) for _ in files])
    return ImageFiles(root, tuple(by_class), [file for files in by_class.values() for file in files], labels)


def image_files(folder: Path) -> list[str]:
    """Return the image files in a folder and below, in the order of their names; raises where it cannot be listed."""
    return sorted(walk_images(folder, _refuse), key=lambda file: file.split(os.sep))


def walk_images(
    folder: Path, on_error: Callable[[OSError], object], above: frozenset[Path] = frozenset()
) -> Iterator[str]:
    """Yield the image files in a folder and below, by their endings, one folder after the other, without hidden ones.

    Links to folders are followed, but for those that lead back to one of the folders `above`, in which they lie.
    `on_error` is told of a folder that cannot be listed.
    """
    itself = Path(os.path.realpath(folder))
    if itself in above:
        return
    above = above.union([itself, *itself.parents])
    for place, folders, names in islice(os.walk(folder, onerror=on_error), 1):
        for name in sorted(names):
            if os.path.splitext(name)[1].lower() in ENDINGS and not name.startswith("."):
                yield os.path.join(place, name)
        for name in sorted(folders):
            if not name.startswith(HIDDEN):
                yield from walk_images(Path(place, name), on_error, above)


def _refuse(error: OSError) -> NoReturn:
    """Name a folder that cannot be listed, which would pass for an empty one."""
    raise error
