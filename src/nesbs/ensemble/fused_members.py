"""The forward pass of several members of different architectures by our kernels, and the memory that these read.

Parameters and running averages stay those of the members: they become parts of larger tensors.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor, nn

from nesbs import kernels
from nesbs.spaces import ChoiceCell, Member
from nesbs.spaces.nasbench201 import EdgeNetwork, Reduction
from nesbs.supernet.fused_network import EDGE_CODES, cells_of, edge_codes
from nesbs.supernet.parameter_vector import unflat

CONVOLUTIONS = (EDGE_CODES["nor_conv_1x1"], EDGE_CODES["nor_conv_3x3"])


@dataclass(frozen=True)
class NormMemory:
    """BatchNorm of all members at one place: offset and scale, a leaf for gradients, and running averages.

    Both are (members, two, channels), in cells (edges, members, two, channels).
    """

    affine: Tensor
    running: Tensor


@dataclass(frozen=True)
class CellMemory:
    """Convolutions and BatchNorm of all members' cells at one place: weights (members, numbers), a leaf for gradients.

    An edge has as many numbers as a 3×3 convolution.
    """

    weights: Tensor
    norm: NormMemory

    def run(self, x: Tensor, codes: Tensor, nodes: int) -> Tensor:
        """The last state of a cell for states (members, batch, height, width, channels)."""
        from nesbs.kernels.edge_cell import FusedEdgeCell  # needs Triton

        row = 9 * x.shape[-1] ** 2
        out: Tensor = FusedEdgeCell.apply(x, self.weights, codes, nodes, row, 0, self.norm.affine, self.norm.running)
        return out


Layers = tuple[nn.Conv2d, nn.BatchNorm2d]
Part = Callable[[Tensor], Tensor]  # a view of a part of a tensor


class FusedMembers:
    """The forward pass of several members, whose parameters and buffers are moved to memory that kernels read."""

    def __init__(self, members: Sequence[Member]) -> None:
        networks = [member.network for member in members]
        self._networks = [network for network in networks if isinstance(network, EdgeNetwork)]
        self._space, self._device = self._networks[0].space, self._networks[0].head.weight.device
        self._leaves: list[Tensor] = []
        self._parts: list[tuple[Tensor, int, Part]] = []  # a parameter, its leaf, the part of it
        self._counts: list[Tensor] = []  # of BatchNorm's steps
        codes = [edge_codes(self._space, member.architecture) for member in members]
        self._codes = torch.tensor(codes, dtype=torch.int32, device=self._device)
        self._one = torch.full((len(members), 1), CONVOLUTIONS[1], dtype=torch.int32, device=self._device)
        self._stem = self._join_norms([_layers(network.stem)[1] for network in self._networks])
        first, cells = self._networks[0], list(zip(*map(cells_of, self._networks), strict=True))
        widths = [2 ** (place * len(first.stages) // len(cells)) * first.channels for place in range(len(cells))]
        self._cells = [self._join_cells(each, codes, width) for each, width in zip(cells, widths, strict=True)]
        self._reductions = []
        for blocks in zip(*map(_reductions, self._networks), strict=True):
            halving, second = zip(
                *([_layers(convolution) for convolution in block.convs] for block in blocks), strict=True
            )
            norms, width = self._join_norms([norm for _, norm in halving]), second[0][0].out_channels
            self._reductions.append((norms, self._join({(i, 0): layers for i, layers in enumerate(second)}, 1, width)))
        self._last = self._join_norms([_batch_norm(network.last[0]) for network in self._networks])
        self._keep_others()
        self._steps = torch.stack(self._counts)
        for count, place in zip(self._counts, self._steps, strict=True):
            count.data = place

    def _leaf(self, *shape: int) -> Tensor:
        self._leaves.append(torch.zeros(shape, device=self._device, requires_grad=True))
        return self._leaves[-1]

    def _move(self, parameter: Tensor, part: Part) -> None:
        """Let a parameter be a part of the last leaf."""
        parameter.data = part(self._leaves[-1].detach()).copy_(parameter.detach())
        self._parts.append((parameter, len(self._leaves) - 1, part))

    def _move_norm(self, norm: nn.BatchNorm2d, running: Tensor, part: Part) -> None:
        """Let offset and scale be a part of the last leaf, and the running averages of `running`."""
        self._move(norm.bias, lambda leaf: part(leaf)[0])
        self._move(norm.weight, lambda leaf: part(leaf)[1])
        for place, name in zip(part(running), ("running_mean", "running_var"), strict=True):
            buffer = norm.get_buffer(name)
            buffer.data = place.copy_(buffer)
        self._counts.append(norm.get_buffer("num_batches_tracked"))

    def _join_norms(self, norms: Sequence[nn.BatchNorm2d]) -> NormMemory:
        """Put the members' BatchNorm at one place side by side."""
        shape = (len(norms), 2, norms[0].num_features)
        memory = NormMemory(self._leaf(*shape), torch.zeros(shape, device=self._device))
        for number, norm in enumerate(norms):
            self._move_norm(norm, memory.running, operator.itemgetter(number))
        return memory

    def _join_cells(self, cells: Sequence[ChoiceCell], codes: Sequence[Sequence[int]], width: int) -> CellMemory:
        """Put what the members' cells at one place multiply side by side."""
        layers = {}
        for number, cell in enumerate(cells):
            for edge, (target, source) in enumerate(self._space.edges):
                if codes[number][edge] in CONVOLUTIONS:
                    [operation] = cell.edges[f"{target}_{source}"].children()
                    layers[number, edge] = _layers(operation)
        return self._join(layers, len(self._space.edges), width)

    def _join(self, layers: Mapping[tuple[int, int], Layers], edges: int, width: int) -> CellMemory:
        """Put convolutions of so many channels side by side, each of a (member, edge)."""
        count = len(self._networks)
        weights = self._leaf(count, edges * 9 * width**2)
        for (number, edge), (convolution, _) in layers.items():
            self._move(convolution.weight, _row_part(number, edge * 9 * width**2, convolution.weight.shape))
        shape = (edges, count, 2, width)
        memory = NormMemory(self._leaf(*shape), torch.zeros(shape, device=self._device))
        for (number, edge), (_, norm) in layers.items():
            self._move_norm(norm, memory.running, operator.itemgetter((edge, number)))
        return CellMemory(weights, memory)

    def _keep_others(self) -> None:
        """The parameters outside the cells that stay where they are."""
        moved = {parameter for parameter, _, _ in self._parts}
        for network in self._networks:
            for module in (network.stem, network.reductions, network.head):
                for parameter in module.parameters():
                    if parameter not in moved:
                        self._leaves.append(parameter)
                        self._parts.append((parameter, len(self._leaves) - 1, lambda leaf: leaf))

    def logits(self, images: Sequence[Tensor]) -> list[Tensor]:
        """Logits (batch, classes) of each member for its own images; running averages are moved."""
        members, cells = self._networks, iter(self._cells)
        x = _joined([one.stem[0](one.normalise(seen)) for one, seen in zip(members, images, strict=True)])
        x = self._normalised(x, self._stem)
        for stage, width in enumerate(members[0].stages):
            state = self._pixels(x)
            for cell in islice(cells, len(width)):  # type: ignore[arg-type]
                state = cell.run(state, self._codes, self._space.nodes)
            x = state.flatten(0, 1).permute(0, 3, 1, 2)
            if stage < len(self._reductions):
                x = self._reduced(x, stage)
        self._steps += 1
        seen = self._normalised(x, self._last).relu().mean((2, 3)).chunk(len(members))
        return [one.head(part) for one, part in zip(members, seen, strict=True)]

    def _reduced(self, x: Tensor, stage: int) -> Tensor:
        """What the members' reductions behind a stage give, as `Reduction` computes it."""
        blocks = [_reductions(network)[stage] for network in self._networks]
        norm, second = self._reductions[stage]
        positive = zip(blocks, x.relu().chunk(len(blocks)), strict=True)
        halved = _joined([_layers(block.convs[0])[0](part) for block, part in positive])
        state = second.run(self._pixels(self._normalised(halved, norm)), self._one, 2)
        shortcuts = [block.past(part) for block, part in zip(blocks, x.chunk(len(blocks)), strict=True)]
        return _joined(shortcuts) + state.flatten(0, 1).permute(0, 3, 1, 2)

    def _normalised(self, x: Tensor, norm: NormMemory) -> Tensor:
        out = kernels.batch_norm(x, len(self._networks), norm.affine, norm.running)
        assert out is not None  # widths are powers of two
        return out

    def _pixels(self, x: Tensor) -> Tensor:
        """States (members × batch, channels, height, width) as (members, batch, height, width, channels)."""
        pixels: Tensor = x.permute(0, 2, 3, 1).unflatten(0, (len(self._networks), -1))
        return pixels

    def set_gradients(self, loss: Tensor) -> None:
        """Give every parameter that the loss reaches its gradient."""
        gradients = torch.autograd.grad(loss, self._leaves)
        for parameter, leaf, part in self._parts:
            parameter.grad = laid_out_as(parameter, part(gradients[leaf]))


def laid_out_as(parameter: Tensor, values: Tensor) -> Tensor:
    """Values of a parameter in its own layout, which the fused optimiser wants even of dimensions of size one."""
    if values.stride() == parameter.stride():
        return values
    return torch.empty_strided(parameter.shape, parameter.stride(), device=values.device).copy_(values)


def _row_part(number: int, start: int, shape: torch.Size) -> Part:
    """A convolution's weights in row `number`."""
    return lambda rows: unflat(rows[number, start : start + shape.numel()], shape)


def _joined(parts: Sequence[Tensor]) -> Tensor:
    """The members' batches in a row."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def _reductions(network: EdgeNetwork) -> list[Reduction]:
    return [block for block in network.reductions if isinstance(block, Reduction)]


def _batch_norm(module: nn.Module) -> nn.BatchNorm2d:
    assert isinstance(module, nn.BatchNorm2d)
    return module


def _layers(operation: nn.Module) -> Layers:
    """The convolution and the BatchNorm behind it."""
    *_, convolution, norm = operation.children()
    assert isinstance(convolution, nn.Conv2d)
    return convolution, _batch_norm(norm)
