"""`--track tensorboard`: what is written, and that nothing else changes."""

import math
from typing import ClassVar

import pytest
from toys import StopError, Stopping, call, tiny

from nesbs.cli.tracking import Tracked, has_tensorboard, tracked
from nesbs.runs.folder import TRACKED
from nesbs.runs.stage_progress import Progress

QUICK = ["posterior.steps=2", "evaluation.map=0", "evaluation.uniform=false", "data.test_limit=20"]


class Writer:
    """Keeps figures in a file of the folder, as TensorBoard's writer does."""

    written: ClassVar[dict] = {}

    def __init__(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        self.file = open(folder / "events", "a")  # noqa: SIM115 (closed by its owner)
        self.figures = self.written.setdefault(folder, [])

    def add_scalar(self, name, value, step):
        self.figures.append((name, value, step))
        self.file.write(f"{name} {value} {step}\n")

    def close(self):
        self.file.close()


@pytest.fixture
def written(monkeypatch):
    monkeypatch.setattr("nesbs.cli.tracking._writer", Writer)
    monkeypatch.setattr(Writer, "written", {})
    monkeypatch.setattr("nesbs.cli.tracking.has_tensorboard", lambda: True)
    return Writer.written


def results(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("record.json", "events")
    }


def test_losses_entropies_and_test_figures_are_written_and_the_results_stay_as_they_are(written, tmp_path):
    plain = tiny(tmp_path / "plain", changes=QUICK)
    plain.scores()
    with tracked(Progress(), "tensorboard") as progress:
        run = tiny(tmp_path / "run", changes=QUICK, progress=progress)
        scores = run.scores().ensemble
    figures = written[tmp_path / "run" / TRACKED]
    record = run.record
    assert [(value, step) for name, value, step in figures if name == "supernet/loss"] == list(
        zip(record.stage("supernet").history, (1, 2), strict=True)
    )
    assert [value for name, value, _ in figures if name == "posterior/entropy"] == list(
        record.stage("posterior").entropies
    )
    for place, losses in enumerate(record.stage("members").histories):
        assert [value for name, value, _ in figures if name == f"members/loss of {place}"] == list(losses)
    for measure in ("error", "nll", "ece"):
        assert (f"evaluation/{measure} of ensemble", getattr(scores, measure), 0) in figures
    assert results(run.folder) == results(plain.folder)


def test_what_is_no_number_is_left_out(written, tmp_path):
    progress = Tracked(Progress())
    progress.figure(tmp_path, "loss", math.nan, 1)
    assert not written


def test_figures_of_a_run_that_finished_no_stage_give_way_with_it(written, tmp_path):
    changes = [*QUICK, "supernet.epochs=3"]
    progress = Tracked(Stopping("supernet", 1))
    with pytest.raises(StopError):
        tiny(tmp_path, changes=changes, progress=progress).supernet()
    progress.close()
    assert (tmp_path / TRACKED / "events").is_file()
    tiny(tmp_path, changes=QUICK)
    assert not (tmp_path / TRACKED / "events").exists()


def test_an_unknown_name_and_a_missing_extra_are_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("nesbs.cli.tracking.has_tensorboard", lambda: False)
    for name, said in (("tensorbord", "did you mean tensorboard?"), ("tensorboard", "pip install 'nesbs[track]'")):
        assert call("run", "toy", "--out", tmp_path / "run", "--track", name) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert said in line
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(not has_tensorboard(), reason="needs the extra track")
def test_tensorboard_reads_what_was_written(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with tracked(Progress(), "tensorboard") as progress:
        for step in (1, 2):
            progress.figure(tmp_path, "members/loss of 0", 0.5 / step, step)
    events = EventAccumulator(str(tmp_path / TRACKED))
    events.Reload()
    assert [(each.step, each.value) for each in events.Scalars("members/loss of 0")] == [(1, 0.5), (2, 0.25)]
