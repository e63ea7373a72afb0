"""ReLU, depthwise convolution, 1×1 convolution, BatchNorm as one operation: a half of `sep_conv`, all of `dil_conv`.

With few channels each of the four is a kernel that does next to nothing; here the forward pass is one kernel
besides BatchNorm's sums. States are (pixels, channels) in rows that may be part of wider ones, so a slice of the
channels needs no copy.

    forward    y = pointwise(depthwise(relu(x))), with sums on the way → finish → normalise
    backward   sums → finish → back: the gradient by the depthwise output and by both weights → pull: by x
"""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from nesbs.kernels import cells
from nesbs.kernels.fused import EPS, chunk_of, every, splits_of


@triton.jit(do_not_specialize=["height", "width", "high", "wide", "kernel", "stride", "dilation"])
def forward(x, x_row, depthwise, pointwise, y, sums, splits, pixels, height, width, high, wide, kernel, stride,
            dilation, C: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """The convolutions, and sums and sums of squares of what comes out, for each of several batches in a row."""
    split, batch = tl.program_id(0), tl.program_id(1)
    x += batch.to(tl.int64) * (pixels // (high * wide)) * height * width * x_row
    y += batch.to(tl.int64) * pixels * C
    channel = tl.arange(0, WIDE)
    known = channel < C
    total = tl.zeros([WIDE], tl.float32)
    square = tl.zeros([WIDE], tl.float32)
    mixing = tl.load(
        pointwise + channel[None, :] * C + channel[:, None], mask=known[None, :] & known[:, None], other=0.0
    )
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


@triton.jit(do_not_specialize=["height", "width", "high", "wide", "kernel", "stride", "dilation"])
def back(x, x_row, depthwise, pointwise, y, gradient, statistics, means, inside, parts, splits, pixels, height, width,
         high, wide, kernel, stride, dilation, C: tl.constexpr, WIDE: tl.constexpr, TAPS: tl.constexpr,
         BLOCK: tl.constexpr):  # fmt: skip
    """The gradient by the depthwise output (`inside`), and by the weights, a part for each split.

    A part is (WIDE, WIDE) of the pointwise weights, in × out, then (TAPS, WIDE) of the depthwise ones.
    """
    split = tl.program_id(0)
    channel = tl.arange(0, WIDE)
    known = channel < C
    mean = tl.load(statistics + channel, mask=known, other=0.0)[None, :]
    scale = tl.load(statistics + C + channel, mask=known, other=0.0)[None, :]
    one = tl.load(means + channel, mask=known, other=0.0)[None, :]
    two = tl.load(means + C + channel, mask=known, other=0.0)[None, :]
    both = known[None, :] & known[:, None]
    mixing = tl.load(pointwise + channel[:, None] * C + channel[None, :], mask=both, other=0.0)  # out × in
    by_mixing = tl.zeros([WIDE, WIDE], tl.float32)
    by_taps = tl.zeros([TAPS, WIDE], tl.float32)
    for block in range(split, (pixels + BLOCK - 1) // BLOCK, splits):
        pixel = block * BLOCK + tl.arange(0, BLOCK)
        here = (pixel < pixels)[:, None] & known[None, :]
        at = pixel[:, None] * C + channel[None, :]
        value = (tl.load(y + at, mask=here, other=0.0).to(tl.float32) - mean) * scale
        slope = tl.load(gradient + at, mask=here, other=0.0).to(tl.float32)
        slope = tl.where(here, scale * (slope - one - value * two), 0.0)
        inner = tl.dot(slope.to(x.dtype.element_ty), mixing.to(x.dtype.element_ty))
        tl.store(inside + at, inner.to(inside.dtype.element_ty), mask=here)
        image = pixel // (high * wide)
        row = (pixel // wide) % high * stride - (kernel // 2) * dilation
        column = pixel % wide * stride - (kernel // 2) * dilation
        made = tl.zeros([BLOCK, WIDE], tl.float32)  # the depthwise output once more
        for tap in range(kernel * kernel):
            down, right = row + tap // kernel * dilation, column + tap % kernel * dilation
            there = (pixel < pixels) & (down >= 0) & (down < height) & (right >= 0) & (right < width)
            spot = ((image * height + down) * width + right)[:, None] * x_row + channel[None, :]
            seen = tl.maximum(tl.load(x + spot, mask=there[:, None] & known[None, :], other=0.0).to(tl.float32), 0.0)
            weight = tl.load(depthwise + channel * kernel * kernel + tap, mask=known, other=0.0)
            made += seen * weight[None, :]
            by_taps += tl.where((tl.arange(0, TAPS) == tap)[:, None], tl.sum(seen * inner, 0)[None, :], 0.0)
        by_mixing = tl.dot(tl.trans(made).to(x.dtype.element_ty), slope.to(x.dtype.element_ty), by_mixing)
    part = parts + split * (WIDE + TAPS) * WIDE
    tl.store(part + channel[:, None] * WIDE + channel[None, :], by_mixing)
    tap = tl.arange(0, TAPS)
    tl.store(part + WIDE * WIDE + tap[:, None] * WIDE + channel[None, :], by_taps)


@triton.jit(do_not_specialize=["height", "width", "high", "wide", "kernel", "stride", "dilation"])
def pull(x, x_row, depthwise, inside, out, pixels, height, width, high, wide, kernel, stride, dilation,
         C: tl.constexpr, WIDE: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """The gradient by x, (pixels of x, channels)."""
    channel = tl.arange(0, WIDE)
    known = channel < C
    pixel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    image = pixel // (height * width)
    row = (pixel // width) % height + (kernel // 2) * dilation
    column = pixel % width + (kernel // 2) * dilation
    total = tl.zeros([BLOCK, WIDE], tl.float32)
    for tap in range(kernel * kernel):
        up, left = row - tap // kernel * dilation, column - tap % kernel * dilation
        there = (pixel < pixels) & (up >= 0) & (left >= 0) & (up % stride == 0) & (left % stride == 0)
        up, left = up // stride, left // stride
        there = there & (up < high) & (left < wide)
        at = ((image * high + up) * wide + left)[:, None] * C + channel[None, :]
        slope = tl.load(inside + at, mask=there[:, None] & known[None, :], other=0.0).to(tl.float32)
        weight = tl.load(depthwise + channel * kernel * kernel + tap, mask=known, other=0.0)
        total += slope * weight[None, :]
    here = (pixel < pixels)[:, None] & known[None, :]
    value = tl.load(x + pixel[:, None] * x_row + channel[None, :], mask=here, other=0.0)
    total = tl.where(value > 0, total, 0.0)
    tl.store(out + pixel[:, None] * C + channel[None, :], total.to(out.dtype.element_ty), mask=here)


def _rows(x: Tensor) -> tuple[Tensor, int]:
    """x (batch, channels, height, width) so that its pixels lie in rows of one length, and that length."""
    _, _, height, width = x.shape
    batch_step, channel_step, row_step, step = x.stride()
    if channel_step == 1 and row_step == step * width and batch_step == row_step * height:
        return x, step
    return x.contiguous(memory_format=torch.channels_last), x.shape[1]


class Separable(torch.autograd.Function):
    """ReLU, depthwise (channels, 1, k, k), pointwise (channels, channels, 1, 1), BatchNorm of each of `batches`.

    Gradients are for one batch.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, depthwise: Tensor, pointwise: Tensor, stride: int, dilation: int, batches: int
    ) -> Tensor:
        """Convolve and normalise (batch, channels, height, width)."""
        x, x_row = _rows(x)
        depthwise, pointwise = depthwise.contiguous(), pointwise.contiguous()
        batch, channels, height, width = x.shape
        high, wide = -(-height // stride), -(-width // stride)
        kernel = depthwise.shape[-1]
        shape = (height, width, high, wide, kernel, stride, dilation)
        size = {"C": channels, "WIDE": max(16, channels)}
        pixels, block = batch // batches * high * wide, 64
        blocks = -(-pixels // block)
        splits = splits_of(blocks, 512)
        y = torch.empty(batch, high, wide, channels, dtype=x.dtype, device=x.device)
        sums = torch.empty(batches, splits, 2, channels, device=x.device)
        statistics = torch.empty(batches, 2, channels, device=x.device)
        codes = every(batches, x.device)
        forward[splits, batches](x, x_row, depthwise, pointwise, y, sums, splits, pixels, *shape, BLOCK=block, **size)
        cells.finish[1, batches](
            sums,
            statistics,
            codes,
            splits,
            pixels,
            0,
            1,
            EPS,
            EDGES=1,
            C=channels,
            FORWARD=True,
            CHUNK=chunk_of(channels),
        )
        out = torch.empty_like(y)
        cells.assemble[blocks, batches](
            y, 0, out, y, statistics, codes, pixels, 1, EDGES=1, HEIGHT=1, WIDTH=1, C=channels, BLOCK=block
        )
        ctx.save_for_backward(x, depthwise, pointwise, y, statistics, codes)
        ctx.batches, ctx.x_row, ctx.shape, ctx.size = batches, x_row, shape, size
        ctx.blocks = pixels, block, blocks
        return out.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        """The gradients by x and both weights."""
        assert ctx.batches == 1
        x, depthwise, pointwise, y, statistics, codes = ctx.saved_tensors
        pixels, block, blocks = ctx.blocks
        channels, wide, kernel = ctx.size["C"], ctx.size["WIDE"], depthwise.shape[-1]
        slope = gradient.permute(0, 2, 3, 1).contiguous()
        splits = splits_of(blocks, 512)
        sums = torch.empty(splits, 2, channels, device=x.device)
        means = torch.empty_like(statistics)
        cells.reduce[splits, 1, 1](
            slope, y, statistics, codes, sums, splits, pixels, 1, EDGES=1, C=channels, BLOCK=block
        )
        cells.finish[1, 1](
            sums, means, codes, splits, pixels, -1, 1, EPS, EDGES=1, C=channels, FORWARD=False, CHUNK=chunk_of(channels)
        )
        inside = torch.empty_like(y)
        taps = max(32, triton.next_power_of_2(kernel * kernel))
        splits = splits_of(blocks, 256)
        parts = torch.empty(splits, wide + taps, wide, device=x.device)
        back[splits,](
            x, ctx.x_row, depthwise, pointwise, y, slope, statistics, means, inside, parts, splits, pixels,
            *ctx.shape, TAPS=taps, BLOCK=block, **ctx.size,
        )  # fmt: skip
        batch, _, height, width = x.shape
        out = torch.empty(batch, height, width, channels, dtype=x.dtype, device=x.device)
        own = batch * height * width
        pull[-(-own // 128),](x, ctx.x_row, depthwise, inside, out, own, *ctx.shape, BLOCK=128, **ctx.size)
        total = parts.sum(0)
        by_pointwise = total[:channels, :channels].T.reshape(pointwise.shape)
        by_depthwise = total[wide : wide + kernel * kernel, :channels].T.reshape(depthwise.shape)
        return out.permute(0, 3, 1, 2), by_depthwise, by_pointwise, None, None, None
