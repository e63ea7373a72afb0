"""Ranking: against scipy, hand counts and simulated truths; the verdict says what the figures say."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from nesbs.errors import NesbsError
from nesbs.evaluation import ensembles_of, mass, rank, spread, verdict
from nesbs.evaluation.ranking import pearson, spearman, top_agreement, with_interval

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("ties", [False, True])
def test_correlations_are_scipys(ties):
    for count in (3, 10, 200):
        one, two = RANDOM.normal(size=(2, count))
        if ties:
            one, two = one.round(), two.round()
            one[0], two[0] = 5.0, -5.0  # so that both vary
        assert spearman(one, two) == pytest.approx(stats.spearmanr(one, two).statistic, abs=1e-9)
        assert pearson(one, two) == pytest.approx(stats.pearsonr(one, two).statistic, abs=1e-9)


def test_what_does_not_vary_correlates_with_nothing():
    assert spearman(np.ones(5), np.arange(5.0)) == pearson(np.arange(5.0), np.ones(5)) == 0.0


def test_agreement_is_a_hand_count():
    estimated = np.array([3.0, 1.0, 2.0, 5.0, 4.0, 9.0, 8.0, 7.0, 6.0, 10.0])
    true = np.array([1.0, 2.0, 9.0, 3.0, 8.0, 7.0, 6.0, 5.0, 4.0, 10.0])
    # Best three by estimate: 1, 2, 0; in truth: 0, 1, 3; in common: 0 and 1.
    assert top_agreement(estimated, true, 0.3) == pytest.approx(2 / 3)
    assert top_agreement(estimated, estimated, 0.3) == 1.0
    assert top_agreement(estimated, -estimated, 0.3) == 0.0
    assert top_agreement(estimated, true, 1.0) == 1.0


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    hits, trials, count, rho = 0, 300, 40, 0.6
    for trial in range(trials):
        random = np.random.default_rng(trial)
        one = random.normal(size=count)
        two = rho * one + math.sqrt(1 - rho**2) * random.normal(size=count)
        found = with_interval(pearson, one, two, [(place,) for place in range(count)])
        assert -1 <= found.low <= found.value <= found.high <= 1
        hits += found.low <= rho <= found.high
    assert 0.90 <= hits / trials <= 0.99


def test_fishers_interval_covers_the_truth_for_few_architectures_too():
    # Spearman's population value for normal pairs is 6/π asin(ρ/2).
    hits, trials, count, rho = 0, 500, 10, 0.7
    truth = 6 / math.pi * math.asin(rho / 2)
    for trial in range(trials):
        random = np.random.default_rng(trial)
        one = random.normal(size=count)
        two = rho * one + math.sqrt(1 - rho**2) * random.normal(size=count)
        found = rank(one, two, [(place,) for place in range(count)]).spearman
        hits += found.low <= truth <= found.high
    assert 0.93 <= hits / trials <= 0.98


@pytest.mark.parametrize("rho", [0.0, 0.8])
def test_the_agreement_of_ten_architectures_has_an_interval_that_covers_the_truth(rho):
    random = np.random.default_rng(0)
    singles = [(place,) for place in range(10)]

    def pairs(count):
        one, other = random.normal(size=(2, count))
        return one, rho * one + math.sqrt(1 - rho**2) * other

    truth = np.mean([top_agreement(*pairs(10)) for _ in range(2000)])
    found = [rank(*pairs(10), singles).agreement for _ in range(400)]
    assert np.mean([one.low <= truth <= one.high for one in found]) > 0.93
    assert min(one.high - one.low for one in found) > 0.3  # of three hits or misses little can be known


def test_what_is_no_number_is_refused():
    with pytest.raises(NesbsError, match="1 of the estimated performances are not numbers"):
        rank(np.array([1.0, np.nan, 3.0, 4.0]), np.arange(4.0), [(place,) for place in range(4)])


def test_where_leaving_out_changes_nothing_there_is_no_interval():
    values = np.arange(8.0)
    found = with_interval(top_agreement, values, values, ensembles_of(8, 1), correlation=False)
    assert (found.value, found.low, found.high) == (1.0, None, None)


def test_intervals_of_ensembles_leave_out_architectures_not_ensembles():
    # Ensembles share members: treating them as independent would give an interval many times too short.
    random = np.random.default_rng(1)
    skill, noise = random.normal(size=(2, 10))
    groups = ensembles_of(10, 3)
    estimated = np.array([skill[list(group)].mean() for group in groups])
    true = np.array([(0.5 * skill + noise)[list(group)].mean() for group in groups])
    found = with_interval(spearman, estimated, true, groups)
    naive = 2 * 1.96 / math.sqrt(len(groups) - 3)
    assert math.atanh(found.high) - math.atanh(found.low) > 2 * naive


def test_too_few_architectures_have_no_interval():
    assert with_interval(spearman, np.arange(3.0), np.arange(3.0), [(0,), (1,), (2,)]).low is None


def test_ranking_puts_it_together():
    true = np.arange(20.0)
    estimated = true.copy()
    estimated[:10] = estimated[:10][::-1]  # the better half backwards
    found = rank(estimated, true, [(place,) for place in range(20)])
    assert (found.size, found.ensembles, found.better_half) == (1, 20, -1.0)
    assert found.spearman.value == pytest.approx(stats.spearmanr(estimated, true).statistic)


def test_ensembles_are_all_of_them_or_different_ones():
    assert ensembles_of(4, 2) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    drawn = ensembles_of(30, 5, seed=3)
    assert len(set(drawn)) == len(drawn) == 500
    assert all(len(set(group)) == 5 and group == tuple(sorted(group)) for group in drawn)
    assert drawn == ensembles_of(30, 5, seed=3) != ensembles_of(30, 5, seed=4)


def test_diverse_estimates_reach_from_the_best_to_the_worst():
    losses = RANDOM.permutation(50).astype(float).tolist()
    assert [losses[place] for place in spread(losses, 5)] == [0, 12, 24, 37, 49]
    assert [losses[place] for place in spread(losses, 9)] == [0, 6, 12, 18, 24, 31, 37, 43, 49]
    for count in range(4, 31):  # no quarter of the ranks has many more than its share
        ranks = np.array([losses[place] for place in spread(losses, count)])
        parts = np.histogram(ranks, bins=4, range=(0, 50))[0]
        assert parts.max() - parts.min() <= 3
    assert sorted(spread(losses[:3], 8)) == [0, 1, 2]
    assert [spread(losses[:1], 4), spread([], 4)] == [[0], []]


def test_who_measures_more_keeps_what_was_measured():
    losses = RANDOM.normal(size=50).tolist()
    found = [set(spread(losses, count)) for count in range(1, 51)]
    assert [len(one) for one in found] == list(range(1, 51))
    assert all(fewer < more for fewer, more in itertools.pairwise(found))


def judged(rho, count=200, loss=1.0, seed=0):
    random = np.random.default_rng(seed)
    one = random.normal(size=count)
    two = rho * one + math.sqrt(1 - rho**2) * random.normal(size=count)
    return verdict(rank(one, two, [(place,) for place in range(count)]), loss=loss, classes=10)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (judged(0.9), "The estimate ranks well"),
        (judged(0.4), "better than chance, but weakly"),
        (judged(0.0, count=30), "cannot be told from chance with 30 architectures"),
        (judged(-0.7), "ranks backwards"),
        (judged(0.95, loss=2.3), "predicts no better than chance"),
        (verdict(rank(np.arange(3.0), np.arange(3.0), [(0,), (1,), (2,)]), loss=1.0, classes=10), "Too few"),
    ],
)
def test_the_verdict_says_what_the_figures_say(said, expected):
    assert expected in said


def test_mass_equals_an_enumeration():
    log_probs, accuracies = RANDOM.normal(size=500) * 3, RANDOM.uniform(60, 95, size=500)
    p = np.exp(log_probs) / np.exp(log_probs).sum()
    found = mass(log_probs + 7.0, accuracies)  # need not be normalised
    assert found["expected"] == pytest.approx(sum(p * accuracies))
    assert found["effective"] == pytest.approx(1 / sum(p**2))
    ranked = sorted(range(500), key=lambda place: -accuracies[place])
    assert found["mode_rank"] == ranked.index(int(np.argmax(p))) + 1
    assert found["top1"] == pytest.approx(sum(p[place] for place in ranked[:5]))
    assert found["top10"] == pytest.approx(sum(p[place] for place in ranked[:50]))
    assert mass(np.zeros(4), np.arange(4.0))["effective"] == pytest.approx(4)
