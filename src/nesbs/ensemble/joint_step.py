"""Members by our own kernels: several of different architectures in one step, recorded as one CUDA graph.

To the kernels an architecture is data, so members of one size run through the same launches, each with its own images,
weights, BatchNorm and optimiser. What lies outside the cells (stem, reductions, head) runs member by member.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from nesbs.spaces.nasbench201 import EdgeNetwork
from nesbs.spaces.shared_state import BatchesApart
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
                    state["momentum_buffer"] = torch.empty_like(parameter).copy_(state["momentum_buffer"])
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
class CellMemory:
    """What the cells of all members at one place of the network have: leaves for gradients, and running averages.

    Weights (members, numbers), nine squares of the width an edge; the others (edges, members, two, channels).
    """

    weights: Tensor
    affine: Tensor
    running: Tensor


class FusedMembers:
    """The forward pass of several members, whose parameters and buffers are moved to memory that kernels read."""

    def __init__(self, members: Sequence[Member]) -> None:
        networks = [member.network for member in members]
        self._networks = [network for network in networks if isinstance(network, EdgeNetwork)]
        self._space, self._device = self._networks[0].space, self._networks[0].head.weight.device
        codes = [edge_codes(self._space, member.architecture) for member in members]
        self._codes = torch.tensor(codes, dtype=torch.int32, device=self._device)
        self._leaves: list[Tensor] = []
        self._parts: list[tuple[Tensor, int, Callable[[Tensor], Tensor]]] = []  # parameter, its leaf, which part
        self._norms: dict[Tensor, tuple[Tensor, Tensor]] = {}  # scale → affine and running averages, outside cells
        counted: list[nn.BatchNorm2d] = []
        self._cells = [self._join(cells, codes, counted) for cells in zip(*map(cells_of, self._networks), strict=True)]
        for network in self._networks:
            for module in (network.stem, network.reductions, network.last, network.head):
                self._adopt(module)
        self._steps = torch.stack([_buffer(norm, "num_batches_tracked") for norm in counted])
        for norm, steps in zip(counted, self._steps, strict=True):
            _buffer(norm, "num_batches_tracked").data = steps

    def _leaf(self, *shape: int) -> Tensor:
        self._leaves.append(torch.zeros(shape, device=self._device, requires_grad=True))
        return self._leaves[-1]

    def _move(self, parameter: Tensor, part: Callable[[Tensor], Tensor]) -> None:
        """Let a parameter be a part of the last leaf."""
        place = part(self._leaves[-1].detach())
        parameter.data = place.copy_(parameter.detach())
        self._parts.append((parameter, len(self._leaves) - 1, part))

    def _move_norm(self, norm: nn.BatchNorm2d, running: Tensor, part: Callable[[Tensor], Tensor]) -> None:
        """Let offset and scale be a part of the last leaf, and the running averages of `running`."""
        self._move(norm.bias, lambda leaf: part(leaf)[0])
        self._move(norm.weight, lambda leaf: part(leaf)[1])
        for place, name in zip(part(running), ("running_mean", "running_var"), strict=True):
            buffer = _buffer(norm, name)
            buffer.data = place.copy_(buffer)

    def _join(self, cells: Sequence[ChoiceCell], codes: list[list[int]], counted: list[nn.BatchNorm2d]) -> CellMemory:
        """Put the convolutions of the members' cells at one place of the network side by side."""
        live = [
            (number, edge, cell.edges[f"{target}_{source}"])
            for number, cell in enumerate(cells)
            for edge, (target, source) in enumerate(self._space.edges)
            if codes[number][edge] in CONVOLUTIONS
        ]
        made = [(number, edge, *_layers(operations)) for number, edge, operations in live]
        width = made[0][2].out_channels
        weights = self._leaf(len(cells), len(self._space.edges) * 9 * width**2)
        for number, edge, convolution, _ in made:
            start, weight = edge * 9 * width**2, convolution.weight
            self._move(
                weight,
                lambda leaf, n=number, s=start, w=weight: unflat(leaf[n, s : s + w.numel()], w.shape),  # type: ignore[misc]
            )
        shape = (len(self._space.edges), len(cells), 2, width)
        affine, running = self._leaf(*shape), torch.zeros(shape, device=self._device)
        for number, edge, _, norm in made:
            self._move_norm(norm, running, lambda leaf, e=edge, n=number: leaf[e, n])  # type: ignore[misc]
            counted.append(norm)
        return CellMemory(weights, affine, running)

    def _adopt(self, module: nn.Module) -> None:
        """Take over layers outside the cells: BatchNorm's are moved, others' parameters stay where they are."""
        for layer in module.modules():
            if isinstance(layer, nn.BatchNorm2d):
                affine, running = self._leaf(1, 2, layer.num_features), torch.zeros(1, 2, layer.num_features)
                running = running.to(self._device)
                self._move_norm(layer, running, lambda leaf: leaf[0])
                self._norms[layer.weight] = affine, running
            else:
                for parameter in layer.parameters(recurse=False):
                    self._leaves.append(parameter)
                    self._parts.append((parameter, len(self._leaves) - 1, lambda leaf: leaf))

    def logits(self, images: Sequence[Tensor]) -> list[Tensor]:
        """Logits (batch, classes) of each member for its own images; running averages are moved."""
        from nesbs.kernels.edge_cell import FusedEdgeCell  # needs Triton

        own = list(zip(self._networks, images, strict=True))
        memory, nodes = iter(self._cells), self._space.nodes
        with NormsByKernel(self._norms):
            states = [network.stem(network.normalise(seen)) for network, seen in own]
            for stage, cells in enumerate(self._networks[0].stages):
                x = torch.stack([state.permute(0, 2, 3, 1) for state in states])
                row = 9 * x.shape[-1] ** 2
                for cell in islice(memory, len(cells)):  # type: ignore[arg-type]
                    x = FusedEdgeCell.apply(x, cell.weights, self._codes, nodes, row, 0, cell.affine, cell.running)
                states = [state.permute(0, 3, 1, 2) for state in x]
                if stage < len(self._networks[0].reductions):
                    states = [network.reductions[stage](x) for network, x in zip(self._networks, states, strict=True)]
            self._steps += 1
            return [network.classify(state) for network, state in zip(self._networks, states, strict=True)]

    def set_gradients(self, loss: Tensor) -> None:
        """Give every parameter that the loss reaches its gradient."""
        gradients = torch.autograd.grad(loss, self._leaves)
        for parameter, leaf, part in self._parts:
            parameter.grad = part(gradients[leaf])


class NormsByKernel(BatchesApart):
    """Within it BatchNorm runs by our kernel; `norms` has affine and running averages by BatchNorm's scale."""

    def __init__(self, norms: dict[Tensor, tuple[Tensor, Tensor]]) -> None:
        super().__init__(1)
        self._norms = norms

    def normalised(self, x: Tensor, *_: object, weight: Tensor | None = None, **__: object) -> Tensor:
        """Normalise one batch, and move its running averages."""
        assert weight is not None
        out = kernels.batch_norm(x, 1, *self._norms[weight])
        assert out is not None
        return out


def _buffer(norm: nn.BatchNorm2d, name: str) -> Tensor:
    return norm.get_buffer(name)


def _layers(operations: nn.Module) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
    """The convolution and the BatchNorm of a member's edge, which has one operation."""
    [operation] = operations.children()
    _, convolution, norm = operation.children()
    assert isinstance(convolution, nn.Conv2d)
    assert isinstance(norm, nn.BatchNorm2d)
    return convolution, norm


def label_loss(settings: MemberSettings) -> Criterion:
    """The cross-entropy to the labels, smoothed as the settings say."""
    return lambda batch: partial(F.cross_entropy, target=batch.labels, label_smoothing=settings.label_smoothing)


def joint_step(
    members: Sequence[Member], split: Split, settings: MemberSettings, criterion: Criterion | None = None
) -> JointStep | None:
    """Return the joint step of members where the settings ask for it and kernels fit them all; else None."""
    if settings.kernels == "plain" or not settings.capture or settings.drop_path > 0 or not members:
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
