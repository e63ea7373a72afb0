"""Algorithm 2: an ensemble is n independent draws, from the posterior or (`Uniform`) from the prior."""

from dataclasses import dataclass

from torch import Generator

from nesbs.posterior import Posterior
from nesbs.samplers.proposals import DUPLICATES, Duplicates, Proposal, check_proposals, without_duplicates
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
        self, posterior: Posterior, *, size: int, rounds: int, duplicates: Duplicates = DUPLICATES, generator: Generator
    ) -> list[Proposal]:
        """Draw `rounds` ensembles of `size`."""
        check_proposals(posterior, size, rounds, duplicates, generator)

        def draw(positions: list[int]) -> list[tuple[Architecture, ...]]:
            drawn = posterior.sample(size * len(positions), generator=generator)
            return [tuple(drawn[i : i + size]) for i in range(0, len(drawn), size)]

        ensembles = without_duplicates(draw, rounds, posterior, duplicates)
        return [Proposal(ensemble, position + 1) for position, ensemble in ensembles]


@dataclass(frozen=True)
class Uniform:
    """Draw members uniformly from the space, whatever the posterior is."""

    name = "uniform"

    def propose(
        self, posterior: Posterior, *, size: int, rounds: int, duplicates: Duplicates = DUPLICATES, generator: Generator
    ) -> list[Proposal]:
        """Draw `rounds` ensembles of `size`."""
        check_proposals(posterior, size, rounds, duplicates, generator)
        prior = Posterior(posterior.space)
        return MonteCarlo().propose(prior, size=size, rounds=rounds, duplicates=duplicates, generator=generator)
