"""Judges in a run: resumed to the same bytes, their cost in the record alone, what they lack said in one line."""

import json
import shutil

import pytest
from toys import TINY, StopError, Stopping, call, tiny

from nesbs import files
from nesbs.cluster import Workers
from nesbs.compare.harness import Harness
from nesbs.compare.methods import METHODS
from nesbs.runs.recipe import load_recipe, recipe_names
from nesbs.runs.resumable_run import Run
from nesbs.runs.stage_progress import Progress

EVIDENCE = ["search.judge=evidence", "posterior.reference=4", "posterior.untrained=1"]
TRAINED = ["search.judge=trained", "search.judge_candidates=3", "search.judge_epochs=2", "members.together=2"]


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A folder with a run of each judge that has a supernet and a posterior."""
    folder = tmp_path_factory.mktemp("judging")
    tiny(folder / "trained", changes=TRAINED).posterior()
    tiny(folder / "evidence", changes=EVIDENCE).posterior()
    return folder


def copy_of(begun, place, name="trained"):
    return shutil.copytree(begun / name, place / "run")


def selection_of(folder):
    return (folder / "selection.json").read_bytes()


@pytest.fixture(scope="module")
def whole(begun, tmp_path_factory):
    folder = copy_of(begun, tmp_path_factory.mktemp("whole"))
    Run.open(folder).selection()
    return folder


def test_candidates_are_trained_and_their_cost_is_in_the_record_alone(whole):
    chosen, record = json.loads(selection_of(whole)), files.read_json(whole / "record.json")
    assert chosen["judge"] == "trained"
    assert len(chosen["trained"]) == 3 == len(list((whole / "judge").glob("*.safetensors")))
    assert set(chosen["architectures"]) <= {network["architecture"] for network in chosen["trained"]}
    stage = record["stages"]["selection"]
    assert (stage["judging"]["judge"], stage["judging"]["networks"]) == ("trained", 3)
    assert 0 < stage["judging"]["seconds"] <= stage["seconds"]
    assert "seconds" not in str(chosen)


@pytest.mark.parametrize("after", [3, 5], ids=["in the first pair", "in the third network"])
def test_an_interrupted_judge_resumes_to_the_same_bytes(after, begun, whole, tmp_path):
    folder = copy_of(begun, tmp_path)
    candidates = len(json.loads(selection_of(whole))["candidates"])
    estimates = 1 + -(-(candidates - 1) // 8)  # what progress is told before the first epoch
    with pytest.raises(StopError):
        Run.open(folder, progress=Stopping("selection", estimates + after - 1)).selection()
    assert list((folder / "judge").glob("*checkpoint*"))
    before = files.read_json(folder / "record.json")["stages"]["selection"]["judging"]["seconds"]
    shown = []

    class Shown(Progress):
        def advance(self, done, note=""):
            shown.append((done, note))

    Run.open(folder, progress=Shown()).selection()
    assert selection_of(folder) == selection_of(whole)
    assert not list((folder / "judge").glob("*checkpoint*"))
    assert files.read_json(folder / "record.json")["stages"]["selection"]["judging"]["seconds"] > before
    assert shown[-1] == (6, "candidate 3 of 3")


def test_a_trained_network_is_not_trained_again(whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "run")
    (folder / "selection.json").unlink()
    weights = {path.name: path.stat().st_mtime_ns for path in (folder / "judge").iterdir()}
    Run.open(folder).selection()
    assert {path.name: path.stat().st_mtime_ns for path in (folder / "judge").iterdir()} == weights
    assert selection_of(folder) == selection_of(whole)


@pytest.mark.parametrize(("seconds", "at_a_time"), [(None, [3]), (1000.0, [2])])
def test_workers_are_given_all_candidates_at_once_and_in_a_hurry_one_each(seconds, at_a_time, begun, whole, tmp_path):
    folder, given = copy_of(begun, tmp_path), []
    if seconds:
        recipe = folder / "recipe.yaml"
        recipe.write_text(recipe.read_text().replace("judge_seconds: null", f"judge_seconds: {seconds}"))
    with pytest.MonkeyPatch.context() as patch:  # these workers do nothing: what is left, this process trains
        patch.setattr("nesbs.runs.members.train_by_workers", lambda networks, *_: given.append(len(networks)))
        run = Run.open(folder)
        run.workers = Workers(2)
        run.selection()
    assert given == at_a_time  # a single one is trained here
    assert selection_of(folder) == selection_of(whole)


def test_the_evidence_is_that_of_the_fit_also_in_a_resumed_run(begun, tmp_path):
    one = tiny(tmp_path / "one", changes=EVIDENCE)
    one.selection()  # with the reference at hand that the posterior was fitted to
    folder = copy_of(begun, tmp_path, "evidence")
    Run.open(folder).selection()
    assert selection_of(folder) == selection_of(tmp_path / "one")
    judging = files.read_json(folder / "record.json")["stages"]["selection"]["judging"]
    assert judging["judge"] == "evidence"
    assert judging["seconds"] > 0
    assert "networks" not in judging


def test_nesbs_mc_is_judged_as_nesbs_is_and_pays_for_it(whole, tmp_path):
    harness = Harness(Run.open(shutil.copytree(whole, tmp_path / "run")))
    choice = METHODS["nesbs-mc"].selection(harness)
    assert (choice.judge, len(choice.trained)) == ("trained", 3)
    record = harness.run.record.stage("rival nesbs-mc")
    assert record.judging.networks == 3
    assert METHODS["nesbs-mc"].search_seconds(harness) > record.judging.seconds > 0
    assert METHODS["nesbs"].selection(harness).judge == "trained"


def test_a_judge_that_lacks_its_reference_is_refused_before_anything_is_made(tmp_path, capsys):
    changes = [part for change in [*TINY, "search.judge=evidence"] for part in ("--set", change)]
    assert call("search", "toy", "--out", tmp_path / "run", *changes) == 2
    [line] = capsys.readouterr().err.strip().splitlines()
    assert "search.judge=evidence judges by posterior.reference, which is 0" in line
    assert not (tmp_path / "run").exists()
    curves = [part for change in [*TINY, "search.judge=trained"] for part in ("--set", change)]
    assert call("curves", "toy", "--out", tmp_path / "curves", "--budgets", "4", "--methods", "urs", *curves) == 2
    assert "curves judge with the supernet's weights" in capsys.readouterr().err
    assert not (tmp_path / "curves").exists()


@pytest.mark.parametrize("name", [name for name in recipe_names() if name.endswith("-paper")])
def test_the_papers_recipes_keep_the_papers_judge_and_its_argmin(name):
    search = load_recipe(name).search
    assert (search.judge, search.noise, search.method) == ("likelihood", 0, "rounds")
