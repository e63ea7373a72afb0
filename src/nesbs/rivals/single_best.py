"""The single best architecture: what a search for one network would return, judged as the ensembles' members are."""

from __future__ import annotations

from collections.abc import Sequence

from nesbs.ensemble import Score, Selection, forward_select
from nesbs.rivals.pools import chosen
from nesbs.spaces import Architecture


def single_best(pool: Sequence[Architecture], score: Score) -> Selection:
    """The architecture of a pool with the lowest validation loss on its own.

    >>> import torch
    >>> from nesbs.spaces import toy_edges
    >>> pool = list(toy_edges())[:3]
    >>> single_best(pool, lambda ensembles: torch.tensor([2.0, 1.0, 3.0])).architectures == (pool[1],)
    True
    """
    members, loss = forward_select(pool, 1, score)
    return chosen("single-best", members, loss, pool, score)
