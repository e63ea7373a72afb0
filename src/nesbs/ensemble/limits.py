"""What members may cost (`search.limits`): which ensembles are within the limits, and the smallest that is possible.

A limit is no part of the posterior: ensembles are drawn from it as it is, and members that cost too much are drawn
again (`samplers/proposals.py`). Ours, not the paper's.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import partial

import torch

from nesbs.data import Split
from nesbs.ensemble.members import design_member
from nesbs.ensemble.settings import LimitSettings, MemberSettings
from nesbs.errors import NesbsError
from nesbs.spaces import Architecture, OperationTimes, Space, TimedCosts

UNITS = {
    "parameters": "has {:,.0f} parameters",
    "multiply_adds": "has {:,.0f} multiply-adds",
    "latency": "is predicted to take {:.3f} ms",
}
Values = tuple[float, ...]  # of each thing that is limited


def member_costs(space: Space, split: Split, settings: MemberSettings) -> TimedCosts:
    """Return the costs of members as the settings build them for the images of a split."""
    return TimedCosts(
        space,
        lambda architecture: design_member(space, architecture, split, settings),
        (split.channels, *split.size),
        additive=settings.multiply_adds is None,  # else each network has a width of its own
    )


class Limits:
    """Says whether an ensemble of `size` members, or a part of one, is within the limits.

    Of a part under a limit for the whole ensemble, the members that are still missing count as the smallest there are.

    >>> from nesbs.spaces import toy_edges
    >>> costs = TimedCosts(toy_edges(), toy_edges().network, (3, 32, 32))
    >>> none, *_, convolutions = toy_edges()
    >>> costs(none).parameters, costs(convolutions).parameters
    (73306, 802426)
    >>> limits = Limits(LimitSettings(parameters=900_000, per="ensemble"), costs, 2)
    >>> limits([none, convolutions]), limits([convolutions]), limits([convolutions, convolutions])
    (True, True, False)
    """

    def __init__(self, settings: LimitSettings, costs: TimedCosts, size: int) -> None:
        self.settings, self.costs, self.size = settings, costs, size
        self._bounds = settings.bounds
        self._known: dict[Architecture, Values] = {}
        self._smallest: Values | None = None

    def __call__(self, ensemble: Sequence[Architecture]) -> bool:
        """Whether an ensemble, or a part of one, is within the limits."""
        missing = max(0, self.size - len(ensemble))
        return self._hold(ensemble, [missing * least for least in self.smallest()] if missing else None)

    def places(self, ensembles: Sequence[Sequence[Architecture]]) -> list[int]:
        """Return the places of the ensembles within the limits, all of one length, each with another last member.

        Where members are missing, it must be possible to take them from the other ensembles' last members.
        """
        last = [self.values(ensemble[-1]) for ensemble in ensembles]
        missing = max(0, self.size - len(ensembles[0])) if ensembles else 0
        fewest = [heapq.nsmallest(missing + 1, column) for column in zip(*last, strict=True)]

        def reserve(own: Values) -> list[float]:
            """The sum of the cheapest others: where one's own value is among the cheapest, the next takes its place."""
            return [sum(some) - min(value, some[-1]) for value, some in zip(own, fewest, strict=True)]

        enough = not missing or len(ensembles) > missing
        return [
            place
            for place, ensemble in enumerate(ensembles)
            if enough and self._hold(ensemble, reserve(last[place]) if missing else None)
        ]

    def values(self, architecture: Architecture) -> Values:
        """Return what is limited of one architecture's network, in the order of the settings."""
        if architecture not in self._known:
            cost = self.costs(architecture)
            self._known[architecture] = tuple(
                self.times.predicted(self.costs, architecture) if kind == "latency" else float(getattr(cost, kind))
                for kind in self._bounds
            )
        return self._known[architecture]

    @property
    def times(self) -> OperationTimes:
        """The times that a latency is predicted from: measured when they are first asked for, unless they are given."""
        if self.costs.times is None:
            device = self.settings.device
            if device != "cpu" and not torch.cuda.is_available():
                raise NesbsError(f"search.limits.device={device}: no GPU is available here; set it to cpu")
            self.costs.times = OperationTimes.measured(self.costs, device)
        return self.costs.times

    def smallest(self) -> Values:
        """Return the least that a network of the space can have of each thing that is limited."""
        if self._smallest is None:
            places = range(len(self._bounds))
            least = [cheapest(self.costs.space, partial(self._value, axis)) for axis in places]
            self._smallest = tuple(self._value(axis, least[axis]) for axis in places)
        return self._smallest

    def check(self) -> None:
        """Raise where no ensemble can be within the limits; the message names the smallest that is possible."""
        whole = self.settings.per == "ensemble"
        for (kind, bound), least in zip(self._bounds.items(), self.smallest(), strict=True):
            possible = least * self.size if whole else least
            if possible > bound:
                subject = f"ensemble of {self.size}" if whole else "network"
                raise NesbsError(
                    f"search.limits.{kind}={bound:g} is impossible: the smallest {subject} of space "
                    f"{self.costs.space.name} {UNITS[kind].format(possible)}"
                )

    def _value(self, axis: int, architecture: Architecture) -> float:
        return self.values(architecture)[axis]

    def _hold(self, ensemble: Sequence[Architecture], reserve: Sequence[float] | None) -> bool:
        members = [self.values(architecture) for architecture in ensemble]
        bounds = list(self._bounds.values())
        if self.settings.per == "member":
            return all(value <= bound for one in members for value, bound in zip(one, bounds, strict=True))
        kept = reserve or [0.0] * len(bounds)
        return all(sum(one[axis] for one in members) + kept[axis] <= bound for axis, bound in enumerate(bounds))


def cheapest(space: Space, cost: Callable[[Architecture], float]) -> Architecture:
    """Return the architecture of the lowest cost, where costs of a space's decisions add up.

    >>> from nesbs.spaces import toy_pairs
    >>> "sep_conv" in str(cheapest(toy_pairs(), lambda architecture: str(architecture).count("sep_conv")))
    False
    """
    picks = [0] * len(space.variables)

    def with_pick(place: int, choice: int) -> float:
        picks[place] = choice
        return cost(space.architecture(picks))

    for root in space.roots():
        found: list[tuple[float, list[int]]] = []
        for choice in range(len(space.variables[root].choices)):
            value = with_pick(root, choice)
            for child in space.children(root, choice):
                values = [with_pick(child, one) for one in range(len(space.variables[child].choices))]
                value = with_pick(child, values.index(min(values)))
            found.append((value, list(picks)))
        picks[:] = min(found, key=lambda one: one[0])[1]
    return space.architecture(picks)
