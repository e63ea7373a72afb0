"""Run tasks in this process or in several, and hand their results back as they come: one contract for both.

A task and its result are values that can be pickled. What all tasks need, such as images, travels to a process once.
Processes compute with as many threads as this one, so a result has the same bytes wherever it was made. They have
nothing of this process's terminal and end with it, also when it is killed; Ctrl-C ends them here.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Generic, Protocol, TypeVar

import torch

from nesbs.errors import NesbsError

Shared = TypeVar("Shared", contravariant=True)
Result = TypeVar("Result", covariant=True)
Value = TypeVar("Value")
Process = tuple[Connection, "subprocess.Popen[bytes]"]  # the way to a process, and the process


class Task(Protocol[Shared, Result]):
    """One piece of work, given what it shares with the others; `str(task)` names it in errors."""

    def __call__(self, shared: Shared) -> Result:
        """Do the work."""
        ...


@dataclass(frozen=True)
class Outcome(Generic[Value]):
    """What a process sends back: a task's result, or the error that ended it."""

    result: Value | None = None
    error: Exception | None = None


def run_tasks(
    next_task: Callable[[], Task[Shared, Result] | None], shared: Shared, *, workers: int = 1
) -> Generator[Result, None, None]:
    """Yield the result of every task, in the order in which they end.

    `next_task` is asked for a task whenever a process is free, after what it ended was handed back, so it may depend on
    results so far. None sends that process home. An error of a task is raised here; processes still at work are ended.

    >>> from functools import partial
    >>> tasks = iter([partial(pow, 2), partial(pow, 3)])
    >>> list(run_tasks(lambda: next(tasks, None), 5))
    [32, 243]
    """
    if workers > 1:
        yield from _in_processes(next_task, shared, workers)
        return
    while (task := next_task()) is not None:
        yield task(shared)


def _in_processes(
    next_task: Callable[[], Task[Shared, Result] | None], shared: Shared, workers: int
) -> Generator[Result, None, None]:
    first = pickle.dumps((torch.get_num_threads(), torch.backends.cudnn.deterministic, shared))
    tasks = list(itertools.islice(iter(next_task, None), workers))
    at_work: dict[Connection, tuple[Process, Task[Shared, Result]]] = {}
    with contextlib.ExitStack() as ending:
        started = [_start(ending) for _ in tasks]  # all before the first is waited for
        for process, task in zip(started, tasks, strict=True):
            _send(process, task, first, pickle.dumps(task))
            at_work[process[0]] = process, task
        while at_work:
            for connection in wait(list(at_work)):
                process, task = at_work.pop(connection)  # type: ignore[call-overload]
                yield _received(process, task)
                following = next_task()
                if following is not None:
                    _send(process, following, pickle.dumps(following))
                    at_work[process[0]] = process, following


def _start(ending: contextlib.ExitStack) -> Process:
    """Start a process that waits for tasks; `ending` ends it.

    It imports nesbs alone, not the user's script, and from where this process has it. A session of its own keeps the
    terminal's Ctrl-C from it.
    """
    ours, theirs = Pipe()
    ending.callback(ours.close)
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    process = subprocess.Popen(
        [sys.executable, "-c", "from nesbs.cluster.worker import main; main()", str(theirs.fileno())],
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
    )
    theirs.close()
    ending.callback(process.wait)
    ending.callback(process.kill)
    return ours, process


def _send(process: Process, task: object, *messages: bytes) -> None:
    try:
        for message in messages:
            process[0].send_bytes(message)
    except OSError:
        raise _ended(process, task) from None


def _received(process: Process, task: Task[Shared, Result]) -> Result:
    """What a process sent back for a task; raises its error, and where the process has ended."""
    try:
        outcome: Outcome[Result] = pickle.loads(process[0].recv_bytes())
    except (EOFError, OSError):
        raise _ended(process, task) from None
    if outcome.error is not None:
        raise outcome.error
    return outcome.result  # type: ignore[return-value]


def _ended(process: Process, task: object) -> NesbsError:
    code = process[1].wait()
    how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    return NesbsError(
        f"{task}: the process at work on it {how}, perhaps for want of memory: the same command resumes; fewer "
        "members.workers take less memory"
    )
