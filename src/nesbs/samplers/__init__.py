"""Ensembles drawn from p_α: Monte Carlo (Algorithm 2), SVGD-RD (Algorithm 3), uniform."""

from nesbs.samplers.monte_carlo import MonteCarlo, Uniform
from nesbs.samplers.proposals import (
    DUPLICATES,
    Allowed,
    Duplicates,
    NoEnsembleError,
    Proposal,
    Sampler,
    check_size,
    draws_within,
    for_one_draw,
    within_limits,
)
from nesbs.samplers.settings import Delta, SamplerSettings
from nesbs.samplers.svgd_ensembles import Relaxation, SvgdRd
from nesbs.samplers.svgd_rd import sample_svgd_rd


def get_sampler(settings: SamplerSettings) -> Sampler:
    """Return the sampler that settings name.

    >>> get_sampler(SamplerSettings(name="monte-carlo")).name
    'monte-carlo'
    """
    if settings.name == "svgd-rd":
        return SvgdRd(**settings.model_dump(exclude={"name"}))
    return MonteCarlo() if settings.name == "monte-carlo" else Uniform()
