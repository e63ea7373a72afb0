"""A data set and the parts of its training images that the search works on, each with a type of its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from nesbs.data.images import View
from nesbs.data.settings import DataSettings
from nesbs.data.split import Split
from nesbs.errors import NesbsError, expect
from nesbs.rng import generator

DEFAULT = DataSettings()


class SearchTrain(Split):
    """The training images that the supernet learns from (`Dataset.search_train`): nothing is judged on them."""


class SearchValid(Split):
    """The training images held out from the supernet (`Dataset.search_valid`): what is judged is judged on them.

    Held-out images of your own, in a `Split`, are `SearchValid(**vars(split))`.
    """


def expect_held_out(split: object) -> None:
    """Raise unless a split is a `SearchValid`: neither what networks learn from nor a test image chooses anything."""
    what = "split must be images held out from training and test, such as data.search_valid"
    expect(split, SearchValid, f"{what} (nesbs.data.SearchValid makes them of your own)")


def refuse_held_out(split: object) -> None:
    """Raise where networks would learn from a `SearchValid`; other images are the user's choice."""
    if isinstance(split, SearchValid):
        raise NesbsError(
            "data.search_valid is held out from the supernet: give what it learns from, such as data.search_train"
        )


@dataclass(frozen=True, eq=False)
class Dataset:
    """A named data set: `train` and `test`, and the parts of `train` that the search works on.

    `search_train` trains the supernet; `search_valid`, which it never sees, is the evidence for the
    posterior and for the choice (paper, app. B.2: 70 % and 30 %). Each has a type of its own, so that neither is
    taken for the other.
    """

    name: str
    train: Split
    test: Split
    valid_fraction: float = DEFAULT.valid_fraction
    split_seed: int = DEFAULT.split_seed
    broken: tuple[str, ...] = ()  # images that were left out: file and reason
    view: View | None = None  # how image files were read; None where the images came as arrays
    calibration: Split | None = None  # training images set aside first, which are no part of `train`
    digest: str | None = None  # of the image files, or of the arrays as they came, the same on every machine

    def __post_init__(self) -> None:
        for part in (self.train, self.test):
            expect(part, Split, "train and test must be a Split each")
        DataSettings.of({"valid_fraction": self.valid_fraction, "split_seed": self.split_seed})

    @cached_property
    def search_train(self) -> SearchTrain:
        """The part of the training images the supernet learns from."""
        return SearchTrain(**vars(self.train.subset(self._search_split[0])))

    @cached_property
    def search_valid(self) -> SearchValid:
        """The part of the training images held out from the supernet."""
        return SearchValid(**vars(self.train.subset(self._search_split[1])))

    @cached_property
    def _search_split(self) -> tuple[Tensor, Tensor]:
        parts = stratified(self.train.labels, self.valid_fraction, seed=self.split_seed)
        if min(map(len, parts)) < 2:
            raise NesbsError(
                f"{self.name}: {len(self.train)} training images leave {len(parts[0])} for the supernet and "
                f"{len(parts[1])} held out; each needs two or more"
            )
        return parts

    def to(self, device: torch.device | str) -> Dataset:
        """Return the same data set on another device."""
        aside = None if self.calibration is None else self.calibration.to(device)
        return replace(self, train=self.train.to(device), test=self.test.to(device), calibration=aside)


def stratified(labels: Tensor, fraction: float, *, seed: int) -> tuple[Tensor, Tensor]:
    """Split indices at random, class by class: (the rest, `fraction` of each class), each in random order.

    A class of two images or more has at least one on either side; a class of one has it in the rest.

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
        if 0 < fraction < 1:
            count = min(max(count, 1), len(index) - 1)
        held_out.append(index[:count])
        rest.append(index[count:])
    shuffled = [part[torch.randperm(len(part), generator=random)] for part in map(torch.cat, (rest, held_out))]
    return shuffled[0], shuffled[1]
