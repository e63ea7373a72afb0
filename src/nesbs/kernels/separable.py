"""ReLU, depthwise convolution, 1×1 convolution, BatchNorm as one: `dil_conv` is one such unit, `sep_conv` two.

With few channels each of the four is a kernel that does next to nothing. Here a unit's forward pass is one kernel
and BatchNorm's sums; the next unit normalises what it reads. States are (pixels, channels) in rows that may be part
of wider ones, so a slice of the channels needs no copy, and partial channels (`parts`) are put together by the
kernel that writes the result: channel c of part p goes to c · parts + p.

    forward    for each unit: y = pointwise(depthwise(relu(x))), with sums on the way → finish
               deliver: normalise, and hand on the channels that pass by
    backward   for each unit, from the last: sums → finish → back: by the depthwise output and both weights → pull: by x
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from nesbs.kernels import cells
from nesbs.kernels.fused import EPS, chunk_of, every, splits_of

TAPS = 32  # room for 5×5
SIZES = ["height", "width", "high", "wide", "kernel", "stride", "dilation"]


@triton.jit(do_not_specialize=SIZES)
def forward(x, x_row, before, depthwise, pointwise, y, sums, splits, pixels, height, width, high, wide, kernel, stride,
            dilation, NORMED: tl.constexpr, C: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """The convolutions, and sums and sums of squares of what comes out, for each of several batches in a row."""
    split, batch = tl.program_id(0), tl.program_id(1)
    x += batch.to(tl.int64) * (pixels // (high * wide)) * height * width * x_row
    y += batch.to(tl.int64) * pixels * C
    channel = tl.arange(0, WIDE)
    known = channel < C
    if NORMED:
        mean = tl.load(before + batch * 2 * C + channel, mask=known, other=0.0)[None, :]
        scale = tl.load(before + batch * 2 * C + C + channel, mask=known, other=0.0)[None, :]
    total = tl.zeros([WIDE], tl.float32)
    square = tl.zeros([WIDE], tl.float32)
    both = known[None, :] & known[:, None]
    mixing = tl.load(pointwise + channel[None, :] * C + channel[:, None], mask=both, other=0.0)  # in × out
    for block in range(split, (pixels + BLOCK - 1) // BLOCK, splits):
        pixel = block * BLOCK + tl.arange(0, BLOCK)
        image = pixel // (high * wide)
        row = (pixel // wide) % high * stride - (kernel // 2) * dilation
        column = pixel % wide * stride - (kernel // 2) * dilation
        inner = tl.zeros([BLOCK, WIDE], tl.float32)
        for tap in range(kernel * kernel):
            down, right = row + tap // kernel * dilation, column + tap % kernel * dilation
            there = (pixel < pixels) & (down >= 0) & (down < height) & (right >= 0) & (right < width)
            at = ((image * height + down) * width + right)[:, None] * x_row + channel[None, :]
            value = tl.load(x + at, mask=there[:, None] & known[None, :], other=0.0).to(tl.float32)
            if NORMED:
                value = tl.where(there[:, None], (value - mean) * scale, 0.0)
            weight = tl.load(depthwise + channel * kernel * kernel + tap, mask=known, other=0.0)
            inner += tl.maximum(value, 0.0) * weight[None, :]
        out = tl.dot(inner.to(x.dtype.element_ty), mixing.to(x.dtype.element_ty))
        at = pixel[:, None] * C + channel[None, :]
        tl.store(y + at, out.to(y.dtype.element_ty), mask=(pixel < pixels)[:, None] & known[None, :])
        total += tl.sum(out, 0)
        square += tl.sum(out * out, 0)
    at = (batch * splits + split) * 2 * C + channel
    tl.store(sums + at, total, mask=known)
    tl.store(sums + at + C, square, mask=known)


@triton.jit
def deliver(y, statistics, x, x_row, out, pixels, PARTS: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr):
    """The result (pixels, channels × parts): what is normalised, and the channels of x that pass by."""
    batch = tl.program_id(1)
    channel = tl.arange(0, C)
    mean = tl.load(statistics + batch * 2 * C + channel)[None, :]
    scale = tl.load(statistics + batch * 2 * C + C + channel)[None, :]
    within = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = (within < pixels)[:, None]
    pixel = (batch.to(tl.int64) * pixels + within)[:, None]
    value = (tl.load(y + pixel * C + channel[None, :], mask=inside, other=0.0).to(tl.float32) - mean) * scale
    at = out + (pixel * C + channel[None, :]) * PARTS
    tl.store(at, value.to(out.dtype.element_ty), mask=inside)
    for part in tl.static_range(1, PARTS):
        past = tl.load(x + pixel * x_row + part * C + channel[None, :], mask=inside, other=0.0)
        tl.store(at + part, past.to(out.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["slope_step"])
def slope_sums(slope, slope_row, slope_step, y, statistics, sums, splits, pixels, C: tl.constexpr,
               BLOCK: tl.constexpr):  # fmt: skip
    """Sums of the gradient by a unit's output, and of it times the output, for BatchNorm's backward pass."""
    split = tl.program_id(0)
    channel = tl.arange(0, C)
    mean = tl.load(statistics + channel)[None, :]
    scale = tl.load(statistics + C + channel)[None, :]
    one = tl.zeros([C], tl.float32)
    two = tl.zeros([C], tl.float32)
    for block in range(split, (pixels + BLOCK - 1) // BLOCK, splits):
        pixel = (block * BLOCK + tl.arange(0, BLOCK))[:, None]
        inside = pixel < pixels
        given = tl.load(slope + pixel * slope_row + channel[None, :] * slope_step, mask=inside, other=0.0)
        value = tl.load(y + pixel * C + channel[None, :], mask=inside, other=0.0).to(tl.float32)
        one += tl.sum(given.to(tl.float32), 0)
        two += tl.sum(given.to(tl.float32) * (value - mean) * scale, 0)
    tl.store(sums + split * 2 * C + channel, one)
    tl.store(sums + split * 2 * C + C + channel, two)


@triton.jit(do_not_specialize=[*SIZES, "slope_step"])
def back(x, x_row, before, depthwise, pointwise, y, slope, slope_row, slope_step, statistics, means, inside, parts,
         splits, pixels, height, width, high, wide, kernel, stride, dilation, NORMED: tl.constexpr, C: tl.constexpr,
         WIDE: tl.constexpr, TAPS: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """The gradient by the depthwise output (`inside`), and by the weights, a part for each split.

    A part is (out, in) of the pointwise weights, then (channels, taps) of the depthwise ones.
    """
    split = tl.program_id(0)
    channel = tl.arange(0, WIDE)
    known = channel < C
    mean = tl.load(statistics + channel, mask=known, other=0.0)[None, :]
    scale = tl.load(statistics + C + channel, mask=known, other=0.0)[None, :]
    one = tl.load(means + channel, mask=known, other=0.0)[None, :]
    two = tl.load(means + C + channel, mask=known, other=0.0)[None, :]
    if NORMED:
        mean_before = tl.load(before + channel, mask=known, other=0.0)[None, :]
        scale_before = tl.load(before + C + channel, mask=known, other=0.0)[None, :]
    both = known[None, :] & known[:, None]
    mixing = tl.load(pointwise + channel[:, None] * C + channel[None, :], mask=both, other=0.0)  # out × in
    by_mixing = tl.zeros([WIDE, WIDE], tl.float32)
    by_taps = tl.zeros([TAPS, WIDE], tl.float32)
    for block in range(split, (pixels + BLOCK - 1) // BLOCK, splits):
        pixel = block * BLOCK + tl.arange(0, BLOCK)
        here = (pixel < pixels)[:, None] & known[None, :]
        at = pixel[:, None] * C + channel[None, :]
        value = (tl.load(y + at, mask=here, other=0.0).to(tl.float32) - mean) * scale
        given = tl.load(slope + pixel[:, None] * slope_row + channel[None, :] * slope_step, mask=here, other=0.0)
        raw = tl.where(here, scale * (given.to(tl.float32) - one - value * two), 0.0)
        inner = tl.dot(raw.to(x.dtype.element_ty), mixing.to(x.dtype.element_ty))
        tl.store(inside + at, inner.to(inside.dtype.element_ty), mask=here)
        image = pixel // (high * wide)
        row = (pixel // wide) % high * stride - (kernel // 2) * dilation
        column = pixel % wide * stride - (kernel // 2) * dilation
        made = tl.zeros([BLOCK, WIDE], tl.float32)  # the depthwise output once more
        for tap in range(kernel * kernel):
            down, right = row + tap // kernel * dilation, column + tap % kernel * dilation
            there = (pixel < pixels) & (down >= 0) & (down < height) & (right >= 0) & (right < width)
            spot = ((image * height + down) * width + right)[:, None] * x_row + channel[None, :]
            seen = tl.load(x + spot, mask=there[:, None] & known[None, :], other=0.0).to(tl.float32)
            if NORMED:
                seen = tl.where(there[:, None], (seen - mean_before) * scale_before, 0.0)
            seen = tl.maximum(seen, 0.0)
            weight = tl.load(depthwise + channel * kernel * kernel + tap, mask=known, other=0.0)
            made += seen * weight[None, :]
            by_taps += tl.where((tl.arange(0, TAPS) == tap)[:, None], tl.sum(seen * inner, 0)[None, :], 0.0)
        by_mixing = tl.dot(tl.trans(raw).to(x.dtype.element_ty), made.to(x.dtype.element_ty), by_mixing)
    part = parts + split * (C + kernel * kernel) * C
    tl.store(part + channel[:, None] * C + channel[None, :], by_mixing, mask=both)
    tap = tl.arange(0, TAPS)
    real = (tap < kernel * kernel)[:, None] & known[None, :]
    tl.store(part + C * C + channel[None, :] * kernel * kernel + tap[:, None], by_taps, mask=real)


@triton.jit(do_not_specialize=SIZES)
def pull(x, x_row, before, depthwise, inside, slope, slope_row, out, pixels, height, width, high, wide, kernel, stride,
         dilation, NORMED: tl.constexpr, PARTS: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """The gradient by x, (pixels of x, channels × parts): of what went through, and of what passed by."""
    channel = tl.arange(0, C)
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    image = pixel // (height * width)
    row = (pixel // width) % height + (kernel // 2) * dilation
    column = pixel % width + (kernel // 2) * dilation
    total = tl.zeros([BLOCK, C], tl.float32)
    for tap in range(kernel * kernel):
        up, left = row - tap // kernel * dilation, column - tap % kernel * dilation
        there = (pixel < pixels) & (up >= 0) & (left >= 0) & (up % stride == 0) & (left % stride == 0)
        up, left = up // stride, left // stride
        there = there & (up < high) & (left < wide)
        at = ((image * high + up) * wide + left)[:, None] * C + channel[None, :]
        given = tl.load(inside + at, mask=there[:, None], other=0.0).to(tl.float32)
        weight = tl.load(depthwise + channel * kernel * kernel + tap)
        total += given * weight[None, :]
    here = (pixel < pixels)[:, None]
    value = tl.load(x + pixel[:, None] * x_row + channel[None, :], mask=here, other=0.0).to(tl.float32)
    if NORMED:
        value -= tl.load(before + channel)[None, :]  # its scale is positive
    total = tl.where(value > 0, total, 0.0)
    at = out + pixel[:, None] * (C * PARTS) + channel[None, :]
    tl.store(at, total.to(out.dtype.element_ty), mask=here)
    for part in tl.static_range(1, PARTS):
        past = tl.load(slope + pixel[:, None] * slope_row + channel[None, :] * PARTS + part, mask=here, other=0.0)
        tl.store(at + part * C, past.to(out.dtype.element_ty), mask=here)


def _rows(x: Tensor) -> tuple[Tensor, int]:
    """x (batch, channels, height, width) so that its pixels lie in rows of one length, and that length."""
    _, _, height, width = x.shape
    batch_step, channel_step, row_step, step = x.stride()
    if channel_step == 1 and row_step == step * width and batch_step == row_step * height:
        return x, step
    return x.contiguous(memory_format=torch.channels_last), x.shape[1]


class Separable(torch.autograd.Function):
    """Units of ReLU, depthwise (channels, 1, k, k), pointwise (channels, channels, 1, 1) and BatchNorm.

    BatchNorm takes the statistics of each of several batches in a row. With `parts` of channels the first part
    goes through, the rest passes by. Gradients are for one batch.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, strides: tuple[int, ...], dilation: int, batches: int, parts: int, *weights: Tensor
    ) -> Tensor:
        """Convolve and normalise (batch, channels × parts, height, width)."""
        source, row = x, x_row = _rows(x)
        weights = tuple(weight.contiguous() for weight in weights)
        batch, channels, height, width = x.shape[0], x.shape[1] // parts, *x.shape[2:]
        size = {"C": channels, "WIDE": max(16, channels)}
        codes = every(batches, x.device)
        statistics = codes.new_empty(0, dtype=torch.float32)
        units, kept = [], []
        for number, (depthwise, pointwise, stride) in enumerate(zip(weights[::2], weights[1::2], strides, strict=True)):
            high, wide = -(-height // stride), -(-width // stride)
            shape = (height, width, high, wide, depthwise.shape[-1], stride, dilation)
            pixels = batch // batches * high * wide
            splits = splits_of(-(-pixels // 64), 1024)
            y = torch.empty(batch, high, wide, channels, dtype=x.dtype, device=x.device)
            sums = torch.empty(batches, splits, 2, channels, device=x.device)
            before, statistics = statistics, torch.empty(batches, 2, channels, device=x.device)
            forward[splits, batches](
                source, row, before, depthwise, pointwise, y, sums, splits, pixels, *shape,
                NORMED=number > 0, BLOCK=64, **size,
            )  # fmt: skip
            cells.finish[1, batches](
                sums, statistics, codes, splits, pixels, 0, 1, EPS,
                EDGES=1, C=channels, FORWARD=True, CHUNK=chunk_of(channels),
            )  # fmt: skip
            units.append((row, pixels, shape))
            kept += [source, before, y, statistics]
            source, row, height, width = y, channels, high, wide
        out = torch.empty(batch, height, width, channels * parts, dtype=x.dtype, device=x.device)
        deliver[-(-pixels // 64), batches](
            y, statistics, kept[0], x_row, out, pixels, PARTS=parts, C=channels, BLOCK=64
        )
        ctx.save_for_backward(codes, *weights, *kept)
        ctx.batches, ctx.parts, ctx.size, ctx.units = batches, parts, size, units
        return out.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients by x and all weights."""
        assert ctx.batches == 1
        count = len(ctx.units)
        codes, *saved = ctx.saved_tensors
        weights, kept = saved[: 2 * count], saved[2 * count :]
        channels = ctx.size["C"]
        slope, slope_row = given, given_row = _rows(gradient)
        step = ctx.parts
        by_weights: list[Tensor] = []
        for number in reversed(range(count)):
            row, pixels, shape = ctx.units[number]
            depthwise, pointwise = weights[2 * number : 2 * number + 2]
            source, before, y, statistics = kept[4 * number : 4 * number + 4]
            splits = splits_of(-(-pixels // 64), 1024)
            sums = torch.empty(splits, 2, channels, device=y.device)
            means = torch.empty_like(statistics)
            slope_sums[splits,](slope, slope_row, step, y, statistics, sums, splits, pixels, C=channels, BLOCK=64)
            cells.finish[1, 1](
                sums, means, codes, splits, pixels, -1, 1, EPS,
                EDGES=1, C=channels, FORWARD=False, CHUNK=chunk_of(channels),
            )  # fmt: skip
            inside = torch.empty_like(y)
            found = torch.empty(splits, pointwise.numel() + depthwise.numel(), device=y.device)
            back[splits,](
                source, row, before, depthwise, pointwise, y, slope, slope_row, step, statistics, means, inside, found,
                splits, pixels, *shape, NORMED=number > 0, TAPS=TAPS, BLOCK=64, **ctx.size,
            )  # fmt: skip
            parts = ctx.parts if number == 0 else 1
            height, width, high, wide, *_ = shape
            own = pixels // (high * wide) * height * width
            by_source = torch.empty(len(y), height, width, channels * parts, dtype=y.dtype, device=y.device)
            pull[-(-own // 64),](
                source, row, before, depthwise, inside, given, given_row, by_source, own, *shape,
                NORMED=number > 0, PARTS=parts, C=channels, BLOCK=64,
            )  # fmt: skip
            by_pointwise, by_depthwise = found.sum(0).split([pointwise.numel(), depthwise.numel()])
            by_weights = [by_depthwise.view(depthwise.shape), by_pointwise.view(pointwise.shape), *by_weights]
            if number > 0:
                slope, slope_row, step = by_source, channels, 1
        return by_source.permute(0, 3, 1, 2), None, None, None, None, *by_weights
