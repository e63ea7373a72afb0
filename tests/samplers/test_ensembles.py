"""Every sampler: legal ensembles, the same from the same generator, duplicates as the policy says."""

import math
from dataclasses import FrozenInstanceError

import pytest
import torch
from contracts import SAMPLERS, SPACES

from nesbs.errors import NesbsError
from nesbs.posterior import Posterior
from nesbs.samplers import MonteCarlo, NoEnsembleError, Relaxation, SamplerSettings, SvgdRd, Uniform, get_sampler
from nesbs.samplers.proposals import without_duplicates
from nesbs.spaces import nasbench201, toy_edges, toy_pairs


def random(seed=0):
    return torch.Generator().manual_seed(seed)


def peaked(space, sharpness=50.0):
    """All mass on the first choice of every variable."""
    logits = torch.zeros(Posterior(space).logits.shape)
    logits[:, 0] = sharpness
    return Posterior(space, logits)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
@pytest.mark.parametrize("make", SPACES)
def test_proposals_are_legal_and_reproducible(sampler, make):
    space = make()
    one, two, other = (
        sampler.propose(Posterior(space), size=3, rounds=4, generator=random(seed)) for seed in (0, 0, 1)
    )
    assert one == two != other
    values = len(sampler.delta) if isinstance(getattr(sampler, "delta", None), tuple) else 1
    assert len(one) == 4 * values
    assert {proposal.round for proposal in one} == {1, 2, 3, 4}
    for proposal in one:
        assert len(set(proposal.architectures)) == 3
        assert all(space.parse(str(a)) == a for a in proposal.architectures)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_a_sampler_stays_what_it_is(sampler):
    with pytest.raises(FrozenInstanceError):
        sampler.name = "another"


@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_an_ensemble_larger_than_the_space_is_refused(sampler):
    with pytest.raises(NesbsError, match="an ensemble of 28 without duplicates is larger than space toy-edges"):
        sampler.propose(Posterior(toy_edges()), size=28, rounds=1, generator=random())


def test_monte_carlo_draws_by_probability():
    space = toy_edges()
    posterior = Posterior(space, torch.randn(3, 3, generator=random(3)))
    proposals = MonteCarlo().propose(posterior, size=5, rounds=4000, duplicates="allow", generator=random())
    drawn = [a for proposal in proposals for a in proposal.architectures]
    for architecture in space:
        p = float(posterior.log_prob(architecture).exp())
        share = drawn.count(architecture) / len(drawn)
        assert abs(share - p) < 4.5 * math.sqrt(p * (1 - p) / len(drawn)) + 1e-9


def test_uniform_ignores_the_posterior():
    space = toy_edges()
    flat, sharp = (
        Uniform().propose(p, size=3, rounds=5, generator=random()) for p in (Posterior(space), peaked(space))
    )
    assert flat == sharp


def test_a_point_posterior_cannot_be_redrawn_away():
    message = (
        r"no ensemble without duplicates in 100 redraws: the posterior's entropy is 0\.00 of at most 3\.30 nats; lower"
    )
    with pytest.raises(NesbsError, match=message):
        MonteCarlo().propose(peaked(toy_edges()), size=2, rounds=2, generator=random())
    with pytest.raises(NesbsError, match="at the first draw"):
        MonteCarlo().propose(peaked(toy_edges()), size=2, rounds=2, duplicates="refuse", generator=random())
    [proposal] = MonteCarlo().propose(peaked(toy_edges()), size=2, rounds=1, duplicates="allow", generator=random())
    assert proposal.architectures[0] == proposal.architectures[1] == peaked(toy_edges()).mode()


def test_members_that_do_not_push_each_other_apart_are_not_blamed_on_a_flat_posterior():
    nearly_flat = peaked(toy_edges(), 0.1)
    with pytest.raises(NesbsError, match=r"is 3\.\d\d of at most 3\.30 nats; raise sampler\.delta, or set search"):
        SvgdRd(delta=-1.0, steps=100).propose(nearly_flat, size=3, rounds=1, generator=random())
    with pytest.raises(NesbsError, match=r"of at most 3\.30 nats; lower ensemble\.size, or set search"):
        MonteCarlo().propose(nearly_flat, size=26, rounds=1, generator=random())


def test_settings_of_svgd_that_came_as_text_are_numbers():
    assert SvgdRd(delta="0.5", steps="20") == SvgdRd(delta=0.5, steps=20)
    assert SvgdRd(delta=[0, 1]).deltas == [0.0, 1.0]


def test_an_ensemble_is_redrawn_a_hundred_times_ten_at_a_time():
    alike, asked = next(iter(toy_edges())), []

    def draw(positions):
        asked.append(len(positions))
        return [(alike, alike)] * len(positions)

    with pytest.raises(NoEnsembleError):
        without_duplicates(draw, 1, Posterior(toy_edges()), "redraw")
    assert asked == [1, *[10] * 10]


def test_refusing_drops_only_the_ensembles_with_duplicates():
    posterior = peaked(toy_edges(), 1.5)
    every = MonteCarlo().propose(posterior, size=3, rounds=60, duplicates="allow", generator=random())
    kept = MonteCarlo().propose(posterior, size=3, rounds=60, duplicates="refuse", generator=random())
    assert kept == [proposal for proposal in every if len(set(proposal.architectures)) == 3]
    assert 0 < len(kept) < len(every)


def test_redrawing_keeps_every_round():
    posterior = peaked(toy_edges(), 1.5)
    proposals = MonteCarlo().propose(posterior, size=3, rounds=60, duplicates="redraw", generator=random())
    assert [proposal.round for proposal in proposals] == list(range(1, 61))


@pytest.mark.parametrize("make", [toy_edges, toy_pairs])
def test_relaxed_density_is_the_mixture_as_written(make):
    space = make()
    posterior = Posterior(space, torch.randn(Posterior(space).logits.shape, generator=random(1)))
    variance = len(space.operations)
    relaxation = Relaxation(posterior.log_probabilities(), variance)
    assert relaxation.dims == sum(len(variable.choices) for variable in space.variables)
    x = torch.randn(relaxation.dims, generator=random(2), dtype=torch.float64).float()
    expected, at = 0.0, 0
    for row, variable in zip(posterior.log_probabilities().exp(), space.variables, strict=True):
        width = len(variable.choices)
        block, at = x[at : at + width], at + width
        centres = torch.eye(width)
        normal = (-(block - centres).square().sum(-1) / (2 * variance)).exp()
        expected += float((row[:width] * normal).sum().log())
    assert float(relaxation.log_density(x)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("make", [toy_edges, toy_pairs])
def test_decoding_finds_the_nearest_one_hot(make):
    space = make()
    relaxation = Relaxation(Posterior(space).log_probabilities(), 2.0)
    for architecture in space.sample(20, generator=random()):
        picks = [max(0, choice) for choice in space.encode(architecture)]
        blocks = [torch.eye(len(v.choices))[pick] for v, pick in zip(space.variables, picks, strict=True)]
        particle = torch.cat(blocks) + 0.2 * torch.randn(relaxation.dims, generator=random(4)).clamp(-1, 1)
        assert space.architecture(relaxation.decode(particle).tolist()) == architecture


def test_one_particle_of_svgd_finds_the_mode_of_the_posterior():
    space = nasbench201()
    posterior = Posterior(space, 2 * torch.randn(6, 5, generator=random(7)))
    [proposal] = SvgdRd(delta=0.5).propose(posterior, size=1, rounds=1, generator=random())
    assert proposal.architectures == (posterior.mode(),)


def test_the_relaxations_variance_is_the_number_of_operations_unless_set():
    posterior = Posterior(nasbench201(), torch.randn(6, 5, generator=random(7)))

    def drawn(**settings):
        sampler = get_sampler(SamplerSettings(steps=200, delta=0.0, **settings))
        return sampler.propose(posterior, size=3, rounds=4, generator=random())

    assert drawn() == drawn(variance=5.0) != drawn(variance=0.5)


def test_members_are_likelier_where_the_relaxation_is_narrower():
    posterior = Posterior(nasbench201(), 2 * torch.randn(6, 5, generator=random(7)))

    def mean_log_p(variance):
        drawn = SvgdRd(delta=0.0, steps=300, variance=variance).propose(
            posterior, size=3, rounds=10, generator=random()
        )
        return float(posterior.log_prob([one for proposal in drawn for one in proposal.architectures]).mean())

    assert mean_log_p(1.0) > mean_log_p(5.0) + 0.1


def test_delta_trades_probability_for_diversity():
    space = nasbench201()
    posterior = Posterior(space, torch.randn(6, 5, generator=random(7)))
    sampler = SvgdRd(delta=(-1.0, -0.75, 1.0), steps=300)
    proposals = sampler.propose(posterior, size=5, rounds=20, duplicates="allow", generator=random())

    def mean_of(delta, measure):
        values = [measure(p.architectures) for p in proposals if p.delta == delta]
        return sum(values) / len(values)

    different = [mean_of(delta, lambda members: len(set(members))) for delta in sampler.delta]
    likely = [mean_of(delta, lambda members: float(posterior.log_prob(members).mean())) for delta in sampler.delta]
    assert different[0] == 1 < different[1] <= different[2]
    assert likely[0] > likely[1] > likely[2]


def test_a_grid_needs_a_value():
    with pytest.raises(NesbsError, match="at least one value of delta"):
        SvgdRd(delta=()).propose(Posterior(toy_edges()), size=2, rounds=1, generator=random())
    with pytest.raises(NesbsError, match=r"delta: .*found \[\]"):
        SamplerSettings.of({"delta": []})


def test_settings_name_the_sampler():
    assert get_sampler(SamplerSettings(name="uniform")) == Uniform()
    assert get_sampler(SamplerSettings(name="svgd-rd", delta=0.3, steps=5)) == SvgdRd(delta=0.3, steps=5)
    with pytest.raises(NesbsError, match="name: input should be 'svgd-rd', 'monte-carlo' or 'uniform', found 'mcmc'"):
        SamplerSettings.of({"name": "mcmc"})
