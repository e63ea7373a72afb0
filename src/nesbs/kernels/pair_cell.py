"""A DARTS cell on a GPU for many paths at once; the architecture is data."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nesbs.kernels import pair_programs as programs
from nesbs.kernels.edge_cell import EPS, chunk_of, splits_of
from nesbs.kernels.support import precision

BLOCK = 64  # pixels a program works on at once, with 16 channels or more


def block_of(channels: int) -> int:
    """How many pixels a program works on at once: as many values with 8 channels as with 16."""
    return BLOCK * max(1, 16 // channels)


class FusedPairCell(torch.autograd.Function):
    """A cell's output (paths, batch, height, width, nodes × width of a node) from its two preprocessed inputs.

    Inputs are (paths or 1, batch, height, width, channels × parts), in a reduction cell (`stride` 2) of twice the
    output's size. `plan` (paths, 2 × nodes, 2) int32 holds source and code of every slot, `table` (edges, 7) int32
    where an operation's weights begin in `weights`, a row. No two paths may use the same operation of the same edge
    where gradients are wanted.
    """

    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        second: Tensor,
        weights: Tensor,
        plan: Tensor,
        table: Tensor,
        parts: int,
        stride: int,
    ) -> Tensor:
        """Run the cell."""
        paths, nodes, (batch, height, width, wide) = len(plan), plan.shape[1] // 2, first.shape[1:]
        high, across, channels = height // stride, width // stride, wide // parts
        own, pixels = batch * height * width, batch * high * across
        inputs = 2 * paths * own * wide
        arena = first.new_empty(inputs + paths * pixels * nodes * wide)
        states = arena[:inputs].view(2, paths, *first.shape[1:])
        states[0] = first
        states[1] = second
        raw1, raw2 = first.new_empty(2, 2 * nodes, paths, pixels, channels)
        picks = torch.empty(2 * nodes, paths, pixels, channels, dtype=torch.int8, device=arena.device)
        moments = torch.empty(2, 2 * nodes, paths, 2, channels, device=arena.device)
        block = block_of(channels)
        blocks = -(-pixels // block)
        splits = splits_of(blocks, 512)
        sums = torch.empty(2 * nodes, paths, splits, 2, channels, device=arena.device)
        image = {"HEIGHT": high, "WIDTH": across, "NODES": nodes, "C": channels, "BLOCK": block}
        products = {"WIDE": max(16, channels), "PRECISION": precision()}
        sizes = {"STRIDE": stride, "PARTS": parts, **image}
        ends = {"STRIDE": stride, "NODES": nodes, "C": channels, "CHUNK": chunk_of(channels)}
        for node in range(nodes):
            programs.first[splits, 2, paths](
                arena, plan, table, weights, raw1, picks, sums, splits, own, pixels, node, **products, **sizes
            )
            programs.finish[2, paths](sums, moments[0], plan, splits, pixels, node, 1, EPS, FORWARD=True, **ends)
            programs.second[splits, 2, paths](
                raw1, moments[0], plan, table, weights, raw2, sums, splits, pixels, node, **products, **image
            )
            programs.finish[2, paths](sums, moments[1], plan, splits, pixels, node, 2, EPS, FORWARD=True, **ends)
            programs.deliver[blocks, paths](arena, plan, raw1, moments[0], raw2, moments[1], own, pixels, node, **sizes)
        ctx.save_for_backward(arena, weights, plan, table, raw1, raw2, picks, moments)
        ctx.input_paths, ctx.shape = (len(first), len(second)), first.shape[1:]
        ctx.own, ctx.pixels, ctx.nodes = own, pixels, nodes
        ctx.image, ctx.sizes, ctx.ends = image, sizes, ends
        return arena[inputs:].view(paths, batch, high, across, nodes * wide)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients by both inputs and the weights."""
        arena, weights, plan, table, raw1, raw2, picks, moments = ctx.saved_tensors
        own, pixels, nodes = ctx.own, ctx.pixels, ctx.nodes
        paths, channels = len(plan), ctx.image["C"]
        inputs = 2 * paths * own * ctx.shape[-1]
        gradients = torch.empty_like(arena)
        gradients[inputs:].view(gradient.shape).copy_(gradient)
        inner, middle = torch.empty_like(raw1), torch.empty_like(raw1)
        means = torch.empty_like(moments[0])
        block = ctx.image["BLOCK"]
        blocks = -(-pixels // block)
        splits = splits_of(blocks, 256)
        sums = torch.empty(2 * nodes, paths, splits, 2, channels, device=arena.device)
        length = 2 * (25 + channels) * channels
        partial_sums = torch.empty(splits, 2 * nodes * paths, length, device=arena.device)
        products = {"WIDE": max(16, channels), "PRECISION": precision()}
        flat = {key: ctx.sizes[key] for key in ("STRIDE", "NODES", "C", "PARTS", "BLOCK")}
        for node in reversed(range(nodes)):
            for unit, raw, statistics in ((2, raw2, moments[1]), (1, raw1, moments[0])):
                programs.slopes[splits, 2, paths](
                    gradients, middle, plan, raw, statistics, sums, splits, own, pixels, node, unit, **flat
                )
                programs.finish[2, paths](sums, means, plan, splits, pixels, node, unit, EPS, FORWARD=False, **ctx.ends)
                programs.back[splits, 2, paths](
                    arena, gradients, middle, plan, table, weights, raw1, moments[0], raw, statistics, means, inner,
                    partial_sums, splits, own, pixels, node, unit, length, TAPS=32, **products, **ctx.sizes,
                )  # fmt: skip
                if unit == 2:
                    programs.between[blocks, 2, paths](
                        raw1, moments[0], inner, plan, table, weights, middle, pixels, node, **ctx.image
                    )
            for state in [node + 1] if node > 0 else [1, 0]:
                mine = own if state < 2 else pixels
                programs.gather[-(-mine // block), paths](
                    arena, gradients, plan, table, weights, inner, picks, own, pixels, state, **products, **ctx.sizes
                )
        row = torch.zeros_like(weights)
        programs.scatter[-(-length // 128), 2 * nodes * paths](
            partial_sums, plan, table, row, splits, length,
            STRIDE=ctx.sizes["STRIDE"], NODES=nodes, C=channels, CHUNK=32, BLOCK=128,
        )  # fmt: skip
        both = gradients[:inputs].view(2, paths, *ctx.shape)
        by_first, by_second = (
            one.sum(0, keepdim=True) if count < paths else one for one, count in zip(both, ctx.input_paths, strict=True)
        )
        return by_first, by_second, row, None, None, None, None
