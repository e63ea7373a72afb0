"""Algorithm 2: an ensemble is n independent draws, from the posterior or (`Uniform`) from the prior."""

from dataclasses import dataclass

from torch import Generator

from nesbs.posterior import Posterior
from nesbs.samplers.proposals import (
    DUPLICATES,
    Allowed,
    Duplicates,
    Proposal,
    check_proposals,
    draws_within,
    within_limits,
    without_duplicates,
)
from nesbs.spaces import Architecture


@dataclass(frozen=True)
class MonteCarlo:
    """Draw members independently from the posterior (Algorithm 2).

    >>> import torch
    >>> from nesbs.spaces import nasbench201
    >>> random = torch.Generator().manual_seed(0)
    >>> [proposal] = MonteCarlo().propose(Posterior(nasbench201()), size=3, rounds=1, generator=random)
    >>> len(proposal.architectures)
    3
    """

    name = "monte-carlo"

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
        """Draw `rounds` ensembles of `size`.

        Of an ensemble that is not `allowed`, members that cost too much are drawn again (`within_limits`): under a
        limit for each member they follow the posterior on condition that it holds.
        """
        check_proposals(posterior, size, rounds, duplicates, generator)

        def sample(count: int) -> list[Architecture]:
            return posterior.sample(count, generator=generator)

        others = None if allowed is None else draws_within(sample, size, allowed)

        def another(*_: object) -> Architecture:
            assert others is not None
            return next(others)

        def draw(positions: list[int]) -> list[tuple[Architecture, ...]]:
            drawn = sample(size * len(positions))
            ensembles = (drawn[i : i + size] for i in range(0, len(drawn), size))
            return [within_limits(ensemble, allowed, another) for ensemble in ensembles]

        ensembles = without_duplicates(draw, rounds, posterior, duplicates)
        return [Proposal(ensemble, position + 1) for position, ensemble in ensembles]


@dataclass(frozen=True)
class Uniform:
    """Draw members uniformly from the space, whatever the posterior is."""

    name = "uniform"

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
        """Draw `rounds` ensembles of `size`; a member that is not `allowed` is drawn again."""
        prior = Posterior(posterior.space) if isinstance(posterior, Posterior) else posterior  # which is refused
        return MonteCarlo().propose(
            prior, size=size, rounds=rounds, duplicates=duplicates, allowed=allowed, generator=generator
        )
