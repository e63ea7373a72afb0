"""A supernet step as replays of recorded pieces: the same mathematics without a launch for every kernel.

A single-path step is hundreds of small kernels, and launching them takes longer than running them. Which
pieces a step needs changes from step to step, but each piece (one operation on one edge, forward or backward)
does the same work every time on the same memory, so each is recorded once as a CUDA graph. States and their
gradients lie in fixed places; an operation adds to its target's state, its backward pass to its source's
gradient. Parameters, gradients and momentum are one long vector each, and one update changes exactly the
parameters that the step reached.

On a CPU the pieces run without being recorded, which is how the tests compare them with the plain step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nesbs import kernels
from nesbs.spaces import Architecture, PathNetwork
from nesbs.spaces.network import Wire
from nesbs.spaces.sharing import BatchesApart
from nesbs.supernet.paths import Group
from nesbs.supernet.pieces import Layout, Parameters, Piece, Recorder, State
from nesbs.training import Batch, TrainingSettings


class RecordedPaths:
    """The step of a single-path supernet; it trains the architectures that `paths` has for the epoch and the step.

    What an epoch's steps run and which parameters they change is worked out when it begins, so that no step waits
    for the host. The supernet's BatchNorm keeps no running averages, so a piece changes nothing but states and
    gradients.
    """

    def __init__(
        self,
        network: PathNetwork,
        paths: Sequence[Sequence[Group]],
        batch: Batch,
        settings: TrainingSettings,
        optimiser: torch.optim.Optimizer,
    ) -> None:
        self._space = network.space
        self._paths = paths
        self._epoch = -1  # that is planned
        self._settings = settings
        device = batch.images.device
        self._lower = settings.lower_precision(device)
        self._images, self._labels = batch.images.clone(), batch.labels.clone()
        wiring = network.wiring()
        self._wires, self._last = wiring.wires, wiring.last
        # In low precision convolutions are fast with channels last; our kernels want them so.
        self._fused = kernels.usable(device)
        self._layout = Layout(channels_last=self._lower or self._fused)
        self._parameters = Parameters(network, optimiser, self._layout)
        rate = optimiser.param_groups[0]["lr"]
        self._rate = rate if isinstance(rate, Tensor) else None
        self._optimiser = optimiser
        self._used = torch.zeros(len(self._parameters.parameters), dtype=torch.bool, device=device)
        self._states = self._lay_out(wiring.parts)
        self._loss = torch.zeros((), dtype=self._parameters.values.dtype, device=device)
        self._weight = torch.ones_like(self._loss)  # of each architecture's loss
        self._record(network, Recorder(device))

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Tensor:
        """Train one group of architectures on one batch; the loss, valid until the next call."""
        if batch.epoch != self._epoch:
            self._begin(batch.epoch)
        plans = self._plans[batch.step]
        self._images.copy_(batch.images)
        self._labels.copy_(batch.labels)
        self._used.copy_(self._masks[batch.step])
        self._weight.fill_(1 / len(plans))
        self._start()
        for wires in plans:
            self._clear()
            for wire in wires:
                self._forward[wire]()
            self._judge()
            for wire in reversed(wires):
                self._backward[wire]()
        self._update()
        return self._loss

    def _begin(self, epoch: int) -> None:
        """Plan the steps of an epoch: their wires, and the parameters in use (steps, parameters) on the device."""
        self._plans = [[self._plan(path) for path in group] for group in self._paths[epoch]]
        masks = torch.zeros(len(self._plans), len(self._used), dtype=torch.bool)
        masks[:, self._head_places] = True
        for mask, plans in zip(masks, self._plans, strict=True):
            mask[[place for wires in plans for wire in wires for place in self._places[wire]]] = True
        self._masks = masks.to(self._used.device)
        self._epoch = epoch

    def _plan(self, architecture: Architecture) -> list[int]:
        """The wires whose work reaches the loss, in the order they run."""
        possible = list(self._by_choice[None])
        for kind, cell in enumerate(self._space.live(architecture)):
            for target, node in enumerate(cell, start=self._space.inputs):
                for op, source in node:
                    possible += self._by_choice[kind, target, source, op]
        needed, plan = {self._last}, []
        for number in sorted(possible, reverse=True):
            wire = self._wires[number]
            if wire.target in needed or self._whole.get(wire.target) in needed:
                plan.append(number)
                needed.add(wire.source)
        return plan[::-1]

    @torch.no_grad()
    def _lay_out(self, parts: Mapping[str, tuple[str, int, int]]) -> dict[str, State]:
        """A place for every state, all in one stretch of memory that one operation clears."""
        self._whole = {name: whole for name, (whole, _, _) in parts.items()}
        shapes: dict[str, torch.Size] = {"images": self._images.shape}
        for wire in self._wires:
            if wire.target not in shapes:
                with torch.autocast(self._images.device.type, torch.bfloat16, enabled=self._lower):
                    shapes[wire.target] = wire.module(self._images.new_empty(shapes[wire.source])).shape
            if wire.target in parts:
                whole, _, count = parts[wire.target]
                batch, channels, *size = shapes[wire.target]
                shapes[whole] = torch.Size([batch, count * channels, *size])
        kept = [name for name in shapes if name != "images" and name not in parts]
        sizes = [shapes[name].numel() for name in kept]
        dtype = torch.bfloat16 if self._lower else self._images.dtype
        memory = torch.zeros(2, sum(sizes), dtype=dtype, device=self._images.device)
        self._memory = memory
        states = {
            name: State(self._layout.view(value, shapes[name]), self._layout.view(gradient, shapes[name]))
            for name, value, gradient in zip(kept, memory[0].split(sizes), memory[1].split(sizes), strict=True)
        }
        for name, (whole, place, count) in parts.items():
            if name in shapes:
                states[name] = State(
                    states[whole].value.chunk(count, 1)[place], states[whole].gradient.chunk(count, 1)[place]
                )
        return states

    def _record(self, network: PathNetwork, recorder: Recorder) -> None:
        """Record every piece, forward ones first: backward ones give memory back in the order they run."""
        makers = [self._wire(wire) for wire in self._wires]
        judge, head = self._head(network)
        update = self._updating()
        seen: set[str] = set()
        for wire, (forward, backward) in zip(self._wires, makers, strict=True):
            kind = f"{wire.module} {self._shape(wire.source)}"
            if kind not in seen:
                seen.add(kind)
                recorder.warm_up(forward, backward)
        recorder.warm_up(judge, judge)
        self._start = recorder.record(lambda: (self._parameters.gradients.zero_(), self._loss.zero_()))
        self._clear = recorder.record(self._memory.zero_)
        self._forward = [recorder.record(forward) for forward, _ in makers]
        self._judge = recorder.record(judge)
        self._backward = [recorder.record(backward) for _, backward in reversed(makers)][::-1]
        self._update = recorder.record(update)
        place = self._parameters.place
        self._places = [[place[parameter] for parameter in wire.module.parameters()] for wire in self._wires]
        self._head_places = [place[parameter] for parameter in head]
        self._by_choice: dict[tuple[int, int, int, str] | None, list[int]] = {None: []}
        for number, wire in enumerate(self._wires):
            self._by_choice.setdefault(wire.choice, []).append(number)

    def _shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._images.shape if name == "images" else self._states[name].value.shape)

    def _wire(self, wire: Wire) -> tuple[Piece, Piece]:
        """The two pieces of a wire: add to the target's state; add to the source's gradient and to the weights'."""
        target, source = self._states[wire.target], self._states.get(wire.source)
        weights = list(wire.module.parameters())
        theirs = [self._parameters.gradient[self._parameters.place[weight]] for weight in weights]
        made: dict[str, Tensor] = {}

        def forward() -> None:
            # `data`: what is saved for the backward pass may be a state, to which a later wire has added.
            made["in"] = (self._images if source is None else source.value).data
            made["in"].requires_grad_(source is not None)
            with torch.enable_grad(), torch.autocast(self._images.device.type, torch.bfloat16, enabled=self._lower):
                made["out"] = self._through(wire.module, made["in"])
            target.value.add_(made["out"].detach())

        def backward() -> None:
            inputs = weights if source is None else [made["in"], *weights]
            gradients = list(torch.autograd.grad(made["out"], inputs, target.gradient.to(made["out"].dtype)))
            if source is not None:
                source.gradient.add_(gradients.pop(0))
            if theirs:
                torch._foreach_add_(theirs, gradients)

        return forward, backward

    def _through(self, module: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """What a module makes of x, with our kernels where there are some."""
        if not self._fused:
            return module(x)
        with BatchesApart(1):
            return module(x)

    def _head(self, network: PathNetwork) -> tuple[Piece, list[nn.Parameter]]:
        """The piece that classifies the last state, takes the loss and starts the backward pass."""
        elsewhere = {parameter for wire in self._wires for parameter in wire.module.parameters()}
        weights = [parameter for parameter in network.parameters() if parameter not in elsewhere]
        theirs = [self._parameters.gradient[self._parameters.place[weight]] for weight in weights]
        last = self._states[self._last]

        def judge() -> None:
            state = last.value.data.requires_grad_()
            with torch.enable_grad():
                with torch.autocast(self._images.device.type, torch.bfloat16, enabled=self._lower):
                    logits = self._through(network.classify, state)
                loss = self._weight * F.cross_entropy(logits.to(self._loss.dtype), self._labels)
            gradients = torch.autograd.grad(loss, [state, *weights])
            last.gradient.add_(gradients[0])
            torch._foreach_add_(theirs, list(gradients[1:]))
            self._loss.add_(loss.detach())

        return judge, weights

    def _updating(self) -> Piece:
        """SGD over the parameters in use and no others."""

        def update() -> None:
            rate = self._rate if self._rate is not None else self._optimiser.param_groups[0]["lr"]
            self._parameters.update(self._used, self._settings, rate)

        return update
