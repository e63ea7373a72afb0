"""Fitting: gradients against exact ones on spaces that can be enumerated, optima against their closed form."""

import math

import pytest
import torch
from contracts import TOYS

from nesbs.errors import NesbsError
from nesbs.posterior import Posterior, PosteriorSettings, fit_elbo, fit_posterior, leave_one_out, straight_through
from nesbs.posterior.fit import fit_side_by_side, leave_one_out_of_all
from nesbs.spaces import darts, toy_edges, toy_pairs
from nesbs.supernet import train_supernet


def additive(space, seed=0, scale=1.0):
    """A score that is a sum over the choices that play a part, and its table (variables, choices)."""
    table = scale * torch.rand(Posterior(space).logits.shape, generator=torch.Generator().manual_seed(seed))

    def log_likelihood(architectures, step):
        index = space.encode_all(architectures)
        chosen = table.expand(len(index), -1, -1).gather(-1, index.clamp_min(0)[..., None])[..., 0]
        return chosen.masked_fill(index < 0, 0).sum(-1)

    return log_likelihood, table


def logits_of(space, seed):
    shape = Posterior(space).logits.shape
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


@pytest.mark.parametrize("make", TOYS)
def test_leave_one_out_gradient_agrees_with_the_exact_one(make):
    space = make()
    log_likelihood, _ = additive(space)
    everything = list(space)
    posterior = Posterior(space, logits_of(space, 1))
    exact = (posterior.log_prob(everything).exp() * log_likelihood(everything, 0)).sum()
    (expected,) = torch.autograd.grad(exact, posterior.logits)
    surrogate, random, draws = leave_one_out(log_likelihood, 4), torch.Generator().manual_seed(2), []
    for _ in range(400):
        (gradient,) = torch.autograd.grad(surrogate(posterior, 0, random), posterior.logits)
        draws.append(gradient)
    stacked = torch.stack(draws).double()
    error = stacked.std(0) / len(draws) ** 0.5
    # About 4.5 standard errors for each of up to 26 free places; a wrong factor is tens of them away.
    assert ((stacked.mean(0) - expected).abs() <= 4.5 * error + 1e-7).all()
    assert (expected.abs() > 10 * error).any()  # the interval is narrow enough to tell


def test_leave_one_out_does_not_see_a_constant_in_the_likelihood():
    # The baseline is the others' mean, so what all samples share cancels to the last digit that matters.
    space = toy_edges()
    log_likelihood, _ = additive(space)
    gradients = []
    for constant in (0.0, 100.0):
        posterior = Posterior(space, logits_of(space, 1))
        surrogate = leave_one_out(lambda drawn, step, c=constant: log_likelihood(drawn, step) + c, 4)
        value = surrogate(posterior, 0, torch.Generator().manual_seed(2))
        gradients.append(torch.autograd.grad(value, posterior.logits)[0])
    torch.testing.assert_close(gradients[0], gradients[1], atol=1e-4, rtol=1e-3)


def test_straight_through_is_forward_one_architecture_and_backward_the_softmax():
    space = toy_edges()
    seen = []
    posterior = Posterior(space, logits_of(space, 1))
    table = torch.rand(1, 3, 3, generator=torch.Generator().manual_seed(3))

    def relaxed(gates, step):
        seen.append(gates.detach())
        return (gates * table).sum()

    value = straight_through(relaxed, 0.7)(posterior, 0, torch.Generator().manual_seed(5))
    (gradient,) = torch.autograd.grad(value, posterior.logits)
    assert set(seen[0].unique().tolist()) == {0.0, 1.0}
    assert (seen[0].sum(-1) == 1).all()
    # By hand: the same noise, the softmax itself instead of the sample.
    noise = torch.rand(3, 3, generator=torch.Generator().manual_seed(5))
    soft = ((posterior.log_probabilities() - (-noise.log()).log()) / 0.7).softmax(-1)
    (expected,) = torch.autograd.grad((soft * table[0]).sum(), posterior.logits)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("make", [toy_pairs, darts])
def test_the_double_path_sample_is_a_legal_architecture_every_time(make):
    space = make()
    posterior = Posterior(space, logits_of(space, 1))
    seen = []

    def relaxed(gates, step):
        seen.append(gates.detach())
        return gates.sum()

    surrogate, random = straight_through(relaxed), torch.Generator().manual_seed(0)
    for step in range(50):
        surrogate(posterior, step, random)
    for gates in seen:
        assert set(gates.unique().tolist()) <= {0.0, 1.0}
        for kind in gates:
            edges = iter(kind)
            for target in range(2, 2 + space.nodes):
                rows = torch.stack([next(edges) for _ in range(target)])
                assert (rows.sum(-1) > 0).sum() == 2  # two distinct inputs
                assert rows.sum() == 2  # one operation on each


def test_the_double_path_gradient_is_that_of_the_softmax_it_relaxes():
    # The soft objective: the same noise, softmax gates. For an objective that is linear in the gates of each node's
    # pair and operations, the straight-through gradient at the sample is checked by finite differences.
    space = toy_pairs()
    table = torch.rand(2, len(space.edges), 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    start = logits_of(space, 1).detach().double()
    temperature = 0.8
    posterior = Posterior(space, start.clone().requires_grad_())
    objective = straight_through(lambda gates, step: (gates * table).sum(), temperature)
    (gradient,) = torch.autograd.grad(objective(posterior, 0, torch.Generator().manual_seed(5)), posterior.logits)

    noise = torch.rand(start.shape, generator=torch.Generator().manual_seed(5)).double()

    def noisy(logits):
        return Posterior(space, logits).log_probabilities() - (-noise.log()).log()

    hard = torch.nn.functional.one_hot(noisy(start).argmax(-1), start.shape[-1]).double()
    soft = (noisy(start) / temperature).softmax(-1)

    def value(logits):
        # First order around the sample, as straight-through defines it: the sample moved as the softmax moves.
        moved = hard + (noisy(logits) / temperature).softmax(-1) - soft
        return float((space.gates(moved) * table).sum())

    for place in [(0, 0), (0, 1), (2, 0), (2, 2), (4, 1), (9, 0)]:
        if place[1] >= len(space.variables[place[0]].choices):
            continue
        step = torch.zeros_like(start)
        step[place] = 1e-5
        difference = (value(start + step) - value(start - step)) / 2e-5
        assert float(gradient[place]) == pytest.approx(difference, abs=1e-6)
    assert gradient.abs().max() > 0.01


def test_gates_carry_the_gradient_of_the_expectation_over_all_architectures():
    # Of a score that adds up over edges: an edge counts as often as its node's pair holds it.
    space = toy_pairs()
    table = torch.rand(2, len(space.edges), 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    posterior = Posterior(space, logits_of(space, 1).detach().double().requires_grad_())

    def score(architecture):
        return sum(
            table[kind, space.edges.index((target, source)), space.operations.index(operation)]
            for kind, cell in enumerate(architecture.cells)
            for target, node in enumerate(cell, start=2)
            for operation, source in node
        )

    everything = list(space)
    exact = (posterior.log_prob(everything).exp() * torch.stack([score(one) for one in everything])).sum()
    relaxed = (space.gates(posterior.log_probabilities().exp()) * table).sum()
    assert float(relaxed.detach()) == pytest.approx(float(exact.detach()))
    expected, found = (torch.autograd.grad(value, posterior.logits)[0] for value in (exact, relaxed))
    torch.testing.assert_close(found, expected)
    pairs = [place for place, variable in enumerate(space.variables) if "inputs of" in variable.name]
    assert expected[pairs].abs().amax(1).min() > 0.005


@pytest.mark.parametrize("evidence", [2.0, 6.0])
def test_the_fitted_posterior_is_the_exact_one_for_an_additive_score(evidence):
    # max E[s] − KL / evidence over independent categoricals: softmax(evidence · s) on every edge.
    space = toy_edges()
    log_likelihood, table = additive(space)
    posterior = fit_elbo(
        space,
        leave_one_out(log_likelihood, 32),
        PosteriorSettings(evidence=evidence, steps=300, learning_rate=0.05, schedule="cosine"),
        generator=torch.Generator().manual_seed(0),
    )
    assert (posterior.log_probabilities().exp() - (evidence * table).softmax(-1)).abs().max() < 0.02


@pytest.mark.parametrize("make", TOYS)
def test_fits_side_by_side_are_those_of_each_alone_and_are_estimated_together(make):
    space = make()
    asked = []

    def log_likelihood(drawn, step):
        asked.append((step, len(drawn)))
        return (1 + step) * additive(space)[0](drawn, step)

    settings = PosteriorSettings(evidence="auto", entropy=0.5, steps=12, learning_rate=0.1)

    def generators():
        return [torch.Generator().manual_seed(seed) for seed in range(3)]

    told = []
    surrogates = leave_one_out_of_all(log_likelihood, 4)
    together = fit_side_by_side(
        space, surrogates, settings, generators=generators(), on_step=lambda *now: told.append(now)
    )
    assert asked == [(step, 12) for step in range(12)]
    for number, (fit, random) in enumerate(zip(together, generators(), strict=True)):
        heard = []
        alone = fit_elbo(
            space,
            leave_one_out(log_likelihood, 4),
            settings,
            generator=random,
            on_step=lambda *now, heard=heard: heard.append(now),
        )
        assert torch.equal(fit.logits, alone.logits)
        assert [now[1:] for now in told[number::3]] == [now[1:] for now in heard]
    assert [step for step, _, _ in told] == list(range(1, 37))
    assert not torch.equal(together[0].logits, together[1].logits)


@pytest.mark.parametrize(("share", "scale"), [(0.3, 0.1), (0.7, 30.0)])
def test_evidence_is_found_that_gives_the_entropy_asked_for(share, scale):
    # Whatever the scale of the losses: the best posterior of that entropy is softmax(evidence · s) on every edge.
    space = toy_edges()
    log_likelihood, table = additive(space)
    heard = []
    posterior = fit_elbo(
        space,
        leave_one_out(lambda drawn, step: scale * log_likelihood(drawn, step), 32),
        PosteriorSettings(evidence="auto", entropy=share, steps=700, learning_rate=0.1, schedule="cosine"),
        generator=torch.Generator().manual_seed(0),
        on_step=lambda *now: heard.append(now),
    )
    assert float(posterior.entropy()) == pytest.approx(share * math.log(len(space)), rel=0.05)

    def entropy(evidence):
        p = (evidence * table).softmax(-1)
        return float(-(p * p.log()).sum())

    low, high = 1e-3, 1e3
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if entropy(middle) > share * math.log(len(space)) else (low, middle)
    assert (posterior.log_probabilities().exp() - (low * table).softmax(-1)).abs().max() < 0.04
    assert heard[-1][2] * scale == pytest.approx(low, rel=0.2)


def test_straight_through_finds_the_best_of_an_additive_score():
    # Biased, so not the exact posterior; but its mode is the best on every edge, and it is far from flat.
    space = toy_edges()
    log_likelihood, table = additive(space)
    posterior = fit_elbo(
        space,
        straight_through(lambda gates, step: (gates[0] * table).sum()),
        PosteriorSettings(evidence=20.0, steps=300, learning_rate=0.1),
        generator=torch.Generator().manual_seed(0),
    )
    best = max(space, key=lambda architecture: float(log_likelihood([architecture], 0)))
    assert posterior.mode() == best
    assert posterior.entropy() < Posterior(space).entropy() - 0.5


def test_a_planted_best_becomes_the_mode():
    space = toy_pairs()
    best = space.sample(generator=torch.Generator().manual_seed(9))

    def agreement(architectures, step):
        theirs, mine = space.encode_all(architectures), torch.tensor(space.encode(best))
        return (theirs == mine).float().mean(-1)

    posterior = fit_elbo(
        space,
        leave_one_out(agreement, 8),
        PosteriorSettings(evidence=50, steps=200, learning_rate=0.1),
        generator=torch.Generator().manual_seed(0),
    )
    assert posterior.mode() == best


@pytest.mark.parametrize(
    ("schedule", "expected"), [("constant", [0.1] * 4), ("cosine", [0.1, 0.085355, 0.05, 0.014645])]
)
def test_the_learning_rate_stays_or_falls_along_a_cosine(schedule, expected):
    """Adam's first steps along a constant gradient are as long as its rate."""
    space, seen = toy_edges(), []

    def surrogate(posterior, step, generator):
        seen.append(posterior.logits[0, 0].item())
        return posterior.logits[0, 0]

    settings = PosteriorSettings(steps=4, learning_rate=0.1, schedule=schedule, evidence=1e12)
    fitted = fit_elbo(space, surrogate, settings, generator=torch.Generator())
    assert torch.tensor([*seen, float(fitted.logits[0, 0])]).diff().tolist() == pytest.approx(expected, abs=1e-4)


def test_weight_decay_pulls_towards_uniform():
    space = toy_edges()
    entropies = [
        fit_elbo(
            space,
            leave_one_out(additive(space)[0], 8),
            PosteriorSettings(evidence=20, steps=120, learning_rate=0.1, weight_decay=decay),
            generator=torch.Generator().manual_seed(0),
        ).entropy()
        for decay in (0.0, 1.0)
    ]
    assert entropies[1] > entropies[0] + 0.1


def test_a_likelihood_that_is_not_a_number_is_an_error():
    with pytest.raises(NesbsError, match="not a number at step 1"):
        fit_elbo(
            toy_edges(),
            leave_one_out(lambda architectures, step: torch.full((len(architectures),), torch.nan), 2),
            PosteriorSettings(evidence=1, steps=2, learning_rate=0.1),
            generator=torch.Generator(),
        )
    with pytest.raises(NesbsError, match="two architectures or more"):
        leave_one_out(lambda architectures, step: torch.zeros(1), 1)


@pytest.mark.parametrize("estimator", ["leave-one-out", "straight-through"])
@pytest.mark.parametrize("make", TOYS)
def test_fitting_to_a_supernet(make, estimator, noise):
    supernet = train_supernet(make(), noise.search_train, epochs=1, cells=3, channels=2, batch_size=16)
    before = {name: tensor.clone() for name, tensor in supernet.state_dict().items()}
    settings = {"estimator": estimator, "steps": 4, "batch_size": 8}
    heard = []
    one = fit_posterior(
        supernet, noise.search_valid, seed=1, on_step=lambda *h: heard.append(h), temperature=2.0, **settings
    )
    two = fit_posterior(supernet, noise.search_valid, seed=1, **settings)
    other = fit_posterior(supernet, noise.search_valid, seed=2, **settings)
    assert torch.equal(one.logits, two.logits)
    assert one.temperature == 2.0
    assert [step for step, _, _ in heard] == [1, 2, 3, 4]
    assert not torch.equal(one.logits, other.logits)
    assert one.logits.abs().max() > 0
    after = supernet.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert all(parameter.requires_grad and parameter.grad is None for parameter in supernet.parameters())


def test_label_noise_bounds_what_one_image_can_cost(noise, monkeypatch):
    supernet = train_supernet(toy_edges(), noise.search_train, epochs=1, channels=2, batch_size=16)
    split, asked = noise.search_valid, list(toy_edges())[-3:]
    heard = {}

    def listen(log_likelihood, count):
        heard["values"] = log_likelihood(asked, 0)
        return leave_one_out_of_all(log_likelihood, count)

    monkeypatch.setattr("nesbs.posterior.fit.leave_one_out_of_all", listen)
    fit_posterior(supernet, split, steps=1, batch_size=len(split), noise=0.4)  # one batch of all images
    with torch.no_grad():
        p = [supernet(split.pixels(), path).softmax(-1)[torch.arange(len(split)), split.labels] for path in asked]
    expected = [torch.log(0.6 * one.double() + 0.4 / split.classes).mean() for one in p]
    assert heard["values"].tolist() == pytest.approx([float(value) for value in expected], rel=1e-4)


def test_straight_through_refuses_learned_offsets_where_paths_can_die(noise):
    supernet = train_supernet(toy_edges(), noise.search_train, epochs=1, channels=2, batch_size=16, affine=True)
    with pytest.raises(NesbsError, match="straight-through needs supernet.affine=false on space toy-edges"):
        fit_posterior(supernet, noise.search_valid, steps=1, estimator="straight-through")


def test_settings_are_checked():
    with pytest.raises(NesbsError, match="unknown setting evidnce: did you mean evidence"):
        PosteriorSettings.of({"evidnce": 3})
    with pytest.raises(NesbsError, match="evidence: input should be greater than 0, found -1"):
        PosteriorSettings.of({"evidence": -1})
