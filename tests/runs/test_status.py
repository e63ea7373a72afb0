"""How far a run is, told from its folder alone."""

import json
import os
import platform
from pathlib import Path

import pytest
from toys import StopError, Stopping, call, tiny

from nesbs.cli.status import status_as_text
from nesbs.records import LockRecord
from nesbs.runs.folder_lock import locked
from nesbs.runs.status import RunStatus, StageStatus, comparison_status, run_status


def states(folder):
    return [(stage.name, stage.state, stage.progress) for stage in run_status(folder).stages]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """A run that was stopped in the second epoch of its second member."""
    run = tiny(
        tmp_path_factory.mktemp("status") / "run", changes=["posterior.steps=1"], progress=Stopping("members", 3)
    )
    with pytest.raises(StopError):
        run.ensemble()
    return run.folder


SEARCHED = [(name, "done", "") for name in ("supernet", "posterior", "selection")]
LATER = [("uniform", "to do", ""), ("evaluation", "to do", "")]


def test_what_is_done_and_what_remains(stopped, capsys):
    assert states(stopped) == [*SEARCHED, ("members", "stopped", "1 of 2 networks, epoch 2 of 2"), *LATER]
    assert run_status(stopped).process == "no process is at work; the same command resumes"
    seconds = json.loads((stopped / "record.json").read_text())["stages"]["supernet"]["seconds"]
    assert call("status", stopped) == 0
    [_, first, *_, last] = capsys.readouterr().out.splitlines()
    assert first.split() == ["supernet", "done", f"{seconds:.1f}", "s", "cpu"]
    assert last == "no process is at work; the same command resumes"


def test_after_a_search_the_next_command_is_named(tmp_path):
    run = tiny(tmp_path / "run", changes=["posterior.steps=1"])
    told = "no process is at work; the same command resumes"
    run.posterior()
    assert run_status(run.folder).process == told
    run.selection()
    assert run_status(run.folder).process == f"{told}, nesbs train {run.folder} too"


def test_a_long_name_keeps_its_column():
    stages = (
        StageStatus("supernet", "done", 1.0, "cpu"),
        StageStatus("pool-12-epochs-search_train", "ran", 2.0, "cpu"),
    )
    heading, *rows = status_as_text(RunStatus(stages, "")).splitlines()
    assert [row.index(word) for row, word in zip(rows, ("done", "ran"), strict=True)] == [heading.index("State")] * 2


def test_the_process_at_work_is_named_and_one_that_ended_is_not_taken_for_it(stopped, tmp_path):
    with locked(stopped):
        assert states(stopped)[3] == ("members", "running", "1 of 2 networks, epoch 2 of 2")
        assert f"at work: process {os.getpid()} on {platform.node()} since 2" in run_status(stopped).process
    lock = LockRecord(process=2**22 + 1, host=platform.node(), since="yesterday", start="1")
    try:
        lock.write(stopped / ".lock.json")
        assert states(stopped)[3][1] == "stopped"
        assert "on " in run_status(stopped).process
        assert run_status(stopped).process.endswith("has ended; the same command resumes")
        lock.replace(host="elsewhere").write(stopped / ".lock.json")
        assert "on elsewhere since yesterday; from here nobody can know" in run_status(stopped).process
    finally:
        (stopped / ".lock.json").unlink()


def test_nothing_is_written_and_nonsense_is_one_line(stopped, tmp_path, capsys):
    before = {path: path.stat().st_mtime_ns for path in (stopped, *stopped.rglob("*"))}
    for path in before:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        assert call("status", stopped) == 0
    finally:
        for path in before:
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert {path: path.stat().st_mtime_ns for path in (stopped, *stopped.rglob("*"))} == before
    capsys.readouterr()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "recipe.yaml").write_text("[")
    for nonsense in (tmp_path, tmp_path / "nowhere", tmp_path / "broken", Path(__file__)):
        assert call("status", nonsense) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_broken_checkpoint_counts_as_none(stopped):
    [checkpoint] = (stopped / "members").glob("*checkpoint*")
    content = checkpoint.read_bytes()
    try:
        checkpoint.write_bytes(b"half")
        assert states(stopped)[3] == ("members", "stopped", "1 of 2 networks")
    finally:
        checkpoint.write_bytes(content)


def test_a_comparison_is_told_by_seed(tmp_path, capsys):
    for name in ("seed-0/rivals/urs.json", "seed-0/rivals/urs.selection.json", "seed-0/recipe.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "seed-1").mkdir()
    (tmp_path / "recipe.yaml").write_text("seed: 0")
    assert comparison_status(tmp_path)[0] == {"seed-0": ("urs",), "seed-1": ()}
    assert call("status", tmp_path) == 0
    assert "seed-0    urs\nseed-1    –\nno process" in capsys.readouterr().out
    (tmp_path / "comparison.json").write_text("{}")  # of an earlier command, before a seed was added
    more = "not every seed has every method: a command that asks for more resumes"
    assert comparison_status(tmp_path)[1] == f"no process is at work; {more}"
    (tmp_path / "seed-1" / "rivals").mkdir()
    (tmp_path / "seed-1" / "rivals" / "urs.json").write_text("{}")
    assert comparison_status(tmp_path)[1] == "finished; no process is at work"
    (tmp_path / "seed-1").rename(tmp_path / "seed-1234567")
    assert call("status", tmp_path) == 0
    assert "seed-0        urs\nseed-1234567  urs\n" in capsys.readouterr().out
    (tmp_path / "seed-1234567").rename(tmp_path / "seed-1")
    (tmp_path / "seed-1" / "rivals" / "urs.json").unlink()
    (tmp_path / "seed-1" / "curves.json").write_text('{"urs 2 4 None None": null, "urs 2 8 None None": {}}')
    (tmp_path / "seed-1" / "curves-2.json").write_text('{"urs 2 4 None None": null}')
    assert comparison_status(tmp_path)[0] == {"seed-0": ("urs",), "seed-1": ("3 points of curves",)}
