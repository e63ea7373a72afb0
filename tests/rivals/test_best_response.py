"""The best-response posterior: learns what is good, trains what it draws, resumes exactly."""

import pytest
import torch

from nesbs.errors import NesbsError
from nesbs.posterior import Posterior, PosteriorSettings, fit_elbo, leave_one_out
from nesbs.rivals import SearchRequest, best_response, discrepancy
from nesbs.rivals.learner import Learner
from nesbs.spaces import toy_edges
from nesbs.supernet import Estimator, SupernetSettings, build_supernet

SMALL = SupernetSettings(epochs=3, cells=1, channels=2, batch_size=16, crop=0, skip_dead=True)
FITTED = PosteriorSettings(estimator="straight-through", batch_size=16, learning_rate=0.05, evidence=50)
ESTIMATORS = pytest.mark.parametrize("estimator", ["straight-through", "leave-one-out"])


def learned(noise, *, estimator="straight-through", **more):
    request = SearchRequest(toy_edges(), noise.search_train, noise.search_valid, SMALL, **more)
    return best_response(request, FITTED.model_copy(update={"estimator": estimator}))


@ESTIMATORS
def test_the_posterior_leaves_uniform_and_the_supernet_is_trained(mini, estimator):
    settings = SupernetSettings(epochs=12, cells=1, channels=4, batch_size=32, crop=0, flip=False, skip_dead=True)
    supernet, posterior = best_response(
        SearchRequest(toy_edges(), mini.search_train, mini.search_valid, settings),
        FITTED.model_copy(update={"estimator": estimator}),
    )
    assert supernet.losses[-1] < supernet.losses[0] - 0.3
    assert float(posterior.entropy()) < float(Posterior(toy_edges()).entropy()) - 0.05
    # A cell that passes nothing on predicts nothing: the likeliest one is not among those.
    assert not toy_edges().is_dead(posterior.mode())
    dead = [a for a in toy_edges() if toy_edges().is_dead(a)]
    assert float(posterior.log_prob(dead).exp().sum()) < len(dead) / len(toy_edges())


@ESTIMATORS
def test_without_the_prior_it_ends_on_the_best_architecture_and_with_it_it_would_not(noise, monkeypatch, estimator):
    """The paper's form has no KL (sec. 3.2): its optimum is a point, where that of the ELBO is p ∝ likelihood."""
    space, values = toy_edges(), torch.tensor([[0.0, 0.3, 0.6]] * 3)  # log-likelihood: a sum over the edges
    # However little the likelihood says: beside a thousandth of it the weakest prior would count.
    monkeypatch.setattr(Learner, "mixture_loss", lambda self, gates, *_: -(gates[0] * values).sum() / 1000)
    of_each = lambda self, paths, *_: values[0][space.encode_all(paths)].sum(-1) / 1000  # noqa: E731
    monkeypatch.setattr(Learner, "log_likelihoods", of_each)
    monkeypatch.setattr(Learner, "path_loss", lambda self, *_: 0 * self.supernet.network.head.bias.sum())
    settings = SMALL.model_copy(update={"epochs": 60})
    request = SearchRequest(space, noise.search_train, noise.search_valid, settings)
    best = space.architecture([2, 2, 2])

    def learned(**more):
        fitting = {"estimator": estimator, "batch_size": 2, "learning_rate": 0.1, "evidence": 1}
        return best_response(request, PosteriorSettings.of({**fitting, **more}))[1]

    assert float(learned().log_prob(best).exp()) > 0.95
    log_likelihood = leave_one_out(lambda drawn, _: values[0][space.encode_all(drawn)].sum(-1), 8)
    fitting = PosteriorSettings(evidence=1, steps=300, learning_rate=0.1)
    fitted = fit_elbo(space, log_likelihood, fitting, generator=torch.Generator().manual_seed(0))
    closed = float(values.softmax(-1)[:, 2].prod())
    assert float(fitted.log_prob(best).exp()) == pytest.approx(closed, abs=0.02)
    assert closed < 0.1
    # Adam's decay of the logits, as app. B.3 has it, is another thing than the prior; it holds them back all the same.
    assert float(learned(weight_decay=1.0).log_prob(best).exp()) < 0.5


def test_the_climb_is_adam(noise):
    learner = Learner(build_supernet(toy_edges(), noise.search_train, SMALL, seed=0))
    logits = torch.zeros(3, 3, requires_grad=True)
    adam = torch.optim.Adam([logits], lr=0.05, maximize=True)
    random = torch.Generator().manual_seed(0)
    for _ in range(5):
        gradient = torch.randn(3, 3, generator=random)
        learner.climb(gradient, 0.05)
        logits.grad = gradient.clone()
        adam.step()
    torch.testing.assert_close(learner.logits, logits.detach())


@ESTIMATORS
def test_the_weights_step_does_not_touch_the_logits_nor_the_other_way_round(noise, monkeypatch, estimator):
    """All numbers of the one are the same before and after a step of the other, which moves its own."""
    climb, path_loss = Learner.climb, Learner.path_loss
    seen = []

    def state(learner):
        weights = torch.cat([parameter.detach().flatten() for parameter in learner.supernet.parameters()])
        return learner.logits.clone(), weights

    def climbs(learner, *arguments, **options):
        before = state(learner)
        climb(learner, *arguments, **options)
        seen.append((before, state(learner)))

    def descends(learner, batch, path):
        seen.append(state(learner))
        return path_loss(learner, batch, path)

    monkeypatch.setattr(Learner, "climb", climbs)
    monkeypatch.setattr(Learner, "path_loss", descends)
    learned(noise, estimator=estimator)
    assert len(seen) >= 6
    for (before, after), descent, (following, _) in zip(seen[::2], seen[1::2], seen[2::2], strict=False):
        assert torch.equal(before[1], after[1])
        assert not torch.equal(before[0], after[0])
        assert torch.equal(descent[0], following[0])  # a step of the weights lies between them
        assert not torch.equal(descent[1], following[1])


@ESTIMATORS
def test_the_same_seed_gives_the_same_and_a_stop_loses_nothing(noise, tmp_path, estimator):
    whole, expected = learned(noise, seed=3, estimator=estimator)

    class StopError(Exception):
        pass

    def stop(epoch):
        if epoch.number == 2:
            raise StopError

    checkpoint = tmp_path / "state.safetensors"
    with pytest.raises(StopError):
        learned(noise, seed=3, estimator=estimator, checkpoint=checkpoint, on_epoch=stop)
    resumed, posterior = learned(noise, seed=3, estimator=estimator, checkpoint=checkpoint)
    assert torch.equal(posterior.logits, expected.logits)
    assert all(torch.equal(one, two) for one, two in zip(whole.parameters(), resumed.parameters(), strict=True))
    assert not torch.equal(learned(noise, seed=4, estimator=estimator)[1].logits, expected.logits)


def test_the_discrepancy_is_the_gap_to_the_best_found(noise):
    supernet, _ = learned(noise)
    estimator = Estimator(supernet, noise.search_valid, batch_size=16)
    space = toy_edges()
    errors = {}
    for architecture in space:
        predicted = estimator.logits(architecture).argmax(1)
        errors[architecture] = float((predicted != noise.search_valid.labels).double().mean())
    found = discrepancy(estimator, Posterior(space), count=2000)  # all 27 are drawn
    assert found.best == pytest.approx(min(errors.values()))
    assert found.mode == pytest.approx(errors[Posterior(space).mode()])
    assert found.gap == pytest.approx(found.mode - found.best)
    # A posterior that is sure of the worst has the widest gap, though it draws nothing better.
    worst = max(errors, key=errors.__getitem__)
    logits = torch.full_like(Posterior(space).logits, -50.0).scatter(1, space.encode_all([worst])[0][:, None], 50.0)
    sure = discrepancy(estimator, Posterior(space, logits), count=200)
    assert sure.mode == pytest.approx(errors[worst])
    assert sure.gap == pytest.approx(errors[worst] - min(errors.values()))
    assert sure.gap > 0


def test_settings_it_cannot_follow_are_refused(noise):
    def asked(**settings):
        return SearchRequest(toy_edges(), noise.search_train, noise.search_valid, SupernetSettings(**settings))

    with pytest.raises(NesbsError, match="draws its own paths: set supernet.paths=one"):
        best_response(asked(paths="fair"))
    with pytest.raises(NesbsError, match="needs supernet.affine=false on space toy-edges, which has `none`"):
        best_response(asked(affine=True))
    best_response(
        asked(affine=True, epochs=1, channels=2, cells=1), FITTED.model_copy(update={"estimator": "leave-one-out"})
    )
