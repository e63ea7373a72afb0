"""Kernels for a GPU, written in Triton: many paths of a cell at once, BatchNorm, separable convolutions."""

from __future__ import annotations

import functools
import importlib.util

import torch
from torch import Tensor
from torch.nn import Conv2d

batches = 0  # how many batches lie in a row (see `spaces.sharing.BatchesApart`); 0: kernels are not asked for
INTERPRETED = False  # set by tests, which run the kernels on a CPU in Triton's interpreter


@functools.cache
def _triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def usable(device: torch.device) -> bool:
    """Whether the kernels run on a device: a GPU of 2020 or later, with Triton (torch brings it on Linux)."""
    if device.type == "cpu":
        return INTERPRETED
    return device.type == "cuda" and _triton() and torch.cuda.get_device_capability(device) >= (8, 0)


def power_of_two(number: int) -> bool:
    """Whether a kernel can have so many channels."""
    return number & (number - 1) == 0


def _knows(x: Tensor, channels: int) -> bool:
    return usable(x.device) and power_of_two(channels) and x.dtype in (torch.float32, torch.bfloat16)


def batch_norm(x: Tensor, batches: int) -> Tensor | None:
    """BatchNorm without scale and offset of several batches in a row, each by itself; None where no kernel can."""
    if not _knows(x, x.shape[1]):
        return None
    from nesbs.kernels import fused  # needs Triton

    return fused.normalised(x, batches)


def separable_conv(x: Tensor, depthwise: Conv2d, pointwise: Conv2d) -> Tensor | None:
    """BatchNorm of the two convolutions of the ReLU of x, batches in a row apart; None where no kernel can."""
    if not batches or not _knows(x, x.shape[1]):
        return None
    from nesbs.kernels.separable import Separable  # needs Triton

    out: Tensor = Separable.apply(
        x, depthwise.weight, pointwise.weight, depthwise.stride[0], depthwise.dilation[0], batches
    )
    return out
