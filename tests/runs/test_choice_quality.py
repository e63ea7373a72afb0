"""What a judge is worth by truth: its order of ensembles, and what its choice gains over an unjudged draw."""

import csv

import pytest
import torch
from scipy.stats import spearmanr
from toys import tiny

from nesbs import files
from nesbs.ensemble import Selection, make_judge, scorer
from nesbs.records import QualityRecord, RunRecords
from nesbs.records.quality import ChoiceQuality, QualityAnswer, Truth
from nesbs.report import quality_as_text, render
from nesbs.runs.choice_quality import choice_by_table
from nesbs.runs.quality import measure_quality
from nesbs.samplers import Proposal
from nesbs.spaces import toy_edges
from nesbs.supernet import Estimator

EVERYTHING = list(toy_edges())
PAIRS = [(2 * place, 2 * place + 1) for place in range(8)]  # of architectures; their scores rise from 0 to 7
RISING = {architecture: 50.0 + place for place, architecture in enumerate(EVERYTHING)}  # accuracies in per cent
FALLING = {architecture: 90.0 - place for place, architecture in enumerate(EVERYTHING)}


def searched(chosen=PAIRS[0], judge="posterior"):
    """A search whose judge prefers the first of eight pairs; the supernet's loss is the other way round."""
    pairs = [tuple(EVERYTHING[place] for place in pair) for pair in PAIRS]
    proposals = tuple((Proposal(pair, place + 1), -1.0 * place) for place, pair in enumerate(pairs))
    scores = tuple(float(place) for place in range(8)) if judge == "posterior" else ()
    members = tuple(EVERYTHING[place] for place in chosen)
    return Selection(members, 0.0, 1, None, "monte-carlo", proposals, (), judge=judge, scores=scores)


def in_words(choice, kind="table"):
    return quality_as_text(QualityAnswer(truth=Truth(kind=kind), choice=choice))


def test_a_judge_in_the_order_of_the_truth_gains_what_it_should():
    choice = choice_by_table(searched(), FALLING, share=0.3)
    assert (choice.judge, choice.size, choice.proposals, choice.known) == ("posterior", 2, 8, 8)
    assert choice.ranking.spearman.value == 1
    # Pairs have accuracies 89.5, 87.5, …, 75.5 %: 82.5 % in the mean, and the first is chosen.
    assert (choice.chosen, choice.drawn, choice.gain) == pytest.approx((0.105, 0.175, 0.07))
    assert (choice.better, choice.by_search) == (0, True)
    text = in_words(choice)
    assert "The choice is better than an unjudged draw by 7.00 points: 89.50 % against 82.50 %" in text
    assert "judge posterior, 8 of 2" in text


def test_a_judge_in_the_reversed_order_is_said_to_be_no_better_than_drawing():
    choice = choice_by_table(searched(), RISING, share=0.3)
    assert choice.ranking.spearman.value == -1
    assert choice.gain == pytest.approx(-0.07)
    assert choice.better == 7
    expected = "The choice is no better than an unjudged draw: 50.50 % against 57.50 % in the mean of 8; 7 of them are"
    assert expected in in_words(choice)
    # The paper's judge is the loss, which is the other way round here.
    assert choice_by_table(searched(judge="likelihood"), RISING, share=0.3).ranking.spearman.value == 1


def test_a_choice_like_the_mean_is_no_better_than_drawing():
    same = dict.fromkeys(EVERYTHING, 70.1)
    choice = choice_by_table(searched(), same, share=0.3)
    assert (choice.gain, choice.better) == (0, 0)
    assert "no better than an unjudged draw: 70.10 % against 70.10 %" in in_words(choice)


def test_ensembles_that_the_table_does_not_hold_are_left_out_and_counted():
    # Without the second architecture and the sixth the first pair, which is chosen, and the third are unknown.
    table = {one: accuracy for place, (one, accuracy) in enumerate(FALLING.items()) if place not in (1, 5)}
    choice = choice_by_table(searched(), table, share=0.3)
    assert (choice.proposals, choice.known, choice.ranking.ensembles) == (8, 6, 6)
    # 87.5, 83.5, 81.5, …, 75.5 %: the best-judged of these stands for the choice.
    assert (choice.by_search, choice.better) == (False, 0)
    assert choice.chosen == pytest.approx(0.125)
    assert 100 * (1 - choice.drawn) == pytest.approx((87.5 + 83.5 + 81.5 + 79.5 + 77.5 + 75.5) / 6)
    text = in_words(choice)
    assert "6 are compared, 2 with a member that the table lacks are left out" in text
    assert "for it lacks the choice" in text
    # A choice of forward selection is none of the proposals, but its truth is known.
    forward = choice_by_table(searched(chosen=(0, 2)), table, share=0.3)
    assert (forward.by_search, forward.better) == (True, 0)
    assert forward.chosen == pytest.approx(0.11)


def test_with_few_ensembles_or_none_what_is_not_known_is_said():
    three = choice_by_table(searched(), dict(list(FALLING.items())[:6]), share=0.3)
    assert three.known == 3
    assert three.ranking is None
    assert three.gain == pytest.approx(0.02)
    assert "How the judge ranks them is not known: they are too few." in in_words(three)
    nothing = choice_by_table(searched(), {}, share=0.3)
    assert (nothing.known, nothing.gain) == (0, None)
    assert "What choosing gains over an unjudged draw is not known" in in_words(nothing)


def test_the_judge_trained_has_a_gain_but_no_ranking():
    trained = choice_by_table(searched(judge="trained"), FALLING, share=0.3)
    assert trained.ranking is None
    assert trained.gain == pytest.approx(0.07)
    assert "the judge trained gives them no score" in in_words(trained)
    unknown = choice_by_table(searched(chosen=(0, 20), judge="trained"), dict(list(FALLING.items())[:16]), share=0.3)
    assert unknown.gain is None
    alone = in_words(ChoiceQuality(judge="trained", size=3), "trained")
    assert "The judge trained judges by trainings of its own" in alone


def test_the_record_is_read_as_it_was_written_and_older_ones_have_none(tmp_path):
    answer = QualityAnswer(truth=Truth(kind="table"), choice=choice_by_table(searched(), RISING, share=0.3))
    QualityRecord(table=answer, trained=None).write(tmp_path / "quality.json")
    assert QualityRecord.read(tmp_path / "quality.json").table == answer
    assert QualityRecord.from_json({"table": {"verdict": "good"}}).table.choice is None


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    changes = ["search.judge=posterior", "search.rounds=8", "search.noise=20", "ensemble.size=2"]
    return tiny(tmp_path_factory.mktemp("choice") / "run", changes=changes)


def test_a_table_judges_the_ensembles_that_the_search_drew(run, tmp_path):
    selection = run.selection()
    table = tmp_path / "table.csv"
    with table.open("w", newline="") as opened:
        rows = [(str(architecture), accuracy) for architecture, accuracy in RISING.items()]
        csv.writer(opened).writerows([("architecture", "accuracy"), *rows])
    found = measure_quality(run, table=str(table), column="accuracy").choice
    means = [sum(RISING[one] for one in proposal.architectures) / 2 for proposal, _ in selection.proposals]
    assert found.known == found.proposals == len(means)
    assert found.ranking.spearman.value == pytest.approx(spearmanr(selection.scores, [-one for one in means]).statistic)
    chosen = sum(RISING[one] for one in selection.architectures) / 2
    assert 100 * found.gain == pytest.approx(chosen - sum(means) / len(means))
    page = render(RunRecords.read(run.folder))
    assert f"The search drew {len(means)} ensembles of 2" in page
    assert ("no better than an unjudged draw" in page) == (found.gain <= 0)


def test_the_recipes_judge_ranks_ensembles_of_trained_architectures(run):
    answer = measure_quality(run, architectures=5, candidates=20, epochs=1, sizes=(2,))
    found, recipe = answer.choice, run.recipe
    assert (found.judge, found.size, found.known, found.by_search) == ("posterior", 2, 10, False)
    # The truth is that of the row by loss; the judge is the search's.
    true = [pair[1] for pair in answer.points["2"]]
    assert found.drawn == pytest.approx(sum(true) / 10)
    assert found.gain == pytest.approx(found.drawn - found.chosen)
    assert found.better == sum(one < found.chosen - 1e-9 for one in true)
    estimator = Estimator(run.supernet(), run.data.search_valid, batch_size=recipe.search.batch_size)
    score = scorer(estimator)
    judge = make_judge(recipe.search, score, estimator, run.posterior(), None, size=2, seed=recipe.seed)
    members = [run.space.parse(one.architecture) for one in answer.architectures]
    pairs = [members[i : i + 1] + members[j : j + 1] for i in range(5) for j in range(i + 1, 5)]
    assert found.ranking.spearman.value == pytest.approx(spearmanr(judge(pairs), true).statistic)
    # The noise leaves the choice to the most probable among those that are not told apart.
    assert min(abs(found.chosen - one) for one in true) < 1e-9
    assert "10 ensembles of 2 were formed of the trained architectures" in quality_as_text(answer)
    assert files.read_json(run.folder / "quality.json")["trained"]["choice"] == found.to_json()


def test_without_noise_the_judge_prefers_its_best(tmp_path):
    plain = tiny(tmp_path / "run", changes=["search.judge=likelihood", "ensemble.size=2"])
    answer = measure_quality(plain, architectures=4, candidates=20, epochs=1, sizes=(2,))
    assert not (plain.folder / "posterior.json").exists()  # the paper's judge needs none
    estimated, true = torch.tensor(answer.points["2"], dtype=torch.float64).T
    assert answer.choice.chosen == pytest.approx(float(true[estimated.argmin()]))
    [by_loss] = answer.rankings["loss"]
    assert answer.choice.ranking == by_loss
    few = measure_quality(plain, architectures=4, candidates=20, epochs=1, sizes=(1,))
    assert few.choice == answer.choice  # the recipe's size is compared whatever the sizes
