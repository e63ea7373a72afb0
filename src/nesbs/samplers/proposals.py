"""What a sampler is: it proposes the ensembles of all rounds at once, under a policy for duplicates and limits."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

from torch import Generator

from nesbs.errors import NesbsError, did_you_mean, expect, expect_whole
from nesbs.posterior import Posterior
from nesbs.spaces import Architecture, Space, duplicates

Duplicates = Literal["allow", "refuse", "redraw"]
DUPLICATES: Duplicates = "redraw"  # what is done about members that are alike, unless something else is asked for
TRIES = 100
AT_ONCE = 10
LIMIT_TRIES, LIMIT_AT_ONCE = 50_000, 100  # draws of one within the limits, which may leave little of a space
Allowed = Callable[[Sequence[Architecture]], bool]  # whether an ensemble, or a part of one, is within the limits


class NoEnsembleError(NesbsError):
    """No ensemble without duplicates, or none within the limits, could be drawn."""


@dataclass(frozen=True)
class Proposal:
    """One ensemble to be judged: its members, the round it belongs to (from 1) and its δ."""

    architectures: tuple[Architecture, ...]
    round: int
    delta: float | None = None


@runtime_checkable
class Sampler(Protocol):
    """Draws ensembles from a posterior."""

    @property
    def name(self) -> str:
        """The sampler's name in recipes and records."""

    def propose(
        self,
        posterior: Posterior,
        *,
        size: int,
        rounds: int,
        duplicates: Duplicates = DUPLICATES,
        allowed: Allowed | None = None,
        generator: Generator,
    ) -> list[Proposal]:
        """Draw `rounds` ensembles of `size` (for each δ of a grid, so many), all of them `allowed`."""


def check_size(space: Space, size: int, policy: Duplicates) -> None:
    """Raise where an ensemble without duplicates cannot exist."""
    if policy != "allow" and size > space.size:
        raise NesbsError(
            f"an ensemble of {size} without duplicates is larger than space {space.name} ({space.size} "
            "architectures): lower ensemble.size or set search.duplicates=allow"
        )


def for_one_draw(policy: Duplicates) -> Duplicates:
    """The policy where one ensemble is drawn and no other: refused, it is drawn again, since none would be left."""
    return "redraw" if policy == "refuse" else policy


def check_proposals(posterior: Posterior, size: int, rounds: int, policy: Duplicates, generator: Generator) -> None:
    """Raise where what a sampler is asked for is of the wrong kind or cannot exist."""
    expect(posterior, Posterior, "posterior must be a Posterior, which fit_posterior returns")
    expect_whole(size, "size")
    expect_whole(rounds, "rounds")
    expect(generator, Generator, "generator must be a torch.Generator")
    if policy not in get_args(Duplicates):
        raise NesbsError(f"unknown duplicates {policy}: {did_you_mean(str(policy), get_args(Duplicates))}")
    check_size(posterior.space, size, policy)


def draws_within(draw: Callable[[int], list[Architecture]], size: int, allowed: Allowed) -> Iterator[Architecture]:
    """Draw architectures of which `size` copies are allowed, without end; an error where none comes up.

    >>> from nesbs.spaces import toy_edges
    >>> random = Generator().manual_seed(0)
    >>> def draw(count):
    ...     return toy_edges().sample(count, generator=random)
    >>> draws = draws_within(draw, 2, lambda both: "conv" not in str(both))
    >>> any("conv" in str(next(draws)) for _ in range(9))
    False
    """
    tries = 0
    while tries < LIMIT_TRIES:
        tries += LIMIT_AT_ONCE
        for one in draw(LIMIT_AT_ONCE):
            if allowed((one,) * size):
                tries = 0
                yield one
    raise NoEnsembleError(
        f"none of {LIMIT_TRIES:,} architectures that were drawn is within search.limits: raise the limits, or let more "
        "be drawn by a lower posterior.evidence or a higher posterior.temperature"
    )


def within_limits(
    ensemble: Sequence[Architecture],
    allowed: Allowed | None,
    another: Callable[[list[Architecture], int], Architecture],
) -> tuple[Architecture, ...]:
    """Return an ensemble as it is where it is allowed; else with other members where these cost too much.

    That is, more than what is left by those before, shared out evenly: then as many copies of the member as are still
    missing are not allowed. `another` is given those before and the place, and returns what comes there instead.
    """
    if allowed is None or allowed(ensemble):
        return tuple(ensemble)
    members: list[Architecture] = []
    for place, member in enumerate(ensemble):
        fits = allowed([*members, *[member] * (len(ensemble) - place)])
        members.append(member if fits else another(members, place))
    return tuple(members)


def without_duplicates(
    draw: Callable[[list[int]], list[tuple[Architecture, ...]]],
    count: int,
    posterior: Posterior,
    policy: Duplicates,
    *,
    deltas: Sequence[float] = (),
) -> list[tuple[int, tuple[Architecture, ...]]]:
    """Draw `count` ensembles under a policy: (position, ensemble) of those that it lets pass.

    `draw` makes the ensembles at the given positions anew. `allow` takes them as they come, `refuse` drops
    those with duplicates, `redraw` draws these again, up to 100 times; one that still has duplicates then is
    an error that names the posterior's entropy, or is dropped where there are several `deltas` (SVGD-RD's). No
    ensemble left is an error.
    """
    ensembles = dict(enumerate(draw(list(range(count)))))
    bad = [i for i, ensemble in ensembles.items() if duplicates(ensemble)]
    if policy == "redraw":
        for _ in range(TRIES // AT_ONCE):
            if not bad:
                break
            # Several tries in one computation: a batch costs hardly more than one.
            positions = [i for i in bad for _ in range(AT_ONCE)]
            for i, ensemble in zip(positions, draw(positions), strict=True):
                if duplicates(ensembles[i]):
                    ensembles[i] = ensemble
            bad = [i for i in bad if duplicates(ensembles[i])]
    if policy != "allow":
        ensembles = {i: ensemble for i, ensemble in ensembles.items() if i not in set(bad)}
    if not ensembles or (policy == "redraw" and bad and len(deltas) < 2):
        tried = f"in {TRIES} redraws" if policy == "redraw" else "at the first draw"
        entropy, most = float(posterior.entropy()), math.log(posterior.space.size)
        if entropy < most / 2:
            advice = "lower posterior.evidence, raise posterior.temperature"
        else:  # below 0 members push each other less than in SVGD, at −1 not at all
            advice = "raise sampler.delta" if min(deltas, default=0.0) < 0 else "lower ensemble.size"
        raise NoEnsembleError(
            f"no ensemble without duplicates {tried}: the posterior's entropy is {entropy:.2f} of at most {most:.2f} "
            f"nats; {advice}, or set search.duplicates=allow"
        )
    return sorted(ensembles.items())
