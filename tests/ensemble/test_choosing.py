"""Choosing: equal to brute force, batched, and honest about duplicates."""

import itertools
import sys
from types import SimpleNamespace

import pytest
import torch

from nesbs import metrics, rng
from nesbs.ensemble import (
    MemberSettings,
    Selection,
    ShortTraining,
    choose,
    decide,
    ensemble_losses,
    forward_select,
    scorer,
    search,
)
from nesbs.ensemble.choosing import _losses_alone
from nesbs.errors import NesbsError
from nesbs.posterior import Posterior
from nesbs.samplers import MonteCarlo, Proposal, SvgdRd, Uniform
from nesbs.spaces import toy_edges
from nesbs.supernet import Estimator, train_supernet
from nesbs.supernet.estimate import content_order


@pytest.fixture(scope="module")
def supernet(mini):
    settings = {"epochs": 2, "channels": 4, "batch_size": 32, "crop": 0, "skip_dead": True}
    return train_supernet(toy_edges(), mini.search_train, seed=0, **settings)


@pytest.fixture(scope="module")
def estimator(supernet, mini):
    return Estimator(supernet, mini.search_valid, batch_size=45)


def predictions(candidates=6, images=50, classes=4, seed=0):
    g = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(candidates, images, classes, generator=g)
    return logits.log_softmax(-1), torch.randint(classes, (images,), generator=g)


@pytest.mark.parametrize("combine", ["probabilities", "logits"])
def test_losses_equal_a_loop_over_ensembles(combine):
    log_probs, labels = predictions()
    members = torch.tensor(list(itertools.combinations_with_replacement(range(6), 3)))
    expected = [float(metrics.nll(metrics.combine(log_probs[row], combine), labels)) for row in members]
    assert ensemble_losses(log_probs, labels, members, combine).tolist() == pytest.approx(expected, rel=1e-5)


def test_a_certain_and_wrong_candidate_has_a_large_finite_loss():
    log_probs = torch.tensor([[[0.0, -2000.0]]])
    assert ensemble_losses(log_probs, torch.tensor([1]), torch.tensor([[0]])).isfinite().all()


def test_scoring_ten_thousand_ensembles_is_one_batched_computation():
    # 50 candidates, 4,000 images in three parts, 10 classes, ensembles of five; its seconds are in benchmarks/.
    log_probs, labels = predictions(50, 4_000, 10)
    members = torch.randint(50, (10_000, 5), generator=torch.Generator().manual_seed(1))
    losses = ensemble_losses(log_probs, labels, members)
    for row in (0, 4321, 9999):
        assert float(losses[row]) == pytest.approx(float(metrics.nll(metrics.average(log_probs[members[row]]), labels)))


def test_the_choice_equals_brute_force_over_every_ensemble(estimator):
    # Every pair of the space is proposed: the argmin must be the pair a plain loop finds.
    pairs = list(itertools.combinations(toy_edges(), 2))
    proposals = [Proposal(pair, i + 1) for i, pair in enumerate(pairs)]
    best, losses = choose(proposals, scorer(estimator))
    labels = estimator.split.labels
    by_hand = [float(metrics.nll(metrics.average(estimator.log_probs(pair)), labels)) for pair in pairs]
    assert losses == pytest.approx(by_hand, rel=1e-5)
    assert pairs[best] == pairs[min(range(len(pairs)), key=by_hand.__getitem__)]


def test_of_equals_the_first_is_chosen(estimator):
    members = tuple(list(toy_edges())[-2:])
    best, _ = choose([Proposal(members, 1), Proposal(members[::-1], 2)], scorer(estimator))
    assert best == 0


def test_forward_selection_equals_a_plain_greedy_loop(estimator):
    candidates, labels = list(toy_edges())[9:], estimator.split.labels
    chosen, loss = forward_select(candidates, 4, scorer(estimator))
    by_hand = []
    for _ in range(4):
        left = [a for a in candidates if a not in by_hand]
        by_hand.append(
            min(left, key=lambda a: float(metrics.nll(metrics.average(estimator.log_probs([*by_hand, a])), labels)))
        )
    assert chosen == by_hand
    assert loss == pytest.approx(float(metrics.nll(metrics.average(estimator.log_probs(by_hand)), labels)), rel=1e-5)


def test_what_is_no_number_is_not_chosen(estimator):
    members = tuple(list(toy_edges())[-2:])
    with pytest.raises(NesbsError, match="1 of 2 estimated losses are not numbers"):
        choose([Proposal(members, 1), Proposal(members, 2)], lambda _: torch.tensor([float("nan"), 0.5]))
    with pytest.raises(NesbsError, match="2 of 2 estimated losses are not numbers"):
        forward_select(members, 1, lambda asked: torch.full((len(asked),), float("nan")))


def test_scoring_gives_the_candidates_whole_predictions_back(supernet, mini):
    estimator = Estimator(supernet, mini.search_valid, batch_size=50)
    [kept, *others] = list(toy_edges())
    estimator.logits(kept)
    scorer(estimator)([[other] for other in others])
    assert len(estimator) == 1  # what nobody scored is left alone


def test_forward_selection_needs_enough_candidates(estimator):
    with pytest.raises(NesbsError, match="forward selection of 3 needs as many different candidates, found 2"):
        forward_select(list(toy_edges())[:2] * 2, 3, scorer(estimator))


@pytest.mark.parametrize("sampler", [MonteCarlo(), Uniform(), SvgdRd(delta=(0.0, 1.0), steps=30)], ids=str)
def test_search_keeps_the_best_round(sampler, supernet, mini):
    posterior = Posterior(toy_edges())
    heard = []
    arguments = {"size": 2, "rounds": 4, "sampler": sampler}
    choice = search(supernet, posterior, mini.search_valid, seed=0, on_progress=lambda *h: heard.append(h), **arguments)
    again = search(supernet, posterior, mini.search_valid, seed=0, **arguments)
    other = search(supernet, posterior, mini.search_valid, seed=1, **arguments)
    assert choice == again
    assert choice.to_json() != other.to_json()
    losses = [loss for _, loss in choice.proposals]
    assert choice.loss == min(losses)
    [proposal] = [p for p, loss in choice.proposals if (p.round, p.delta) == (choice.round, choice.delta)]
    assert proposal.architectures == choice.architectures
    assert heard[-1] == (len(choice.candidates), len(choice.candidates))
    assert Selection.from_json(choice.to_json(), toy_edges()) == choice


@pytest.mark.parametrize(
    "judge", [{"judge": "posterior", "gain": 0.0}, {"judge": "trained", "judge_epochs": 1}, {"judge": "likelihood"}]
)
def test_losses_that_decide_nothing_are_of_some_images(judge, supernet, mini, monkeypatch):
    posterior = Posterior(toy_edges(), torch.randn(3, 3, generator=torch.Generator().manual_seed(1)))
    small = MemberSettings(channels=2, cells=1, batch_size=32, crop=0, flip=False)
    few = mini.search_train.subset(torch.arange(32))  # what is learned decides nothing here
    training = ShortTraining(few, small) if judge["judge"] == "trained" else None
    found = {}
    for images in (10_000, 40):
        monkeypatch.setattr("nesbs.ensemble.settings.RECORDED", images)
        asked = {
            "size": 2,
            "rounds": 4,
            "batch_size": 20,
            "sampler": MonteCarlo(),
            "seed": 0,
            "training": training,
            **judge,
        }
        found[images] = search(supernet, posterior, mini.search_valid, **asked)
    whole, part = found.values()
    assert whole.loss_images is None
    assert part.architectures == whole.architectures
    if judge["judge"] == "likelihood":  # which looks at all of them
        assert part == whole
        return
    assert (part.loss_images, part.scores, part.trained) == (40, whole.scores, whole.trained)
    some = mini.search_valid.subset(content_order(mini.search_valid)[:40])
    by_hand = scorer(Estimator(supernet, some, batch_size=20))(
        [proposal.architectures for proposal, _ in part.proposals]
    )
    assert [loss for _, loss in part.proposals] == pytest.approx(by_hand.tolist())
    assert Selection.from_json(part.to_json(), toy_edges()) == part
    assert "loss_images" not in whole.to_json()


def test_forward_selection_is_never_worse_than_the_rounds(supernet, mini):
    for seed in range(3):
        rounds, forward = (
            search(
                supernet,
                Posterior(toy_edges()),
                mini.search_valid,
                size=3,
                rounds=3,
                sampler=MonteCarlo(),
                seed=seed,
                method=method,
            )
            for method in ("rounds", "forward")
        )
        assert forward.loss <= rounds.loss
        assert forward.proposals == rounds.proposals


@pytest.mark.parametrize(("of_the_best", "expected"), [(0.5, "drawn"), (0.9, "drawn"), (0.95, "greedy")])
def test_of_a_drawn_and_a_greedy_ensemble_the_better_is_taken(of_the_best, expected):
    # Greedy begins with the best alone, a, and comes to 0.9 with b; b and c, a drawn pair, may be better together.
    a, b, c = list(toy_edges())[:3]
    alone = {a: 1.0, b: 2.0, c: 3.0}
    pairs = {frozenset((a, b)): 0.9, frozenset((a, c)): 0.98, frozenset((b, c)): of_the_best}

    def score(ensembles):
        losses = [alone[one[0]] if len(one) == 1 else pairs[frozenset(one)] for one in ensembles]
        return torch.tensor(losses, dtype=torch.float64)

    drawn = [Proposal((c, a), 1), Proposal((b, c), 2)]
    members, loss, proposal, losses = decide(drawn, score, "forward")
    assert losses == [0.98, of_the_best]
    assert (members, loss, proposal) == {
        "drawn": ((b, c), of_the_best, drawn[1]),
        "greedy": ((a, b), 0.9, None),
    }[expected]


def test_a_greedy_choice_needs_as_many_candidates_as_members_and_no_more():
    a, b, c = list(toy_edges())[:3]

    def score(ensembles):
        return torch.tensor([float(-len(set(ensemble))) for ensemble in ensembles])

    drawn = [Proposal((a, a, b), 1), Proposal((c, c, b), 2)]
    assert decide(drawn, score, "forward")[:3] == ((a, b, c), -3.0, None)
    assert decide(drawn, score, "rounds")[:3] == ((a, a, b), -2.0, drawn[0])
    assert decide(drawn[:1], score, "forward")[:3] == ((a, a, b), -2.0, drawn[0])  # two candidates


def differ_on(one, other):
    """How many of the edges differ, by the texts."""
    return sum(mine != theirs for mine, theirs in zip(str(one).split("|"), str(other).split("|"), strict=True))


def test_members_that_differ_too_little_are_not_chosen_by_rounds_or_forward_selection():
    space = list(toy_edges())
    place = {architecture: float(i) for i, architecture in enumerate(space)}

    def score(ensembles):  # the first architectures are the best, and alike
        return torch.tensor([sum(place[member] for member in ensemble) / len(ensemble) for ensemble in ensembles])

    drawn = [Proposal(pair, 1) for pair in itertools.combinations(space, 2)]
    assert decide(drawn, score, "rounds")[0] == (space[0], space[1])
    for edges in (2, 3):
        enumerated = [one.architectures for one in drawn if differ_on(*one.architectures) >= edges]
        best = min(enumerated, key=lambda pair: place[pair[0]] + place[pair[1]])
        for method in ("rounds", "forward"):
            members, *_, losses = decide(drawn, score, method, apart=edges / 3)
            assert members == best
            assert len(losses) == len(drawn)
    near = [Proposal((space[0], space[1]), 1), Proposal((space[1], space[2]), 1)]
    assert decide(near, score, "rounds", apart=1.0)[0] == (space[0], space[1])  # none is far: those that differ most
    far = [Proposal((space[0], space[26]), 1), Proposal((space[0], space[1]), 1)]
    assert decide(far, score, "forward", apart=1.0)[0] == (space[0], space[26])


def test_progress_comes_after_the_first_candidate_and_then_by_eights():
    told, pool = [], list(toy_edges())[:20]
    losses = _losses_alone(pool, lambda ensembles: torch.arange(len(ensembles)), lambda *at: told.append(at))
    assert told == [(1, 20), (9, 20), (17, 20), (20, 20)]
    assert losses == [0, *range(8), *range(8), *range(3)]


def test_bayesian_optimisation_of_delta(supernet, mini):
    arguments = {"size": 2, "rounds": 2, "sampler": SvgdRd(steps=30), "tune": "bayesian", "trials": 6}
    one, two = (search(supernet, Posterior(toy_edges()), mini.search_valid, seed=0, **arguments) for _ in range(2))
    assert one == two
    deltas = [delta for delta, _ in one.trace]
    assert 1 <= len(deltas) <= 6
    assert all(-2 <= delta <= 1 for delta in deltas)
    assert one.loss == min(loss for _, loss in one.trace)
    assert one.delta == min(one.trace, key=lambda pair: pair[1])[0]


def test_bayesian_optimisation_is_asked_with_the_seeds_own_stream_and_counts_its_trials(supernet, mini, monkeypatch):
    asked, streams, heard, losses = [], [], [], []
    generator = rng.generator

    def tune(loss, **options):
        asked.append(options)
        losses.extend([loss(0.25), loss(0.5)])
        return [0.25, 0.5]

    def listen(*names, **more):
        streams.append(names)
        return generator(*names, **more)

    monkeypatch.setattr("nesbs.ensemble.tune_delta.tune_delta", tune)
    monkeypatch.setattr("nesbs.ensemble.choosing.rng.generator", listen)
    arguments = {"size": 2, "rounds": 1, "sampler": SvgdRd(steps=5), "tune": "bayesian", "trials": 2, "seed": 3}
    choice = search(
        supernet, Posterior(toy_edges()), mini.search_valid, on_progress=lambda *at: heard.append(at), **arguments
    )
    assert asked == [{"trials": 2, "low": -2.0, "high": 1.0, "seed": rng.derive(3, "tune") % 2**32}]
    drawn = [names for names in streams if "search" in names]
    assert drawn == [(3, "search", "svgd-rd", 1), (3, "search", "svgd-rd", 2)]
    assert heard == [(1, 2), (2, 2)]
    assert [loss for delta, loss in choice.trace if delta in (0.25, 0.5)] == pytest.approx(losses)


def test_losses_that_are_not_numbers_are_counted():
    drawn = [Proposal((one,), 1) for one in list(toy_edges())[:3]]
    with pytest.raises(NesbsError, match="2 of 3 estimated losses are not numbers: was the supernet trained"):
        choose(drawn, lambda _: torch.tensor([float("nan"), 1.0, float("inf")]))


def test_bayesian_optimisation_needs_a_delta(supernet, mini):
    with pytest.raises(NesbsError, match="sampler monte-carlo has none"):
        search(supernet, Posterior(toy_edges()), mini.search_valid, sampler=MonteCarlo(), tune="bayesian")
    with pytest.raises(NesbsError, match="delta_range: the range's lower end must be below"):
        search(supernet, Posterior(toy_edges()), mini.search_valid, delta_range=(1, -1))


def test_without_optuna_the_extra_is_named(supernet, mini, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(NesbsError, match=r"needs Optuna: install it with `pip install 'nesbs\[hpo\]'`"):
        search(supernet, Posterior(toy_edges()), mini.search_valid, size=2, sampler=SvgdRd(steps=5), tune="bayesian")


def test_attraction_without_an_ensemble_is_passed_over(supernet, mini, monkeypatch):
    monkeypatch.setattr("nesbs.samplers.proposals.TRIES", 5)
    # With strong attraction all particles become one architecture; other values of a grid still give a choice.
    logits = 3 * torch.randn(3, 3, generator=torch.Generator().manual_seed(1))
    arguments = {"size": 2, "rounds": 1, "tune": "bayesian", "trials": 2, "sampler": SvgdRd(steps=60, bandwidth=4.0)}
    posterior = Posterior(toy_edges(), logits)
    grid = SvgdRd(delta=(-2.0, 1.0), steps=60, bandwidth=4.0)
    choice = search(supernet, posterior, mini.search_valid, size=2, rounds=2, sampler=grid)
    assert choice.delta == 1.0
    assert choice.passed_over == (-2.0,)
    assert choice.trace[-1] == (-2.0, None)
    assert Selection.from_json(choice.to_json(), toy_edges()) == choice
    with pytest.raises(NesbsError, match="no ensemble without duplicates in 5 redraws"):
        search(supernet, posterior, mini.search_valid, size=2, sampler=SvgdRd(delta=-2.0, steps=60, bandwidth=4.0))
    with pytest.raises(NesbsError, match="no δ that was tried gave an ensemble without duplicates"):
        search(supernet, posterior, mini.search_valid, delta_range=(-2, -1.5), **arguments)


def test_duplicates_are_reported(supernet, mini):
    logits = torch.zeros(3, 3)
    logits[:, 2] = 50
    choice = search(
        supernet,
        Posterior(toy_edges(), logits),
        mini.search_valid,
        size=3,
        rounds=1,
        sampler=MonteCarlo(),
        duplicates="allow",
    )
    assert choice.duplicates == 2
    assert choice.to_json()["duplicates"] == 2


def test_wrong_input_is_refused(supernet, mini):
    with pytest.raises(NesbsError, match=r"ensemble\.size must be at least 1, found 0"):
        search(supernet, Posterior(toy_edges()), mini.search_valid, size=0)
    with pytest.raises(NesbsError, match="unknown setting round: did you mean rounds"):
        search(supernet, Posterior(toy_edges()), mini.search_valid, round=3)
    choice = search(supernet, Posterior(toy_edges()), mini.search_valid, size=2, rounds=1, sampler=MonteCarlo())
    broken = ({"architectures": None}, {"architectures": [3]}, {"proposals": [None]}, {"candidates": 1})
    for value in ({"architectures": []}, None, *(choice.to_json() | change for change in broken)):
        with pytest.raises(NesbsError, match="not a selection"):
            Selection.from_json(value, toy_edges())


@pytest.mark.parametrize("combine", ["probabilities", "logits"])
def test_a_candidate_is_looked_at_once_however_often_it_is_scored(combine, random):
    pool = list(toy_edges())[:5]
    predictions = torch.randn(5, 30, 4, generator=random).log_softmax(-1)
    asked = []

    class Known:
        split = SimpleNamespace(labels=torch.randint(4, (30,), generator=random))

        def log_probs(self, architectures):
            asked.extend(architectures)
            return predictions[[pool.index(architecture) for architecture in architectures]]

    score = scorer(Known(), combine)
    for ensembles in ([[0, 1], [1, 2]], [[3, 0], [2, 2]], [[4, 4], [0, 1]]):
        found = score([[pool[member] for member in ensemble] for ensemble in ensembles])
        expected = ensemble_losses(predictions, Known.split.labels, torch.tensor(ensembles), combine)
        torch.testing.assert_close(found, expected)
    if combine == "probabilities":
        assert asked == pool
