"""Under torchrun, an error in any process ends all of them, and is told once."""

import os
import signal
import subprocess
import sys
import time

import pytest
from toys import TINY, call, tiny
from two_processes import two_processes

from nesbs.cli import main
from nesbs.cluster.torchrun import Group, _see_own_gpu, joined
from nesbs.errors import NesbsError
from nesbs.runs import Run
from nesbs.training.ranks import from_first


def test_bad_input_is_told_once_by_the_first_process(capfd):
    with two_processes() as other:
        assert call("run", "toyy", "--out", "nowhere") == 2
    assert other.exitcode == 0
    assert capfd.readouterr().err == "error: unknown recipe toyy: did you mean toy?\n"


def vanish():
    with joined():
        from_first(None)  # so the first process has joined, too
        os._exit(9)


def fail():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nesbs.cluster.torchrun.pickle.loads", broken)
        main([])


def broken(_):
    raise NesbsError("the images are broken here")


@pytest.mark.parametrize(
    ("function", "code", "message"),
    [
        (vanish, 9, "a process that torchrun started has ended, perhaps for want of memory: the same command resumes"),
        (fail, 2, "the images are broken here"),
    ],
)
def test_an_error_of_another_process_ends_this_one_and_is_told_once(function, code, message, tmp_path, capfd):
    settings = [part for change in [*TINY, "threads=1"] for part in ("--set", change)]
    with two_processes(function) as other:
        assert call("search", "toy", "--out", tmp_path / "run", "--device", "cpu", "--quiet", *settings) == 2
    assert other.exitcode == code
    assert capfd.readouterr().err == f"error: {message}\n"
    assert call("search", "toy", "--out", tmp_path / "run", "--device", "cpu", "--quiet", *settings) == 0


def test_a_process_without_a_gpu_says_so(monkeypatch):
    """What unpickling images of a GPU does where there is none."""
    monkeypatch.setattr("nesbs.cluster.torchrun.pickle.loads", _no_device)
    with pytest.raises(NesbsError, match=r"^process 3 of torchrun has no GPU of its own: start as many processes as "):
        Group(3, 4)._unpacked(b"")


def _no_device(_):
    raise RuntimeError("Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.")


@pytest.mark.parametrize(("visible", "own"), [(None, "1"), ("4,6,7", "6"), ("4", "")])
def test_each_process_sees_its_own_gpu_alone(visible, own, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "" if visible is None else visible)
    if visible is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    _see_own_gpu(1)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == own


@pytest.mark.slow  # four interpreters
def test_a_search_that_torchrun_began_and_lost_is_resumed_by_one_process(tmp_path):
    settings = [part for change in [*TINY, "threads=1", "supernet.epochs=100"] for part in ("--set", change)]
    search = ["search", "toy", "--out", str(tmp_path / "run"), "--device", "cpu", *settings]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    starter = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "nesbs", *search]
    with subprocess.Popen(starter, env=environment, stderr=subprocess.PIPE, text=True) as begun:
        while begun.poll() is None and not (tmp_path / "run" / "supernet.checkpoint.safetensors").is_file():
            time.sleep(0.05)
        begun.send_signal(signal.SIGINT)
        told = begun.communicate(timeout=60)[1]
    assert begun.returncode == 1  # torchrun's own
    assert told.count("stopped; the same command resumes from here\n") == 1
    assert call(*search) == 0
    losses = Run.open(tmp_path / "run").record.stage("supernet").losses
    whole = tiny(tmp_path / "whole", changes=["supernet.epochs=100"])
    whole.supernet()
    assert len(losses) == 100
    assert losses[:5] == pytest.approx(whole.record.stage("supernet").losses[:5], abs=1e-4)
