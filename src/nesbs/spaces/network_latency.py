"""How long a network takes for one image, as the sum of its operations' times on this machine.

Every operation is timed once on every shape that it meets; what is left of a whole network (stem, reductions, head) is
fixed. So the time of any architecture is predicted without running it. In a network an operation takes longer than
alone, again and again on the same numbers: a few whole networks say by how much (`scale`). Weights do not matter.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from nesbs import rng
from nesbs.spaces.architecture import Architecture
from nesbs.spaces.network_cost import NetworkCosts, Shape
from nesbs.spaces.operations import member_norm, operation

WARM_UP, REPEATS = 3, 21
LEAST, SECONDS = 7, 1.0  # after so many repetitions, and so many seconds, it is enough
WHOLE = 5  # networks that are timed whole


@dataclass(frozen=True)
class Milliseconds:
    """The median and the quartiles of repeated measurements."""

    median: float
    lower: float
    upper: float


@dataclass(frozen=True)
class OperationTimes:
    """Times of operations by shape on a device, and of the part that all networks share.

    >>> from nesbs.spaces import toy_edges
    >>> costs = NetworkCosts(toy_edges(), lambda one: toy_edges().network(one, channels=4, cells=1), (3, 8, 8))
    >>> times, (empty, *_, convolutions) = OperationTimes.measured(costs), toy_edges()
    >>> times.predicted(costs, convolutions) > times.predicted(costs, empty) == times.fixed.median > 0
    True
    """

    device: str
    fixed: Milliseconds
    scale: float = 1.0
    operations: dict[Shape, Milliseconds] = field(default_factory=dict)

    @classmethod
    def measured(cls, costs: NetworkCosts, device: str = "cpu") -> OperationTimes:
        """Time every operation of a space on every shape that it meets in networks as `costs` builds them."""
        space = costs.space
        first = space.architecture([0] * len(space.variables))
        shapes = {shape for one in _with_every_choice(costs, first) for shape in costs.shapes(one)}
        operations = {shape: _time_operation(shape, device) for shape in sorted(shapes)}
        whole = time_network(costs, first, device)
        inside = sum(count * operations[shape].median for shape, count in costs.shapes(first).items())
        ends = (max(end - inside, 0.0) for end in (whole.median, whole.lower, whole.upper))
        alone = cls(device, Milliseconds(*ends), 1.0, operations)
        some = space.sample(WHOLE, generator=rng.generator(0, "network latency"))
        ratios = [
            (time_network(costs, one, device).median - alone.fixed.median) / inside
            for one in some
            if (inside := alone.predicted(costs, one) - alone.fixed.median) > 0
        ]
        return replace(alone, scale=max(statistics.median(ratios), 1.0) if ratios else 1.0)

    def predicted(self, costs: NetworkCosts, architecture: Architecture) -> float:
        """Return the milliseconds that a network is predicted to take for one image."""
        shapes = costs.shapes(architecture)
        inside = sum(count * self.operations[shape].median for shape, count in shapes.items())
        return self.fixed.median + self.scale * inside


class TimedCosts(NetworkCosts):
    """Costs of a space's networks, with the times of their operations on a device once these are measured."""

    times: OperationTimes | None = None


def time_network(costs: NetworkCosts, architecture: Architecture, device: str = "cpu") -> Milliseconds:
    """Time the network of an architecture for one image."""
    member = costs.build(architecture).to(device)
    image = torch.rand(1, *costs.image, device=device)
    return _timed(member.eval(), image)


def _with_every_choice(costs: NetworkCosts, first: Architecture) -> list[Architecture]:
    """Architectures that hold every operation wherever it can be, each live: one decision is changed at a time."""
    space = costs.space
    # Where nothing may pass by `none`, other edges hand on what arrives.
    usual = next((place for place, op in enumerate(space.operations) if op != "none"), 0)
    found = [first]
    for root in space.roots():
        for choice in range(len(space.variables[root].choices)):
            for child in [root, *space.children(root, choice)]:
                for one in range(len(space.variables[child].choices)):
                    picks = [min(usual, len(variable.choices) - 1) for variable in space.variables]
                    picks[root] = choice
                    picks[child] = one if child != root else choice
                    found.append(space.architecture(picks))
    return list(dict.fromkeys(found))


def _time_operation(shape: Shape, device: str) -> Milliseconds:
    op, (channels, height, width), stride = shape
    module = operation(op, channels, stride, member_norm).to(device)
    return _timed(module.eval(), torch.rand(1, channels, height, width, device=device))


@torch.no_grad()
def _timed(module: nn.Module, images: torch.Tensor) -> Milliseconds:
    wait: Callable[[], object] = torch.cuda.synchronize if images.is_cuda else lambda: None
    times: list[float] = []
    begun = time.perf_counter()
    while len(times) < WARM_UP + REPEATS and (len(times) < WARM_UP + LEAST or time.perf_counter() - begun < SECONDS):
        wait()
        start = time.perf_counter()
        module(images)
        wait()
        times.append(1000 * (time.perf_counter() - start))
    ordered = sorted(times[WARM_UP:])
    quarter = len(ordered) // 4
    return Milliseconds(ordered[len(ordered) // 2], ordered[quarter], ordered[-1 - quarter])
