"""Members by our own kernels: several of different architectures in one step, recorded as one CUDA graph.

To the kernels an architecture is data, so members of one size run through the same launches, each with its own images,
weights, BatchNorm and optimiser. Convolutions that halve the size or widen, and the head, run member by member.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nesbs.data import Split
from nesbs.ensemble.fused_members import FusedMembers, laid_out_as
from nesbs.ensemble.settings import MemberSettings
from nesbs.spaces import Member
from nesbs.spaces.nasbench201 import EdgeNetwork
from nesbs.supernet.fused_network import edge_codes, edges_fit
from nesbs.training import Batch, Record, Step, capture_graph
from nesbs.training.loop import DESCEND

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
                    state["momentum_buffer"] = laid_out_as(parameter, state["momentum_buffer"])
        self._run: Callable[[], list[Tensor]] = self._work
        if device.type == "cuda":
            state = [tensor for member in members for tensor in (*member.parameters(), *member.buffers())]
            momentum = [one for optimiser in optimisers for many in optimiser.state.values() for one in many.values()]
            graph = capture_graph(self._work, [*state, *momentum], warm_up=self.WARM_UP, own_kernels=True)

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
            with torch.no_grad():
                DESCEND(optimiser)
            optimiser.zero_grad(set_to_none=True)  # gradients of the warm-up must not outlive it
        return [loss.detach() for loss in losses]


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
        if not any(edge_codes(network.space, member.architecture)):  # nothing arrives: what is before has no gradient
            return None
    return JointStep(members, settings, criterion or label_loss(settings))
