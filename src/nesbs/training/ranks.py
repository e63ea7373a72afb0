"""One network trained by several processes ("ranks") that torchrun started, each on its share of every batch.

Every rank holds the whole network. Gradients are averaged over ranks, and BatchNorm's statistics are those of the whole
batch (or of each rank's part), so a step is that of one process, but for rounding.

torch's DistributedDataParallel sends the gradients of all parameters, in parts while others are still computed. Here
those of the parameters that a step reached are sent at once: of a supernet that is one path's, a small part of all, and
members of these spaces have a few million parameters, too few to gain by sending them earlier.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from nesbs.data.batches import Share
from nesbs.errors import NesbsError
from nesbs.training.settings import TrainingSettings


@dataclass(frozen=True)
class Ranks:
    """Which of how many processes this one is."""

    number: int = 0
    count: int = 1

    @property
    def several(self) -> bool:
        """Whether there are others."""
        return self.count > 1

    def share(self, images: int, settings: TrainingSettings) -> Share:
        """Return this rank's share of every batch of so many training images; raise unless all have the same.

        >>> Ranks(1, 2).share(100, TrainingSettings(batch_size=8))
        Share(number=1, count=2, batch_size=8)
        >>> Ranks(1, 3).share(100, TrainingSettings(batch_size=8))
        Traceback (most recent call last):
        nesbs.errors.NesbsError: 3 processes cannot share a batch of 8 images equally: set batch_size to a multiple of 3
        """
        batch = min(settings.batch_size, images)
        if batch % self.count:
            raise NesbsError(
                f"{self.count} processes cannot share a batch of {batch} images equally: set batch_size to a multiple "
                f"of {self.count}"
            )
        if self.several and batch == self.count and settings.batch_norm == "own":
            raise NesbsError(
                f"{self.count} processes get one image each of a batch of {batch}, and BatchNorm needs two: set "
                "batch_norm=synchronised, or a larger batch_size"
            )
        return Share(self.number, self.count, batch)

    def average(self, values: Tensor) -> None:
        """Put the mean over all ranks into a tensor."""
        if self.several:
            dist.all_reduce(values)
            values /= self.count

    def average_gradients(self, module: nn.Module) -> None:
        """Put the mean over all ranks into the gradients of the parameters that have one, the same on all ranks."""
        if self.several:
            gradients = [parameter.grad for parameter in module.parameters() if parameter.grad is not None]
            means = torch.cat([gradient.flatten() for gradient in gradients])
            self.average(means)
            for gradient, mean in zip(gradients, means.split([one.numel() for one in gradients]), strict=True):
                gradient.copy_(mean.view(gradient.shape))


ALONE = Ranks()
_AT_WORK = ContextVar("ranks", default=ALONE)


def ranks_at_work() -> Ranks:
    """Return the ranks that run this same code: this process alone, unless inside `with all_ranks()`."""
    return _AT_WORK.get()


@contextmanager
def all_ranks() -> Iterator[None]:
    """Mark a `with` block that every rank of the process group runs."""
    before = _AT_WORK.set(Ranks(dist.get_rank(), dist.get_world_size()))
    try:
        yield
    finally:
        _AT_WORK.reset(before)


def from_first(value: Any) -> Any:
    """Return the first rank's value on every rank; it is pickled, and the ranks' own values are dropped."""
    values = [value]
    dist.broadcast_object_list(values, src=0, device=torch.device("cpu"))
    return values[0]


@contextmanager
def synchronised_batch_norm(module: nn.Module) -> Iterator[None]:
    """Let every BatchNorm of a network in training use the statistics of all ranks' images, inside a `with` block.

    torch's own SyncBatchNorm refuses CPUs.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, nn.modules.batchnorm._BatchNorm)]
    for layer in layers:
        layer.forward = partial(_normalised, layer)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward


def _normalised(layer: nn.modules.batchnorm._BatchNorm, x: Tensor) -> Tensor:
    """What a BatchNorm in training makes of this rank's x (batch, channels, …), over all ranks."""
    with torch.no_grad():
        mean, variance = _statistics(x)
        if layer.running_mean is not None and layer.running_var is not None:
            assert layer.num_batches_tracked is not None
            layer.num_batches_tracked += 1
            rate = 1 / float(layer.num_batches_tracked) if layer.momentum is None else layer.momentum
            values = dist.get_world_size() * x.numel() // x.shape[1]
            layer.running_mean.lerp_(mean.to(layer.running_mean.dtype), rate)
            layer.running_var.lerp_((variance * values / (values - 1)).to(layer.running_var.dtype), rate)
    out: Tensor = _Normalise.apply(x, layer.weight, layer.bias, mean, variance, layer.eps)
    return out


def _statistics(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (channels,) of all ranks' x, each with as many images."""
    wide = x if x.dtype == torch.float64 else x.float()
    variance, mean = torch.var_mean(wide, _all_but_channels(x), correction=0)
    each = mean.new_zeros(dist.get_world_size(), 2, len(mean))
    each[dist.get_rank()] = torch.stack([mean, variance])
    dist.all_reduce(each)
    means, variances = each.unbind(1)
    return means.mean(0), variances.mean(0) + means.var(0, correction=0)


def _all_but_channels(x: Tensor) -> list[int]:
    return [axis for axis in range(x.ndim) if axis != 1]


class _Normalise(torch.autograd.Function):
    """(x − mean) / deviation · weight + bias, where mean and deviation are functions of all ranks' x.

    The gradient of x is that of the sum of all ranks' losses; those of weight and bias are of this rank's loss, as for
    every parameter.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, variance: Tensor, eps: float
    ) -> Tensor:
        ctx.save_for_backward(x, weight, mean, (variance + eps).rsqrt())
        return F.batch_norm(x, mean, variance, weight, bias, training=False, eps=eps)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, scale = ctx.saved_tensors
        axes, channels = _all_but_channels(x), [-1 if axis == 1 else 1 for axis in range(x.ndim)]
        gradient = gradients[0].to(mean.dtype)
        normal = (x - mean.view(channels)) * scale.view(channels)
        sums = torch.stack([gradient.sum(axes), (gradient * normal).sum(axes)])
        of_bias, of_weight = sums.clone() if weight is not None else (None, None)
        dist.all_reduce(sums)
        shift, slope = sums / (dist.get_world_size() * x.numel() // x.shape[1])
        factor = scale if weight is None else scale * weight
        of_x = (gradient - shift.view(channels) - normal * slope.view(channels)) * factor.view(channels)
        return of_x.to(x.dtype), of_weight, of_bias, None, None, None
