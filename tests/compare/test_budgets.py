"""Budgets in seconds: what fits is judged, no more; what was found to fit is remembered."""

import itertools
import time
from types import SimpleNamespace

import pytest
import torch
from toys import COMPARED_SET as SET
from toys import call, comparison_of
from toys import compared_recipe as recipe

import nesbs.ensemble.choosing
from nesbs import files
from nesbs.compare.budgets import measured_once, timed, times_within
from nesbs.compare.harness import Harness
from nesbs.compare.methods import METHODS
from nesbs.compare.one_shot import OneShot, _request
from nesbs.compare.over_seeds import compare
from nesbs.errors import NesbsError
from nesbs.records import ComparisonRecord
from nesbs.report import comparison_as_markdown
from nesbs.rivals import SearchResult
from nesbs.runs.resumable_run import Run

BY_SUPERNET = ("rivals.judge=supernet", "rivals.measure=supernet", "sampler.delta=0.5", "sampler.steps=20")


def table_of(value):
    return comparison_as_markdown(ComparisonRecord.from_json(value))


class OneSecondEach:
    """A pool in which every training takes a second and every network is as good as another."""

    def __init__(self, split):
        self.split, self.trained = split, {}

    def log_probs(self, architectures):
        for architecture in architectures:
            self.trained[architecture] = 1.0
        generators = (torch.Generator().manual_seed(len(str(each))) for each in architectures)
        shape = (len(self.split), self.split.classes)
        return torch.stack([torch.randn(shape, generator=random).log_softmax(-1) for random in generators])

    def train(self, architectures):
        self.log_probs(architectures)

    def seconds(self, architectures):
        return sum(self.trained.get(architecture, 0.0) for architecture in architectures)


@pytest.fixture
def trained_harness(tmp_path):
    """A harness of six seconds with such a pool."""
    harness = Harness(Run.create(tmp_path / "run", timed(recipe(), 6.5)))
    harness.judged = OneSecondEach(harness.run.data.search_valid)
    return harness


def test_methods_that_train_what_they_judge_stop_in_time(trained_harness):
    assert len(trained_harness.candidates) == 6
    assert files.read_json(trained_harness.run.folder / "rivals" / "budget.json") == {"pool": 6}
    for method in ("urs", "nes-rs", "single-best", "nes-re"):
        assert len(METHODS[method].choose(trained_harness).candidates) == 6


def test_one_ensemble_is_judged_however_short_the_time(tmp_path):
    harness = Harness(Run.create(tmp_path / "run", timed(recipe(), 0.5)))
    harness.judged = OneSecondEach(harness.run.data.search_valid)
    assert len(harness.candidates) == 2


def test_a_one_shot_search_of_fewer_epochs_warms_up_in_fewer(tmp_path):
    harness = Harness(Run.create(tmp_path / "run", recipe("supernet.epochs=6", "supernet.warm_up=5")))
    assert [_request(harness, epochs).settings.warm_up for epochs in (6, 3, 1)] == [5, 2, 0]


def test_methods_that_use_the_supernet_pay_for_it_first(tmp_path, monkeypatch):
    run = Run.create(tmp_path / "run", recipe(*BY_SUPERNET))
    run.posterior()
    stages = files.read_json(run.folder / "record.json")["stages"]
    paid = [stages[stage]["seconds"] for stage in ("supernet", "posterior")]
    run.recipe = timed(run.recipe, 4.5 + sum(paid))
    monkeypatch.setattr("nesbs.compare.harness.estimating", lambda run: lambda architecture: 1.0)
    assert len(Harness(run).candidates) == 4 + int(0.5 + paid[1])
    asked = []

    def half(left, trial, usual, *, most):
        asked.append((round(left, 2), usual))
        return 3

    monkeypatch.setattr("nesbs.compare.posterior_search.times_within", half)
    chosen = METHODS["nesbs"].choose(Harness(run))
    assert [proposal.round for proposal, _ in chosen.proposals] == [1, 2, 3]
    assert asked == [(4.5, run.recipe.search.rounds)]
    stages = files.read_json(run.folder / "record.json")["stages"]
    spent = sum(paid) + stages["rival nesbs"]["seconds"]
    assert METHODS["nesbs"].search_seconds(Harness(run)) == pytest.approx(spent)
    assert not METHODS["nesbs"].over_budget(Harness(run))
    run.recipe = timed(run.recipe, spent / 1.2)
    assert METHODS["nesbs"].over_budget(Harness(run))


def test_a_one_shot_methods_training_is_shortened(tmp_path, monkeypatch):
    run = Run.create(tmp_path / "run", timed(recipe("supernet.epochs=9"), 60))
    epochs = []
    clock = 0.0
    monkeypatch.setattr("nesbs.compare.budgets.time", SimpleNamespace(perf_counter=lambda: clock))

    def slow(request):
        nonlocal clock
        epochs.append(request.settings.epochs)
        clock += 8.0 * request.settings.epochs + 20.0  # of judging at the end
        return SearchResult(next(iter(request.space)), None)

    method = OneShot("gdas", "a slow one", slow)
    method.choose(Harness(run))
    method.choose(Harness(run))
    assert epochs == [1, 1, 2, 5, 5]  # three to measure; what fits is found once, and takes 60 s


@pytest.mark.parametrize(("judge", "gain", "looked_at"), [("posterior", 0, 16), ("likelihood", 0, 30)])
def test_rounds_are_timed_as_they_are_judged(tmp_path, monkeypatch, judge, gain, looked_at):
    monkeypatch.setattr("nesbs.ensemble.settings.RECORDED", 16)
    settings = (
        *BY_SUPERNET,
        f"search.judge={judge}",
        f"search.gain={gain}",
        "data.train_limit=100",
        "search.batch_size=8",
    )
    run = Run.create(tmp_path / "run", timed(recipe(*settings), 60))
    run.posterior()
    images = []
    estimator = nesbs.ensemble.choosing.Estimator
    monkeypatch.setattr(
        "nesbs.ensemble.choosing.Estimator",
        lambda supernet, split, **more: images.append(len(split)) or estimator(supernet, split, **more),
    )
    monkeypatch.setattr("nesbs.compare.posterior_search.MOST", 5)
    METHODS["nesbs"].choose(Harness(run))
    assert images == [looked_at] * 4  # three to measure, and the search


def test_what_is_too_short_to_time_is_shared_out():
    clock = iter([0.0, 3.0, 3.0, 5.0])  # one takes longer than two
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nesbs.compare.budgets.time", SimpleNamespace(perf_counter=lambda: next(clock)))
        assert times_within(10.0, lambda _: None, 2, most=99) == 10


def test_what_fits_is_found_once_and_at_least_one(tmp_path):
    run = Run.create(tmp_path / "run", recipe())
    numbers = itertools.count(7)
    assert [measured_once(run, "key", lambda: next(numbers)) for _ in range(2)] == [7, 7]
    assert times_within(0.0, lambda number: time.sleep(0.001), 1, most=5) == 1
    with pytest.raises(NesbsError, match="--budget in seconds needs search.tune=grid"):
        timed(recipe("search.tune=bayesian"), 5)


def test_a_comparison_in_seconds(tmp_path, monkeypatch):
    monkeypatch.setattr("nesbs.compare.posterior_search.MOST", 50)
    given = timed(recipe(*BY_SUPERNET), 60)
    found = compare(given, tmp_path / "run", ["nesbs", "nesbs-mc", "urs"], seeds=1).to_json()["methods"]
    assert found["urs"]["seeds"][0]["evaluations"] == 26  # there is time for all pairs of the space, and an end
    assert files.read_json(tmp_path / "run/seed-0/rivals/budget.json")["nesbs rounds"] == 50
    for entry in found.values():
        [outcome] = entry["seeds"]
        assert outcome["over_budget"] is False
        assert 0 < outcome["search_seconds"] < 66
        assert outcome["device"] == "cpu"


def test_the_table_says_what_the_budget_was_and_who_exceeded_it():
    record = comparison_of({"nesbs": (0, 0, 0), "urs": (0, 0, 0)})
    record["rivals"] = {"seconds": 90.0, "measure": "trained"}
    for name, seconds in (("nesbs", 80.0), ("urs", 120.0)):
        record["methods"][name]["cost"] = {"search_seconds": {"mean": seconds}}
        for seed in record["methods"][name]["seeds"]:
            seed["over_budget"] = seconds > 99
    table = table_of(record)
    assert "| 80.0 " in table
    assert "| 120.0 !" in table
    assert "Budget: 90 s of search for every method" in table
    assert "Budget" not in table_of(comparison_of({"nesbs": (0, 0, 0)}))


@pytest.mark.parametrize("text", ["0", "-3", "5m", "s", "nans", "1.5"])
def test_nonsense_is_refused(text, tmp_path, capsys):
    assert call("compare", "toy", "--methods", "urs", f"--budget={text}", "--out", tmp_path / "run", *SET) == 2
    assert (
        f"--budget takes up to 100,000 architectures, such as 50, or seconds, such as 90s; found '{text}'"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "run").exists()
