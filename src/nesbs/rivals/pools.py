"""Candidates that the methods share: architectures drawn uniformly, and what was chosen from them."""

import itertools
from collections.abc import Iterator, Sequence

import torch

from nesbs.ensemble import Score, Selection
from nesbs.errors import NesbsError, expect_whole
from nesbs.posterior import Posterior
from nesbs.samplers import Allowed, draws_within, within_limits
from nesbs.spaces import Architecture, Space

BLOCKS = 1_000  # draws of new ones within the limits, after which there are taken to be no more
LIKELIEST_OF = 1_000  # draws within the limits, among which the likeliest is looked for


def uniform_pool(
    space: Space, count: int, *, generator: torch.Generator, allowed: Allowed | None = None, size: int = 1
) -> list[Architecture]:
    """`count` different architectures, drawn uniformly; a larger pool begins with the smaller one.

    Where limits say what is `allowed`, every `size` of them are an ensemble within these.

    >>> from nesbs.spaces import toy_edges
    >>> len(uniform_pool(toy_edges(), 27, generator=torch.Generator().manual_seed(0)))
    27
    """
    expect_whole(count, "count")
    if count > space.size:
        raise NesbsError(
            f"a pool of {count} architectures is larger than space {space.name} ({space.size}): lower rivals.pool"
        )
    pool = list(itertools.islice(uniform_draws(space, generator=generator, allowed=allowed, size=size), count))
    if len(pool) < count:
        raise NesbsError(
            f"a pool of {count} architectures: only {len(pool)} within search.limits were found; lower rivals.pool or "
            "raise the limits"
        )
    return pool


def uniform_draws(
    space: Space, *, generator: torch.Generator, allowed: Allowed | None = None, size: int = 1
) -> Iterator[Architecture]:
    """Draw different architectures uniformly, until the whole space was drawn; within limits, `size` at a time.

    Of one of the first `size` as many copies are within the limits, for a deep ensemble of it.
    """
    earlier: set[Architecture] = set()
    if allowed is not None:
        others = draws_within(lambda count: space.sample(count, generator=generator), size, allowed)
        vain = 0
        while vain < BLOCKS:
            some = within_limits(space.sample(size, generator=generator), allowed, lambda *_: next(others))
            if not earlier and not any(allowed((one,) * size) for one in some):  # where several things are limited
                some = tuple(itertools.islice(others, size))
            is_new = len(set(some) - earlier) == size
            vain = 0 if is_new else vain + 1
            earlier.update(some if is_new else ())
            yield from some if is_new else ()
        return
    while len(earlier) < space.size:
        drawn = space.sample(generator=generator)
        if drawn not in earlier:
            earlier.add(drawn)
            yield drawn


def likeliest_allowed(
    posterior: Posterior,
    wanted: Architecture,
    allowed: Allowed | None,
    *,
    copies: int = 1,
    generator: torch.Generator,
) -> Architecture:
    """`wanted`, where so many copies of it are allowed; else the likeliest of 1,000 draws from the posterior that are.

    >>> from nesbs.spaces import toy_edges
    >>> posterior = Posterior(toy_edges(), torch.tensor([[0.0, 1.0, 3.0]] * 3))
    >>> few = lambda some: str(some).count("conv") <= 1
    >>> found = likeliest_allowed(posterior, posterior.mode(), few, generator=torch.Generator().manual_seed(0))
    >>> str(found).count("conv"), str(found).count("skip")
    (1, 2)
    """
    if allowed is None or allowed((wanted,) * copies):
        return wanted
    draws = draws_within(lambda count: posterior.sample(count, generator=generator), copies, allowed)
    some = list(dict.fromkeys(itertools.islice(draws, LIKELIEST_OF)))
    return some[int(posterior.log_prob(some).argmax())]


def chosen(
    method: str, members: Sequence[Architecture], loss: float | None, judged: Sequence[Architecture], score: Score
) -> Selection:
    """A method's choice as plain data, with the loss of every architecture it judged."""
    judged = list(dict.fromkeys(judged))
    losses = score([[architecture] for architecture in judged]).tolist()
    return Selection(tuple(members), loss, None, None, method, (), tuple(zip(judged, losses, strict=True)))
