"""The networks that `nesbs compare` trained for its row `nesbs` are the run's members, which every command takes."""

import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from toys import call, compared_recipe

import nesbs
from nesbs import files, metrics
from nesbs.compare import METHODS, compare
from nesbs.compare.budgets import timed
from nesbs.compare.harness import Harness
from nesbs.records.comparison import OutcomeRecord
from nesbs.runs import Run
from nesbs.runs.status import run_status

QUICK = ("evaluation.uniform=false", "members.images=search_train", "posterior.steps=1")


def compare_again(run):
    return compare(compared_recipe(*QUICK), run.parent, ["nesbs"], seeds=1)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The run folder of a comparison's only seed."""
    run = tmp_path_factory.mktemp("adopted") / "compared" / "seed-0"
    compare_again(run)
    return run


@pytest.fixture
def run(made, tmp_path, monkeypatch):
    """A copy of it, in which nothing may be trained."""
    shutil.copytree(made.parent, tmp_path / "compared")
    monkeypatch.setattr("nesbs.runs.members.member_training", lambda *_, **__: pytest.fail("a network is trained"))
    return tmp_path / "compared" / "seed-0"


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def forget(run, *names):
    """Leave a folder as it was before its members were recorded, and without these files."""
    record = files.read_json(run / "record.json")
    del record["stages"]["members"]
    files.write_json(run / "record.json", record)
    for path in [path for name in names for path in run.glob(name)]:
        path.unlink()


def test_the_ensemble_is_the_one_that_was_measured(run):
    row, test, classifier = OutcomeRecord.read(run / "rivals/nesbs.json"), Run.open(run).data.test, nesbs.load(run)
    assert tuple(map(str, classifier.ensemble.architectures)) == row.architectures
    answers = classifier.predict_proba(test.images).log()
    assert float(metrics.error(answers, test.labels)) == row.scores.error
    kept, _ = files.read_tensors(run / "rivals/nesbs.images.safetensors")
    torch.testing.assert_close(-answers.gather(1, test.labels[:, None])[:, 0], kept["nll"], rtol=1e-4, atol=1e-5)


def test_every_command_takes_it_and_trains_nothing(run):
    row, place = OutcomeRecord.read(run / "rivals/nesbs.json"), run.parent
    Image.fromarray(np.zeros((28, 28), dtype=np.uint8)).save(place / "one.png")
    assert call("predict", run, place / "one.png", "--quiet") == 0
    assert call("export", run, "--to", "half", "--out", place / "half", "--quiet") == 0
    assert call("evaluate", run, "--quiet") == 0
    assert files.read_json(run / "metrics.json")["ensemble"]["error"] == row.scores.error
    assert "nesbs train RUN" not in (run / "report.html").read_text()  # which would say that members are missing
    assert {stage.name: stage.state for stage in run_status(run).stages}["members"] == "done"


LOST = [("members/*",), ("members/1.safetensors", "members/classifier.json"), ("members/*", "supernet.safetensors")]


@pytest.mark.parametrize("lost", LOST)
def test_a_folder_of_before_and_one_that_was_stopped_get_their_members(run, made, lost):
    forget(run, *lost)
    compare_again(run)
    assert contents(run / "members") == contents(made / "members")
    assert len(Run.open(run).record.stage("members").losses) == 2


@pytest.mark.parametrize("lost", ["pool-*/*.safetensors", "selection.json"])
def test_a_folder_kept_without_its_weights_or_its_choice_stays_as_it_is(run, lost):
    forget(run, "members/*", lost)
    before = contents(run)
    compare_again(run)
    assert contents(run) == before


def test_a_choice_within_a_budget_in_seconds_is_not_the_runs(run):
    forget(run, "members/*")
    opened = Run.open(run)
    opened.recipe = timed(opened.recipe, 60)
    METHODS["nesbs"].outcome(Harness(opened))
    assert not contents(run / "members")


def test_members_that_the_run_trains_itself_stay(run, monkeypatch):
    row, adopted = OutcomeRecord.read(run / "rivals/nesbs.json"), Run.open(run).record.stage("members")
    assert adopted.total_parameters == row.parameters
    forget(run, "members/*")
    monkeypatch.undo()
    Run.open(run).ensemble()
    own = Run.open(run).record.stage("members")
    assert own.to_json().keys() == adopted.to_json().keys()
    assert list(map(len, own.histories)) == list(map(len, adopted.histories))
    assert own.losses != adopted.losses  # of the pool's networks
    (run / "members/1.safetensors").unlink()  # as where its training was stopped
    before = contents(run)
    compare_again(run)
    assert contents(run) == before
