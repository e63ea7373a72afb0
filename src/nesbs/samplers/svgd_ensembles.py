"""SVGD-RD as a sampler of ensembles: relax the posterior, move particles, decode them to architectures.

The relaxation is the posterior as a density on ℝ^dims (paper, app. B.4), with a way back from a particle to choices.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from nesbs.errors import NesbsError
from nesbs.posterior import Posterior
from nesbs.samplers.proposals import DUPLICATES, Duplicates, Proposal, check_proposals, without_duplicates
from nesbs.samplers.settings import DEFAULT, SamplerSettings
from nesbs.samplers.svgd_rd import sample_svgd_rd
from nesbs.spaces import Architecture


class Relaxation:
    """A mixture of Gaussians for every variable, centred on its choices' one-hot vectors.

        p̂(x) ∝ Π_v Σ_c p_v(c) N(x_v | e_c, variance·I)

    `log_probabilities` is (variables, choices) with −inf where a variable has fewer choices; `variance` is
    the paper's |O|. A particle is the blocks of all variables side by side, (dims,).
    """

    def __init__(self, log_probabilities: Tensor, variance: float) -> None:
        self._log_p = log_probabilities.detach()
        self._real = self._log_p > -torch.inf
        self._variance = variance
        # Where each place of the (variables, choices) table sits in a particle.
        self._places = self._real.flatten().nonzero()[:, 0]
        self.dims = len(self._places)

    def log_density(self, x: Tensor) -> Tensor:
        """Return the unnormalised log p̂ of particles, (…, dims) to (…)."""
        blocks = self._blocks(x)
        # ‖x_v − e_c‖² = ‖x_v‖² − 2 x_vc + 1
        distance = blocks.square().sum(-1, keepdim=True) - 2 * blocks + 1
        return (self._log_p - distance / (2 * self._variance)).logsumexp(-1).sum(-1)

    def decode(self, x: Tensor) -> Tensor:
        """Return the nearest choice of every variable, (…, dims) to (…, variables) int64."""
        return self._blocks(x).masked_fill(~self._real, -torch.inf).argmax(-1)

    def _blocks(self, x: Tensor) -> Tensor:
        """(…, dims) to (…, variables, choices), zero where there is no choice."""
        table = x.new_zeros(*x.shape[:-1], self._real.numel())
        table = table.index_copy(-1, self._places, x)
        return table.reshape(*x.shape[:-1], *self._real.shape)


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
    variance: float | None = DEFAULT.variance  # the paper's |O|
    device: str = "cpu"  # where particles move; what is random comes from the CPU

    name = "svgd-rd"

    def __post_init__(self) -> None:
        if isinstance(self.delta, Sequence) and not self.delta:
            raise NesbsError("SvgdRd needs at least one value of delta, found none")
        SamplerSettings.from_arguments(vars(self))
        try:
            torch.device(self.device)
        except (RuntimeError, TypeError):
            raise NesbsError(f"device must be the name of one, such as cpu or cuda, found {self.device!r}") from None

    @property
    def deltas(self) -> list[float]:
        """The values of δ, one or a grid."""
        return [float(self.delta)] if isinstance(self.delta, (int, float)) else [float(d) for d in self.delta]

    def propose(
        self, posterior: Posterior, *, size: int, rounds: int, duplicates: Duplicates = DUPLICATES, generator: Generator
    ) -> list[Proposal]:
        """Draw `rounds` ensembles of `size` for each δ."""
        check_proposals(posterior, size, rounds, duplicates, generator)
        grid = [(round_ + 1, delta) for round_ in range(rounds) for delta in self.deltas]
        space = posterior.space
        variance = len(space.operations) if self.variance is None else self.variance
        relaxation = Relaxation(posterior.log_probabilities().to(self.device), variance)

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
