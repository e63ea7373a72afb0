"""SVGD-RD as a sampler of ensembles: relax the posterior, move particles, decode them to architectures.

The relaxation is the posterior as a density on ℝ^dims (paper, app. B.4), with a way back from a particle to choices.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Generator, Tensor

from nesbs.errors import NesbsError
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
from nesbs.samplers.settings import DEFAULT, SamplerSettings
from nesbs.samplers.svgd_rd import sample_svgd_rd
from nesbs.spaces import Architecture

NEAR = 1_000  # draws among which the nearest to a particle is looked for


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

    def scores(self, x: Tensor) -> Tensor:
        """Return how near each choice is, larger is nearer: (…, dims) to (…, variables, choices) on the CPU."""
        return self._blocks(x).cpu()

    def _blocks(self, x: Tensor) -> Tensor:
        """(…, dims) to (…, variables, choices), zero where there is no choice."""
        table = x.new_zeros(*x.shape[:-1], self._real.numel())
        table = table.index_copy(-1, self._places, x)
        return table.reshape(*x.shape[:-1], *self._real.shape)


class _Others:
    """Architectures within the limits, in place of those that particles stand for and that are not."""

    def __init__(self, posterior: Posterior, draws: Iterator[Architecture], *, repeats: bool) -> None:
        self._draws, self._repeats = draws, repeats
        self._drawn = list(dict.fromkeys(itertools.islice(draws, NEAR)))
        self._choices = posterior.space.encode_all(self._drawn)  # (draws, variables), −1: plays no part

    def nearest(self, scores: Tensor, members: list[Architecture], place: int) -> Architecture:
        """The draw nearest to a particle, with scores (particles, variables, choices); a member only where that may be.

        Where there is none, another draw.
        """
        rows = scores[place].expand(len(self._drawn), -1, -1)
        near = rows.gather(-1, self._choices.clamp_min(0)[..., None])[..., 0]
        order = near.masked_fill(self._choices < 0, 0.0).sum(-1).argsort(descending=True, stable=True)
        some = (self._drawn[int(index)] for index in order)
        return next((one for one in some if self._repeats or one not in members), None) or next(self._draws)


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
        settings = SamplerSettings.from_arguments(vars(self))
        for name in vars(self).keys() & SamplerSettings.model_fields.keys():  # as numbers, whatever they came as
            object.__setattr__(self, name, getattr(settings, name))
        try:
            torch.device(self.device)
        except (RuntimeError, TypeError):
            raise NesbsError(f"device must be the name of one, such as cpu or cuda, found {self.device!r}") from None

    @property
    def deltas(self) -> list[float]:
        """The values of δ, one or a grid."""
        return [float(self.delta)] if isinstance(self.delta, (int, float)) else [float(d) for d in self.delta]

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
        """Draw `rounds` ensembles of `size` for each δ.

        Of an ensemble that is not `allowed`, a particle that costs too much (`within_limits`) becomes the nearest of
        1,000 draws from the posterior that do not. Particles gather where the posterior is high: to start them again
        would seldom help.
        """
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
            ensembles = [[space.architecture(row) for row in ensemble] for ensemble in choices]
            return [
                within_limits(ensemble, allowed, lambda *which, near=near: others().nearest(near, *which))
                for ensemble, near in zip(ensembles, relaxation.scores(particles), strict=True)
            ]

        @cache
        def others() -> _Others:
            assert allowed is not None
            draws = draws_within(lambda count: posterior.sample(count, generator=generator), size, allowed)
            return _Others(posterior, draws, repeats=duplicates == "allow")

        # Of a grid the values at which all particles become one are passed over.
        ensembles = without_duplicates(draw, len(grid), posterior, duplicates, deltas=self.deltas)
        return [Proposal(ensemble, *grid[position]) for position, ensemble in ensembles]
