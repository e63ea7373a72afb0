"""One process at a time writes to a folder: real processes, which are told what to do and answer over pipes."""

import contextlib
import json
import multiprocessing
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from killed import started
from toys import COMPARED_SET, TINY, StopError, Stopping, call, tiny

from nesbs import files
from nesbs.errors import NesbsError
from nesbs.records import LockRecord
from nesbs.runs.folder_lock import holds, locked
from nesbs.runs.resumable_run import Run

SET = [part for change in [*TINY, "threads=1"] for part in ("--set", change)]


def listen(connection, other_end):
    """What another process does: evaluate each line it is sent, until nobody can send one."""
    other_end.close()
    stack = contextlib.ExitStack()

    def take(folder):
        try:
            stack.enter_context(locked(Path(folder)))
            return "taken"
        except NesbsError as error:
            return error

    names = {"stack": stack, "take": take, "files": files, "Path": Path}
    with contextlib.suppress(EOFError):
        while True:
            connection.send(str(eval(connection.recv(), names)))


class Another:
    """Another process with nesbs in it."""

    def __init__(self):
        self.connection, theirs = multiprocessing.Pipe()
        self.process = started("fork", listen, theirs, self.connection)
        theirs.close()

    def begin(self, expression):
        self.connection.send(expression)

    def answer(self):
        return self.connection.recv()

    def ask(self, expression):
        self.begin(expression)
        return self.answer()

    def end(self):
        self.process.kill()
        self.process.join()


@pytest.fixture(scope="module")
def two():
    """Two other processes."""
    others = [Another(), Another()]
    try:
        yield others
    finally:
        for other in others:
            other.end()


@pytest.fixture
def sleeper():
    """A living process that does nothing."""
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("locked") / "run"
    tiny(folder).scores()
    return folder


def lock_of(process, **values):
    """A lock as the process would have made it."""
    own = {"process": process, "host": platform.node(), "since": "2026-01-02 03:04:05"}
    return LockRecord(**{**own, "start": files.process_start(process), **values})


def ended():
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as process:
        process.wait()
    return process.pid


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_lock_names_the_process_and_is_gone_at_the_end(tmp_path):
    with locked(tmp_path / "run"):
        assert holds(tmp_path / "run")
        lock = json.loads((tmp_path / "run/.lock.json").read_text())
        assert (lock["process"], lock["host"]) == (os.getpid(), platform.node())
        assert lock["start"] == files.process_start(os.getpid())
        with locked(tmp_path / "run"), locked(tmp_path / "run/below"):  # within a process locks nest
            pass
        assert (tmp_path / "run/.lock.json").is_file()
        (tmp_path / "run/file").touch()
    assert os.listdir(tmp_path / "run") == ["file"]
    assert not holds(tmp_path / "run")


def test_a_folder_in_which_nothing_was_made_is_not_left_behind(tmp_path):
    with pytest.raises(StopError), locked(tmp_path / "a/b/run"):
        raise StopError
    assert os.listdir(tmp_path) == []


def test_a_second_process_is_refused_until_the_first_gives_back(two, tmp_path):
    first, second = two
    folder = tmp_path / "run"
    (folder / "seed-0").mkdir(parents=True)
    assert first.ask(f"take({str(folder)!r})") == "taken"
    message = rf"{folder} is in use by process {first.process.pid} on {platform.node()} since .*: wait until it has"
    with pytest.raises(NesbsError, match=message), locked(folder):
        pass
    with pytest.raises(NesbsError, match=message), locked(folder / "seed-0"):  # what is below is covered too
        pass
    assert f"in use by process {first.process.pid} on" in second.ask(f"take({str(folder)!r})")
    first.ask("stack.close()")
    assert os.listdir(folder) == ["seed-0"]
    with locked(folder):
        assert f"in use by process {os.getpid()} on" in first.ask(f"take({str(folder)!r})")


@pytest.mark.parametrize("stale", [False, True])
def test_of_two_that_start_at_once_one_wins(two, tmp_path, stale):
    for number in range(40):
        folder = tmp_path / str(number)
        if stale:
            lock_of(ended() if number == 0 else 1, start="another").write(folder / ".lock.json")
        for other in two:
            other.begin(f"take({str(folder)!r})")
        answers = [other.answer() for other in two]
        assert answers.count("taken") == 1, answers
        winner, loser = sorted(zip(answers, two, strict=True), key=lambda pair: pair[0] != "taken")
        assert f"in use by process {winner[1].process.pid} on" in loser[0]
        assert json.loads((folder / ".lock.json").read_text())["process"] == winner[1].process.pid
        assert sorted(os.listdir(folder)) == [".lock.json"]
        winner[1].ask("stack.close()")


def test_whose_lock_blocks(sleeper, tmp_path):
    path = tmp_path / ".lock.json"
    lock_of(ended()).write(tmp_path / ".lock.json.removal")  # killed while it removed another's
    for dead in (
        lock_of(ended()),
        lock_of(sleeper.pid, start="1"),  # another process with the number of an earlier one
        lock_of(os.getpid(), start=""),  # this one does not hold it
        lock_of(0),
        lock_of(2**40),
    ):
        dead.write(path)
        with locked(tmp_path):
            assert json.loads(path.read_text())["process"] == os.getpid()
            assert os.listdir(tmp_path) == [".lock.json"]
    for living, words in (
        (lock_of(sleeper.pid), f"process {sleeper.pid} on .* since 2026-01-02 03:04:05: wait until it has ended$"),
        (lock_of(sleeper.pid, start=""), f"process {sleeper.pid} "),  # the system did not say when it was started
        (lock_of(ended(), host="elsewhere"), f"on elsewhere .*; if it has ended there, remove {path}"),
        (LockRecord(), f"a process that {path} does not name: if none writes there, remove it"),
    ):
        living.write(path)
        with pytest.raises(NesbsError, match=words), locked(tmp_path):
            pass
        assert LockRecord.read(path) == living
    path.write_text("{")
    with pytest.raises(NesbsError, match="does not name"), locked(tmp_path):
        pass


def test_the_first_process_of_a_machine_holds_a_lock_as_any_other(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "is_living", lambda process, start: True)
    monkeypatch.setattr(os, "getpid", lambda: 2)  # where this one is the first
    lock_of(1).write(tmp_path / ".lock.json")
    with pytest.raises(NesbsError, match="in use by process 1 on"), locked(tmp_path):
        pass


def test_without_proc_a_process_counts_as_living_while_its_number_does(sleeper, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "process_start", lambda process: "")
    lock_of(sleeper.pid, start="").write(tmp_path / ".lock.json")
    with pytest.raises(NesbsError, match=f"in use by process {sleeper.pid}"), locked(tmp_path):
        pass
    sleeper.kill()
    sleeper.wait()
    with locked(tmp_path):
        pass


def test_a_process_that_its_parent_has_not_yet_buried_has_ended():
    process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    start = files.process_start(process.pid)
    assert files.is_living(process.pid, start)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it has ended, and is not buried
    assert not files.is_living(process.pid, start)
    process.communicate()


def test_a_file_system_without_links(tmp_path, monkeypatch, sleeper):
    def no_link(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_link)
    with locked(tmp_path):
        assert LockRecord.read(tmp_path / ".lock.json").process == os.getpid()
    lock_of(sleeper.pid).write(tmp_path / ".lock.json")
    with pytest.raises(NesbsError, match="in use by process"), locked(tmp_path):
        pass


def test_the_lock_of_somebody_who_came_later_is_not_removed(tmp_path):
    theirs = lock_of(1)
    with locked(tmp_path):
        theirs.write(tmp_path / ".lock.json")
    assert LockRecord.read(tmp_path / ".lock.json") == theirs


COMMANDS = [
    ["run", "toy", *SET, "--out"],
    ["search", "toy", *SET, "--out"],
    ["train"],
    ["evaluate"],
    ["quality"],
    ["attack"],
]
BEGINNING = [
    ["demo", "--out"],
    ["train", "--zoo", "darts-v2", "--out"],
    ["compare", "toy", "--methods", "urs", *COMPARED_SET, "--out"],
    ["curves", "toy", "--methods", "urs", "--budgets", "4", *COMPARED_SET, "--out"],
    ["reproduce", "fig-delta", "--out"],
]


def test_every_command_that_writes_is_refused_and_readers_are_not(whole, sleeper, tmp_path, capsys):
    folder = shutil.copytree(whole, tmp_path / "run")
    (folder / ".record.json.abc.part").write_text("half")
    for place in (folder, tmp_path / "new"):
        lock_of(sleeper.pid).write(place / ".lock.json")
    before = contents(tmp_path)
    for command in COMMANDS:
        assert call(*command, folder) == 2
        assert f"error: {folder} is in use by process {sleeper.pid} on" in capsys.readouterr().err
    for command in BEGINNING:
        assert call(*command, tmp_path / "new") == 2
        assert f"error: {tmp_path}/new is in use by process {sleeper.pid} on" in capsys.readouterr().err
    run = Run.open(folder)
    assert run.scores().ensemble is not None
    assert len(run.ensemble().members) == 2
    assert run.supernet().losses
    with pytest.raises(NesbsError, match="is in use by"):
        run.scores(corruptions="fog")
    assert contents(tmp_path) == before
    assert call("report", folder) == 0
    assert contents(tmp_path).keys() - before.keys() == {(folder / "report.html").relative_to(tmp_path)}


def test_what_a_living_process_is_writing_is_not_swept_up(two, whole, tmp_path):
    folder = shutil.copytree(whole, tmp_path / "run")
    (folder / ".metrics.json.abc.part").write_text("half")
    writer, page = two[0], str(folder / "report.html")
    part = writer.ask(f"stack.enter_context(files._replacing(Path({page!r})))")
    leftover = part.replace(f".{writer.process.pid}-", f".{ended()}-")
    files.write_text(folder / "whole", "")
    (folder / "whole").rename(leftover)
    assert tiny(folder).scores().ensemble is not None
    assert [str(path) for path in folder.rglob(".*.part")] == [part]
    writer.ask("stack.close()")
    assert (folder / "report.html").is_file()


def test_a_stage_holds_the_lock_and_gives_it_back_whatever_happens(two, tmp_path):
    asked = []

    class Asking(Stopping):
        def advance(self, done, note=""):
            asked.append(two[0].ask(f"take({str(tmp_path / 'run')!r})"))
            super().advance(done, note)

    run = tiny(tmp_path / "run", progress=Asking("supernet", 1))
    assert not (tmp_path / "run/.lock.json").exists()
    with pytest.raises(StopError):
        run.supernet()
    assert len(asked) == 2
    assert all(f"in use by process {os.getpid()} on" in answer for answer in asked)
    assert not (tmp_path / "run/.lock.json").exists()
    assert Run.open(tmp_path / "run").supernet().losses


def test_ctrl_c_gives_back(tmp_path, monkeypatch, capsys):
    def interrupted(run):
        assert (tmp_path / "run/.lock.json").is_file()
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "supernet", interrupted)
    assert call("search", "toy", *SET, "--out", tmp_path / "run") == 130
    assert "stopped; the same command resumes" in capsys.readouterr().err
    assert not (tmp_path / "run/.lock.json").exists()
