"""Under torchrun, an error in any process ends all of them, and is told once."""

import os

import pytest
from toys import TINY, call
from two_processes import two_processes

from nesbs.cli import main
from nesbs.cluster.torchrun import joined
from nesbs.errors import NesbsError


def test_bad_input_is_told_once_by_the_first_process(capfd):
    with two_processes() as other:
        assert call("run", "toyy", "--out", "nowhere") == 2
    assert other.exitcode == 0
    assert capfd.readouterr().err == "error: unknown recipe toyy: did you mean toy?\n"


def vanish():
    with joined():
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
