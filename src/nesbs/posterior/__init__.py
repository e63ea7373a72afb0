"""p_α(A): log_prob, sample, entropy; fitting it to the evidence."""

from nesbs.posterior.categorical import Posterior
from nesbs.posterior.evidence import Evidence, ReferenceRanks, reference_ranks, share_below
from nesbs.posterior.fit import Surrogate, fit_elbo, fit_posterior, leave_one_out, straight_through
from nesbs.posterior.settings import PosteriorSettings
