"""Which of the proposed ensembles to take (Algorithm 1, line 8), given proposals and a score.

Neither knows the stages that made them, so every rival is another proposal. Forward selection over all candidates,
deciding beyond the judge's noise, members that differ and limits are ours, not the paper's.
"""

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from nesbs.ensemble.judges import JudgeNoise, Scores
from nesbs.ensemble.limits import Limits
from nesbs.ensemble.scoring import Score
from nesbs.ensemble.settings import Method
from nesbs.errors import NesbsError, expect_whole
from nesbs.samplers import NoEnsembleError, Proposal
from nesbs.spaces import Architecture, differing

DEAD_ENDS = 1000  # of forward selection: choices that leave no room for another
T = TypeVar("T")


def choose(
    proposals: Sequence[Proposal], score: Score, noise: JudgeNoise[Architecture] | None = None, *, apart: float = 0.0
) -> tuple[int, list[float]]:
    """Find the position of the proposal with the lowest loss (the first of equals), and all losses (line 8).

    With `noise` the most probable of those that are not told apart from it.
    Where `apart` is above 0, only ensembles count whose members differ on that share of edges (`far_apart`).
    """
    ensembles = [proposal.architectures for proposal in proposals]
    return _best_of(ensembles, score, noise, far_apart(ensembles, apart))


def far_apart(ensembles: Sequence[Sequence[Architecture]], share: float) -> list[int]:
    """Return the places of ensembles whose members differ on at least this share of their edges, in the mean of pairs.

    Where there are none, of those that differ most. Ours, not the paper's.

    >>> from nesbs.spaces import toy_edges
    >>> a, b, *_, z = toy_edges()  # b differs from a on one edge, z on all three
    >>> far_apart([[a, b], [a, z]], 0.5), far_apart([[a, a], [a, b]], 0.5)
    ([1], [1])
    """
    if share == 0:
        return list(range(len(ensembles)))
    shares = [differing(ensemble) for ensemble in ensembles]
    least = min(share, max(shares)) - 1e-9  # sums of shares are rounded
    return [place for place, found in enumerate(shares) if found >= least]


def which_count(
    ensembles: Sequence[Sequence[Architecture]], apart: float = 0.0, limits: Limits | None = None
) -> list[int]:
    """Return the places of ensembles that count: within the limits, and of those the ones that are `far_apart`."""
    within = list(range(len(ensembles))) if limits is None else limits.places(ensembles)
    far = far_apart([ensembles[place] for place in within], apart) if within else []
    return [within[place] for place in far]


def _best_of(
    ensembles: Sequence[Sequence[T]], score: Scores[T], noise: JudgeNoise[T] | None, counted: Sequence[int]
) -> tuple[int, list[float]]:
    """The place of the best ensemble among those that count, and the losses of all."""
    losses = score(ensembles).tolist()
    some, their_losses = [ensembles[place] for place in counted], [losses[place] for place in counted]
    best = _lowest(their_losses)
    return counted[best if noise is None else noise.prefer(some, their_losses, best)], losses


def _lowest(losses: Sequence[float]) -> int:
    """The place of the lowest loss, the first of equals."""
    bad = sum(not math.isfinite(loss) for loss in losses)
    if bad:
        raise NesbsError(f"{bad} of {len(losses)} estimated losses are not numbers: was the supernet trained?")
    return min(range(len(losses)), key=losses.__getitem__)


def forward_select(
    candidates: Sequence[T],
    size: int,
    score: Scores[T],
    noise: JudgeNoise[T] | None = None,
    *,
    more: Callable[[T], Sequence[T]] | None = None,
    counted: Callable[[Sequence[Sequence[T]]], Sequence[int]] | None = None,
) -> tuple[list[T], float]:
    """Start with the best candidate, keep adding the one not yet chosen that lowers the ensemble's loss most.

    Stops at `size`, without replacement and without an early stop. With `noise` the most probable of the additions that
    are not told apart from the best. `more` is told what was chosen and returns further candidates; `counted` returns
    the places of the ensembles that may be chosen. Where those chosen leave no room for another, the last of them is
    given up for the next best. Ours, not the paper's.
    """
    expect_whole(size, "size")
    distinct = list(dict.fromkeys(candidates))
    if size > len(distinct) and more is None:
        raise NesbsError(f"forward selection of {size} needs as many different candidates, found {len(distinct)}")
    dead_ends = 0

    def grow(chosen: list[T], left: list[T], loss: float) -> tuple[list[T], float] | None:
        """Those chosen with what is missing, and their loss; None where nothing more may be added."""
        nonlocal dead_ends
        if len(chosen) == size:
            return chosen, loss
        while dead_ends < DEAD_ENDS:
            larger = [[*chosen, candidate] for candidate in left]
            places = range(len(larger)) if counted is None else counted(larger)
            if not places:
                dead_ends += 1
                return None
            best, losses = _best_of(larger, score, noise, places)
            one = left[best]
            left = [*left[:best], *left[best + 1 :]]
            further = more(one) if more is not None and len(chosen) + 1 < size else ()
            if grown := grow([*chosen, one], [*left, *further], losses[best]):
                return grown
        return None

    grown = grow([], distinct, float("inf"))
    if grown is None:
        raise NoEnsembleError(f"no {size} of {len(distinct)} candidates were found to be within search.limits")
    return grown


def decide(
    proposals: Sequence[Proposal],
    score: Score,
    method: Method,
    noise: JudgeNoise[Architecture] | None = None,
    *,
    apart: float = 0.0,
    limits: Limits | None = None,
) -> tuple[tuple[Architecture, ...], float, Proposal | None, list[float]]:
    """Choose from proposals: the members, their loss, their proposal, and the losses of all proposals.

    The best proposal (line 8); with `forward` (ours, not the paper's) a greedy choice from all their candidates where
    that is better, which is no proposal. With `noise` (ours too) better means: beyond it. Members differ on the share
    `apart` of their edges where they can, and a greedy choice is within the `limits`, as all proposals are (ours too).
    """
    best, losses = choose(proposals, score, noise, apart=apart)
    candidates = candidates_of(proposals)
    drawn = proposals[best].architectures
    size = len(drawn)
    if method == "forward" and len(candidates) >= size:
        # Greedy is usually better than the best round, not always: keep the better of the two.
        def counted(ensembles: Sequence[Sequence[Architecture]]) -> list[int]:
            return which_count(ensembles, apart, limits)

        try:
            greedy, greedy_loss = forward_select(candidates, size, score, noise, counted=counted)
        except NoEnsembleError:  # the first members leave no room for the others
            return drawn, losses[best], proposals[best], losses
        farther = 1 in far_apart([drawn, greedy], apart)
        if farther and greedy_loss < losses[best] and (noise is None or noise.is_better(greedy, drawn)):
            return tuple(greedy), greedy_loss, None, losses
    return drawn, losses[best], proposals[best], losses


def candidates_of(proposals: Sequence[Proposal]) -> list[Architecture]:
    """Every architecture that is proposed, once, in the order in which they come."""
    return list(dict.fromkeys(one for proposal in proposals for one in proposal.architectures))
