"""Labelled images that live on a device as bytes, and a data set's four parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from nesbs.errors import NesbsError
from nesbs.rng import generator


@dataclass(frozen=True, eq=False)
class Split:
    """Labelled images: `images` (images, channels, height, width) uint8, `labels` (images,) int64.

    `mean` and `std` (channels,) are those of the data set's training images in [0, 1]; a network trained on
    the split takes them over, since normalisation belongs to the model.
    """

    images: Tensor
    labels: Tensor
    class_names: tuple[str, ...]
    mean: Tensor
    std: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.class_names)

    @property
    def channels(self) -> int:
        """Number of image channels: 1 for grey, 3 for colour."""
        return self.images.shape[1]

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the images."""
        return self.images.shape[2], self.images.shape[3]

    @property
    def device(self) -> torch.device:
        """Where the images live, and so where work on them is done."""
        return self.images.device

    def to(self, device: torch.device | str) -> Split:
        """The same split on another device."""
        parts = {name: getattr(self, name).to(device) for name in ("images", "labels", "mean", "std")}
        return replace(self, **parts)

    def subset(self, index: Tensor) -> Split:
        """The images at `index`, in that order."""
        return replace(self, images=self.images[index], labels=self.labels[index])

    def pixels(self, index: Tensor | slice = slice(None)) -> Tensor:
        """Images as floats in [0, 1], (images, channels, height, width)."""
        return self.images[index].float().div_(255)


@dataclass(frozen=True, eq=False)
class Dataset:
    """A named data set: `train` and `test`, and the parts of `train` that the search works on.

    `search_train` trains the supernet; `search_valid`, which it never sees, is the evidence for the
    posterior and for the choice (paper, app. B.2: 70 % and 30 %).
    """

    name: str
    train: Split
    test: Split
    valid_fraction: float = 0.3  # paper, app. B.2
    split_seed: int = 0

    @cached_property
    def search_train(self) -> Split:
        """The part of the training images the supernet learns from."""
        return self.train.subset(self._parts[0])

    @cached_property
    def search_valid(self) -> Split:
        """The part of the training images held out from the supernet."""
        return self.train.subset(self._parts[1])

    @cached_property
    def _parts(self) -> tuple[Tensor, Tensor]:
        parts = stratified(self.train.labels, self.valid_fraction, seed=self.split_seed)
        if min(map(len, parts)) < 2:
            raise NesbsError(
                f"{self.name}: {len(self.train)} training images leave {len(parts[0])} for the supernet and "
                f"{len(parts[1])} held out; each needs two or more"
            )
        return parts

    def check_parts(self) -> None:
        """Raise where there are too few training images to hold some out."""
        _ = self._parts

    def to(self, device: torch.device | str) -> Dataset:
        """The same data set on another device."""
        return replace(self, train=self.train.to(device), test=self.test.to(device))


def stratified(labels: Tensor, fraction: float, *, seed: int) -> tuple[Tensor, Tensor]:
    """Split indices at random, class by class: (the rest, `fraction` of each class), each in random order.

    A class of two images or more has at least one on either side.

    >>> rest, held_out = stratified(torch.tensor([0] * 10 + [1] * 10), 0.3, seed=0)
    >>> len(rest), len(held_out)
    (14, 6)
    """
    labels = labels.cpu()
    random = generator(seed, "split")
    order = torch.randperm(len(labels), generator=random)
    rest, held_out = [], []
    for label in labels.unique():
        index = order[labels[order] == label]
        count = round(len(index) * fraction)
        if len(index) > 1 and 0 < fraction < 1:
            count = min(max(count, 1), len(index) - 1)
        held_out.append(index[:count])
        rest.append(index[count:])
    shuffled = [part[torch.randperm(len(part), generator=random)] for part in map(torch.cat, (rest, held_out))]
    return shuffled[0], shuffled[1]


def make_split(
    images: Tensor,
    labels: Tensor,
    class_names: tuple[str, ...],
    *,
    source: str,
    like: Split | None = None,
) -> Split:
    """Check images and labels that came from outside and make a `Split`; `like` lends its mean and deviation."""
    if images.ndim != 4 or images.dtype != torch.uint8:
        raise NesbsError(f"{source}: images must be bytes of 3 or 4 axes, found {images.dtype} {tuple(images.shape)}")
    if len(images) != len(labels):
        raise NesbsError(f"{source}: {len(images)} images but {len(labels)} labels")
    if images.numel() == 0:
        raise NesbsError(f"{source}: no images")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= len(class_names):
        raise NesbsError(
            f"{source}: labels must lie between 0 and {len(class_names) - 1} "
            f"({len(class_names)} classes), found {low if low < 0 else high}"
        )
    if like is not None:
        if images.shape[1:] != like.images.shape[1:]:
            raise NesbsError(
                f"{source}: images are {tuple(images.shape[1:])}, the training images {tuple(like.images.shape[1:])}"
            )
        return Split(images, labels, class_names, like.mean, like.std)
    sums = images.sum((2, 3), dtype=torch.float64).sum(0)
    squares = torch.stack([images[:, c].double().square_().sum() for c in range(images.shape[1])])
    count = images.numel() / images.shape[1]
    mean = sums / count / 255
    std = (squares / count / 255**2 - mean**2).clamp_min(1e-8).sqrt()
    return Split(images, labels, class_names, mean.float(), std.float())
