"""Members by our own kernels: several of different architectures in one step, recorded as one CUDA graph.

To the kernels an architecture is data, so members of one size run through the same launches, each with its own images,
weights, BatchNorm and optimiser. Convolutions that halve the size or widen, and the head, run member by member.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nesbs import kernels
from nesbs.data import Split
from nesbs.ensemble.settings import MemberSettings
from nesbs.spaces import ChoiceCell, Member
from nesbs.spaces.nasbench201 import EdgeNetwork, Reduction
from nesbs.supernet.fused_network import EDGE_CODES, cells_of, edge_codes, edges_fit
from nesbs.supernet.parameter_vector import unflat
from nesbs.training import Batch, Record, Step, capture_graph

CONVOLUTIONS = (EDGE_CODES["nor_conv_1x1"], EDGE_CODES["nor_conv_3x3"])
Criterion = Callable[[Batch], Callable[[Tensor], Tensor]]  # of a batch, the loss of logits (batch, classes): a scalar


class JointStep:
    """The step of a group of members: each asks for its own, and `run` does what was asked for, all at once.

    It is a criterion as well: the one that the members are trained by.
    """

    def __init__(self, members: Sequence[Member], settings: MemberSettings, criterion: Criterion) -> None:
        self._members, self._settings, self._criterion = members, settings, criterion
        self._asked: dict[int, tuple[Batch, torch.optim.SGD]] = {}
        self._recorded: tuple[list[int], RecordedMembers] | None = None
        self._losses: dict[int, Tensor] = {}

    def __call__(self, batch: Batch) -> Callable[[Tensor], Tensor]:
        """Return the loss of logits for a batch."""
        return self._criterion(batch)

    def record(self, member: Member) -> Record:
        """Return what makes the step of one member: a request, whose loss is there after the next `run`."""
        number = next(number for number, one in enumerate(self._members) if one is member)

        def ask(optimiser: torch.optim.SGD, batch: Batch) -> Tensor:
            self._asked[number] = batch, optimiser
            return self._losses.setdefault(number, torch.zeros((), device=batch.images.device))

        def made(step: Step, batch: Batch, optimiser: torch.optim.SGD) -> Step:
            return partial(ask, optimiser)

        return made

    def run(self) -> None:
        """Do the steps that were asked for. Members that have finished no longer ask; the others are recorded anew."""
        asked, self._asked = self._asked, {}
        if not asked:
            return
        numbers, batches = list(asked), [batch for batch, _ in asked.values()]
        if self._recorded is None or self._recorded[0] != numbers:
            self._recorded = None  # its memory is free before the next is recorded
            optimisers = [optimiser for _, optimiser in asked.values()]
            members = [self._members[number] for number in numbers]
            self._recorded = numbers, RecordedMembers(members, batches, optimisers, self._settings, self._criterion)
        for number, loss in zip(numbers, self._recorded[1](batches), strict=True):
            self._losses[number].copy_(loss)


class RecordedMembers:
    """A step of several members, on a GPU recorded; on a CPU it is run as it is."""

    WARM_UP = 3  # steps, until every library has chosen its kernels

    def __init__(
        self,
        members: Sequence[Member],
        batches: Sequence[Batch],
        optimisers: Sequence[torch.optim.SGD],
        settings: MemberSettings,
        criterion: Criterion,
    ) -> None:
        self._network = FusedMembers(members)
        self._optimisers, self._settings, self._criterion = optimisers, settings, criterion
        device = batches[0].images.device
        self._lower = settings.lower_precision(device)
        self._inputs = [replace(one, images=one.images.clone(), labels=one.labels.clone()) for one in batches]
        for optimiser in optimisers:
            for parameter, state in optimiser.state.items():
                if state.get("momentum_buffer") is not None:  # in the layout that the parameter has now
                    state["momentum_buffer"] = _laid_out_as(parameter, state["momentum_buffer"])
        self._run: Callable[[], list[Tensor]] = self._work
        if device.type == "cuda":
            state = [tensor for member in members for tensor in (*member.parameters(), *member.buffers())]
            momentum = [one for optimiser in optimisers for many in optimiser.state.values() for one in many.values()]
            graph = capture_graph(self._work, [*state, *momentum], warm_up=self.WARM_UP)

            def replay() -> list[Tensor]:
                graph.replay()
                return graph.result

            self._run = replay

    def __call__(self, batches: Sequence[Batch]) -> list[Tensor]:
        """Train each member on its batch; the losses, valid until the next call."""
        for ours, theirs in zip(self._inputs, batches, strict=True):
            ours.images.copy_(theirs.images)
            ours.labels.copy_(theirs.labels)
        return self._run()

    def _work(self) -> list[Tensor]:
        """One step: forward, backward, the update of each member."""
        device = self._inputs[0].images.device
        with torch.autocast(device.type, torch.bfloat16, enabled=self._lower):
            answers = self._network.logits([batch.images for batch in self._inputs])
            losses = [self._criterion(one)(logits) for one, logits in zip(self._inputs, answers, strict=True)]
        self._network.set_gradients(torch.stack(losses).sum())
        for optimiser in self._optimisers:
            if self._settings.clip is not None:
                reached = [one for one in optimiser.param_groups[0]["params"] if one.grad is not None]
                nn.utils.clip_grad_norm_(reached, self._settings.clip)
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)  # gradients of the warm-up must not outlive it
        return [loss.detach() for loss in losses]


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
        self._cells = [self._join_cells(cells, codes) for cells in zip(*map(cells_of, self._networks), strict=True)]
        self._reductions = []
        for blocks in zip(*map(_reductions, self._networks), strict=True):
            first, second = zip(
                *([_layers(convolution) for convolution in block.convs] for block in blocks), strict=True
            )
            norms = self._join_norms([norm for _, norm in first])
            self._reductions.append((norms, self._join({(i, 0): layers for i, layers in enumerate(second)}, 1)))
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

    def _join_cells(self, cells: Sequence[ChoiceCell], codes: Sequence[Sequence[int]]) -> CellMemory:
        """Put what the members' cells at one place multiply side by side."""
        layers = {}
        for number, cell in enumerate(cells):
            for edge, (target, source) in enumerate(self._space.edges):
                if codes[number][edge] in CONVOLUTIONS:
                    [operation] = cell.edges[f"{target}_{source}"].children()
                    layers[number, edge] = _layers(operation)
        return self._join(layers, len(self._space.edges))

    def _join(self, layers: Mapping[tuple[int, int], Layers], edges: int) -> CellMemory:
        """Put convolutions side by side, each of a (member, edge)."""
        count, width = len(self._networks), next(iter(layers.values()))[0].out_channels
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
            parameter.grad = _laid_out_as(parameter, part(gradients[leaf]))


def _laid_out_as(parameter: Tensor, values: Tensor) -> Tensor:
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


def label_loss(settings: MemberSettings) -> Criterion:
    """The cross-entropy to the labels, smoothed as the settings say."""
    return lambda batch: partial(F.cross_entropy, target=batch.labels, label_smoothing=settings.label_smoothing)


def joint_step(
    members: Sequence[Member], split: Split, settings: MemberSettings, criterion: Criterion | None = None
) -> JointStep | None:
    """Return the joint step of members where the settings ask for it and kernels fit them all; else None."""
    if not settings.ours(split) or not settings.capture or settings.drop_path > 0 or not members:
        return None
    networks = [member.network for member in members]
    if len({(network.channels, network.drop_paths) for network in networks}) > 1:
        return None
    for member, network in zip(members, networks, strict=True):
        if not (isinstance(network, EdgeNetwork) and edges_fit(network, split.device)):
            return None
        if not set(edge_codes(network.space, member.architecture)) & set(CONVOLUTIONS):
            return None
    return JointStep(members, settings, criterion or label_loss(settings))
