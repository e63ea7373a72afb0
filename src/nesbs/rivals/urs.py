"""Uniform random sampling (URS; paper, app. C.3): Algorithm 1 with the prior in place of the posterior.

for t = 1 … T:  S_t ← n architectures drawn uniformly
return the S_t with the lowest validation loss
"""

from collections.abc import Sequence

from nesbs.ensemble import Score, Selection, choose
from nesbs.errors import NesbsError, expect_whole
from nesbs.rivals.pools import chosen
from nesbs.samplers import Allowed, NoEnsembleError, Proposal
from nesbs.spaces import Architecture


def urs(pool: Sequence[Architecture], size: int, score: Score, allowed: Allowed | None = None) -> Selection:
    """The best of the ensembles that a pool of uniform draws falls into, `size` architectures at a time.

    The pool is the budget: T is its length divided by n, and what is left over is not judged. Where limits say what
    is `allowed`, other ensembles do not count.

    >>> import torch
    >>> from nesbs.spaces import toy_edges
    >>> pool = list(toy_edges())[:5]
    >>> selection = urs(pool, 2, lambda ensembles: torch.arange(len(ensembles), 0, -1.0))
    >>> selection.architectures == tuple(pool[2:4])
    True
    """
    expect_whole(size, "size")
    rounds = len(pool) // size
    if rounds < 1:
        raise NesbsError(f"urs: a pool of {len(pool)} architectures holds no ensemble of {size}: raise rivals.pool")
    proposals = [Proposal(tuple(pool[t * size : (t + 1) * size]), t + 1) for t in range(rounds)]
    proposals = [one for one in proposals if allowed is None or allowed(one.architectures)]
    if not proposals:
        raise NoEnsembleError(f"urs: no ensemble of a pool of {len(pool)} architectures is within search.limits")
    best, losses = choose(proposals, score)
    return chosen("urs", proposals[best].architectures, losses[best], pool[: rounds * size], score)
