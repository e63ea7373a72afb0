"""Candidates that the methods share: architectures drawn uniformly, and what was chosen from them."""

import itertools
from collections.abc import Iterator, Sequence

import torch

from nesbs.ensemble import Score, Selection
from nesbs.errors import NesbsError
from nesbs.spaces import Architecture, Space


def uniform_pool(space: Space, count: int, *, generator: torch.Generator) -> list[Architecture]:
    """`count` different architectures, drawn uniformly; a larger pool begins with the smaller one.

    >>> from nesbs.spaces import toy_edges
    >>> len(uniform_pool(toy_edges(), 27, generator=torch.Generator().manual_seed(0)))
    27
    """
    if count > len(space):
        raise NesbsError(
            f"a pool of {count} architectures is larger than space {space.name} ({len(space)}): lower rivals.pool"
        )
    return list(itertools.islice(uniform_draws(space, generator=generator), count))


def uniform_draws(space: Space, *, generator: torch.Generator) -> Iterator[Architecture]:
    """Draw different architectures uniformly, until the whole space was drawn."""
    earlier: set[Architecture] = set()
    while len(earlier) < len(space):
        drawn = space.sample(generator=generator)
        if drawn not in earlier:
            earlier.add(drawn)
            yield drawn


def chosen(
    method: str, members: Sequence[Architecture], loss: float | None, judged: Sequence[Architecture], score: Score
) -> Selection:
    """A method's choice as plain data, with the loss of every architecture it judged."""
    judged = list(dict.fromkeys(judged))
    losses = score([[architecture] for architecture in judged]).tolist()
    return Selection(tuple(members), loss, None, None, method, (), tuple(zip(judged, losses, strict=True)))
