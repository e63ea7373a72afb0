"""The evidence: shares of a reference, the batches, what untrained networks add."""

from types import SimpleNamespace

import pytest
import torch

from nesbs import metrics, rng
from nesbs.data import load_dataset
from nesbs.errors import NesbsError
from nesbs.posterior import Evidence, Posterior, PosteriorSettings, ReferenceRanks, fit, fit_posterior, reference_ranks
from nesbs.posterior.evidence import share_below
from nesbs.spaces import toy_edges, toy_pairs
from nesbs.supernet import SupernetSettings, Untrained, build_supernet, train_supernet


@pytest.fixture(scope="module")
def mini():
    """At full size, of which untrained networks tell more."""
    return load_dataset("fashion-mini", train_limit=300, test_limit=100)


@pytest.fixture(scope="module")
def supernet(mini):
    return train_supernet(toy_edges(), mini.search_train, seed=0, epochs=1, channels=4, batch_size=32)


class Known:
    """Scores from a table instead of networks."""

    def __init__(self, scores):
        self._scores, self.space, self.device = scores, toy_edges(), torch.device("cpu")

    def scores(self, architectures, heard=None):
        return torch.tensor([self._scores[architecture] for architecture in architectures])


def test_shares_are_those_of_the_sorted_reference():
    others = torch.rand(100, generator=torch.Generator().manual_seed(0))
    values = torch.rand(1000, generator=torch.Generator().manual_seed(1))
    counted = (values[:, None] > others).float().mean(-1)
    assert (share_below(values, others) - counted).abs().max() <= 1.01 * 0.5 / 100  # half a place, however they lie
    assert torch.equal(share_below(values, others).argsort()[10:-10], values.argsort()[10:-10])  # between the extremes
    assert share_below(torch.tensor([-9.0, 9.0]), others).tolist() == pytest.approx([0.005, 0.995])
    assert share_below(torch.tensor([1.0]), torch.ones(5)).isfinite().all()  # all the same


def slopes(values, others):
    values = values.clone().requires_grad_()
    share_below(values, others).sum().backward()
    return values.grad


def test_a_shares_slope_is_the_density_around_it():
    few = torch.tensor([1.0, 3.0, 8.0, 20.0])
    assert slopes(torch.tensor([1.2, 7.0, 99.0, -1.0]), few).tolist() == pytest.approx([1 / 2 / 4, 1 / 5 / 4, 0, 0])
    even = torch.arange(1000) / 1000
    assert slopes(torch.tensor([0.2, 0.5004]), even).tolist() == pytest.approx([1, 1], rel=0.02)


def test_a_shares_slope_is_taken_over_a_tenth_of_the_reference():
    others = (torch.arange(41) ** 2).double()  # two more on either side, where there are as many
    values = others[:-1] + 0.5
    around = [(max(place - 2, 0), min(place + 3, 40)) for place in range(40)]
    expected = [(end - first) / 41 / float(others[end] - others[first]) for first, end in around]
    assert slopes(values, others).tolist() == pytest.approx(expected)
    assert slopes(others[[0, -1]], others).tolist() == pytest.approx([expected[0], expected[-1]])


def test_no_slope_is_steep_where_others_are_the_same():
    # A mixture's value can be that of a reference to the last bit, and references are drawn with replacement.
    tied = torch.cat([torch.ones(3), 1 + torch.rand(97, generator=torch.Generator().manual_seed(0))])
    close = torch.cat([tied, tied + 1e-7])
    for others in (tied, close):
        assert 0 < float(slopes(torch.tensor([1.0]), others)) < 10
        assert float(slopes(others[:50], others).max()) < 10
    assert float(slopes(torch.tensor([1.0]), torch.ones(40))) == 0
    assert share_below(torch.tensor([1.0]), torch.tensor([1.0, 1.0, 2.0, 3.0])).tolist() == [0.125]


def test_without_a_reference_the_evidence_is_the_log_likelihood(supernet, mini):
    settings = PosteriorSettings(batch_size=30, steps=5)
    evidence = Evidence(supernet, mini.search_valid, settings, None, seed=3)
    drawn = list(toy_edges())[-4:]
    images, labels = evidence._batch(2)
    with torch.no_grad():
        expected = [float(-metrics.nll(supernet(images, one).log_softmax(-1), labels)) for one in drawn]
    assert evidence.of(drawn, 2).tolist() == pytest.approx(expected)


def test_with_a_reference_it_is_a_share_by_likelihood_and_one_by_untrained_networks(supernet, mini):
    everything = list(toy_edges())
    known = Known({one: float(place) for place, one in enumerate(everything)})
    settings = PosteriorSettings(batch_size=30, steps=5, reference=8, untrained=2)
    reference = everything[::3]
    ranks = ReferenceRanks(reference, known, 2.0)
    evidence = Evidence(supernet, mini.search_valid, settings, ranks, seed=3)
    plain = Evidence(supernet, mini.search_valid, PosteriorSettings(batch_size=30, steps=5), None, seed=3)
    drawn = everything[4:9]
    likelihood = share_below(plain.of(drawn, 1), plain.of(reference, 1))
    untrained = share_below(known.scores(drawn), known.scores(reference))
    assert evidence.of(drawn, 1).tolist() == pytest.approx((likelihood + 2 * untrained).tolist(), abs=1e-6)
    assert evidence.of_untrained(drawn, 1).tolist() == pytest.approx((2 * untrained).tolist())
    again = len(mini.search_valid) // 30 + 1  # the batches come again, so that a reference is estimated once on each
    assert torch.equal(evidence.of(drawn, again), evidence.of(drawn, 1))
    gates = toy_edges().gates(torch.nn.functional.one_hot(toy_edges().encode_all([drawn[-1]])[0], 3).float())
    assert float(evidence.of_mixture(gates, 1).detach()) == pytest.approx(float(likelihood[-1]), abs=1e-4)


def test_the_reference_is_judged_on_the_same_batch(supernet, mini):
    settings = PosteriorSettings(batch_size=30, steps=5, reference=9)
    reference, drawn = list(toy_edges())[::3], list(toy_edges())[4:9]
    evidence = Evidence(supernet, mini.search_valid, settings, ReferenceRanks(reference, None, 0.0), seed=3)

    def likelihoods(architectures, step):
        images, labels = evidence._batch(step)
        with torch.no_grad():
            return torch.stack([-metrics.nll(supernet(images, one).log_softmax(-1), labels) for one in architectures])

    first = likelihoods(reference, 0)
    for step in range(3):
        own, others = likelihoods(drawn, step), likelihoods(reference, step)
        assert evidence.of(drawn, step).tolist() == pytest.approx(share_below(own, others).tolist(), abs=1e-4)
        assert step == 0 or (share_below(own, others) - share_below(own, first)).abs().max() > 0.01  # batches differ


def test_on_a_batch_that_comes_again_nothing_is_estimated_twice(supernet, mini, monkeypatch):
    settings = PosteriorSettings(batch_size=30, steps=5, reference=9)
    reference, drawn = list(toy_edges())[::3], list(toy_edges())[4:9]
    ranks = ReferenceRanks(reference, None, 0.0)
    evidence, fresh = (Evidence(supernet, mini.search_valid, settings, ranks, seed=3) for _ in range(2))
    estimated = []
    plain = Evidence._estimated
    monkeypatch.setattr(
        Evidence, "_estimated", lambda self, some, step: estimated.extend(some) or plain(self, some, step)
    )
    again = len(mini.search_valid) // 30
    first = evidence.of(drawn, 0)
    live = {toy_edges().live(one) for one in [*drawn, *reference]}
    assert len(estimated) == len(live)  # also those that differ only in what nothing passes through
    assert torch.equal(evidence.of(drawn[::-1], again), first.flip(0))
    assert len(estimated) == len(live)
    one_by_one = torch.cat([fresh.of([one], 1) for one in drawn])
    assert torch.equal(evidence.of(drawn, 1), one_by_one)
    assert not torch.equal(one_by_one, first)  # another batch


def test_settings_and_ranks_go_together(supernet, mini):
    ranks = reference_ranks(toy_edges(), mini.search_valid, PosteriorSettings(reference=4), seed=0)
    for given, settings in ((ranks, PosteriorSettings()), (None, PosteriorSettings(reference=4))):
        with pytest.raises(NesbsError, match="exactly where posterior.reference is above 0"):
            Evidence(supernet, mini.search_valid, settings, given, seed=0)


def test_a_small_space_is_looked_at_ahead_on_a_gpu_alone():
    known = Known(dict.fromkeys(toy_edges(), 0.0))
    ranks, asked = ReferenceRanks(list(toy_edges())[:3], known, 1.0), []
    known.scores = lambda architectures, heard=None: asked.append(len(architectures))
    ranks.score_ahead()
    assert asked == []
    known.device = torch.device("cuda")
    ranks.score_ahead()
    assert asked == [27]


def test_the_reference_is_as_large_as_asked_for_and_the_seeds_own(mini):
    settings = PosteriorSettings(reference=12)
    one, same, other = (reference_ranks(toy_edges(), mini.search_valid, settings, seed=seed) for seed in (0, 0, 1))
    assert len(one.reference) == 12
    assert one.reference == same.reference != other.reference
    assert not one.untrained(one.reference).any()  # whose weight is 0
    assert one._untrained is None  # no network was built
    assert reference_ranks(toy_edges(), mini.search_valid, PosteriorSettings(), seed=0) is None


def test_untrained_networks_have_the_members_size_unless_they_are_given_another(mini):
    split, space = mini.search_valid, toy_edges()
    for given, cells, channels in (({}, 2, 6), ({"untrained_cells": 1}, 1, 6), ({"untrained_channels": 4}, 2, 4)):
        settings = PosteriorSettings(reference=4, untrained=1.0, **given)
        ranks = reference_ranks(space, split, settings, seed=0, members=(2, 6))
        expected = Untrained(space, split, cells=cells, channels=channels).scores(ranks.reference)
        assert torch.equal(ranks._untrained.scores(ranks.reference), expected)


@pytest.mark.parametrize("estimator", ["leave-one-out", "straight-through"])
def test_untrained_networks_decide_where_their_weight_is_large(supernet, mini, estimator):
    everything = list(toy_edges())
    settings = {"reference": 27, "untrained": 20.0, "steps": 60, "batch_size": 15, "architectures": 6, "entropy": 0.2}
    posterior = fit_posterior(
        supernet, mini.search_valid, members=(2, 4), evidence="auto", estimator=estimator, **settings
    )
    scores = Untrained(toy_edges(), mini.search_valid, cells=2, channels=4).scores(everything)
    likely = posterior.log_prob(everything).exp()
    assert float(scores[posterior.log_prob(everything).argmax()]) >= float(scores.quantile(0.9))
    assert float((likely * scores).sum()) > float(scores.quantile(0.75))


@pytest.mark.parametrize("best_first", [True, False])
@pytest.mark.parametrize("evidence", ["auto", 50.0])
def test_of_several_starts_the_one_with_the_most_evidence_is_kept(supernet, mini, monkeypatch, best_first, evidence):
    everything = list(toy_edges())
    judged = Evidence(supernet, mini.search_valid, PosteriorSettings(batch_size=30, steps=5), None, seed=0)
    order = judged.of(everything, 0).argsort()

    def certain(place):
        logits = Posterior(toy_edges()).logits.clone()
        for variable, choice in enumerate(toy_edges().encode(everything[place])):
            logits[variable, choice] = 8.0
        return Posterior(toy_edges(), logits)

    best, worst = certain(int(order[-1])), certain(int(order[0]))
    fits = [best, worst] if best_first else [worst, best]
    monkeypatch.setattr(fit, "fit_side_by_side", lambda *_, **__: fits)
    kept = []
    settings = {"starts": 2, "steps": 5, "batch_size": 30, "evidence": evidence}
    found = fit_posterior(supernet, mini.search_valid, on_best_start=kept.append, **settings)
    assert found.mode() == best.mode()
    assert kept == [0 if best_first else 1]


@pytest.mark.parametrize(("evidence", "kl"), [("auto", 0), (50.0, 1 / 50)])
def test_fits_are_compared_on_twenty_batches(evidence, kl):
    steps = []

    class Known:
        def of(self, architectures, step):
            steps.append(step)
            return torch.tensor([float(step)] * 4 + [float(-step)] * 4)

    posterior, uniform = Posterior(toy_edges(), torch.tensor([[0.0, 1.0, 2.0]] * 3)), Posterior(toy_edges())
    values = fit._objectives(Known(), [posterior, uniform], PosteriorSettings(evidence=evidence), 0)
    assert steps == list(range(20))
    assert values == pytest.approx([9.5 - kl * float(posterior.kl()), -9.5], abs=1e-5)


def test_a_first_start_has_the_stream_that_a_fit_without_starts_has(supernet, mini, monkeypatch):
    seeds = []

    def listen(*_, generators, **__):
        seeds.extend(generator.initial_seed() for generator in generators)
        return [Posterior(toy_edges()) for _ in generators]

    monkeypatch.setattr(fit, "fit_side_by_side", listen)
    fit_posterior(supernet, mini.search_valid, starts=3, batch_size=30, seed=5)
    names = ("posterior", "architectures")
    assert seeds == [rng.generator(5, *names, *more).initial_seed() for more in ((), (1,), (2,))]


def test_steps_are_counted_over_all_starts(supernet, mini):
    heard, looked = [], []
    settings = {"starts": 3, "steps": 2, "batch_size": 30, "reference": 4, "untrained": 1.0}
    hears = {"on_step": lambda *h: heard.append(h[0]), "on_untrained": lambda *h: looked.append(h)}
    fit_posterior(supernet, mini.search_valid, members=(1, 2), **hears, **settings)
    assert heard == [1, 2, 3, 4, 5, 6]
    different = looked[0][1]  # of the reference's four
    assert looked == [(done, different) for done in range(1, different + 1)]
    assert all(parameter.requires_grad for parameter in supernet.parameters())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"reference": 1}, "one architecture is nothing to compare with"),
        ({"untrained": 1.0}, "untrained goes with reference"),
    ],
)
def test_settings_that_do_not_go_together(settings, message):
    with pytest.raises(NesbsError, match=message):
        PosteriorSettings(**settings)


def mixtures(evidence, space):
    """Values and gradients of the mixtures of three steps, all steps before the gradients."""
    random = torch.Generator().manual_seed(3)
    sides = [torch.rand(Posterior(space).logits.shape, generator=random).requires_grad_() for _ in range(3)]
    values = torch.stack([evidence.of_mixture(space.gates(one), step) for step, one in enumerate(sides)])
    return values, torch.autograd.grad((values * torch.tensor([1.0, 2.0, 3.0])).sum(), sides)


def test_a_recorded_mixture_is_the_mixture(mini, supernet, monkeypatch):
    """On a GPU a replay writes over what the one before it gave; here the work is done again in its place."""

    def capture(work):
        result = work()

        def replay():
            for old, new in zip(result, work(), strict=True):
                old.copy_(new)

        return SimpleNamespace(replay=replay, result=result)

    monkeypatch.setattr("nesbs.posterior.evidence.capture_graph", capture)
    settings, found = PosteriorSettings(batch_size=20, steps=3), []
    for recorded in (False, True):
        evidence = Evidence(supernet, mini.search_valid, settings, None, seed=0)
        if recorded:
            monkeypatch.setattr(evidence, "_records", True)
        found.append(mixtures(evidence, toy_edges()))
    (plain, slopes), (values, others) = found
    assert torch.equal(plain, values)
    assert len(set(values.tolist())) == 3  # of three batches, and of three mixtures
    for one, two in zip(slopes, others, strict=True):
        assert one.abs().max() > 0
        torch.testing.assert_close(one, two)


@pytest.mark.gpu
@pytest.mark.parametrize("make", [toy_edges, toy_pairs])
def test_a_mixture_recorded_on_a_gpu_is_the_plain_one(make, mini):
    split = mini.search_valid.to("cuda")
    settings, found = PosteriorSettings(batch_size=20, steps=3), []
    for record in (False, True):
        own = SupernetSettings.of({"cells": 3, "channels": 4, "record": record})
        supernet = build_supernet(make(), split, own, seed=0)
        found.append(mixtures(Evidence(supernet, split, settings, None, seed=0), make()))
    (plain, slopes), (values, others) = found
    torch.testing.assert_close(values, plain, rtol=1e-4, atol=1e-4)
    for one, two in zip(slopes, others, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)
