"""Labelled images that live on a device as bytes or stay in their files."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from nesbs.data.sample_weights import balanced_weights, check_weights
from nesbs.data.streaming import FileImages
from nesbs.errors import NesbsError, expect

MeanStd = tuple[Tensor, Tensor]  # mean and deviation of every channel in [0, 1], (channels,) each
LONGEST_NAME = 255  # characters of a class name, as of a folder's


@dataclass(frozen=True, eq=False)
class Split:
    """Labelled images: `stored` (stored images, channels, height, width) uint8, `labels` (images,) int64.

    A part of a split is a view: it shares `stored` and keeps in `index` (images,) which of them are its own,
    so the parts of a data set cost no memory beyond the data set. Read images with `pixels` or `bytes`: where
    `stored` is `FileImages` they are in their files.

    `mean` and `std` (channels,) are those of the data set's training images in [0, 1]; a network trained on
    the split takes them over, since normalisation belongs to the model. `sample_weights` (images,), on the CPU, say how
    often training shows each image beside the others (see `batches`); without them all are shown alike.
    """

    stored: Tensor | FileImages
    labels: Tensor
    class_names: tuple[str, ...]
    mean: Tensor
    std: Tensor
    index: Tensor | None = None
    sample_weights: Tensor | None = None

    def __post_init__(self) -> None:
        expect(self.stored, (Tensor, FileImages), "stored must be a tensor of images or FileImages")
        expect(self.labels, Tensor, "labels must be a tensor, one for each image")
        if isinstance(self.stored, Tensor) and (self.stored.dtype != torch.uint8 or self.stored.ndim != 4):
            found = f"{str(self.stored.dtype).removeprefix('torch.')} of shape {tuple(self.stored.shape)}"
            raise NesbsError(
                f"stored images must be bytes, uint8 (images, channels, height, width), found {found}: "
                "nesbs.from_arrays takes other forms"
            )
        own = self.stored if self.index is None else self.index
        if len(own) != len(self.labels):
            raise NesbsError(
                f"a split has a label for each image, found {len(own)} images but {len(self.labels)} labels"
            )
        if self.sample_weights is not None:
            check_weights(self.sample_weights, len(self))

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        height, width = self.size
        return f"{type(self).__name__}({len(self)} images of {self.channels}×{height}×{width}, {self.classes} classes)"

    @property
    def images(self) -> Tensor:
        """All images of the split as bytes, (images, channels, height, width); of a view a copy is made."""
        return self.bytes()

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    @property
    def channels(self) -> int:
        """Number of image channels: 1 for grey, 3 for colour."""
        return self.stored.shape[1]

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the images."""
        return self.stored.shape[2], self.stored.shape[3]

    @property
    def streamed(self) -> bool:
        """Whether images are read from their files each time."""
        return isinstance(self.stored, FileImages)

    @property
    def device(self) -> torch.device:
        """Where the images live, and so where work on them is done."""
        return self.stored.device

    def to(self, device: torch.device | str) -> Self:
        """Return the same split on another device."""
        parts = {name: getattr(self, name).to(device) for name in ("stored", "labels", "mean", "std")}
        return replace(self, **parts, index=None if self.index is None else self.index.to(device))

    def subset(self, index: Tensor) -> Self:
        """Return the images at `index`, in that order: a view that shares the stored images.

        >>> images = torch.zeros(4, 1, 8, 8, dtype=torch.uint8)
        >>> split = make_split(images, torch.arange(4), ("a", "b", "c", "d"), source="four")
        >>> part = split.subset(torch.tensor([3, 1]))
        >>> part.labels.tolist(), part.stored is split.stored
        ([3, 1], True)
        """
        what = f"index must be a tensor of whole numbers below {len(self)}"
        expect(index, Tensor, what)
        index = index.to(self.device)
        try:
            labels, own = self.labels[index], index if self.index is None else self.index[index]
        except IndexError as error:
            raise NesbsError(f"{what} ({error})") from None
        weights = None if self.sample_weights is None else self.sample_weights[index.cpu()]
        return replace(self, index=own, labels=labels, sample_weights=weights)

    def balanced(self) -> Self:
        """Return the split with weights by which every class is shown as often, beside weights it has already."""
        weights = balanced_weights(self.labels.cpu(), self.classes)
        return replace(self, sample_weights=weights * (1 if self.sample_weights is None else self.sample_weights))

    def compact(self) -> Self:
        """Return the same images with storage of their own, for a part that outlives the whole (files have theirs)."""
        if self.index is None or self.streamed:
            return self
        return replace(self, stored=self.bytes(), index=None)

    def bytes(self, index: Tensor | slice = slice(None)) -> Tensor:
        """Return images as they are stored, (images, channels, height, width) uint8."""
        return self.stored[index if self.index is None else self.index[index]]

    def pixels(self, index: Tensor | slice = slice(None)) -> Tensor:
        """Return images as floats in [0, 1], (images, channels, height, width)."""
        return self.bytes(index).float().div_(255)


def expect_split(split: object, example: str) -> None:
    """Raise unless `split` is a `Split` with images in it; `example` names one that would do."""
    expect(split, Split, f"split must be a Split such as {example}")
    if len(split) == 0:  # type: ignore[arg-type]
        raise NesbsError(f"the split has no images: give one that has some, such as {example}")


def digest_of(*splits: Split) -> str:
    """A short text that other images, or these in another order, have not.

    >>> split = make_split(torch.zeros(4, 1, 8, 8, dtype=torch.uint8), torch.arange(4), tuple("abcd"), source="four")
    >>> digest_of(split) == digest_of(split, split)
    False
    """
    content = hashlib.sha256()
    for split in splits:
        content.update(split.bytes().cpu().contiguous().numpy().data)
    return content.hexdigest()[:16]


def make_split(
    images: Tensor | FileImages,
    labels: Tensor,
    class_names: tuple[str, ...],
    *,
    source: str,
    like: Split | None = None,
    mean_std: MeanStd | None = None,
) -> Split:
    """Check images and labels from outside and make a `Split` of them.

    Mean and deviation are `mean_std`, or those of the split that it is `like`, or computed.
    """
    if isinstance(images, Tensor) and (images.ndim != 4 or images.dtype != torch.uint8):
        raise NesbsError(f"{source}: images must be bytes of 3 or 4 axes, found {images.dtype} {tuple(images.shape)}")
    check_lengths(images, labels, source)
    check_names(class_names, source)
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= len(class_names):
        raise NesbsError(
            f"{source}: labels must lie between 0 and {len(class_names) - 1} "
            f"({len(class_names)} classes), found {low if low < 0 else high}"
        )
    if like is not None:
        if images.shape[1:] != like.stored.shape[1:]:
            raise NesbsError(
                f"{source}: images are {tuple(images.shape[1:])}, the training images {tuple(like.stored.shape[1:])}"
            )
        return Split(images, labels, class_names, like.mean, like.std)
    if mean_std is None:
        mean_std = channel_statistics(images if isinstance(images, Tensor) else images[:])
    return Split(images, labels, class_names, *mean_std)


def check_lengths(images: Tensor | FileImages, labels: Tensor, source: str) -> None:
    """Raise unless there are images, and as many labels."""
    if len(images) != len(labels):
        raise NesbsError(f"{source}: {len(images)} images but {len(labels)} labels")
    if images.shape.numel() == 0:
        raise NesbsError(f"{source}: no images")


def check_names(names: tuple[str, ...], source: str) -> None:
    """Raise unless there are two classes or more, each with a name of its own that can be printed."""
    if len(names) < 2:
        raise NesbsError(f"{source}: two classes or more are needed, found {len(names)}")
    for name in names:
        if not name.isprintable() or not 0 < len(name) <= LONGEST_NAME:
            raise NesbsError(
                f"{source}: a class name is 1 to {LONGEST_NAME} characters that can be printed, found {name[:80]!r}"
            )
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise NesbsError(f"{source}: two classes are called {twice}: give each a name of its own")


def channel_statistics(images: Tensor) -> MeanStd:
    """Return mean and deviation of every channel, (channels,) each, of images (images, channels, height, width).

    In [0, 1]. How often each byte occurs is counted, a few images at a time: exact, and without a larger copy of them.

    >>> channel_statistics(torch.tensor([0, 255], dtype=torch.uint8).reshape(2, 1, 1, 1))
    (tensor([0.5000]), tensor([0.5000]))
    """
    at_once = max(1, 2**20 // images[0].numel())
    values = torch.arange(256, device=images.device)
    counts = torch.zeros(images.shape[1], 256, dtype=torch.int64, device=images.device)
    for part in images.split(at_once):
        counts += torch.stack([channel.flatten().bincount(minlength=256) for channel in part.unbind(1)])
    sums, squares = (counts * values).sum(1), (counts * values**2).sum(1)
    count = images.numel() / images.shape[1]
    mean = sums.double() / count / 255
    std = (squares.double() / count / 255**2 - mean**2).clamp_min(1e-8).sqrt()
    return mean.float(), std.float()
