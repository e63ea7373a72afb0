"""Tasks in processes of this machine.

They have nothing of this process's terminal and end with it, also when it is killed; Ctrl-C ends them here.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Generator
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait

import torch

from nesbs.cluster.contract import Outcome, Result, Setting, Shared, Task, Value, Workers, check_deaths
from nesbs.cluster.worker import END
from nesbs.errors import NesbsError

Process = tuple[Connection, "subprocess.Popen[bytes]", str | None]  # the way to a process, the process, its GPU


def run_in_processes(
    next_task: Callable[[], Task[Shared, Value] | None], shared: Shared, workers: Workers, *, gpu: bool
) -> Generator[Result[Value], None, None]:
    """What `run_tasks` does, in as many processes as `workers` say, at most one a task."""
    first = pickle.dumps((Setting.here(), shared))
    tasks = list(itertools.islice(iter(next_task, None), workers.count or 1))
    gpus = itertools.cycle(_visible_gpus(workers) if gpu else [None])
    at_work: dict[Connection, tuple[Process, Task[Shared, Value], int]] = {}  # with deaths before
    idle: list[Process] = []
    with contextlib.ExitStack() as ending:

        def give(process: Process, task: Task[Shared, Value], deaths: int = 0, *, new: bool = False) -> None:
            """Give a task to a process, to a new one with what all tasks share."""
            with contextlib.suppress(OSError):  # one that has died is seen when its answer is waited for
                for message in [first] * new + [pickle.dumps(task)]:
                    process[0].send_bytes(message)
            at_work[process[0]] = process, task, deaths

        started = [_start(ending, next(gpus)) for _ in tasks]  # all before the first is waited for
        for process, task in zip(started, tasks, strict=True):
            give(process, task, new=True)
        while at_work:
            for connection in wait(list(at_work)):
                process, task, deaths = at_work.pop(connection)  # type: ignore[call-overload]
                outcome: Outcome[Value] | None = _received(process)
                if outcome is None:
                    check_deaths(task, deaths + 1, _how_it_ended(process))
                    give(_start(ending, process[2]), task, deaths + 1, new=True)  # where the dead one has left room
                    continue
                yield outcome.get()
                following = next_task()
                if following is not None:
                    give(process, following)
                elif gpu:
                    idle.append(process)
        for connection, _, _ in idle:  # a kill can take along what others have under way on the same GPU (MPS)
            with contextlib.suppress(OSError):
                connection.send_bytes(END)
        for _, ended, _ in idle:
            with contextlib.suppress(subprocess.TimeoutExpired):
                ended.wait(timeout=30)


def _visible_gpus(workers: Workers) -> list[str]:
    """The GPUs that processes are spread over, as CUDA_VISIBLE_DEVICES names them."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    names = listed.split(",") if listed else [str(number) for number in range(torch.cuda.device_count())]
    each, count = workers.gpus_each, workers.count or 1
    if each is not None and each * count > len(names):
        raise NesbsError(f"{count} workers with {each:g} GPUs each: this machine has {len(names)} GPUs")
    return names


def _start(ending: contextlib.ExitStack, gpu: str | None) -> Process:
    """Start a process that waits for tasks and sees one GPU where tasks use some; `ending` ends it.

    It imports nesbs alone, not the user's script, and from where this process has it. A session of its own keeps the
    terminal's Ctrl-C from it.
    """
    ours, theirs = Pipe()
    ending.callback(ours.close)
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    process = subprocess.Popen(
        [sys.executable, "-c", "from nesbs.cluster.worker import main; main()", str(theirs.fileno())],
        env={**os.environ, "PYTHONPATH": paths, **({} if gpu is None else {"CUDA_VISIBLE_DEVICES": gpu})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
        start_new_session=True,
    )
    theirs.close()
    ending.callback(process.wait)
    ending.callback(process.kill)
    return ours, process, gpu


def _received(process: Process) -> Outcome[Value] | None:
    """What a process sent back for its task; None where it has died."""
    try:
        outcome: Outcome[Value] = pickle.loads(process[0].recv_bytes())
    except (EOFError, OSError):
        return None
    return outcome


def _how_it_ended(process: Process) -> str:
    code = process[1].wait()
    return f"by signal {-code}" if code < 0 else f"with code {code}"
