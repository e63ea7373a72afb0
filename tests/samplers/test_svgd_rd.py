"""SVGD-RD against the formula as printed, its limits, and the paper's picture of two Gaussians."""

import math

import pytest
import torch

from nesbs.errors import NesbsError
from nesbs.samplers import sample_svgd_rd
from nesbs.samplers.svgd_rd import median_bandwidth, update


def two_gaussians(x):
    """The paper's target (its figure on δ), unnormalised: means (−1, 0) and (0, 1), variances (0.25, 0.5)."""
    means, variances = torch.tensor([[-1.0, 0.0], [0.0, 1.0]]).to(x), torch.tensor([0.25, 0.5]).to(x)
    return (-0.5 * ((x[..., None, :] - means).square() / variances).sum(-1)).logsumexp(-1)


def printed_update(log_density, x, delta, h):
    """Algorithm 3, line 3, term by term, every gradient by automatic differentiation."""
    n, rows = len(x), []

    def kernel(a, b):
        return (-(a - b).square().sum() / h).exp()

    for i in range(n):
        total = torch.zeros_like(x[0])
        for j in range(n):
            xj, xi = x[j].clone().requires_grad_(), x[i].clone().requires_grad_()
            grad_j, grad_i = torch.autograd.grad(kernel(xj, xi), (xj, xi))
            (score,) = torch.autograd.grad(log_density(xj), xj)
            total += grad_j - delta * grad_i + kernel(xj, xi).detach() * score
        rows.append(total / n)
    return torch.stack(rows)


@pytest.mark.parametrize("delta", [-2.0, -1.0, 0.0, 0.7])
@pytest.mark.parametrize("bandwidth", [None, 0.8])
def test_update_is_the_papers_formula(delta, bandwidth, random):
    x = torch.randn(5, 2, generator=random, dtype=torch.float64)
    squared = (x[:, None] - x).square().sum(-1)
    h = median_bandwidth(squared) if bandwidth is None else bandwidth
    torch.testing.assert_close(update(two_gaussians, x, delta, bandwidth), printed_update(two_gaussians, x, delta, h))


def test_one_step_moves_by_the_step_size_times_the_whole_update(random):
    # Algorithm 3, line 4: the step size multiplies the δ term too.
    x = torch.randn(4, 2, generator=random)
    moved = sample_svgd_rd(two_gaussians, x, delta=0.7, steps=1, step_size=0.3, momentum=0.9)
    torch.testing.assert_close(moved, x + 0.3 * update(two_gaussians, x, 0.7))


def test_momentum_is_that_of_sgd(random):
    x = torch.randn(3, 2, generator=random)
    ours = sample_svgd_rd(two_gaussians, x, delta=0.2, steps=7, step_size=0.05, momentum=0.8)
    theirs = x.clone().requires_grad_()
    optimiser = torch.optim.SGD([theirs], lr=0.05, momentum=0.8)
    for _ in range(7):
        theirs.grad = -update(two_gaussians, theirs.detach(), 0.2)
        optimiser.step()
    torch.testing.assert_close(ours, theirs.detach())


def test_delta_0_is_plain_svgd(random):
    x = torch.randn(6, 3, generator=random, dtype=torch.float64)

    def gaussian(x):
        return -0.5 * x.square().sum(-1)

    difference = x[:, None] - x
    squared = difference.square().sum(-1)
    h = median_bandwidth(squared)
    k = (-squared / h).exp()
    svgd = (k @ -x + (2 / h * difference * k[..., None]).sum(1)) / 6  # Liu and Wang's: driving force and repulsion
    torch.testing.assert_close(update(gaussian, x, 0.0), svgd)


def test_delta_minus_1_has_no_repulsion(random):
    # Under a flat target only the kernel moves particles.
    x = torch.randn(5, 2, generator=random)

    def flat(x):
        return 0 * x.sum(-1)

    assert update(flat, x, -1.0).abs().max() == 0
    apart, together = (x + 0.1 * update(flat, x, delta) for delta in (0.0, -2.0))
    assert torch.pdist(apart).sum() > torch.pdist(x).sum() > torch.pdist(together).sum()


@pytest.mark.parametrize("delta", [-2.0, 0.0, 1.0, 5.0])
def test_one_particle_climbs_the_density_whatever_delta_is(delta, random):
    # Proposition 2: gradient ascent, to the letter.
    x = torch.randn(1, 2, generator=random)
    ascent = x.clone().requires_grad_()
    optimiser = torch.optim.SGD([ascent], lr=0.1, momentum=0.9)
    for _ in range(50):
        optimiser.zero_grad()
        (-two_gaussians(ascent).sum()).backward()
        optimiser.step()
    torch.testing.assert_close(sample_svgd_rd(two_gaussians, x, delta=delta, steps=50), ascent.detach())


def test_strong_attraction_at_a_fixed_bandwidth_makes_all_particles_one(random):
    x = torch.randn(4, 2, generator=random)
    end = sample_svgd_rd(two_gaussians, x, delta=-2.0, bandwidth=4.0)
    assert torch.pdist(end).max() < 1e-3


def test_delta_spreads_the_densities_and_keeps_them_high():
    # The paper's figure: L = 1000, n = 15, ε = 0.1; from three starts.
    start = torch.stack([torch.randn(15, 2, generator=torch.Generator().manual_seed(seed)) for seed in range(3)])
    grid = torch.stack(torch.meshgrid(torch.linspace(-2, 1, 301), torch.linspace(-1, 2, 301), indexing="ij"), -1)
    mode = two_gaussians(grid).max()
    deltas = torch.tensor([[0.0], [1.0], [2.0]]).expand(3, 3)
    end = sample_svgd_rd(two_gaussians, start.expand(3, 3, 15, 2), delta=deltas, steps=1000, step_size=0.1)
    log_density = two_gaussians(end)  # (δ, starts, particles)
    assert bool((log_density.std(-1).diff(dim=0) > 0).all())
    assert log_density.min() > mode + math.log(0.01)


def test_plain_svgd_recovers_a_gaussians_mean_and_variance():
    mean, deviation = torch.tensor([2.0, -1.0]), torch.tensor([0.5, 1.5])

    def gaussian(x):
        return -0.5 * ((x - mean) / deviation).square().sum(-1)

    start = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    end = sample_svgd_rd(gaussian, start, delta=0.0, steps=1000, step_size=0.2)
    torch.testing.assert_close(end.mean(0), mean, atol=0.05, rtol=0)
    torch.testing.assert_close(end.std(0), deviation, atol=0.15, rtol=0)


def test_batched_runs_equal_single_runs(random):
    start = torch.randn(2, 3, 4, 2, generator=random)
    deltas = torch.tensor([[-0.5, 0.0, 1.0], [0.3, 2.0, -1.0]])
    together = sample_svgd_rd(two_gaussians, start, delta=deltas, steps=60)
    for i in range(2):
        for j in range(3):
            alone = sample_svgd_rd(two_gaussians, start[i, j], delta=float(deltas[i, j]), steps=60)
            torch.testing.assert_close(together[i, j], alone, atol=1e-4, rtol=1e-4)


def test_the_start_is_not_modified(random):
    start = torch.randn(3, 2, generator=random)
    kept = start.clone()
    sample_svgd_rd(two_gaussians, start, delta=1.0, steps=5)
    assert torch.equal(start, kept)


def test_particles_that_leave_all_bounds_are_an_error(random):
    with pytest.raises(NesbsError, match="left all bounds: lower the step size .1000000.0. or delta"):
        sample_svgd_rd(two_gaussians, torch.randn(3, 2, generator=random), delta=0.0, step_size=1e6)


def test_every_run_has_a_delta_of_its_own_or_all_have_one(random):
    start = torch.randn(3, 4, 2, generator=random)
    for shape in ((2,), (4,), (3, 1), (3, 4)):
        with pytest.raises(NesbsError, match=rf"^delta must be one number or \(3,\), found \({shape[0]},"):
            sample_svgd_rd(two_gaussians, start, delta=torch.zeros(shape), steps=1)


def test_median_bandwidth_by_hand():
    # Points 0, 1, 3: squared distances 1, 9, 4, median 4; points 0, 1, 3, 7: 1, 9, 49, 4, 36, 16, median 12.5.
    for points, median in (([0.0, 1.0, 3.0], 4.0), ([0.0, 1.0, 3.0, 7.0], 12.5)):
        x = torch.tensor(points)[:, None]
        h = median_bandwidth((x[:, None] - x).square().sum(-1))
        assert h == pytest.approx(median / math.log(len(points) + 1))
    assert median_bandwidth(torch.zeros(3, 3)) == pytest.approx(1e-12)
