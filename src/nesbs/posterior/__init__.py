"""p_α(A): log_prob, sample, entropy; fitting it to the evidence."""

from nesbs.posterior.categorical import Posterior
from nesbs.posterior.fit import (
    PosteriorSettings,
    fit_elbo,
    fit_posterior,
    leave_one_out,
    straight_through,
)

__all__ = ["Posterior", "PosteriorSettings", "fit_elbo", "fit_posterior", "leave_one_out", "straight_through"]
