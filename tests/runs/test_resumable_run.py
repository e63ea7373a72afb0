"""Run folders: the same seed gives the same bytes, also through `kill -9` in any stage."""

import json
import os
import re
import shutil
import signal
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from data.layouts import write_folder
from killed import exit_code
from toys import TINY, tiny

import nesbs
from nesbs import files
from nesbs.errors import NesbsError
from nesbs.records import RunRecord
from nesbs.runs.recipe import load_recipe
from nesbs.runs.resumable_run import Run
from nesbs.runs.stage_progress import Progress, Stage, add_epoch, peak_memory
from nesbs.training import Epoch

STAGES = ["supernet", "posterior", "selection", "members", "uniform", "evaluation"]
RESULTS = ["selection.json", "metrics.json", "predictions.json", "posterior.json"]


def results(folder):
    return {name: (folder / name).read_bytes() for name in RESULTS}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    tiny(folder).scores()
    return folder


def test_the_record_has_the_evidence_at_the_end_of_the_start_that_was_kept(tmp_path, monkeypatch):
    run = tiny(tmp_path / "run", changes=["posterior.steps=3", "posterior.starts=2"])

    def fit(*_, on_step, on_best_start, **__):
        for step in range(1, 7):
            on_step(step, 1.0, 10.0 * step)
        on_best_start(1)
        return nesbs.Posterior(run.space)

    monkeypatch.setattr("nesbs.runs.resumable_run.fit_posterior", fit)
    run.posterior()
    noted = files.read_json(run.folder / "record.json")["stages"]["posterior"]
    assert (noted["kept"], noted["evidence"]) == (2, 60.0)


def test_a_stage_that_learns_its_work_on_the_way_says_once_how_much_it_is(tmp_path):
    told = []

    class Told(Progress):
        def start(self, stage, total):
            told.append((stage, total))

        def advance(self, done, note=""):
            told.append(done)

    stage = Stage(tmp_path, "selection", device="cpu", progress=Told())
    for done in (1, 2, 3):
        stage.share(done, 3)
    assert told == [("selection", 3), 1, 2, 3]


def test_seconds_of_an_earlier_command_are_said_to_be_counted(tmp_path):
    first = Stage(tmp_path, "evaluation", device="cpu", progress=Progress())
    assert re.fullmatch(r"\d+\.\d s", first.took)
    add_epoch(tmp_path, "evaluation", Epoch(1, 1, 0.5, 100.0, peak_memory=2**60), "cpu")
    assert RunRecord.find(tmp_path).stage("evaluation").peak_memory == 2**60  # the worker's, not this process's
    again = Stage(tmp_path, "evaluation", device="cpu", progress=Progress())
    assert re.fullmatch(r"10\d\.\d s in all", again.took)
    fresh = Stage(tmp_path, "evaluation", device="cpu", progress=Progress(), fresh=True)
    assert re.fullmatch(r"\d+\.\d s", fresh.took)
    add_epoch(tmp_path, "evaluation", Epoch(1, 2, 0.5, 3.0), "cpu", fresh=True)
    assert RunRecord.find(tmp_path).stage("evaluation").seconds == 3.0


def test_a_search_made_again_counts_once(tmp_path):
    """Where nothing is left to go on from; what is left of an interrupted supernet counts on."""
    run = tiny(tmp_path / "run")
    run.selection()
    hours = {name: run.record.stage(name).replace(seconds=7200.0) for name in ("supernet", "posterior", "selection")}
    run.record.replace(stages=hours).write(run.folder / RunRecord.FILE)
    for name in ("supernet.safetensors", "posterior.json", "selection.json"):
        (run.folder / name).unlink()
    again = tiny(tmp_path / "run")
    again.selection()
    assert all(again.record.stage(name).seconds < 7200 for name in hours)

    class Stops(Progress):
        def advance(self, done, note=""):
            raise KeyboardInterrupt

    folder, changes = tmp_path / "stopped", ["supernet.epochs=2"]
    with pytest.raises(KeyboardInterrupt):
        tiny(folder, changes=changes, progress=Stops()).supernet()
    add_epoch(folder, "supernet", Epoch(1, 2, 0.5, 7200.0), "cpu")
    resumed = tiny(folder, changes=changes)
    resumed.supernet()
    assert resumed.record.stage("supernet").seconds > 7200


def test_the_memory_of_members_is_also_that_of_who_trained_them(tmp_path, monkeypatch):
    def by_others(networks, shared, workers, on_epoch):
        on_epoch(0, Epoch(1, 1, 0.5, 1.0, peak_memory=2**60))

    monkeypatch.setattr("nesbs.runs.members._by_others", by_others)
    run = tiny(tmp_path / "run")
    run.ensemble()
    assert run.record.stage("members").peak_memory == 2**60


@pytest.mark.parametrize(("system", "unit"), [("darwin", 1), ("linux", 1024)])
def test_memory_is_in_bytes_where_there_is_no_proc(system, unit, monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr("nesbs.runs.stage_progress.Path", lambda path: Path(f"/nowhere{path}"))
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(resource, "getrusage", lambda who: SimpleNamespace(ru_maxrss=7))
    assert peak_memory("cpu") == 7 * unit


def test_a_run_folder_holds_what_it_should(whole):
    names = {entry.name for entry in whole.iterdir()}
    assert names == {
        "recipe.yaml",
        "record.json",
        "supernet.safetensors",
        "posterior.json",
        "selection.json",
        "members",
        "uniform",
        "metrics.json",
        "predictions.json",
    }
    assert sorted(os.listdir(whole / "members")) == [
        *("0.safetensors", "1.safetensors", "classifier.json", "held_out_answers.json"),
    ]
    record = files.read_json(whole / "record.json")
    assert list(record["stages"]) == STAGES
    for stage in record["stages"].values():
        assert stage["seconds"] > 0
        assert stage["peak_memory"] > 1e6
    assert record["threads"] == 1
    assert record["torch"] == torch.__version__
    assert len(record["stages"]["supernet"]["losses"]) == 2
    assert [len(losses) for losses in record["stages"]["members"]["losses"]] == [2, 2]
    assert record["data"]["train_images"] == 60


def test_selection_holds_no_time_path_version_or_device(whole):
    text = (whole / "selection.json").read_text()
    for word in (str(whole), torch.__version__, "cpu", "seconds"):
        assert word not in text


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(whole, tmp_path):
    tiny(tmp_path / "again").scores()
    assert results(tmp_path / "again") == results(whole)
    tiny(tmp_path / "other", seed=1).scores()
    one, other = (json.loads((folder / "selection.json").read_text()) for folder in (whole, tmp_path / "other"))
    assert one["architectures"] != other["architectures"]


def test_a_finished_run_is_read_not_repeated(whole):
    class Nothing(Progress):
        def start(self, stage, total):
            raise AssertionError(f"{stage} started again")

    before = results(whole)
    run = tiny(whole, progress=Nothing())
    assert run.scores().ensemble.error == json.loads(before["metrics.json"])["ensemble"]["error"]
    assert len(run.ensemble().members) == 2
    assert run.supernet().losses == files.read_json(whole / "record.json")["stages"]["supernet"]["losses"]


def copy_of(whole, folder):
    shutil.copytree(whole, folder)
    return folder


def people(path, images=40):
    np.save(path, np.random.default_rng(0).integers(1, 9, (images, 10)))
    return str(path)


def test_a_part_is_added_to_what_was_measured(whole, tmp_path):
    folder = copy_of(whole, tmp_path / "run")
    before = files.read_json(folder / "metrics.json")
    recipe = (folder / "recipe.yaml").read_bytes()
    run = tiny(folder)
    run.scores(unseen="fashion-mini")
    run.scores(corruptions="contrast,fog")
    after = run.scores(human=people(tmp_path / "people.npy")).to_json()
    assert after == files.read_json(folder / "metrics.json")
    for name in ("ensemble", "uniform"):
        assert {key: after[name][key] for key in before[name]} == before[name]
        assert list(after[name])[len(before[name]) :] == ["human", "unseen", "corruptions"]
        assert after[name]["unseen"]["data"] == "fashion-mini"
        assert list(after[name]["corruptions"]["ensemble"]["by_corruption"]) == ["fog", "contrast"]
    assert run.scores().to_json() == after
    replaced = run.scores(corruptions="jpeg").to_json()
    assert list(replaced["ensemble"]["corruptions"]["ensemble"]["by_corruption"]) == ["jpeg"]
    assert replaced["ensemble"]["unseen"] == after["ensemble"]["unseen"]
    assert (folder / "recipe.yaml").read_bytes() == recipe


def test_a_recipe_asks_for_the_same(whole, tmp_path):
    asked = {"unseen": "fashion-mini", "human": people(tmp_path / "people.npy"), "corruptions": "contrast"}
    changes = [f"evaluation.{key}={value}" for key, value in asked.items()]
    tiny(tmp_path / "recipe", changes=changes).scores()
    later = tiny(copy_of(whole, tmp_path / "later"))
    for key in ("corruptions", "unseen", "human"):  # in another order
        later.scores(**{key: asked[key]})
    assert results(tmp_path / "recipe") == results(tmp_path / "later")


def test_a_part_that_cannot_be_made_leaves_things_as_they_were(whole, tmp_path):
    folder = copy_of(whole, tmp_path / "run")
    for asked, message in (
        ({"unseen": "nowhere"}, "evaluation.unseen: no data set"),
        ({"human": people(tmp_path / "people.npy", 41)}, r"= .40, 10., found .41, 10."),
        ({"corruptions": "rain"}, "unknown corruption rain"),
    ):
        with pytest.raises(NesbsError, match=message):
            tiny(folder).scores(**asked)
    assert results(folder) == results(whole)


def test_held_out_images_calibrate_where_members_left_some(whole, tmp_path):
    folder = copy_of(whole, tmp_path / "run")
    (folder / "metrics.json").unlink()
    assert tiny(folder).scores().ensemble.temperature.fitted_on == "test halves"
    given = "ensemble.architectures=['|nor_conv_3x3~0|+|none~0|skip_connect~1|']"
    run = tiny(tmp_path / "other", changes=["members.images=search_train", given])
    part = run.scores().to_json()["ensemble"]["temperature"]
    assert (part["fitted_on"], part["images"]) == ("search_valid", len(run.data.search_valid))


def test_members_can_be_measured_on_the_images_they_left_alone(tmp_path):
    given = "ensemble.architectures=['|nor_conv_3x3~0|+|none~0|skip_connect~1|']"
    changes = ["members.images=search_train", "evaluation.images=search_valid", "data.valid_fraction=0.5", given]
    run = tiny(tmp_path / "run", changes=changes)
    scores = run.scores().to_json()
    assert (scores["measured_on"], scores["test_images"]) == ("search_valid", len(run.data.search_valid))
    held_out = nesbs.evaluate(run.ensemble(), run.data.search_valid)
    assert scores["ensemble"]["nll"] == pytest.approx(held_out.nll, rel=1e-6)
    with pytest.raises(NesbsError, match="evaluation.images=search_valid measures on images the members learn from"):
        tiny(tmp_path / "another", changes=["evaluation.images=search_valid"])


class Killer(Progress):
    """Ends its process at a moment of a stage."""

    def __init__(self, stage, moment):
        self.at, self.stage = (stage, moment), None

    def start(self, stage, total):
        self.stage = stage
        self.advance("start")

    def advance(self, done, note=""):
        if (self.stage, str(done)) == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


def killed_run(folder, stage, moment):
    tiny(folder, progress=Killer(stage, moment)).scores()


@pytest.mark.parametrize(
    ("stage", "moment"),
    [
        ("supernet", "1"),  # between two epochs
        pytest.param("posterior", "2", marks=pytest.mark.slow),
        pytest.param("selection", "1", marks=pytest.mark.slow),
        ("members", "3"),  # in the second member
        pytest.param("uniform", "start", marks=pytest.mark.slow),
        ("evaluation", "1"),
    ],
)
def test_kill_9_and_the_same_command_end_where_an_uninterrupted_run_ends(stage, moment, whole, tmp_path):
    folder = tmp_path / "run"
    assert exit_code(killed_run, folder, stage, moment) == -signal.SIGKILL
    assert not (folder / "metrics.json").exists()
    assert (folder / ".lock.json").is_file()  # of a process that has ended: it blocks nobody
    (folder / ".metrics.json.abc.part").write_text("half")  # as a kill in the middle of a write leaves it
    if stage == "supernet":
        assert (folder / "supernet.checkpoint.safetensors").is_file()
    tiny(folder).scores()
    assert results(folder) == results(whole)
    assert not list(folder.rglob("*checkpoint*"))
    assert not list(folder.rglob("*.part"))
    assert not list(folder.rglob(".lock.json*"))


def test_another_recipe_on_the_folder_is_refused_and_nothing_lost(whole):
    before = results(whole)
    with pytest.raises(NesbsError, match=r"made by another recipe: supernet\.epochs is 2 there and 5 here"):
        tiny(whole, changes=["supernet.epochs=5"])
    with pytest.raises(NesbsError, match=r"seed is 0 there and 3 here .search\.rounds differ too."):
        tiny(whole, seed=3, changes=["search.rounds=7"])
    with pytest.raises(NesbsError, match=r"posterior\.untrained_cells is null there and 2 here"):
        tiny(whole, changes=["posterior.untrained_cells=2"])
    with pytest.raises(NesbsError, match="was made with seed 0, not 3"):
        Run.open(whole, seed=3)
    assert results(whole) == before


def test_settings_without_effect_on_results_may_change_when_a_run_goes_on(whole):
    before = results(whole)
    assert tiny(whole, changes=["data.workers=1", "members.together=2"]).scores()
    assert results(whole) == before


def test_threads_are_restored_when_a_run_goes_on(tmp_path):
    recipe = load_recipe("toy", TINY, seed=0)
    recipe = recipe.model_copy(update={"threads": None})
    Run.create(tmp_path / "run", recipe.model_copy(update={"threads": 2}))
    torch.set_num_threads(1)
    Run.create(tmp_path / "run", recipe)
    assert torch.get_num_threads() == 2


def test_folders_that_are_not_ours_are_refused(tmp_path):
    recipe = load_recipe("toy", TINY)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(NesbsError, match="is a file: name a folder"):
        Run.create(tmp_path / "file", recipe)
    with pytest.raises(NesbsError, match="holds something that is not a run"):
        Run.create(tmp_path, recipe)
    with pytest.raises(NesbsError, match="is not a run"):
        Run.open(tmp_path)
    with pytest.raises(NesbsError, match="cannot write"):
        Run.create(tmp_path / "file" / "run", recipe)
    assert (tmp_path / "file").read_text() == "mine"


def test_bad_data_leave_no_folder_behind(tmp_path):
    with pytest.raises(NesbsError, match="no data set"):
        Run.create(tmp_path / "run", load_recipe("toy", ["data.name=nowhere"]))
    with pytest.raises(NesbsError, match="found 30×30: set data.size"):
        Run.create(tmp_path / "run", load_recipe("toy", ["data.size=30"]))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["ensemble.size=28"], "larger than space toy-edges"),
        (["evaluation.unseen=cifar10"], "needs evaluation.unseen_root"),
        (["evaluation.human=nowhere.npy"], "there is no file"),
        (["evaluation.corruptions=[saturation]"], "needs colour images"),
        (["search.tune=bayesian", "sampler.name=uniform"], "sampler uniform has none"),
        (["supernet.partial=3"], "must be a multiple of supernet.partial"),
        (["space.name=darts", "supernet.partial=3"], "must be a multiple of supernet.partial"),
        (["space.name=darts", "members.cells=1"], "needs 3 cells or more"),
        (
            [
                "posterior.reference=4",
                "posterior.untrained=1",
                "members.channels=null",
                "members.multiply_adds=10000000",
            ],
            "posterior.untrained looks at",
        ),
        (["supernet.affine=true", "posterior.estimator=straight-through"], "needs supernet.affine=false"),
        (["search.judge=evidence"], r"judges by posterior\.reference, which is 0: set it"),
        (["search.judge=trained", "search.judge_candidates=1"], "judge_candidates=1 is less than one ensemble of 2"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_is_made(changes, message, tmp_path):
    with pytest.raises(NesbsError, match=message):
        tiny(tmp_path / "run", changes=changes)
    assert not (tmp_path / "run").exists()


def test_weights_of_another_architecture_are_refused(whole, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    selection = json.loads((folder / "selection.json").read_text())
    selection["architectures"].reverse()
    (folder / "selection.json").write_text(json.dumps(selection))
    (folder / "metrics.json").unlink()
    with pytest.raises(NesbsError, match="holds another architecture than was chosen"):
        tiny(folder).scores()


def test_a_folder_whose_first_write_was_killed_is_ours(tmp_path):
    (tmp_path / ".recipe.yaml.abc.part").write_text("half")
    assert tiny(tmp_path).selection()
    recipe = (tmp_path / "recipe.yaml").read_text()
    (tmp_path / "recipe.yaml").write_text(recipe + "colour: red\n")
    with pytest.raises(NesbsError, match=r"recipe\.yaml: unknown setting colour"):
        Run.open(tmp_path)


def test_a_missing_stage_is_named(tmp_path):
    run = tiny(tmp_path / "run")
    with pytest.raises(NesbsError, match=r"has no selection\.json yet: run `nesbs search"):
        run.require("selection.json", "nesbs search RECIPE")


def test_a_run_says_at_its_beginning_that_training_images_are_test_images(tmp_path):
    for part in ("train", "test"):  # the same random images
        write_folder(tmp_path / "photos" / part, count=4, size=(8, 8))
    recipe = load_recipe("toy", [f"data.name={tmp_path / 'photos'}"])
    with pytest.warns(UserWarning, match="photos: 8 training images are test images, too: remove one of the two"):
        Run.create(tmp_path / "run", recipe)
    with warnings.catch_warnings(action="error"):
        Run.create(tmp_path / "run", recipe)
