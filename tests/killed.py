"""A function in a process of its own, which may end with `kill -9`."""

import multiprocessing
import os
import sys
import warnings

import torch

from nesbs.cluster import worker


def exit_code(function, *arguments) -> int:
    """Call `function` in another process and return how that ended: −9 where it was killed.

    Forked, it has torch and nesbs in memory: to import them again takes six seconds. CUDA cannot be forked.
    """
    process = started("spawn" if torch.cuda.is_available() else "fork", function, *arguments)
    process.join()
    return process.exitcode


def started(method, function, *arguments):
    """Call `function` in another process, started by this method of multiprocessing."""
    process = multiprocessing.get_context(method).Process(target=function, args=arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads, and pytest-xdist has some
        process.start()
    return process


class ForkedWorker:
    """Stands in for the interpreter that `run_tasks` starts: a fork, with the same end of the connection alone."""

    def __init__(self, command, *, pass_fds, **_):
        self._process = started("fork", _serve, *pass_fds)

    def wait(self):
        self._process.join()
        return self._process.exitcode

    def kill(self):
        self._process.kill()


def _serve(connection):
    os.closerange(3, connection)
    os.closerange(connection + 1, os.sysconf("SC_OPEN_MAX"))
    sys.argv[1:] = [str(connection)]
    worker.main()
