"""The posterior's closed forms against enumeration."""

import math

import pytest
import torch
from contracts import SPACES, TOYS

from nesbs.errors import NesbsError
from nesbs.posterior import Posterior
from nesbs.spaces import darts, nasbench201, toy_edges, toy_pairs


def random_posterior(space, seed=0, scale=1.5, temperature=1.0):
    shape = Posterior(space).logits.shape
    logits = scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return Posterior(space, logits, temperature=temperature)


@pytest.mark.parametrize("make", TOYS)
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_probabilities_entropy_kl_and_mode_equal_enumeration(make, temperature):
    space = make()
    posterior = random_posterior(space, temperature=temperature)
    everything = list(space)
    log_p = posterior.log_prob(everything).double()
    assert float(log_p.exp().sum()) == pytest.approx(1, abs=1e-5)
    assert float(posterior.entropy()) == pytest.approx(float(-(log_p.exp() * log_p).sum()), rel=1e-5)
    kl = float((log_p.exp() * (log_p + math.log(len(space)))).sum())
    assert float(posterior.kl()) == pytest.approx(kl, abs=1e-5)
    assert posterior.mode() == everything[int(log_p.argmax())]


def test_the_likeliest_pair_is_not_that_of_the_mode_where_its_operations_are_unsure():
    space = toy_pairs()
    logits = random_posterior(space, scale=0.01).logits
    names = [variable.name for variable in space.variables]
    logits[names.index("normal inputs of 3"), :3] = torch.tensor([0.2, 0.1, 0.0])  # 0+1 before 0+2 before 1+2
    logits[names.index("normal 2→3"), 0] = 5.0  # the other operations are one half each
    everything = list(space)
    best = everything[int(Posterior(space, logits).log_prob(everything).argmax())]
    assert space.variables[2].choices[space.encode(best)[2]] == "0+2"
    assert Posterior(space, logits).mode() == best


@pytest.mark.parametrize("make", SPACES)
def test_zero_logits_are_uniform(make, random):
    space = make()
    posterior = Posterior(space)
    drawn = space.sample(50, generator=random)
    torch.testing.assert_close(posterior.log_prob(drawn), torch.full((50,), -math.log(len(space))))
    assert float(posterior.kl()) == pytest.approx(0, abs=1e-5)


def test_all_of_nasbench201_in_one_call():
    space = nasbench201()
    log_p = random_posterior(space).log_prob(list(space))
    assert log_p.shape == (15625,)
    assert float(log_p.double().exp().sum()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("make", TOYS)
def test_draws_follow_the_probabilities(make):
    space = make()
    posterior = random_posterior(space, scale=0.7)
    drawn = posterior.sample(8_000, generator=torch.Generator().manual_seed(1))
    estimate = -posterior.log_prob(drawn).double()
    error = float(estimate.std()) / math.sqrt(len(drawn))
    assert abs(float(estimate.mean()) - float(posterior.entropy())) < 4 * error
    mode = posterior.mode()
    p = float(posterior.log_prob(mode).exp())
    assert abs(drawn.count(mode) / len(drawn) - p) < 4 * math.sqrt(p * (1 - p) / len(drawn))


@pytest.mark.parametrize("seed", [0, 1])
def test_the_entropy_of_darts_equals_a_monte_carlo_estimate(seed):
    # Too large to enumerate: −log p averaged over draws, within four standard errors.
    posterior = random_posterior(darts(), seed=seed)
    drawn = posterior.sample(4000, generator=torch.Generator().manual_seed(1))
    estimate = -posterior.log_prob(drawn).double()
    error = float(estimate.std()) / math.sqrt(len(drawn))
    assert abs(float(estimate.mean()) - float(posterior.entropy())) < 4 * error
    # A sum over all edges, in use or not, would be far away.
    assert float(posterior.entropies().sum()) > float(posterior.entropy()) + 10 * error


def test_temperature_divides_the_logits():
    posterior = random_posterior(toy_edges())
    hot = posterior.tempered(2.0)
    torch.testing.assert_close(hot.log_probabilities(), (posterior.logits / 2).log_softmax(-1))
    assert posterior.tempered(100).entropy() > hot.entropy() > posterior.entropy() > posterior.tempered(0.1).entropy()


@pytest.mark.parametrize("make", SPACES)
def test_plain_data_round_trips(make):
    posterior = random_posterior(make(), temperature=2.0)
    again = Posterior.from_json(posterior.to_json())
    torch.testing.assert_close(again.log_probabilities(), posterior.log_probabilities())


def test_wrong_input_is_refused():
    with pytest.raises(NesbsError, match="temperature must be above 0 and finite, found 0"):
        Posterior(toy_edges(), temperature=0)
    with pytest.raises(NesbsError, match=r"needs logits of shape \(3, 3\), found \(2, 3\)"):
        Posterior(toy_edges(), torch.zeros(2, 3))
    with pytest.raises(NesbsError, match="not a posterior"):
        Posterior.from_json({"space": "toy-edges"})
    for change in ({"logits": [1.0]}, {"logits": [1.0, 2.0, "x"]}, {"logits": [1.0, 2.0, math.nan]}):
        edited = Posterior(toy_edges()).to_json()
        edited["variables"][0].update(change)
        with pytest.raises(NesbsError, match="not a posterior"):
            Posterior.from_json(edited)
    whole = Posterior(toy_edges()).to_json()
    broken = ({"space": 3}, {"space": None}, {"variables": None}, {"variables": [1]}, {"temperature": "warm"})
    for value in ([], None, *(whole | change for change in broken)):
        with pytest.raises(NesbsError, match="not a posterior"):
            Posterior.from_json(value)
    stranger = Posterior(toy_edges()).to_json() | {"space": "nasbench201"}
    with pytest.raises(NesbsError, match="variables are not those of space nasbench201"):
        Posterior.from_json(stranger)
