"""`nesbs compare`: everything once, stopped and gone on with, the same table; statistics that name no false winner."""

import json
import os
import pickle
import shutil
import subprocess
import sys
from collections import defaultdict

import numpy as np
import pytest
import torch
from scipy import stats
from toys import COMPARED_SET as SET
from toys import StopError, Stopping, call, comparison_of, without_seconds
from toys import compared_recipe as recipe

import nesbs.runs.members
from nesbs import files, metrics
from nesbs.cluster import Workers, run_tasks
from nesbs.compare.budgets import budgeted
from nesbs.compare.harness import Harness
from nesbs.compare.methods import METHODS, named_methods
from nesbs.compare.over_seeds import begin, compare, train_searched
from nesbs.compare.pool import Pool
from nesbs.ensemble import design_member, forward_select, scorer
from nesbs.errors import NesbsError
from nesbs.evaluation import over_images, paired, summarise
from nesbs.evaluation.calibration import cross_calibrate
from nesbs.records import ComparisonRecord, ComparisonRecords, RunRecords
from nesbs.report import comparison_as_markdown, draw_comparison, render_comparison_page
from nesbs.rivals import SearchRequest, gdas
from nesbs.runs import Progress
from nesbs.runs.resumable_run import Run
from nesbs.spaces import multiply_adds, parameters, zoo
from nesbs.supernet import Estimator

DARTS = ["--set", "space.name=darts", "--set", "supernet.cells=3", "--set", "members.cells=3"]  # fewer cannot be
ONE_SHOT = ["rsps", "darts", "darts-2nd", "gdas", "setn", "enas", "snas"]
ENSEMBLES = ["nesbs", "nesbs-mc", "urs", "nes-rs", "nes-re", "deep", "mc-droppath", "snapshot", "single-best"]


def table_of(value):
    return comparison_as_markdown(ComparisonRecord.from_json(value))


class Figures(Progress):
    """Keeps the figures of each run, (name, value, step), and what the user is told."""

    def __init__(self):
        self.of, self.told = defaultdict(list), []

    def note(self, text):
        self.told.append(text)

    def figure(self, folder, name, value, step):
        self.of[folder].append((name, value, step))


FIGURES = Figures()  # of the comparison below


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A comparison, and every training of a network in it: (seed, epochs, images, name, architecture)."""
    folder, trained = tmp_path_factory.mktemp("compare") / "whole", []
    original = nesbs.runs.members.member_training

    def counted(member, split, settings, *, seed, name, **more):
        trained.append((seed, settings.epochs, len(split), name, str(member.architecture)))
        return original(member, split, settings, seed=seed, name=name, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nesbs.runs.members.member_training", counted)
        value = compare(recipe(), folder, ENSEMBLES, seeds=3, progress=FIGURES).to_json()
    written = files.read_json(folder / "comparison.json")  # here: tests below add methods to the folder
    assert {key: written[key] for key in written if key not in ("nesbs", "commit", "clean")} == value
    assert written["nesbs"] == nesbs.__version__
    return folder, value, trained


def test_outcomes_hold_the_size_of_what_predicts_and_the_page_draws_error_against_it(whole):
    folder, value, _ = whole
    run = Run.open(folder / "seed-0")
    for method in value["methods"].values():
        outcome = method["seeds"][0]
        built = [
            design_member(run.space, run.space.parse(text), run.data.train, run.recipe.members)
            for text in outcome["architectures"]
        ]
        image = (run.data.train.channels, *run.data.train.size)
        if outcome["method"] not in ("mc-droppath", "snapshot"):  # which predict several times with one architecture
            assert outcome["parameters"] == sum(map(parameters, built))
            assert outcome["multiply_adds"] == sum(multiply_adds(one, image) for one in built)
    page = render_comparison_page(ComparisonRecords(comparison=ComparisonRecord.from_json(value)))
    assert "Error against multiply-adds" in page
    assert "Error against parameters" in page


@pytest.mark.usefixtures("whole")
def test_the_user_is_told_whose_stages_follow():
    assert FIGURES.told == [f"seed-{seed}: {method}" for seed in range(3) for method in ENSEMBLES]


def test_nothing_is_trained_twice_and_everything_is_measured(whole):
    _, value, trained = whole
    assert len(set(trained)) == len(trained)
    # One name is one architecture: no other name hides the same training, but for the copies of a deep ensemble.
    plain = [entry for entry in trained if "-1" not in entry[3].split()[-1]]
    assert len({(seed, epochs, images, text) for seed, epochs, images, _, text in plain}) == len(plain)
    assert {seed for seed, *_ in trained} == {0, 1, 2}
    assert list(value["methods"]) == ENSEMBLES
    for entry in value["methods"].values():
        errors = [outcome["scores"]["error"] for outcome in entry["seeds"]]
        assert entry["mean"]["error"]["mean"] == pytest.approx(np.mean(errors))
        assert entry["mean"]["error"]["standard_error"] == pytest.approx(np.std(errors, ddof=1) / 3**0.5)


def test_the_same_command_and_more_methods_find_what_is_there(whole, monkeypatch, tmp_path):
    folder, value, _ = whole
    kept = [
        "recipe.yaml",
        "seed-*/recipe.yaml",
        "seed-*/record.json",
        "seed-*/rivals/*",
    ]  # of seeds made apart
    for path in [path for pattern in kept for path in folder.glob(pattern)]:
        (tmp_path / path.relative_to(folder)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tmp_path / path.relative_to(folder))

    def refuse(*_, **__):
        raise AssertionError("trained again")

    monkeypatch.setattr("nesbs.runs.members.member_training", refuse)
    monkeypatch.setattr(sys.modules["nesbs.rivals.snapshot"], "member_training", refuse)
    assert compare(recipe(), folder, ENSEMBLES, seeds=3).to_json() == value
    assert compare(recipe(), tmp_path, ENSEMBLES, seeds=3).to_json() == value
    for seed in range(3):
        (folder / f"seed-{seed}" / "rivals" / "nes-re.json").unlink()  # measured again, not trained again
    again = compare(recipe(), folder, ["nesbs", "nes-re"], seeds=3).to_json()
    assert without_seconds(again["methods"]["nes-re"]) == without_seconds(value["methods"]["nes-re"])


def test_a_stop_loses_nothing(whole, tmp_path):
    _, value, _ = whole
    for stage, after in (("pool-1", 5), ("snapshot", 1)):  # in the order in which they are reached
        with pytest.raises(StopError):
            compare(recipe(), tmp_path / "run", ENSEMBLES, seeds=1, progress=Stopping(stage, after))
    found = compare(recipe(), tmp_path / "run", ENSEMBLES, seeds=1).to_json()
    for method, entry in found["methods"].items():
        assert without_seconds(entry["seeds"]) == without_seconds(value["methods"][method]["seeds"][:1])
        assert entry["difference"] is None or entry["difference"]["error"]["low"] is None  # one seed: no interval


@pytest.mark.slow
def test_kill_9_and_the_same_command(whole, tmp_path):
    _, value, _ = whole
    out = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "nesbs",
        "compare",
        "toy",
        "--methods",
        "nes-rs",
        "--seeds",
        "1",
        "--out",
        str(out),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen([*command, "--quiet", *SET], env=environment)
    while not list(out.glob("seed-0/pool-1-epochs-search_train/*.safetensors")):
        assert process.poll() is None
    process.kill()
    process.wait()
    assert not (out / "comparison.json").exists()
    assert call("compare", "toy", "--methods", "nes-rs", "--seeds", 1, "--out", out, "--quiet", *SET) == 0
    found = files.read_json(out / "comparison.json")["methods"]["nes-rs"]["seeds"]
    assert without_seconds(found) == without_seconds(value["methods"]["nes-rs"]["seeds"][:1])


def test_methods_choose_by_the_trained_pool(whole):
    folder, value, _ = whole
    run = Run.open(folder / "seed-0")
    harness = Harness(run)
    pool = harness.candidates
    assert len(pool) == 6
    log_probs = harness.judged.log_probs(pool)
    losses = metrics.nll(log_probs, run.data.search_valid.labels)
    outcome = {name: entry["seeds"][0] for name, entry in value["methods"].items()}
    assert outcome["single-best"]["architectures"] == [str(pool[int(losses.argmin())])]
    greedy, loss = forward_select(pool, 2, scorer(harness.judged))
    assert outcome["nes-rs"]["architectures"] == [str(architecture) for architecture in greedy]
    assert outcome["nes-rs"]["validation_loss"] == pytest.approx(loss)
    assert outcome["deep"]["architectures"] == outcome["single-best"]["architectures"] * 2
    for method in ("mc-droppath", "snapshot"):
        assert outcome[method]["architectures"] == outcome["single-best"]["architectures"]
    assert len(outcome["mc-droppath"]["scores"]["members"]) == 2  # passes
    evolved = METHODS["nes-re"].selection(harness).candidates
    assert [architecture for architecture, _ in evolved[:3]] == pool[:3]  # the population it begins with
    assert len(evolved) <= 6


def test_one_shot_methods_end_with_one_trained_network_and_pay_for_their_search(tmp_path, monkeypatch):
    assert named_methods("all") == [*ENSEMBLES[:2], "random", "drawn", "likeliest", *ENSEMBLES[2:], *ONE_SHOT]
    with pytest.raises(StopError):
        compare(recipe(), tmp_path / "run", ["nesbs", *ONE_SHOT], seeds=1, progress=Stopping("rival gdas", 1))
    assert (tmp_path / "run/seed-0/rivals/gdas.checkpoint.safetensors").is_file()
    found = compare(recipe(), tmp_path / "run", ["nesbs", *ONE_SHOT], seeds=1).to_json()["methods"]
    stages = files.read_json(tmp_path / "run/seed-0/record.json")["stages"]
    for method in ONE_SHOT:
        [outcome] = found[method]["seeds"]
        assert len(outcome["architectures"]) == len(outcome["scores"]["members"]) == 1
        spent = stages[f"rival {method}"]["seconds"] + (stages["supernet"]["seconds"] if method == "rsps" else 0)
        assert outcome["search_seconds"] == pytest.approx(spent, abs=0.01)
    assert not list((tmp_path / "run").rglob("*.checkpoint.safetensors"))
    run = Run.open(tmp_path / "run" / "seed-0")
    settings = {"settings": run.recipe.supernet, "learning_rate": run.recipe.rivals.learning_rate}
    alone = gdas(SearchRequest(run.space, run.data.search_train, run.data.search_valid, **settings))
    assert found["gdas"]["seeds"][0]["architectures"] == [str(alone.architecture)]
    # By workers: the supernets of all methods and seeds side by side, each an epoch at a time, and the same in the end.
    given = []

    def here(next_task, shared, **_):
        given.append(len(shared.kinds))
        return run_tasks(next_task, pickle.loads(pickle.dumps(shared)))

    monkeypatch.setattr("nesbs.runs.by_workers.run_tasks", here)
    by_workers = compare(recipe(), tmp_path / "workers", ["nesbs", *ONE_SHOT], seeds=1, workers=Workers(2)).to_json()
    assert without_seconds(by_workers["methods"]) == without_seconds(found)
    assert given[0] == len(ONE_SHOT)  # theirs but for that of rsps, which is the run's
    assert not list((tmp_path / "workers").rglob("*.checkpoint.safetensors"))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("json", r"deep\.json is of urs, not of deep: remove it and run the same command again"),
        ("images.safetensors", r"holds the test images of urs in seed-0, not the test images of deep in seed-0"),
    ],
)
def test_what_belongs_to_another_method_is_refused(whole, tmp_path, kind, message):
    folder = shutil.copytree(whole[0], tmp_path / "run")
    rivals = folder / "seed-0" / "rivals"
    shutil.copy(rivals / f"urs.{kind}", rivals / f"deep.{kind}")
    with pytest.raises(NesbsError, match=message):
        compare(recipe(), folder, ["nesbs", "deep"], seeds=1)


def test_records_of_a_comparison_are_not_read_as_those_of_a_run(whole):
    folder, _, _ = whole
    assert ComparisonRecords.read(str(folder)).seeds
    with pytest.raises(NesbsError, match="is a comparison; its runs are .*seed-0 and so on"):
        RunRecords.read(folder)
    with pytest.raises(NesbsError, match="is no comparison that has begun a seed"):
        ComparisonRecords.read(folder / "seed-0")


def test_each_method_pays_for_what_it_used(whole):
    folder, value, _ = whole
    outcome = {name: entry["seeds"][0] for name, entry in value["methods"].items()}
    stages = files.read_json(folder / "seed-0" / "record.json")["stages"]
    costs = files.read_json(folder / "seed-0" / "pool-1-epochs-search_train" / "costs.json")
    searched = sum(stages[stage]["seconds"] for stage in ("supernet", "posterior", "selection"))
    assert outcome["nesbs"]["search_seconds"] == pytest.approx(searched, abs=0.01)
    # The two that judge the whole pool paid the same, though one of them found it trained.
    assert outcome["nes-rs"]["search_seconds"] == outcome["urs"]["search_seconds"] > 0
    assert sum(costs.values()) == pytest.approx(stages["pool-1-epochs-search_train"]["seconds"], abs=0.01)
    assert outcome["nes-rs"]["search_seconds"] <= round(sum(costs.values()), 3)
    assert outcome["deep"]["evaluations"] == 6
    assert outcome["single-best"]["training_seconds"] == outcome["mc-droppath"]["training_seconds"] > 0


def test_outcomes_hold_the_scaled_ensemble(whole):
    folder, value, _ = whole
    run = Run.open(folder / "seed-0")
    outcome = value["methods"]["deep"]["seeds"][0]
    logits = Harness(run).predict([run.space.parse(text) for text in outcome["architectures"]])
    combined = metrics.combine(logits, run.recipe.ensemble.combine)
    expected = cross_calibrate(combined, run.data.test.labels, bins=run.recipe.evaluation.bins)
    found = outcome["scores"]["temperature"]["ensemble"]
    assert found["temperatures"] == pytest.approx(expected.temperatures)
    assert found["after"] == pytest.approx(expected.after)
    assert value["methods"]["deep"]["mean"]["scaled_ece"]["mean"] > 0
    assert outcome["peak_memory"] is None  # on a CPU it depends on what else the process did


def test_the_memory_of_a_method_is_that_of_the_stages_it_used(whole, tmp_path):
    shutil.copytree(whole[0] / "seed-0", tmp_path / "run")
    peaks = {"pool-1-epochs-search_train": 5, "pool-2-epochs-all": 7, "supernet": 9, "posterior": 11, "selection": 1}
    value = files.read_json(tmp_path / "run" / "record.json")
    for name, peak in peaks.items():
        value["stages"][name] |= {"peak_memory": peak, "device": "NVIDIA H200"}
    files.write_json(tmp_path / "run" / "record.json", value)
    harness = Harness(Run.open(tmp_path / "run"))
    found = {name: METHODS[name].peak_memory(harness) for name in ("deep", "nesbs")}
    assert found == {"deep": 7, "nesbs": 11}
    judged = harness.run.recipe.rivals.model_copy(update={"judge": "supernet"})  # the single best is found with it
    harness.run.recipe = harness.run.recipe.model_copy(update={"rivals": judged})
    assert METHODS["deep"].peak_memory(Harness(harness.run)) == 9
    fixed = judged.model_copy(update={"architecture": str(next(iter(harness.run.space)))})
    harness.run.recipe = harness.run.recipe.model_copy(update={"rivals": fixed})
    assert METHODS["deep"].peak_memory(Harness(harness.run)) == 7


def test_a_pool_gives_copies_of_one_architecture_different_weights(whole):
    folder, _, _ = whole
    run = Run.open(folder / "seed-0")
    deep = METHODS["deep"].selection(Harness(run)).architectures
    pool = Pool(run, run.data.test, images="all")
    one, other = (next(member.parameters()) for member in pool.members(deep))
    assert not torch.equal(one, other)
    assert torch.equal(one, next(pool.members(deep[:1])[0].parameters()))


@pytest.fixture
def without_weights(whole, tmp_path):
    """A pool whose records were kept without weights, what it is to train again, and the seconds of its stage."""
    shutil.copytree(whole[0] / "seed-0", tmp_path / "run")
    run = Run.open(tmp_path / "run")
    pool, chosen = Pool(run, run.data.test, images="all"), METHODS["urs"].selection(Harness(run)).architectures
    files.write_json(pool.folder / "costs.json", dict.fromkeys(pool.costs(), 500.0))
    for path in pool.folder.glob("*.safetensors"):
        path.unlink()

    def seconds():
        return files.read_json(run.folder / "record.json")["stages"][pool.folder.name]["seconds"]

    return pool, chosen, seconds


@pytest.mark.parametrize("stopped", [False, True])
def test_networks_whose_weights_were_removed_are_counted_anew(without_weights, stopped):
    pool, chosen, seconds = without_weights
    others, before = len(pool.costs()) - len(chosen), seconds()
    if stopped:
        pool.run.progress = Stopping(pool.folder.name, 1)
        with pytest.raises(StopError):
            pool.train(chosen)
        assert list(pool.folder.glob("*.checkpoint.safetensors"))
        pool.run.progress = Progress()
    pool.train(chosen)
    assert pool.seconds(chosen) == pytest.approx(seconds() - before, abs=0.01)
    assert sum(pool.costs().values()) == pytest.approx(pool.seconds(chosen) + 500 * others)


def test_what_workers_train_anew_is_counted_anew(without_weights):
    pool, chosen, _ = without_weights
    for network in pool.to_train(pool.missing(chosen)):
        network.count(2.0)
        network.count(1.0)
    assert pool.seconds(chosen) == 3 * len(chosen)


@pytest.mark.parametrize(("names", "stages"), [(["urs", "nes-re"], []), (["urs", "rsps"], ["supernet"])])
def test_workers_train_a_supernet_where_a_method_asks_for_it(whole, tmp_path, monkeypatch, names, stages):
    shutil.copytree(whole[0] / "seed-0", tmp_path / "run")
    for gone in [tmp_path / "run" / "supernet.safetensors", *(tmp_path / "run" / "rivals").iterdir()]:
        gone.unlink()
    asked = []
    monkeypatch.setattr("nesbs.compare.over_seeds.train_ahead", lambda networks, *_: asked.extend(networks))
    train_searched([Harness(Run.open(tmp_path / "run"))], [METHODS[name] for name in names], Workers(2), Progress())
    assert [each.stage for each in asked] == stages  # the pool is trained


@pytest.mark.parametrize(("names", "trained"), [(["nes-re"], 3), (["nes-re", "urs"], 4), (["nes-rs", "urs"], 6)])
def test_workers_train_of_a_pool_what_its_methods_judge(tmp_path, monkeypatch, names, trained):
    """Of six, ensembles of four: URS has one of them, NES-RE's population is the first half."""
    harness = Harness(Run.create(tmp_path / "run", recipe("ensemble.size=4")))
    asked = []
    monkeypatch.setattr("nesbs.compare.over_seeds.train_ahead", lambda networks, *_: asked.extend(networks))
    train_searched([harness], [METHODS[name] for name in names], Workers(2), Progress())
    assert {each.network.architecture for each in asked} == set(harness.candidates[:trained])


def test_a_deep_ensemble_of_a_published_cell_from_outside_the_space(tmp_path):
    changes = (
        "space.name=darts",
        "rivals.architecture=nasnet-a",
        "supernet.cells=3",
        "members.cells=3",
        "members.channels=2",
    )
    harness = Harness(Run.create(tmp_path / "run", recipe(*changes)))
    found = METHODS["deep"].outcome(harness).to_json()
    assert found["architectures"] == [str(zoo["nasnet-a"])] * 2
    assert len(found["scores"]["members"]) == 2
    assert (found["evaluations"], found["search_seconds"]) == (0, 0.0)


def test_the_supernets_weights_judge_and_measure_without_a_training(tmp_path):
    changes = ("rivals.judge=supernet", "rivals.measure=supernet", "ensemble.size=2")
    methods = named_methods("all", measure="supernet")
    assert set(methods) == set(METHODS) - {"likeliest", "deep", "mc-droppath", "snapshot", *ONE_SHOT}
    found = compare(recipe(*changes), tmp_path / "run", methods, seeds=1).to_json()
    assert not list((tmp_path / "run").rglob("pool-*"))
    run = Run.open(tmp_path / "run" / "seed-0")
    valid, test = (Estimator(run.supernet(), split) for split in (run.data.search_valid, run.data.test))
    greedy, _ = forward_select(Harness(run).candidates, 2, scorer(valid))
    outcome = found["methods"]["nes-rs"]["seeds"][0]
    assert outcome["architectures"] == [str(architecture) for architecture in greedy]
    expected = metrics.error(metrics.average(test.log_probs(greedy)), run.data.test.labels)
    assert outcome["scores"]["error"] == pytest.approx(float(expected))
    assert outcome["training_seconds"] == 0
    supernet = files.read_json(run.folder / "record.json")["stages"]["supernet"]["seconds"]
    assert outcome["search_seconds"] >= supernet
    with pytest.raises(NesbsError, match="deep needs a training of its own: set rivals.measure=trained"):
        named_methods("urs,deep", measure="supernet")


def test_a_budget_is_the_same_for_all(tmp_path):
    given = budgeted(recipe("rivals.judge=supernet", "rivals.measure=supernet"), 8)
    assert len(given.sampler.delta) == 2  # of which nesbs-mc has none
    found = compare(given, tmp_path / "run", ["nesbs", "nesbs-mc", "urs", "nes-rs", "nes-re"], seeds=1).to_json()
    for name, entry in found["methods"].items():
        proposals = files.read_json(tmp_path / "run/seed-0/rivals" / f"{name}.selection.json")["proposals"]
        judged = sum(len(proposal["architectures"]) for proposal in proposals) or entry["seeds"][0]["evaluations"]
        assert judged == 8
    with pytest.raises(NesbsError, match="--budget 3 is less than one ensemble of 2 for each δ .2."):
        budgeted(recipe(), 3)
    tuned = budgeted(recipe("search.tune=bayesian", "search.trials=3"), 12)
    assert tuned.search.rounds * tuned.search.trials * tuned.ensemble.size == 12
    assert tuned.rivals.samples == 12  # what rsps, setn and enas judge


def test_monte_carlo_judges_as_many_ensembles_as_svgd_rd(tmp_path):
    changes = ("rivals.judge=supernet", "rivals.measure=supernet", "sampler.delta=[0.0, 0.5, 1.0]")

    def judged(given, name):
        folder = tmp_path / name
        compare(given, folder, ["nesbs", "nesbs-mc"], seeds=1)
        paths = [folder / "seed-0/rivals" / f"{method}.selection.json" for method in ("nesbs", "nesbs-mc")]
        return [len(files.read_json(path)["proposals"]) for path in paths]

    assert judged(recipe(*changes), "plain") == [6, 6]  # two rounds of three δ
    assert judged(budgeted(recipe(*changes), 14), "budget") == [6, 6]  # there is room for seven of two
    assert judged(recipe(*changes, "rivals.rounds=4"), "asked") == [6, 4]


def test_paired_intervals_are_students():
    random = np.random.default_rng(0)
    one, other = random.normal(size=(2, 5))
    found, expected = paired(one, other), stats.ttest_rel(one, other).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert summarise([0.5]).standard_error is None
    with pytest.raises(NesbsError, match="the same seeds, found 3 and 2"):
        paired([1, 2, 3], [1, 2])
    # Of two methods that are alike a winner is named one time in twenty, also with three seeds.
    null = random.normal(size=(4000, 3))
    assert np.mean([paired(row, np.zeros(3)).verdict is not None for row in null]) == pytest.approx(0.05, abs=0.01)


def test_intervals_over_images_are_those_of_a_mean():
    random = np.random.default_rng(0)
    wrong = random.random((4000, 2)) < (0.06, 0.5)
    for found, column in zip(over_images(wrong), wrong.T, strict=True):
        reach = 1.96 * column.std() / 4000**0.5
        assert (found.low, found.high) == pytest.approx((column.mean() - reach, column.mean() + reach), abs=0.1 * reach)
    assert over_images(wrong) == over_images(wrong)
    # The interval holds the truth nineteen times in twenty.
    held = [found.low <= 0.3 <= found.high for found in over_images(random.random((500, 400)) < 0.3)]
    assert np.mean(held) == pytest.approx(0.95, abs=0.03)
    with pytest.raises(NesbsError, match="a row for every image"):
        over_images([0.0, 1.0])


def test_images_are_kept_and_resampled(whole):
    folder, value, _ = whole
    kept = [
        {name: files.read_tensors(folder / f"seed-{seed}/rivals/{name}.images.safetensors")[0] for name in ENSEMBLES}
        for seed in range(3)
    ]
    for seed, methods in enumerate(kept):
        for name, images in methods.items():
            scores = value["methods"][name]["seeds"][seed]["scores"]
            assert float(images["error"].double().mean()) == pytest.approx(scores["error"])
            assert float(images["nll"].double().mean()) == pytest.approx(scores["nll"])
    found = value["methods"]["urs"]["images"]
    assert found["error"]["mean"] == pytest.approx(value["methods"]["urs"]["mean"]["error"]["mean"])
    assert found["difference"]["nll"]["mean"] == pytest.approx(value["methods"]["urs"]["difference"]["nll"]["mean"])
    assert found["error"]["low"] < found["error"]["mean"] < found["error"]["high"]
    assert value["methods"]["nesbs"]["images"]["difference"] is None
    table = table_of(value)
    mean, low, high = (100 * found["error"][key] for key in ("mean", "low", "high"))
    assert f"{mean:.2f} [{low:.2f}, {high:.2f}]" in table
    assert "bootstrap intervals over the test images" in table
    assert "bootstrap" not in table_of(comparison_of({"nesbs": (0, 0, 0)}))  # nothing was kept


def test_a_winner_is_printed_only_where_the_interval_excludes_zero():
    record = comparison_of(
        {
            "nesbs": (0, 0, 0),
            "better": (-0.010, -0.011, -0.012),
            "worse": (0.010, 0.011, 0.012),
            "unclear": (-0.001, 0.001, -0.002),
        }
    )
    rows = {line.split("|")[1].strip(): line.split("|") for line in table_of(record).splitlines()[2:6]}
    winners = {name: cells[8].strip() for name, cells in rows.items()}
    assert winners == {"nesbs": "–", "better": "better", "worse": "nesbs", "unclear": "–"}
    assert rows["better"][7].strip() == "−1.10 [−1.35, −0.85]"
    table = table_of(comparison_of({"nesbs": (0, 0), "better": (-0.01, -0.011)}, seeds=2))
    assert "no interval and no winner" in table
    assert "better |" not in table.split("better", 1)[1].splitlines()[0]
    drawing = draw_comparison(ComparisonRecord.from_json(record))
    assert drawing == draw_comparison(ComparisonRecord.from_json(record))
    assert all(f">{name}<" in drawing for name in record["methods"])


def test_the_table_says_what_is_the_papers_and_what_is_ours(whole):
    _, value, _ = whole
    assert value["added"] == list(recipe().additions()) == ["leave-one-out gradients for the posterior"]
    assert "nesbs and nesbs-mc here are the paper's method plus ours: leave-one-out" in table_of(value)
    assert "nesbs and nesbs-mc here are the paper's method, nothing added." in table_of({**value, "added": []})
    assert "the paper's method" not in table_of({**value, "added": None})  # a record of before


def test_the_papers_hours_stand_beside_the_seconds_where_it_has_some():
    record = comparison_of({"nesbs": (0, 0, 0), "gdas": (0, 0, 0), "urs": (0, 0, 0)})
    rows = table_of({**record, "space": "nasbench201", "sampler": "svgd-rd"}).splitlines()[2:5]
    assert [row.split("|")[-2].strip() for row in rows] == ["1.2", "8.0", "–"]
    assert all("8.0" not in row for row in table_of({**record, "space": "darts"}).splitlines()[2:5])


def test_the_command_prints_the_table(whole, tmp_path, capsys):
    made, value, _ = whole
    folder = shutil.copytree(made, tmp_path / "compared")  # other tests read what was made
    assert call("compare", "toy", "--methods", "urs, single-best", "--out", folder, *SET) == 0
    out = capsys.readouterr().out
    mean = value["methods"]["urs"]["mean"]["error"]
    assert f"{100 * mean['mean']:.2f} ± {100 * mean['standard_error']:.2f}" in out
    assert (folder / "comparison.md").read_text() in out
    assert (folder / "comparison.svg").read_text().startswith("<?xml")
    assert list(json.loads((folder / "comparison.json").read_text())["methods"]) == ["nesbs", "urs", "single-best"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "nes-sr"], "unknown method nes-sr: did you mean nes-"),
        (["--methods", ","], "--methods names none"),
        (["--methods", "urs", "--seeds", "0"], "Input should be greater than or equal to 1"),
        (["--methods", "urs", "--set", "rivals.pool=28"], "rivals.pool=28 is larger than space toy-edges (27)"),
        (["--methods", "urs", "--set", "rivals.pool=1"], "rivals.pool=1 is less than one ensemble of 2"),
        (["--methods", "snapshot", "--set", "members.epochs=1"], "2 cycles need as many epochs"),
        (["--methods", "deep", "--set", "rivals.architecture=dart-v2"], "did you mean darts-v2?"),
        (["--methods", "deep", "--set", "rivals.architecture=resnet"], "resnet is a cell of space nasbench201"),
        (
            ["--methods", "deep", *DARTS, "--set", "rivals.architecture=robnet-free"],
            "the network has 20 different cells: set members.cells=20",
        ),
        (["--methods", "nes-re", "--set", "rivals.population=9"], "population (9) must not be larger than pool (6)"),
        (["--methods", "urs", "--set", "ensemble.architectures=[x, y]"], "compare searches"),
        (
            ["--methods", "urs", "--set", "members.images=search_train", "--set", "evaluation.images=search_valid"],
            "compare measures on the test images: leave evaluation.images=search_valid out",
        ),
        (
            ["--methods", "gdas,enas,snas", "--set", "supernet.affine=true"],
            "gdas, snas needs supernet.affine=false on space toy-edges",
        ),
    ],
)
def test_nonsense_is_refused_and_leaves_no_folder(arguments, message, tmp_path, capsys):
    assert call("compare", "toy", "--out", tmp_path / "run", *SET, *arguments) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_method_that_cannot_work_is_refused_before_the_others_run(tmp_path, capsys):
    """Also where it comes to a comparison that was begun without it."""
    short, folder = ["--set", "members.epochs=1"], tmp_path / "begun"
    begin(recipe("members.epochs=1"), folder, [METHODS["urs"]], 3)
    assert call("compare", "toy", "--methods", "urs,snapshot", "--out", folder, *SET, *short) == 2
    assert "2 cycles need as many epochs" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["recipe.yaml"]


def test_a_folder_of_another_comparison_is_refused(whole, tmp_path, capsys):
    folder, _, _ = whole
    assert call("compare", "toy", "--methods", "urs", "--out", folder, *SET, "--set", "rivals.pool=7") == 2
    assert "rivals.pool is 6 there and 7 here" in capsys.readouterr().err
    assert call("compare", "toy", "--methods", "urs", "--out", folder / "seed-0", *SET) == 2
    assert "seed-0 holds a run, not a comparison" in capsys.readouterr().err
    (tmp_path / "notes.md").write_text("not a comparison's\n")
    assert call("compare", "toy", "--methods", "urs", "--out", tmp_path, *SET) == 2


def test_who_follows_a_comparison_is_told_losses_and_test_figures_of_every_seed(whole):
    folder, value, trained = whole
    for place, seed in enumerate((0, 1, 2)):
        figures = FIGURES.of[folder / f"seed-{seed}"]
        scores = value["methods"]["urs"]["seeds"][place]["scores"]
        assert ("test/nll of urs", scores["nll"], 0) in figures
        epochs = sum(epochs for of, epochs, *_ in trained if of == seed)
        assert sum("loss of" in name for name, *_ in figures) == epochs


def test_a_budget_in_seconds_is_not_taken_where_deltas_are_tried_one_by_one(tmp_path):
    with pytest.raises(NesbsError, match=r"rivals\.seconds needs search\.tune=grid"):
        compare(recipe("search.tune=bayesian", "rivals.seconds=20"), tmp_path / "run", ["nesbs-mc"])
    assert not (tmp_path / "run").exists()
