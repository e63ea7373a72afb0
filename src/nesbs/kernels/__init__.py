"""Kernels for a GPU, written in Triton: many paths of a cell at once, BatchNorm, separable convolutions."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Sequence

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


def separable_convs(x: Tensor, layers: Sequence[tuple[Conv2d, Conv2d]], parts: int = 1) -> Tensor | None:
    """ReLU, depthwise and pointwise convolution, BatchNorm, for each of `layers`; None where no kernel can.

    With `parts` of channels the first goes through, the rest passes by (see `spaces.operations.Partial`); what
    comes out has them shuffled. Batches in a row stay apart.
    """
    strides = tuple(depthwise.stride[0] for depthwise, _ in layers)
    if not batches or not _knows(x, x.shape[1] // parts) or (parts > 1 and strides[0] > 1):
        return None
    from nesbs.kernels.separable import Separable  # needs Triton

    weights = [convolution.weight for layer in layers for convolution in layer]
    out: Tensor = Separable.apply(x, strides, layers[0][0].dilation[0], batches, parts, *weights)
    return out
