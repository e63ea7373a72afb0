"""Figure 2: particles of SVGD-RD on a mixture of two Gaussians under several δ."""

import math

import torch
from torch import Tensor

from nesbs import rng
from nesbs.records.experiment import DeltaRecord, GaussiansRecord
from nesbs.reproduce.work import Work
from nesbs.samplers import sample_svgd_rd

# The caption of Figure 2: p(x) = (N(x | u₁, Σ) + N(x | u₂, Σ)) / 2.
CENTRES = ((-1.0, 0.0), (0.0, 1.0))
VARIANCES = (0.25, 0.5)


def log_density(x: Tensor) -> Tensor:
    """Return the log-density of the mixture, (…, 2) to (…).

    >>> round(float(log_density(torch.tensor([-0.5, 0.5])).exp()), 4)  # half-way: exp(−0.75) / (2π √0.125)
    0.2126
    """
    centres, variances = x.new_tensor(CENTRES), x.new_tensor(VARIANCES)
    squared = ((x[..., None, :] - centres).square() / variances).sum(-1)
    normal = math.log(2 * math.pi) + 0.5 * float(variances.log().sum())
    return torch.logsumexp(-0.5 * squared, -1) - math.log(len(CENTRES)) - normal


def run_gaussians(work: Work) -> None:
    """Move particles under every δ from the same starts, over seeds, as one computation."""
    scale = work.scale
    first = work.seed or 0
    seeds = [first + offset for offset in range(scale.seeds)]
    shape = (len(scale.deltas), scale.particles, 2)
    starts = [
        torch.randn(scale.particles, 2, generator=rng.generator(seed, "fig-delta"), dtype=torch.float64).expand(shape)
        for seed in seeds
    ]
    deltas = torch.tensor(scale.deltas, dtype=torch.float64).expand(len(seeds), -1)
    work.progress.start("SVGD-RD", 1)
    # Algorithm 3 as it stands, and as the caption has it: no momentum.
    particles = sample_svgd_rd(
        log_density, torch.stack(starts), delta=deltas, steps=scale.steps, step_size=scale.step_size, momentum=0.0
    )
    work.progress.finish(f"{scale.steps} steps")
    densities = log_density(particles)
    gaussians = GaussiansRecord(
        centres=CENTRES,
        variances=VARIANCES,
        steps=scale.steps,
        step_size=scale.step_size,
        seeds=tuple(seeds),
        deltas=tuple(
            DeltaRecord(
                delta=delta,
                particles=particles[0, place].tolist(),  # of the first seed, for the picture
                log_density=densities[:, place].tolist(),  # (seeds, particles)
            )
            for place, delta in enumerate(scale.deltas)
        ),
    )
    work.save(gaussians=gaussians)
