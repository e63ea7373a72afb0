"""Tasks in this process and in others: the same results, errors as one line, nothing left behind."""

import os
import pickle
import platform
import signal
import subprocess
import sys
import time

import pytest
import torch
from killed import ForkedWorker, started
from toy_tasks import DieOnce, Fail, Square, Wait, handing_out, workers_in

from nesbs import files
from nesbs.cluster import Workers, run_tasks
from nesbs.cluster.worker import outcome
from nesbs.errors import DivergedError, NesbsError

DRIVER = """
import pathlib, sys
from nesbs.cluster import Workers, run_tasks
from toy_tasks import Wait, handing_out
folder = pathlib.Path(sys.argv[1])
list(run_tasks(handing_out([Wait(folder, 0), Wait(folder, 1)]), 0, workers=Workers(2)))
"""


@pytest.fixture
def _forked(monkeypatch):
    """Workers in an instant."""
    monkeypatch.setattr("nesbs.cluster.processes.subprocess.Popen", ForkedWorker)


def values(results):
    return [result.value for result in results]


@pytest.mark.usefixtures("_forked")
def test_processes_compute_what_this_one_does_and_share_the_work():
    tasks = [Square(number) for number in range(5)]
    here = values(run_tasks(handing_out(tasks), 100))
    there = sorted(values(run_tasks(handing_out(tasks), 100, workers=Workers(2))))
    assert [one[:2] for one in here] == [one[:2] for one in there] == [(n, n * n + 100) for n in range(5)]
    assert {one[2] for one in here} == {os.getpid()}
    assert os.getpid() not in {one[2] for one in there}
    assert {one[3] for one in there} == {torch.get_num_threads()}
    assert not any(files.is_living(one[2], "") for one in there)  # they end with the last result


def test_a_process_is_an_interpreter_of_its_own():
    [result] = run_tasks(handing_out([Square(3)]), 100, workers=Workers(2))  # one task, one process
    number, square, process, threads = result.value
    assert result.node == platform.node()
    assert (number, square, threads) == (3, 109, torch.get_num_threads())
    assert process != os.getpid()
    assert not files.is_living(process, "")


def test_workers_on_a_gpu_end_by_themselves(monkeypatch):
    """A killed process can take along what others have under way on the same GPU."""
    processes = []

    def started_here(*arguments, **options):
        processes.append(ForkedWorker(*arguments, **options))
        return processes[-1]

    monkeypatch.setattr("nesbs.cluster.processes.subprocess.Popen", started_here)
    monkeypatch.setattr("nesbs.cluster.processes._visible_gpus", lambda workers: ["0"])
    tasks = [Square(number) for number in range(3)]
    found = values(run_tasks(handing_out(tasks), 100, workers=Workers(2), gpu=True))
    assert sorted(one[1] for one in found) == [100, 101, 104]
    assert [process.wait() for process in processes] == [0, 0]


def test_a_task_is_asked_for_after_the_result_before_it_was_handed_back():
    seen = []
    tasks = handing_out([Square(1), Square(2)])

    def next_task():
        seen.append("asked")
        return tasks()

    for result in run_tasks(next_task, 0):
        seen.append(result.value[0])
    assert seen == ["asked", 1, "asked", 2, "asked"]


def test_errors_travel_with_their_traceback(tmp_path):
    diverged = pickle.loads(outcome(Fail("diverged", tmp_path), None)).error
    assert type(diverged) is DivergedError
    assert str(diverged) == "the loss is not a number"
    assert "toy_tasks.py" in diverged.__notes__[0]
    odd = pickle.loads(outcome(Fail("odd", tmp_path), None)).error
    assert "OddError" in str(odd)  # which cannot be pickled itself


@pytest.mark.usefixtures("_forked")
def test_a_task_of_which_processes_die_again_and_again_is_one_line(tmp_path):
    tasks = handing_out([Wait(tmp_path, 0), Fail("killed", tmp_path)])
    message = "the failing task: 4 workers that tried it have died, the last one by signal 9, perhaps"
    with pytest.raises(NesbsError, match=message):
        list(run_tasks(tasks, 0, workers=Workers(2)))
    [worker] = workers_in(tmp_path)
    assert not files.is_living(*worker)


@pytest.mark.usefixtures("_forked")
def test_a_task_whose_process_dies_is_done_by_another(tmp_path):
    tasks = handing_out([DieOnce(tmp_path / "first", 1), DieOnce(tmp_path / "second", 2)])
    done = values(run_tasks(tasks, 100, workers=Workers(2)))
    assert sorted(done) == [101, 102]
    assert (tmp_path / "first").is_file()  # by one whose process was killed before


@pytest.mark.usefixtures("_forked")
def test_a_process_that_dies_is_followed_by_one_on_its_gpu(tmp_path, monkeypatch):
    gpus = []

    def started_there(*arguments, env, **options):
        gpus.append(env["CUDA_VISIBLE_DEVICES"])
        return ForkedWorker(*arguments, env=env, **options)

    monkeypatch.setattr("nesbs.cluster.processes.subprocess.Popen", started_there)
    monkeypatch.setattr("nesbs.cluster.processes._visible_gpus", lambda workers: ["0", "1"])
    tasks = [Square(1), DieOnce(tmp_path / "second", 2)]
    assert len(values(run_tasks(handing_out(tasks), 100, workers=Workers(2), gpu=True))) == 2
    assert gpus == ["0", "1", "1"]


@pytest.mark.usefixtures("_forked")
def test_no_process_outlives_the_one_that_was_killed(tmp_path):
    driver = started("fork", wait_for_two, tmp_path)
    none_is_left(tmp_path, lambda: driver.exitcode is not None, driver.kill)
    driver.join()


def wait_for_two(folder):
    list(run_tasks(handing_out([Wait(folder, 0), Wait(folder, 1)]), 0, workers=Workers(2)))


@pytest.mark.slow  # three interpreters; the test before this one has the processes without them
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
def test_no_interpreter_outlives_the_one_that_started_it(tmp_path, by):
    paths = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-c", DRIVER, str(tmp_path)]
    driver = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": paths}, stderr=subprocess.PIPE)
    none_is_left(tmp_path, lambda: driver.poll() is not None, lambda: driver.send_signal(by))
    driver.communicate()


def none_is_left(folder, has_ended, end):
    """Both workers of a driver end where the driver is ended."""
    while len(workers_in(folder)) < 2 and not has_ended():
        time.sleep(0.02)
    workers = workers_in(folder)
    assert len(workers) == 2
    end()
    until = time.monotonic() + 30
    while any(files.is_living(*worker) for worker in workers):
        assert time.monotonic() < until, "a process was left behind"
        time.sleep(0.02)
