"""Experiments at toy size: run, stopped and gone on with, on shared runs; figures are those of the runs themselves."""

import datetime
import faulthandler
import json
import shutil
import sys
import time
from unittest.mock import Mock

import pytest
import torch
from toys import StopError, Stopping, call, without_seconds
from toys import compared_recipe as toy_recipe

import nesbs.runs.members
from nesbs import files
from nesbs.cluster import Workers, run_tasks
from nesbs.compare.harness import Harness
from nesbs.ensemble import design_member
from nesbs.records.attacks import DefenceRecord, EnsembleAttacks
from nesbs.reproduce import NAMES, Work, experiment, run
from nesbs.reproduce.gaussians import CENTRES, VARIANCES, log_density
from nesbs.reproduce.paper_methods import best_response_of, measured_row, paper_method, trained_ensemble
from nesbs.reproduce.tradeoff import plane
from nesbs.runs.resumable_run import Run

# smoke-darts at a size that only shows that everything fits together
SMALL = (
    "threads=null",  # as at the larger scales: each run then has this machine's
    "data.train_limit=60",
    "data.test_limit=30",
    "data.size=8",
    "supernet.epochs=1",
    "supernet.channels=2",
    "posterior.steps=2",
    "sampler.steps=5",
    "sampler.delta=1.0",
    "search.rounds=1",
    "ensemble.size=2",
    "members.epochs=1",
    "members.channels=2",
    "rivals.pool=2",
    "rivals.passes=2",
)
SET = [part for change in SMALL for part in ("--set", change)]


def shorter(name, **changes):
    """An experiment whose smoke scale is smaller still."""
    known = experiment(name)
    return known.model_copy(update={"scales": {"smoke": known.scales["smoke"].model_copy(update=changes)}})


TABLE5 = shorter("table5", seeds=1, rows=("MC DropPath (DARTS)", "DeepEns (DARTS)", "NESBS (MC Sampling)"))


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A folder in which table5 was stopped and gone on with a day later, and what the first sitting recorded."""
    folder = tmp_path_factory.mktemp("reproduce") / "out"
    clock = Mock(**{"date.today.return_value": datetime.date(2024, 2, 28)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nesbs.reproduce.work.datetime", clock)
        patch.setattr("nesbs.runs.opened_run.datetime", clock)
        with pytest.raises(StopError):
            run(Work(TABLE5, "smoke", folder, SMALL, progress=Stopping("pool-1-epochs-all", 1)))
        half = json.loads((folder / "smoke" / "table5" / "record.json").read_text())
        clock.date.today.return_value = datetime.date(2024, 2, 29)
        run(Work(TABLE5, "smoke", folder, SMALL))
    return folder, half


def record(folder, name):
    return json.loads((folder / "smoke" / name / "record.json").read_text())


def test_a_stopped_experiment_goes_on(out):
    folder, half = out
    assert "complete" not in half
    whole = record(folder, "table5")
    methods = whole["parts"]["CIFAR-10"]["methods"]
    assert list(methods) == ["mc-droppath:darts-v2", "deep:darts-v2", "nesbs-mc"]
    assert all([entry["seed"] for entry in entries] == [0] for entries in methods.values())
    assert whole["parts"]["CIFAR-10"]["data"] == "fashion-mini"
    assert whole["complete"]
    own = json.loads(next(folder.rglob("seed-0/record.json")).read_text())
    assert whole["started"] == half["started"] == own["started"] == "2024-02-28"
    assert whole["seconds"] > half["seconds"] > 0


def test_rows_of_another_recipe_do_not_stay_beside_new_ones(out, tmp_path):
    """As where a newer version has trimmed the scale: the record begins anew, also that of a version without `runs`."""
    folder = tmp_path / "out"
    shutil.copytree(out[0], folder)
    part = TABLE5.scales["smoke"].parts["CIFAR-10"]
    changed = part.model_copy(update={"set": (*part.set, "members.weight_decay=0.01")})
    work = Work(shorter("table5", seeds=1, rows=("DARTS",), parts={"CIFAR-10": changed}), "smoke", folder, SMALL)
    work.begin()
    assert (work.record.parts, work.record.complete) == ({}, None)
    assert work.record.started == datetime.date.today().isoformat()
    path = folder / "smoke" / "table5" / "record.json"
    before = json.loads((out[0] / "smoke" / "table5" / "record.json").read_text())
    unchanged = Work(TABLE5, "smoke", folder, SMALL)
    for runs in (before["parts"]["CIFAR-10"].pop("runs"), None):
        files.write_json(path, before)
        unchanged.begin()
        assert bool(unchanged.record.parts) == (runs is None)
        before["parts"]["CIFAR-10"]["runs"] = unchanged.place(unchanged.recipe(part)).name


def test_nothing_is_trained_twice_also_for_another_name(out, monkeypatch):
    folder, _ = out
    before = record(folder, "table5")
    monkeypatch.setattr(nesbs.runs.members, "member_training", pytest.fail)
    monkeypatch.setattr("nesbs.runs.resumable_run.train_supernet", pytest.fail)
    assert (before["torch"], before["device"]) == (torch.__version__, "cpu")
    monkeypatch.setattr("nesbs.reproduce.work.device_name", lambda _: "another machine")
    run(Work(TABLE5, "smoke", folder, SMALL))
    assert without_seconds(record(folder, "table5")) == without_seconds(before)  # made where it was made
    assert record(folder, "table5")["seconds"] == before["seconds"]  # looking at a finished one takes nothing
    # The deep ensemble of table5 is that of table4, and its members are only attacked there.
    table4 = shorter(
        "table4", rows=("DeepEns (DARTS)",), attack=("attacks=fgsm", "images=8", "epsilons=[]", "pictures=0")
    )
    found = run(Work(table4, "smoke", folder, SMALL)).part("CIFAR-10").entry("deep:darts-v2")
    assert set(found.attacks) == {"fgsm"}
    assert len(list((folder / "smoke" / "runs").iterdir())) == 1


@pytest.fixture
def given(monkeypatch):
    """How many trainings are given out together; they are done in this process."""
    counts = []

    def here(next_task, shared, *, workers, gpu):
        assert workers.count == 2
        counts.append(len(shared.kinds))
        return run_tasks(next_task, shared)

    monkeypatch.setattr("nesbs.runs.by_workers.run_tasks", here)
    return counts


def test_workers_train_what_all_methods_need_and_the_rows_are_the_same(out, tmp_path, given):
    [smoke] = TABLE5.scales.values()
    both = TABLE5.model_copy(update={"scales": {"smoke": smoke.model_copy(update={"rows": smoke.rows[1:]})}})
    run(Work(both, "smoke", tmp_path / "out", SMALL, workers=Workers(2)))
    found, before = (
        without_seconds(record(folder, "table5"))["parts"]["CIFAR-10"]["methods"]
        for folder in (tmp_path / "out", out[0])
    )
    assert found == {name: before[name] for name in found}
    assert len(found) == 2
    assert given == [1]  # the networks of both methods; one supernet alone needs no worker


def test_workers_train_supernets_with_either_posterior_side_by_side(tmp_path, given):
    table7 = shorter("table7", seeds=1, rows=("NESBS (MC Sampling)",))
    alone = run(Work(table7, "smoke", tmp_path / "alone", SMALL))
    assert not given
    by_workers = run(Work(table7, "smoke", tmp_path / "workers", SMALL, workers=Workers(2)))
    assert given == [2, 1]  # both supernets; then the networks that either search chose
    assert without_seconds(by_workers.to_json()["parts"]) == without_seconds(alone.to_json()["parts"])
    assert not list(tmp_path.rglob("*checkpoint.safetensors"))
    both = shorter("fig-discrepancy", seeds=2, draws=1)
    assert run(Work(both, "smoke", tmp_path / "workers", SMALL, workers=Workers(2))).complete
    assert given == [2, 1, 2]  # those of the seed that is new


def test_records_of_runs_are_enough(out, tmp_path, monkeypatch, given):
    """Their weights, and what was drawn from them, may be gone: nothing is trained anew, by nobody."""
    folder = shutil.copytree(out[0], tmp_path / "out")
    for path in [*folder.rglob("pool-*/*.safetensors"), *folder.rglob("supernet.safetensors")]:
        path.unlink()
    (folder / "smoke" / "table5" / "record.json").unlink()
    monkeypatch.setattr(nesbs.runs.members, "member_training", pytest.fail)
    monkeypatch.setattr("nesbs.runs.resumable_run.train_supernet", pytest.fail)
    run(Work(TABLE5, "smoke", folder, SMALL, workers=Workers(2)))
    assert not given
    parts, before = (without_seconds(record(each, "table5"))["parts"] for each in (folder, out[0]))
    assert parts == before


def test_rows_are_the_runs_own_figures(out):
    folder, _ = out
    [place] = (folder / "smoke" / "runs").iterdir()
    harness = Harness(Run.open(place / "seed-0"))
    part = record(folder, "table5")["parts"]["CIFAR-10"]
    data = json.loads(next(folder.rglob("seed-0/record.json")).read_text())["data"]
    assert [part["train_images"], part["test_images"]] == [data["train_images"], data["test_images"]]
    assert part["train_images"] != part["test_images"]
    methods = part["methods"]
    scores = nesbs.evaluate(trained_ensemble("deep:darts-v2", harness), harness.run.data.test)
    found = methods["deep:darts-v2"][0]
    assert found["member_error"] == pytest.approx(scores.member_error)
    assert found["disagreement"] == pytest.approx(scores.disagreement)
    assert found["architectures"] == [str(nesbs.zoo["darts-v2"])] * 2
    members = trained_ensemble("deep:darts-v2", harness).members
    assert found["parameters"] == sum(p.numel() for p in members[0].parameters())
    assert found["search_seconds"] is None  # others found the cell
    # Passes of one network with dropped paths: its members are no deep ensemble's.
    assert methods["mc-droppath:darts-v2"][0]["architectures"] == [str(nesbs.zoo["darts-v2"])]
    assert methods["nesbs-mc"][0]["search_seconds"] > 0


def test_cells_move_to_other_data_without_a_search(tmp_path):
    there = Harness(Run.create(tmp_path / "there", toy_recipe()))
    here = Harness(Run.create(tmp_path / "here", toy_recipe("data.size=12", "data.test_limit=30")))
    row = measured_row("nesbs", here, there)
    assert list(row.architectures) == [str(a) for a in there.run.selection().architectures]
    assert row.search_seconds == pytest.approx(paper_method("nesbs").search_seconds(there), abs=1e-3)
    assert not (here.run.folder / "supernet.safetensors").exists()
    assert not list(there.run.folder.glob("pool-*"))  # nothing was trained for the sake of the search
    assert row.error == pytest.approx(float(nesbs.evaluate(trained_ensemble("nesbs", here), here.run.data.test).error))


def test_the_best_response_posterior_is_kept_and_another_one(tmp_path):
    harness = Harness(Run.create(tmp_path / "run", toy_recipe()))
    chosen = paper_method("nesbs-mc-best-response").selection(harness)
    supernet, posterior = best_response_of(harness.run)
    assert chosen.sampler == "monte-carlo"
    assert len(chosen.proposals) == len(harness.run.selection().proposals) == 4  # two rounds of two δ
    assert not torch.equal(posterior.logits, harness.run.posterior().logits)
    again, kept = best_response_of(Run.open(tmp_path / "run"))
    assert torch.equal(kept.logits, posterior.logits)
    assert all(torch.equal(a, b) for a, b in zip(supernet.parameters(), again.parameters(), strict=True))
    seconds = harness.run.record.to_json()["stages"]
    total = seconds["best response"]["seconds"] + seconds["rival nesbs-mc-best-response"]["seconds"]
    assert paper_method("nesbs-mc-best-response").search_seconds(harness) == pytest.approx(total)


def test_every_method_has_the_answers_of_its_own_ensemble_under_attack(tmp_path, monkeypatch):
    attacked = {}

    def counted(run, ensembles, settings, *, on_unit):
        assert on_unit == work.save  # a stopped attack keeps its seconds
        attacked.update(ensembles)
        return {
            name: EnsembleAttacks(attacks={"fgsm": DefenceRecord(attack=0.1 * number, images=8)})
            for number, name in enumerate(ensembles)
        }

    monkeypatch.setattr("nesbs.reproduce.running.attack_ensembles", counted)
    known = shorter("table4", rows=("DeepEns (DARTS)", "NESBS (MC Sampling)", "NESBS (SVGD-RD)"))
    work = Work(known, "smoke", tmp_path / "out", SMALL)
    part = run(work).part("CIFAR-10")
    assert list(attacked) == list(part.methods) == ["deep:darts-v2", "nesbs-mc", "nesbs"]
    assert attacked["deep:darts-v2"].architectures == (nesbs.zoo["darts-v2"],) * 2
    assert [part.entry(name).attacks["fgsm"].attack for name in attacked] == pytest.approx([0, 0.1, 0.2])


def test_the_spread_of_log_densities_grows_with_delta(tmp_path, capsys):
    assert call("reproduce", "fig-delta", "--scale", "smoke", "--out", tmp_path / "out") == 0
    said = capsys.readouterr().out
    found = record(tmp_path / "out", "fig-delta")["gaussians"]
    assert [entry["delta"] for entry in found["deltas"]] == [-1, 0, 1, 2]
    densities = torch.tensor([entry["log_density"] for entry in found["deltas"]])  # (δ, seeds, particles)
    assert densities.shape == (4, 5, 15)
    assert bool((densities.std(-1).diff(dim=0) > 0.2).all())  # in every seed
    # The particles are the sampler's, from the same start, and without repulsion they all reach a mode.
    assert float(densities[0].std(-1).max()) < 0.01
    particles = torch.tensor([entry["particles"] for entry in found["deltas"]], dtype=torch.float64)
    assert torch.allclose(log_density(particles), densities[:, 0].double(), atol=1e-6)
    assert "spread of log density" in said
    for ending in ("md", "tex", "csv", "svg", "png"):
        assert (tmp_path / "out" / "smoke" / "fig-delta" / f"fig-delta.{ending}").stat().st_size > 100


def test_the_target_is_the_papers_mixture():
    parts = [
        torch.distributions.MultivariateNormal(torch.tensor(centre), torch.diag(torch.tensor(VARIANCES)))
        for centre in CENTRES
    ]
    x = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
    expected = (0.5 * sum(part.log_prob(x).exp() for part in parts)).log()
    assert torch.allclose(log_density(x), expected, atol=1e-5)


def test_curves_are_drawn_of_the_runs_that_other_names_began(out, tmp_path):
    folder = tmp_path / "out"
    shutil.copytree(out[0], folder)
    known = shorter("fig-efficiency", seeds=2, budgets=(2, 4), sizes=(2,), rows=("NESBS (SVGD-RD)", "URS"))
    part = run(Work(known, "smoke", folder, SMALL)).part("CIFAR-10")
    names = {(point.method, point.size, point.budget) for point in part.points}
    assert names == {(method, 2, budget) for method in ("nesbs", "urs") for budget in (2, 4)}
    for point in part.points:
        assert [outcome.seed for outcome in point.seeds] == [0, 1]
        assert all(0 < outcome.error < 1 and len(outcome.architectures) == 2 for outcome in point.seeds)
    assert [path.name for path in (folder / "smoke" / "runs").iterdir()] == [part.runs]
    assert run(Work(known, "smoke", folder, SMALL)).part("CIFAR-10") == part


def test_a_map_keeps_two_groups_apart(monkeypatch):
    """With t-SNE and, where scikit-learn is missing, with principal axes."""
    random = torch.Generator().manual_seed(0)
    groups = torch.cat([torch.randn(6, 20, generator=random) + shift for shift in (0.0, 30.0)])

    def apart(points):
        points = torch.tensor(points)
        distances = torch.cdist(points, points)
        return float(distances[:6, :6].max()) < float(distances[:6, 6:].min())

    name, points = plane(groups, seed=0)
    assert name.startswith("t-SNE")
    assert apart(points)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    name, points = plane(groups, seed=0)
    assert name.startswith("two principal axes (t-SNE needs scikit-learn")
    assert apart(points)


@pytest.mark.parametrize("name", NAMES)
def test_every_names_networks_take_the_images_of_smoke(name, tmp_path):
    parts = list(Work(experiment(name), "smoke", tmp_path).parts())
    assert bool(parts) == (name != "fig-delta")  # which has no images
    for label, _, recipe in parts:
        run = Run.create(tmp_path / label, recipe)
        drawn = run.space.sample(generator=torch.Generator().manual_seed(0))
        member = design_member(run.space, drawn, run.data.train, recipe.members).eval()
        assert member(run.data.test.pixels(slice(0, 2))).shape == (2, 10)


@pytest.mark.slow
def test_every_name_runs_at_smoke_within_half_an_hour(tmp_path):
    faulthandler.dump_traceback_later(31 * 60, exit=True)  # later than for other tests
    began = time.monotonic()
    assert call("reproduce", "all", "--scale", "smoke", "--out", tmp_path / "out", "--quiet") == 0
    assert time.monotonic() - began < 30 * 60
    for name in NAMES:
        assert record(tmp_path / "out", name)["complete"]
        folder = tmp_path / "out" / "smoke" / name
        assert {path.name for path in folder.iterdir()} == {
            "record.json",
            *(f"{name}.{ending}" for ending in ("md", "tex", "csv", "svg", "png")),
        }
        before = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "record.json"}
        assert call("reproduce", name, "--draw", "--out", tmp_path / "out", "--quiet") == 0
        assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "record.json"} == before
