"""Separable and dilated convolutions of a network whose architecture is fixed, as few kernels.

An operation is one unit or two in a row: ReLU, depthwise convolution (or none), 1×1 convolution, BatchNorm with offset,
scale and running averages. Two states a unit are written: between the convolutions and behind them, BatchNorm not yet
applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from nesbs.kernels import depthwise_programs as programs
from nesbs.kernels.support import precision


@dataclass(frozen=True)
class Tile:
    """How a kernel is cut: pixels of a program's block, how many programs share the pixels at most, warps a program."""

    block: int
    splits: int = 0
    warps: int = 4


WIDE = 16  # channels of a program where channels stay apart
# What was quickest on an H200, which has 132 processors; one warp adds up without waiting for others.
CONVOLVE, DELIVER, PULL, UNMIX = Tile(64, warps=2), Tile(64), Tile(64, warps=1), Tile(64)
MIX, REDUCE, WEIGH = Tile(256, 132, warps=8), Tile(256, 132), Tile(32, 528)
INNER = 32  # channels that a 1×1 convolution multiplies at once
CHUNK, NUMBERS = 256, 16  # parts that are added up at once, and of how many numbers
FINISH = Tile(512)  # parts that BatchNorm adds up at once


@dataclass(frozen=True)
class Unit:
    """A unit's layers."""

    depthwise: nn.Conv2d | None
    pointwise: nn.Conv2d
    norm: nn.BatchNorm2d

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """What is trained: the convolutions' weights, BatchNorm's scale and offset."""
        first = () if self.depthwise is None else (self.depthwise.weight,)
        return (*first, self.pointwise.weight, self.norm.weight, self.norm.bias)


@dataclass(frozen=True)
class Made:
    """What a unit made of x (batch, height, width, channels): two states, and BatchNorm's numbers (4, channels)."""

    x: Tensor
    ahead: Tensor | None
    inner: Tensor
    raw: Tensor
    norm: Tensor


def _split(pixels: int, tile: Tile, apart: int = 1) -> int:
    """Programs that share the pixels, where `apart` others share them too."""
    return max(1, min(-(-pixels // tile.block), max(16, tile.splits // apart)))


def _wide(channels: int) -> int:
    """Channels that a 1×1 convolution makes at once."""
    return 128 if 64 < channels <= 128 else 64


def _geometry(layer: nn.Conv2d, x: Tensor, ahead: Tensor | None) -> dict[str, Any]:
    _, height, width, channels = x.shape
    image = {"HIGH": height, "LONG": width, "C": channels, "AHEAD": ahead is not None, "WIDE": WIDE}
    return {**image, "KERNEL": layer.kernel_size[0], "DILATION": layer.dilation[0], "STRIDE": layer.stride[0]}


def _convolve(layer: nn.Conv2d, x: Tensor, ahead: Tensor | None) -> Tensor:
    """ReLU and depthwise convolution."""
    (batch, height, width, channels), stride = x.shape, layer.stride[0]
    out = x.new_empty(batch, -(-height // stride), -(-width // stride), channels)
    pixels = out.numel() // channels
    programs.convolve[-(-pixels // CONVOLVE.block), -(-channels // WIDE)](
        x, ahead, layer.weight, out, pixels, **_geometry(layer, x, ahead), BLOCK=CONVOLVE.block,
        num_warps=CONVOLVE.warps,
    )  # fmt: skip
    return out


def forward(unit: Unit, x: Tensor, ahead: Tensor | None) -> Made:
    """Run a unit but for applying its BatchNorm, whose running averages are moved."""
    inner = x if unit.depthwise is None else _convolve(unit.depthwise, x, ahead)
    reads, makes = unit.pointwise.in_channels, unit.pointwise.out_channels
    raw, pixels = inner.new_empty(*inner.shape[:3], makes), inner.numel() // reads
    splits, wide = _split(pixels, MIX), _wide(makes)
    sums = torch.empty(splits, 2, makes, device=x.device)
    programs.mix[splits, -(-makes // wide)](
        inner, unit.pointwise.weight, raw, sums, splits, pixels, IN=reads, OUT=makes, RELU=unit.depthwise is None,
        BLOCK=MIX.block, WIDE=wide, INNER=INNER, PRECISION=precision(), num_stages=1, num_warps=MIX.warps,
    )  # fmt: skip
    norm, layer = torch.empty(4, makes, device=x.device), unit.norm
    programs.finish[-(-makes // WIDE),](
        sums, norm, layer.weight, layer.bias, layer.running_mean, layer.running_var, layer.num_batches_tracked, splits,
        pixels, layer.eps, layer.momentum, C=makes, WIDE=WIDE, CHUNK=FINISH.block, num_warps=FINISH.warps,
    )  # fmt: skip
    return Made(x, ahead, inner, raw, norm)


def backward(unit: Unit, made: Made, gradient: Tensor, drop: Tensor | None) -> tuple[Tensor, list[Tensor]]:
    """Gradients by a unit's (normalised) input and by its parameters, from the one by its normalised output."""
    device, (_, height, width, makes), reads = gradient.device, made.raw.shape, unit.pointwise.in_channels
    row = gradient.stride(2)
    pixels = made.raw.numel() // makes
    apart: dict[str, Any] = {"IMAGE": height * width, "DROP": drop is not None}
    splits = _split(pixels, REDUCE)
    sums, rows = torch.empty(splits, 2, makes, device=device), torch.empty(5, makes, device=device)
    back, by_scale, by_offset = rows[:3], rows[3], rows[4]
    programs.reduce[splits, -(-makes // WIDE)](
        gradient, row, drop, made.raw, made.norm, sums, splits, pixels, C=makes, WIDE=WIDE, **apart,
        BLOCK=REDUCE.block, num_warps=REDUCE.warps,
    )  # fmt: skip
    programs.finish_back[-(-makes // WIDE),](
        sums, made.norm, back, by_scale, by_offset, splits, pixels, C=makes, WIDE=WIDE, CHUNK=FINISH.block,
        num_warps=FINISH.warps,
    )  # fmt: skip
    by_inner, wide = torch.empty_like(made.inner), _wide(reads)
    apart |= {"IN": reads, "OUT": makes, "RELU": unit.depthwise is None, "PRECISION": precision()}
    programs.unmix[-(-pixels // UNMIX.block), -(-reads // wide)](
        gradient, row, drop, made.raw, back, unit.pointwise.weight, made.inner, by_inner, pixels, **apart,
        BLOCK=UNMIX.block, WIDE=wide, INNER=INNER, num_warps=UNMIX.warps,
    )  # fmt: skip
    tiles = (-(-makes // 64), -(-reads // 64))
    splits = _split(pixels, WEIGH, tiles[0] * tiles[1])
    parts = torch.empty(splits, makes, reads, device=device)
    programs.weigh[splits, *tiles](
        gradient, row, drop, made.raw, back, made.inner, parts, splits, pixels, **apart, BLOCK=WEIGH.block, WIDE=64,
        num_warps=WEIGH.warps,
    )  # fmt: skip
    if unit.depthwise is None:
        return by_inner, [*_totals(parts, None, unit), by_scale, by_offset]
    by_x, more = _pull(unit.depthwise, made, by_inner)
    return by_x, [*_totals(more, parts, unit), by_scale, by_offset]


def _pull(layer: nn.Conv2d, made: Made, by_inner: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients by what a depthwise convolution read, and by its weights, in parts (blocks, taps, channels)."""
    channels, taps, by_x = made.x.shape[-1], layer.weight[0].numel(), torch.empty_like(made.x)
    pixels = by_x.numel() // channels
    blocks = -(-pixels // PULL.block)
    parts = torch.empty(blocks, taps, channels, device=by_x.device)
    programs.pull[blocks, -(-channels // WIDE)](
        made.x, made.ahead, by_inner, layer.weight, by_x, parts, pixels, **_geometry(layer, made.x, made.ahead),
        BLOCK=PULL.block, num_warps=PULL.warps,
    )  # fmt: skip
    return by_x, parts


def _totals(parts: Tensor, more: Tensor | None, unit: Unit) -> list[Tensor]:
    """Parts of the weights' gradients added up, each in its weight's shape; with `more` the first are (…, taps, C)."""
    numbers = [one[0].numel() for one in (parts, more) if one is not None]
    found = torch.empty(sum(numbers), device=parts.device)
    programs.total[sum(-(-number // NUMBERS) for number in numbers),](
        parts, len(parts), numbers[0], numbers[0] if more is None else parts.shape[2], more,
        0 if more is None else len(more), numbers[-1], found, MORE=more is not None, BLOCK=NUMBERS, CHUNK=CHUNK,
    )  # fmt: skip
    return [_like(part, weight) for part, weight in zip(found.split(numbers), unit.parameters, strict=False)]


def _like(numbers: Tensor, weight: Tensor) -> Tensor:
    """Numbers in a weight's shape and layout, which the optimiser asks for."""
    return numbers.as_strided(weight.shape, weight.stride(), numbers.storage_offset())


def _in_rows(x: Tensor) -> Tensor:
    """x (batch, height, width, channels), copied unless pixels are evenly apart, as of some channels of a tensor."""
    _, height, width, _ = x.shape
    even = x.stride() == (height * width * x.stride(2), width * x.stride(2), x.stride(2), 1)
    return x if even else x.contiguous()


class FusedUnits(torch.autograd.Function):
    """Units in a row on a state (batch, height, width, channels), of which each image is multiplied by `drop` (batch,).

    What leaves them is added to `plus`, which has its shape.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, drop: Tensor | None, plus: Tensor | None, units: Sequence[Unit], *parameters: Tensor
    ) -> Tensor:
        """Run the units; `parameters` are theirs, in order, so that gradients find them."""
        made = [forward(units[0], x.contiguous(), None)]
        for unit in units[1:]:
            made.append(forward(unit, made[-1].raw, made[-1].norm[2:]))
        ctx.units, ctx.plus = units, plus is not None
        ctx.save_for_backward(drop, made[0].x, *(state for one in made for state in (one.inner, one.raw, one.norm)))
        raw, norm = made[-1].raw, made[-1].norm
        out, channels = torch.empty_like(raw), raw.shape[-1]
        pixels = raw.numel() // channels
        programs.deliver[-(-pixels // DELIVER.block), -(-channels // WIDE)](
            raw, norm, drop, None if plus is None else plus.contiguous(), out, pixels, IMAGE=pixels // len(raw),
            C=channels, DROP=drop is not None, PLUS=plus is not None, BLOCK=DELIVER.block, WIDE=WIDE,
            num_warps=DELIVER.warps,
        )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients by x, `plus` and the parameters."""
        drop, x, *states = ctx.saved_tensors
        gradient, by_plus, ahead, made = _in_rows(gradient), gradient if ctx.plus else None, None, []
        for first in range(0, len(states), 3):
            made.append(Made(x, ahead, *states[first : first + 3]))
            x, ahead = made[-1].raw, made[-1].norm[2:]
        found: list[Tensor] = []
        for unit, one in zip(reversed(ctx.units), reversed(made), strict=True):
            gradient, by_parameters = backward(unit, one, gradient, drop)
            found = [*by_parameters, *found]
            drop = None
        return gradient, None, by_plus, None, *found
