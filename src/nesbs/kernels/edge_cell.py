"""Cells with an operation on every edge, and BatchNorm, as few large kernels; the architecture is data."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nesbs.kernels import edge_programs as programs
from nesbs.kernels.support import precision

EPS, MOMENTUM = 1e-5, 0.1  # BatchNorm's
PIXELS, BYTES = 128, 2**14  # a program works on at once, at most
# Taps of a convolution times channels that are multiplied at once, and programs among which the pixels of an edge are
# split, both at most: of convolutions, and of the gradients by their weights.
INNER, SPLITS = 1, 256
WEIGH_INNER, WEIGH_SPLITS = 64, 128


_NORMALISE: dict[tuple[int, torch.device], Tensor] = {}


def splits_of(blocks: int, most: int) -> int:
    """In how many parts blocks are worked on, each in one program."""
    return max(1, min(blocks, most))


def chunk_of(channels: int) -> int:
    """How many parts are added up at once."""
    return max(16, min(256, 8192 // channels))


def normalise_codes(batches: int, device: torch.device) -> Tensor:
    """Codes (batches, 1) that say: normalise. Cached, unless a graph is being captured, whose memory is its own."""
    key = (batches, device)
    if key in _NORMALISE:
        return _NORMALISE[key]
    codes = torch.full((batches, 1), programs.CONV1, dtype=torch.int32, device=device)
    if device.type != "cuda" or not torch.cuda.is_current_stream_capturing():
        _NORMALISE[key] = codes
    return codes


class Shape:
    """The sizes of a cell's work, as its kernels want them."""

    def __init__(self, state: Tensor, paths: int, nodes: int) -> None:
        _, batch, height, width, channels = state.shape
        self.paths, self.nodes, self.edges = paths, nodes, nodes * (nodes - 1) // 2
        self.pixels, self.height, self.width, self.channels = batch * height * width, height, width, channels
        self.block = max(16, min(PIXELS, BYTES // (channels * state.element_size())))
        self.weigh_block = max(16, min(PIXELS, BYTES // (4 * channels)))
        self.blocks = -(-self.pixels // self.block)
        self.splits = splits_of(self.blocks, max(32, SPLITS // paths))
        self.taps, self.weigh_taps = max(1, INNER // channels), max(1, WEIGH_INNER // channels)
        self.warps = 8 if self.block * channels > 4096 else 4
        self.stages = 2 if channels >= 256 else 3  # that many weights fill the shared memory once, not twice


class FusedEdgeCell(torch.autograd.Function):
    """A cell's last state for many paths: states (paths or 1, batch, height, width, channels), one row of weights.

    `codes` (paths, edges) int32. Weights (numbers,) are shared by all paths, of which then no two may use the same
    operation of the same edge where gradients are wanted: each operation's gradient has one place; or each path has its
    own, (paths, numbers). BatchNorm's offset and scale `affine` and its running averages of mean and variance
    `running`, which are changed, are (edges, paths, two, channels). With `parts` of partial channels above 1 the
    weights are those of all channels, 0 where one does not go through an operation; BatchNorm has no offset then.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weights: Tensor,
        codes: Tensor,
        nodes: int,
        row: int,
        first3: int,
        affine: Tensor | None = None,
        running: Tensor | None = None,
        parts: int = 1,
    ) -> Tensor:
        """Run the cell."""
        shape = Shape(x, len(codes), nodes)
        x = x.contiguous()
        states = x.new_empty(nodes - 1, shape.paths, *x.shape[1:])
        raw = x.new_empty(shape.edges, shape.paths, *x.shape[1:])
        statistics = torch.empty(shape.edges, shape.paths, 2, shape.channels, device=x.device)
        sums = torch.empty(shape.edges, shape.paths, shape.splits, 2, shape.channels, device=x.device)
        x_path = 0 if len(x) == 1 else x[0].numel()
        w_path = 0 if weights.ndim == 1 else weights.shape[1]
        most = shape.splits
        image = {"EDGES": shape.edges, "HEIGHT": shape.height, "WIDTH": shape.width, "C": shape.channels}
        products = {"ROW": row, "FIRST3": first3, "PRECISION": precision(), **image}
        sizes = {"TAPS": shape.taps, "BLOCK": shape.block, "num_warps": shape.warps, "num_stages": shape.stages}
        low = weights.detach().to(x.dtype)
        positive_x, positive = x.relu(), torch.empty_like(states[:-1])
        for source in range(nodes - 1):
            leaving = nodes - 1 - source
            state, path = (positive_x, x_path) if source == 0 else (positive[source - 1], x[0].numel())
            programs.convolve[most, leaving, shape.paths](
                state, path, low, w_path, codes, raw, sums, most, shape.pixels, source, **sizes, **products
            )
            finish_forward(sums, statistics, running, codes, shape.pixels, source, leaving)
            programs.assemble[shape.blocks, shape.paths](
                x, x_path, states, positive, raw, statistics, affine, codes, shape.pixels, source + 1,
                AFFINE=affine is not None, POSITIVE=leaving > 1, BLOCK=shape.block, PARTS=parts, **image,
            )  # fmt: skip
        ctx.save_for_backward(positive_x, positive, low, codes, raw, statistics, affine)
        ctx.shape, ctx.paths, ctx.products, ctx.sizes, ctx.parts = shape, (x_path, w_path), products, sizes, parts
        return states[-1]

    @staticmethod
    def backward(ctx: Any, last: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients by the first state, the weights, offset and scale."""
        x, positive, weights, codes, raw, statistics, affine = ctx.saved_tensors
        shape, (x_path, w_path), products, sizes = ctx.shape, ctx.paths, ctx.products, ctx.sizes
        last = last.contiguous()
        gradients, first = torch.empty_like(positive), torch.empty_like(last)
        means = torch.empty_like(statistics)
        most = shape.splits
        sums = torch.empty(shape.edges, shape.paths, most, 2, shape.channels, device=x.device)
        flat = {"EDGES": shape.edges, "C": shape.channels, "BLOCK": shape.block, "PARTS": ctx.parts}
        for target in range(shape.nodes - 1, 0, -1):
            gradient, source = last if target == shape.nodes - 1 else gradients[target - 1], target - 1
            programs.reduce[most, target, shape.paths](
                gradient, raw, statistics, codes, sums, most, shape.pixels, target, **flat
            )
            finish_backward(sums, means, codes, shape.pixels, target)
            programs.undo[shape.blocks, target, shape.paths](
                gradient, raw, raw, statistics, means, affine, codes, shape.pixels, target,
                AFFINE=affine is not None, **flat,
            )  # fmt: skip
            programs.pull[shape.blocks, shape.paths](
                x, x_path, positive, gradients, last, weights, w_path, raw, codes,
                first if source == 0 else gradients[source - 1],
                shape.pixels, source, NODES=shape.nodes, PARTS=ctx.parts, **sizes, **products,
            )  # fmt: skip
        splits = splits_of(-(-shape.pixels // shape.weigh_block) // 8, WEIGH_SPLITS)
        if w_path:  # each path's own: paths are work enough, and nobody asks for the gradient of what a path leaves out
            splits = max(1, splits // shape.paths)
            parts = torch.empty(splits, *weights.shape, device=x.device)
        else:
            parts = torch.zeros(splits, *weights.shape, device=x.device)
        programs.weigh[splits, -(-9 // shape.weigh_taps), shape.edges * shape.paths](
            x, x_path, positive, raw, codes, parts, w_path, splits, weights.numel(), shape.pixels,
            NODES=shape.nodes, TAPS=shape.weigh_taps, BLOCK=shape.weigh_block, **products,
        )  # fmt: skip
        back = first.sum(0, keepdim=True) if len(x) == 1 and shape.paths > 1 else first
        by_affine = None if affine is None else means * shape.pixels
        return back, parts.sum(0), None, None, None, None, by_affine, None, None


def finish_forward(
    sums: Tensor, statistics: Tensor, running: Tensor | None, codes: Tensor, pixels: int, source: int, leaving: int
) -> None:
    """Mean and 1/deviation of the edges that leave a source, from sums (edges, paths, splits, two, channels)."""
    edges, paths, splits, _, channels = sums.shape
    programs.finish[leaving, paths](
        sums, statistics, running, codes, splits, pixels, source, 0, EPS, MOMENTUM,
        EDGES=edges, C=channels, FORWARD=True, RUNNING=running is not None, CHUNK=chunk_of(channels),
    )  # fmt: skip


def finish_backward(sums: Tensor, means: Tensor, codes: Tensor, pixels: int, target: int) -> None:
    """The two means of BatchNorm's backward pass, of the edges into a target."""
    edges, paths, splits, _, channels = sums.shape
    programs.finish[target, paths](
        sums, means, None, codes, splits, pixels, -1, target, EPS, MOMENTUM,
        EDGES=edges, C=channels, FORWARD=False, RUNNING=False, CHUNK=chunk_of(channels),
    )  # fmt: skip


class FusedBatchNorm(torch.autograd.Function):
    """BatchNorm of (batches × batch, channels, height, width), each batch by itself.

    Offset and scale `affine` and running averages `running`, which are changed, are (batches, two, channels).
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, batches: int, affine: Tensor | None = None, running: Tensor | None = None
    ) -> Tensor:
        """Normalise; the result has its channels last in memory."""
        rows = x.permute(0, 2, 3, 1).contiguous()
        channels = rows.shape[-1]
        pixels = rows.numel() // channels // batches
        block = max(1, min(PIXELS, BYTES // (4 * channels)))
        blocks = -(-pixels // block)
        splits = splits_of(blocks, SPLITS)
        codes = normalise_codes(batches, x.device)
        statistics = torch.empty(batches, 2, channels, device=x.device)
        sums = torch.empty(1, batches, splits, 2, channels, device=x.device)
        out = torch.empty_like(rows)
        size = {"C": channels, "BLOCK": block}
        programs.moments[splits, batches](rows, sums, splits, pixels, **size)
        finish_forward(sums, statistics, running, codes, pixels, 0, 1)
        programs.assemble[blocks, batches](
            rows, 0, out, out, rows, statistics, affine, codes, pixels, 1,
            EDGES=1, HEIGHT=1, WIDTH=1, AFFINE=affine is not None, POSITIVE=False, **size,
        )  # fmt: skip
        ctx.save_for_backward(rows, statistics, codes, affine)
        ctx.sizes = batches, pixels, block, blocks, splits
        return out.permute(0, 3, 1, 2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients by x, offset and scale."""
        rows, statistics, codes, affine = ctx.saved_tensors
        batches, pixels, block, blocks, splits = ctx.sizes
        slope = gradient.permute(0, 2, 3, 1).contiguous()
        channels = rows.shape[-1]
        sums = torch.empty(1, batches, splits, 2, channels, device=rows.device)
        means, out = torch.empty_like(statistics), torch.empty_like(rows)
        size = {"EDGES": 1, "C": channels, "BLOCK": block}
        programs.reduce[splits, 1, batches](slope, rows, statistics, codes, sums, splits, pixels, 1, **size)
        finish_backward(sums, means, codes, pixels, 1)
        programs.undo[blocks, 1, batches](
            slope, rows, out, statistics, means, affine, codes, pixels, 1, AFFINE=affine is not None, **size
        )
        return out.permute(0, 3, 1, 2), None, None if affine is None else means * pixels, None
