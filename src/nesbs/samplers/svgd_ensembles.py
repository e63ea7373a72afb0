"""SVGD-RD as a sampler of ensembles: relax the posterior, move particles, decode them to architectures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator

from nesbs.errors import NesbsError
from nesbs.posterior import Posterior
from nesbs.samplers.proposals import DUPLICATES, Duplicates, Proposal, check_size, without_duplicates
from nesbs.samplers.relaxation import Relaxation
from nesbs.samplers.settings import DEFAULT, SamplerSettings
from nesbs.samplers.svgd_rd import sample_svgd_rd
from nesbs.spaces import Architecture


@dataclass(frozen=True)
class SvgdRd:
    """Draw members as the particles of SVGD-RD (Algorithm 3), for one δ or for each of a grid.

    The settings are those of the recipe's section `sampler` (`SamplerSettings`). All rounds and all δ are one batched
    computation. Particles start from a standard normal around 0.

    >>> from nesbs.spaces import nasbench201
    >>> random = torch.Generator().manual_seed(0)
    >>> sampler = SvgdRd(delta=(0.0, 1.0), steps=20)
    >>> proposals = sampler.propose(Posterior(nasbench201()), size=3, rounds=2, generator=random)
    >>> [(proposal.round, proposal.delta) for proposal in proposals]
    [(1, 0.0), (1, 1.0), (2, 0.0), (2, 1.0)]
    """

    delta: float | Sequence[float] = DEFAULT.delta
    steps: int = DEFAULT.steps
    step_size: float = DEFAULT.step_size
    momentum: float = DEFAULT.momentum
    bandwidth: float | None = DEFAULT.bandwidth  # median rule
    device: str = "cpu"  # where particles move; what is random comes from the CPU

    name = "svgd-rd"

    def __post_init__(self) -> None:
        if isinstance(self.delta, Sequence) and not self.delta:
            raise NesbsError("SvgdRd needs at least one value of delta, found none")
        SamplerSettings.from_arguments(vars(self))

    @property
    def deltas(self) -> list[float]:
        """The values of δ, one or a grid."""
        return [float(self.delta)] if isinstance(self.delta, (int, float)) else [float(d) for d in self.delta]

    def propose(
        self, posterior: Posterior, *, size: int, rounds: int, duplicates: Duplicates = DUPLICATES, generator: Generator
    ) -> list[Proposal]:
        """Draw `rounds` ensembles of `size` for each δ."""
        check_size(posterior.space, size, duplicates)
        grid = [(round_ + 1, delta) for round_ in range(rounds) for delta in self.deltas]
        space = posterior.space
        relaxation = Relaxation(posterior.log_probabilities().to(self.device), variance=len(space.operations))

        def draw(positions: list[int]) -> list[tuple[Architecture, ...]]:
            particles = sample_svgd_rd(
                relaxation.log_density,
                torch.randn(len(positions), size, relaxation.dims, generator=generator).to(self.device),
                delta=torch.tensor([grid[i][1] for i in positions], device=self.device),
                steps=self.steps,
                step_size=self.step_size,
                momentum=self.momentum,
                bandwidth=self.bandwidth,
                record=True,
            )
            choices = relaxation.decode(particles).tolist()
            return [tuple(space.architecture(row) for row in ensemble) for ensemble in choices]

        # Of a grid the values at which all particles become one are passed over.
        ensembles = without_duplicates(draw, len(grid), posterior, duplicates, may_drop=len(self.deltas) > 1)
        return [Proposal(ensemble, *grid[position]) for position, ensemble in ensembles]
