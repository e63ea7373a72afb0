"""Separable and dilated convolutions of a network whose architecture is fixed, as few kernels.

An operation is one unit or two in a row: ReLU, depthwise convolution, 1×1 convolution, BatchNorm with offset, scale and
running averages. Two states a unit are written: between the convolutions and behind them, BatchNorm not yet applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nesbs.kernels import depthwise_programs as programs
from nesbs.kernels.support import precision

SPLITS = 264  # programs among which pixels are split, at most: two for each of an H200's processors
BLOCK, WIDE = 128, 16  # pixels and channels of a program where channels stay apart
BACK_BLOCK, BACK_WARPS = 64, 1  # of their gradients: one warp adds up without waiting for others
MIX_BLOCK, MIX_INNER = 64, 32  # pixels, and channels that are multiplied at once, of a 1×1 convolution
CHUNK, NUMBERS = 256, 16  # parts that are added up at once, and of how many numbers


@dataclass(frozen=True)
class Unit:
    """A unit's layers."""

    depthwise: nn.Conv2d
    pointwise: nn.Conv2d
    norm: nn.BatchNorm2d

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """What is trained: the two convolutions' weights, BatchNorm's scale and offset."""
        return (self.depthwise.weight, self.pointwise.weight, self.norm.weight, self.norm.bias)


@dataclass(frozen=True)
class Made:
    """What a unit made of x (batch, height, width, channels): two states, and BatchNorm's numbers (4, channels)."""

    x: Tensor
    ahead: Tensor | None
    inner: Tensor
    raw: Tensor
    norm: Tensor


def _split(pixels: int, block: int, most: int) -> int:
    return max(1, min(-(-pixels // block), most))


def _wide(channels: int) -> int:
    """Channels that a 1×1 convolution makes at once."""
    return 128 if 64 < channels <= 128 else 64


def _geometry(unit: Unit, x: Tensor, ahead: Tensor | None) -> dict[str, Any]:
    _, height, width, channels = x.shape
    image = {"HIGH": height, "LONG": width, "C": channels, "AHEAD": ahead is not None, "WIDE": WIDE}
    kernel = {"KERNEL": unit.depthwise.kernel_size[0], "DILATION": unit.depthwise.dilation[0]}
    return {**image, **kernel, "STRIDE": unit.depthwise.stride[0]}


def forward(unit: Unit, x: Tensor, ahead: Tensor | None) -> Made:
    """Run a unit but for applying its BatchNorm, whose running averages are moved."""
    batch, height, width, channels = x.shape
    stride = unit.depthwise.stride[0]
    inner = x.new_empty(batch, -(-height // stride), -(-width // stride), channels)
    raw, pixels = torch.empty_like(inner), inner.numel() // channels
    programs.convolve[-(-pixels // BLOCK), -(-channels // WIDE)](
        x, ahead, unit.depthwise.weight, inner, pixels, BLOCK=BLOCK, **_geometry(unit, x, ahead)
    )
    splits, wide = _split(pixels, MIX_BLOCK, 2 * SPLITS), _wide(channels)
    sums = torch.empty(splits, 2, channels, device=x.device)
    programs.mix[splits, -(-channels // wide)](
        inner, unit.pointwise.weight, raw, sums, splits, pixels, IN=channels, OUT=channels, BLOCK=MIX_BLOCK, WIDE=wide,
        INNER=MIX_INNER, PRECISION=precision(), num_stages=1,
    )  # fmt: skip
    norm, layer = torch.empty(4, channels, device=x.device), unit.norm
    programs.finish[-(-channels // WIDE),](
        sums, norm, layer.weight, layer.bias, layer.running_mean, layer.running_var, layer.num_batches_tracked, splits,
        pixels, layer.eps, layer.momentum, C=channels, WIDE=WIDE, CHUNK=CHUNK,
    )  # fmt: skip
    return Made(x, ahead, inner, raw, norm)


def backward(unit: Unit, made: Made, gradient: Tensor, drop: Tensor | None) -> tuple[Tensor, list[Tensor]]:
    """Gradients by a unit's (normalised) input and by its parameters, from the one by its normalised output."""
    x, (_, height, width, channels) = made.x, made.raw.shape
    pixels = made.raw.numel() // channels
    apart: dict[str, Any] = {"IMAGE": height * width, "DROP": drop is not None}
    splits = _split(pixels, BLOCK, SPLITS)
    sums, rows = torch.empty(splits, 2, channels, device=x.device), torch.empty(5, channels, device=x.device)
    back, by_scale, by_offset = rows[:3], rows[3], rows[4]
    programs.reduce[splits, -(-channels // WIDE)](
        gradient, drop, made.raw, made.norm, sums, splits, pixels, C=channels, BLOCK=BLOCK, WIDE=WIDE, **apart
    )
    programs.finish_back[-(-channels // WIDE),](
        sums, made.norm, back, by_scale, by_offset, splits, pixels, C=channels, WIDE=WIDE, CHUNK=CHUNK
    )
    by_inner, wide = torch.empty_like(made.inner), _wide(channels)
    apart |= {"IN": channels, "OUT": channels, "PRECISION": precision()}
    programs.unmix[-(-pixels // MIX_BLOCK), -(-channels // wide)](
        gradient, drop, made.raw, back, unit.pointwise.weight, by_inner, pixels, BLOCK=MIX_BLOCK, WIDE=wide,
        INNER=MIX_INNER, **apart,
    )  # fmt: skip
    tiles = -(-channels // 64)
    splits = _split(pixels, MIX_BLOCK, max(16, SPLITS // tiles**2))
    parts = torch.empty(splits, channels, channels, device=x.device)
    programs.weigh[splits, tiles, tiles](
        gradient, drop, made.raw, back, made.inner, parts, splits, pixels, BLOCK=MIX_BLOCK, WIDE=64, **apart
    )
    by_x, pixels = torch.empty_like(x), x.numel() // channels
    blocks, taps = -(-pixels // BACK_BLOCK), unit.depthwise.weight[0].numel()
    more = torch.empty(blocks, channels, taps, device=x.device)
    programs.pull[blocks, -(-channels // WIDE)](
        x, made.ahead, by_inner, unit.depthwise.weight, by_x, more, pixels, BLOCK=BACK_BLOCK,
        **_geometry(unit, x, made.ahead), num_warps=BACK_WARPS,
    )  # fmt: skip
    numbers = (channels * taps, channels**2)
    weights = torch.empty(sum(numbers), device=x.device)
    programs.total[sum(-(-number // NUMBERS) for number in numbers),](
        more, blocks, numbers[0], parts, splits, numbers[1], weights, BLOCK=NUMBERS, CHUNK=CHUNK
    )
    by_weights = [_like(part, weight) for part, weight in zip(weights.split(numbers), unit.parameters, strict=False)]
    return by_x, [*by_weights, by_scale, by_offset]


def _like(numbers: Tensor, weight: Tensor) -> Tensor:
    """Numbers in a weight's shape and layout, which the optimiser asks for."""
    return numbers.as_strided(weight.shape, weight.stride(), numbers.storage_offset())


class FusedDepthwise(torch.autograd.Function):
    """Units in a row on a state (batch, height, width, channels); `drop` (batch,) multiplies what leaves them."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, drop: Tensor | None, units: Sequence[Unit], *parameters: Tensor) -> Tensor:
        """Run the units; `parameters` are theirs, in order, so that gradients find them."""
        made = [forward(units[0], x.contiguous(), None)]
        for unit in units[1:]:
            made.append(forward(unit, made[-1].raw, made[-1].norm[2:]))
        ctx.units = units
        ctx.save_for_backward(drop, made[0].x, *(state for one in made for state in (one.inner, one.raw, one.norm)))
        raw, norm = made[-1].raw, made[-1].norm
        out, channels = torch.empty_like(raw), raw.shape[-1]
        pixels = raw.numel() // channels
        programs.deliver[-(-pixels // BLOCK), -(-channels // WIDE)](
            raw, norm, drop, out, pixels, IMAGE=pixels // len(raw), C=channels, DROP=drop is not None, BLOCK=BLOCK,
            WIDE=WIDE,
        )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients by x and by the parameters."""
        drop, x, *states = ctx.saved_tensors
        gradient, ahead, made = gradient.contiguous(), None, []
        for first in range(0, len(states), 3):
            made.append(Made(x, ahead, *states[first : first + 3]))
            x, ahead = made[-1].raw, made[-1].norm[2:]
        found: list[Tensor] = []
        for unit, one in zip(reversed(ctx.units), reversed(made), strict=True):
            gradient, by_parameters = backward(unit, one, gradient, drop)
            found = [*by_parameters, *found]
            drop = None
        return gradient, None, None, *found
