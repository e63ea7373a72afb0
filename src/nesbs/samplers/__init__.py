"""Ensembles drawn from p_α: Monte Carlo (Algorithm 2), SVGD-RD (Algorithm 3), uniform."""

from typing import Annotated, Literal

from pydantic import Field

from nesbs.samplers.monte_carlo import MonteCarlo, Uniform
from nesbs.samplers.proposals import Duplicates, NoEnsembleError, Proposal, Sampler, check_size
from nesbs.samplers.relaxation import Relaxation
from nesbs.samplers.svgd_ensembles import SvgdRd
from nesbs.samplers.svgd_rd import sample_svgd_rd
from nesbs.settings import Settings


class SamplerSettings(Settings):
    """How ensembles are drawn (recipe section `sampler`); defaults from the paper, app. B.4."""

    name: Literal["svgd-rd", "monte-carlo", "uniform"] = "svgd-rd"
    delta: float | Annotated[tuple[float, ...], Field(min_length=1)] = Field(
        (-0.5, 0.0, 0.5, 1.0), description="diversity: one value, or a grid of which the best is kept"
    )
    steps: int = Field(1000, ge=1)
    step_size: float = Field(0.1, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1)
    bandwidth: float | None = Field(None, gt=0, description="of the kernel; by default the median rule")


def get_sampler(settings: SamplerSettings) -> Sampler:
    """The sampler that settings name.

    >>> get_sampler(SamplerSettings(name="monte-carlo")).name
    'monte-carlo'
    """
    if settings.name == "svgd-rd":
        return SvgdRd(**settings.model_dump(exclude={"name"}))
    return MonteCarlo() if settings.name == "monte-carlo" else Uniform()


__all__ = [
    "Duplicates",
    "MonteCarlo",
    "NoEnsembleError",
    "Proposal",
    "Relaxation",
    "Sampler",
    "SamplerSettings",
    "SvgdRd",
    "Uniform",
    "check_size",
    "get_sampler",
    "sample_svgd_rd",
]
