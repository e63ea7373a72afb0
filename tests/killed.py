"""A function in a process of its own, which may end with `kill -9`."""

import gc
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
    """Call `function` in another process, started by this method of multiprocessing.

    A fork has the memory of this process, but not its threads: were it to end what such a thread belongs to (torch's
    process group, say, of a test that failed on purpose), it would wait for that thread forever.
    """
    gc.collect()  # what is no longer used ends here, where its threads are
    process = multiprocessing.get_context(method).Process(target=_beginning_anew, args=(function, *arguments))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of threads, and pytest-xdist has some
        process.start()
    return process


def _beginning_anew(function, *arguments):
    gc.freeze()
    function(*arguments)


class ForkedWorker:
    """Stands in for the interpreter that `run_tasks` starts: a fork, with the same end of the connection alone."""

    def __init__(self, command, *, pass_fds, **_):
        self._process = started("fork", _serve, *pass_fds)

    def wait(self, timeout=None):
        self._process.join(timeout)
        return self._process.exitcode

    def kill(self):
        self._process.kill()


def _serve(connection):
    os.closerange(3, connection)
    os.closerange(connection + 1, os.sysconf("SC_OPEN_MAX"))
    sys.argv[1:] = [str(connection)]
    worker.main()
