"""What depends on no search is trained beside it, on a core that it leaves idle: the same bytes, sooner."""

import json
import os

import pytest
import torch
from killed import ForkedWorker
from toys import StopError, Stopping, tiny

from nesbs.cluster import Workers
from nesbs.runs import Progress, beside
from nesbs.runs.beside import idle_workers
from nesbs.runs.plan import planned_stages
from nesbs.runs.stage_progress import Stage
from nesbs.runs.status import run_status

TWO = ["members.workers=2", "posterior.steps=2"]


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    if torch.cuda.is_available():
        pytest.skip("CUDA cannot be forked")
    monkeypatch.setattr("nesbs.cluster.processes.subprocess.Popen", ForkedWorker)


def search_beside(run):
    """Search when all of the uniform-random ensemble is trained beside it, and ask for that."""
    with run.uniform_beside():
        run._beside.join()
        run.selection()
        run.uniform()


def uniform_files(run):
    return {path.name: path.read_bytes() for path in sorted((run.folder / "uniform").glob("*"))}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """A run with everything trained in this process."""
    run = tiny(tmp_path_factory.mktemp("alone") / "run", changes=["posterior.steps=2"])
    run.selection(), run.uniform()
    return run


def test_only_cores_that_nobody_uses_get_a_worker(monkeypatch):
    for cores, threads, asked, expected in ((1, 1, 2, None), (2, 1, 2, 1), (8, 1, 2, 1), (8, 4, 8, 1), (8, 1, 4, 3)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        found = idle_workers(Workers(asked))
        assert (found and found.count) == expected
    assert idle_workers(Workers(4, on_ray=True)) is None


def test_a_stage_shows_what_is_trained_beside_it(tmp_path):
    class Notes(Progress):
        def advance(self, done, note=""):
            assert note == "loss 1.000; uniform beside it: 3 of 4 epochs"

    stage = Stage(
        tmp_path, "supernet", device="cpu", progress=Notes(), beside=lambda: "uniform beside it: 3 of 4 epochs"
    )
    stage.advance(1, "loss 1.000")


def test_the_uniform_ensemble_is_trained_beside_the_search_with_the_same_bytes(alone, tmp_path, two_cores):
    run = tiny(tmp_path / "run", changes=TWO)
    with run.uniform_beside():
        run._beside.join()
        stage = json.loads((run.folder / "record.json").read_text())["stages"]["uniform"]
        assert 0 < stage["seconds"] == stage["beside"]  # trained before anybody asked for it
        [uniform] = [each for each in run_status(run.folder).stages if each.name == "uniform"]
        assert (uniform.state, uniform.progress) == ("begun", "0 of 2 networks, epoch 2 of 2")
        units = {planned.name: planned.units for planned in planned_stages(run.recipe, run.folder)}
        assert (units["members"], units["uniform"]) == (4, 0)  # epochs that are left
        run.selection()
        run.uniform()
    assert uniform_files(run) == uniform_files(alone)
    assert (run.folder / "selection.json").read_bytes() == (alone.folder / "selection.json").read_bytes()
    after = json.loads((run.folder / "record.json").read_text())["stages"]["uniform"]
    assert after["beside"] == stage["beside"] < after["seconds"]
    assert after["losses"] == json.loads((alone.folder / "record.json").read_text())["stages"]["uniform"]["losses"]


def test_a_run_that_stops_in_its_search_goes_on_from_what_was_trained_beside_it(alone, tmp_path, two_cores):
    run = tiny(tmp_path / "run", changes=TWO, progress=Stopping("posterior", 1))
    with pytest.raises(StopError):
        search_beside(run)
    assert len(list((run.folder / "uniform").glob("*.checkpoint.safetensors"))) == 2
    again = tiny(tmp_path / "run", changes=TWO)
    search_beside(again)
    assert uniform_files(again) == uniform_files(alone)


def test_what_fails_beside_is_told_by_the_stage_itself(alone, tmp_path, two_cores, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("no process can be started")

    monkeypatch.setattr(beside, "train_by_workers", fails)
    run = tiny(tmp_path / "run", changes=TWO)
    search_beside(run)
    assert uniform_files(run) == uniform_files(alone)


def test_nothing_is_begun_where_no_search_comes_or_nobody_asks(alone, tmp_path, two_cores):
    fixed = tiny(tmp_path / "fixed", changes=[*TWO, "ensemble.architectures=['|nor_conv_3x3~0|+|none~0|none~1|']"])
    without = tiny(tmp_path / "without", changes=[*TWO, "evaluation.uniform=false"])
    for run in (fixed, without, alone):
        with run.uniform_beside():
            assert run._beside is None


def test_nothing_is_written_beside_a_search_that_failed_once_its_lock_is_gone(tmp_path, two_cores):
    run = tiny(tmp_path / "run", changes=TWO)
    with pytest.raises(ValueError, match="search"), run.uniform_beside():
        raise ValueError("the search failed")
    assert not run._beside._thread.is_alive()
