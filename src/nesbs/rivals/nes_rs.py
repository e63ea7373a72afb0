"""NES-RS (Zaidi et al., 2021): neural ensemble search by random search.

    P ← K architectures drawn uniformly, each trained
    return ForwardSelect(P, n) by validation loss

ForwardSelect begins with the best and keeps adding the one not yet chosen that gives the ensemble of mean
probabilities the lowest validation loss, up to n members: `nesbs.ensemble.forward_select`.
"""

from collections.abc import Sequence

from nesbs.ensemble import Limits, Score, Selection, forward_select
from nesbs.rivals.pools import chosen
from nesbs.spaces import Architecture


def nes_rs(pool: Sequence[Architecture], size: int, score: Score, limits: Limits | None = None) -> Selection:
    """ForwardSelect over a pool of uniform draws; `score` says how they are judged, trained or by a supernet.

    What is chosen is within the `limits`.

    >>> import torch
    >>> from nesbs.spaces import toy_edges
    >>> pool = list(toy_edges())[:4]
    >>> def score(ensembles):  # the last of the pool is the best, and nobody adds anything to another
    ...     return torch.tensor([-sum(pool.index(member) for member in ensemble) / 1.0 for ensemble in ensembles])
    >>> nes_rs(pool, 2, score).architectures == (pool[3], pool[2])
    True
    """
    members, loss = forward_select(pool, size, score, counted=None if limits is None else limits.places)
    return chosen("nes-rs", members, loss, pool, score)


def single_best(pool: Sequence[Architecture], score: Score) -> Selection:
    """The architecture of a pool with the lowest validation loss on its own: what a search for one network returns.

    >>> import torch
    >>> from nesbs.spaces import toy_edges
    >>> pool = list(toy_edges())[:3]
    >>> single_best(pool, lambda ensembles: torch.tensor([2.0, 1.0, 3.0])).architectures == (pool[1],)
    True
    """
    members, loss = forward_select(pool, 1, score)
    return chosen("single-best", members, loss, pool, score)
