"""A comparison in one process, in two, and on two Ray nodes while workers, a node and the driver are killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("ray")
sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.cluster import METHODS, compare, compared, two_nodes

pytestmark = pytest.mark.slow
SEEDS = ["--seeds", "2", "--quiet"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What one process makes of it."""
    folder = tmp_path_factory.mktemp("alone") / "out"
    compare("toy", folder, *SEEDS)
    return compared(folder)


@pytest.fixture(scope="module")
def cluster():
    with two_nodes() as started:
        yield started


def workers_at_work():
    """The processes of the cluster's workers that are at work on a task: below this process, and named after it."""
    parents, named = {}, []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if (entry / "cmdline").read_bytes().startswith(b"ray::_run"):
                named.append(int(entry.name))
        except OSError:
            continue

    def is_ours(process):
        while process > 1:
            if process == os.getpid():
                return True
            process = parents.get(process, 0)
        return False

    return [process for process in named if is_ours(process)]


def kill_a_worker():
    until = time.monotonic() + 60
    while not (found := workers_at_work()):
        assert time.monotonic() < until, "no worker was at work"
        time.sleep(0.01)
    os.kill(found[0], signal.SIGKILL)


def test_two_processes_make_the_same_comparison(alone, tmp_path):
    compare("toy", tmp_path / "out", "--workers", "2", *SEEDS)
    assert compared(tmp_path / "out") == alone


@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
def test_a_driver_that_is_stopped_leaves_no_worker_and_resumes(alone, cluster, tmp_path, by):
    folder = tmp_path / "out"
    command = [sys.executable, "-m", "nesbs", "compare", "toy", "--methods", METHODS, "--set", "threads=1", *SEEDS]
    driver = subprocess.Popen([*command, "--out", folder, "--ray", cluster.address], stderr=subprocess.DEVNULL)
    while not any(folder.rglob("costs.json")):
        assert driver.poll() is None
        time.sleep(0.02)
    driver.send_signal(by)
    assert driver.wait() == (130 if by == signal.SIGINT else -signal.SIGKILL)
    until = time.monotonic() + 30
    while workers_at_work():
        assert time.monotonic() < until, "a worker was left behind"
        time.sleep(0.1)
    trained = {path: path.read_bytes() for path in folder.rglob("pool-*/*.safetensors")}
    compare("toy", folder, "--ray", cluster.address, *SEEDS)
    assert compared(folder) == alone
    assert {path: path.read_bytes() for path in trained if path.is_file()}.items() <= trained.items()


def test_two_nodes_make_the_same_comparison_though_a_worker_and_a_node_are_killed(alone, cluster, tmp_path):
    def kill():
        kill_a_worker()
        cluster.kill_one()

    compare("toy", tmp_path / "out", "--ray", cluster.address, *SEEDS, meanwhile=kill)
    assert compared(tmp_path / "out") == alone
