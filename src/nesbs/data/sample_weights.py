"""How often training shows each image beside the others: weights, (images,) on the CPU, and the epochs they give."""

import torch
from torch import Tensor

from nesbs.errors import NesbsError, expect


def check_weights(weights: object, count: int) -> None:
    """Raise unless `weights` is a tensor with a finite number, 0 or more, for each of `count` images."""
    what = "sample_weights must be a number, 0 or more, for each training image"
    expect(weights, Tensor, what)
    assert isinstance(weights, Tensor)
    if tuple(weights.shape) != (count,):
        raise NesbsError(f"{what} ({count}), found shape {tuple(weights.shape)}")
    if not bool((weights.isfinite() & (weights >= 0)).all()):
        raise NesbsError(f"{what}, found {weights.min()} to {weights.max()}")


def balanced_weights(labels: Tensor, classes: int) -> Tensor:
    """Return weights (images,) by which every class is shown as often as any other, from labels (images,).

    >>> balanced_weights(torch.tensor([0, 0, 0, 1]), 2).tolist()
    [0.6666666666666666, 0.6666666666666666, 0.6666666666666666, 2.0]
    """
    counts = labels.bincount(minlength=classes)
    return len(labels) / ((counts > 0).sum() * counts.double())[labels]


def shown(order: Tensor, weights: Tensor, *, generator: torch.Generator) -> Tensor:
    """Return the images of an epoch (images,), each in proportion to its weight, from a shuffled `order` of all.

    Every image comes as often as its share of the weights times the number of images says, rounded up or down at
    random so that the mean is exact (systematic resampling); with equal weights each comes once, with 0 never. Images
    are shown more often, their losses not multiplied: in the mean of the steps the two are the same, but a rare image
    of a large weight would throw single steps off ("Why resampling outperforms reweighting", An, Ying and Zhu, 2021),
    and so every loss of every stage can stay as it is, those in CUDA graphs too.

    >>> random = torch.Generator().manual_seed(0)
    >>> shown(torch.arange(4), torch.tensor([1.0, 0.0, 1.0, 2.0]), generator=random).sort().values
    tensor([0, 2, 3, 3])
    """
    ends = weights.double()[order.cpu()].cumsum(0)  # on the CPU: sums on a GPU are not always the same
    if not ends[-1] > 0:
        raise NesbsError("sample_weights are 0 for all images to train on: give some of them a weight")
    start = torch.rand((), generator=generator, device=order.device, dtype=torch.float64).cpu()
    ticks = (torch.arange(len(order), dtype=torch.float64) + start) * (ends[-1] / len(order))
    drawn = order[torch.searchsorted(ends, ticks, right=True).clamp_max_(len(order) - 1).to(order.device)]
    return drawn[torch.randperm(len(order), generator=generator, device=order.device)]
