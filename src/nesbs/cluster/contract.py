"""What tasks, workers and results are, wherever tasks run.

A task and its result are values that can be pickled. What all tasks need, such as images, travels to a process (on Ray:
to a node) once. Whoever runs a task computes with as many threads as this process, so a result has the same bytes
wherever it was made. A task whose worker dies is given to another one, a few times; a task that raises is not.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch

from nesbs.errors import NesbsError
from nesbs.training.threads import use_threads

Shared = TypeVar("Shared", contravariant=True)
Answer = TypeVar("Answer", covariant=True)
Value = TypeVar("Value")
RETRIES = 3  # workers that may die of one task, before it is taken to be the reason


class Task(Protocol[Shared, Answer]):
    """One piece of work, given what it shares with the others; `str(task)` names it in errors."""

    def __call__(self, shared: Shared) -> Answer:
        """Do the work."""
        ...


@dataclass(frozen=True)
class Workers:
    """How many tasks run at a time, and where: in this process (one), in processes of this machine, or on Ray.

    On Ray as many run as the nodes have room for, and never more than `count` where that is given.
    """

    count: int | None = 1
    on_ray: bool = False  # inside of `on_ray.connected`
    gpus_each: float | None = None  # of each worker, where tasks use GPUs; None: one, on this machine all are shared
    apart: bool = False  # one worker is a process of its own too

    def take(self, tasks: int) -> bool:
        """Whether so many tasks are given to other processes: on Ray each, on this machine several alone."""
        return tasks > 0 and (self.on_ray or ((self.count or 1) > 1 and tasks > 1))


@dataclass(frozen=True)
class Setting:
    """What a worker takes over from this process before its first task."""

    threads: int
    deterministic: bool

    @staticmethod
    def here() -> Setting:
        """Return that of this process."""
        return Setting(torch.get_num_threads(), torch.backends.cudnn.deterministic)

    def apply(self) -> None:
        """Compute as the process that sent it."""
        use_threads(self.threads)
        torch.backends.cudnn.deterministic = self.deterministic


@dataclass(frozen=True)
class Outcome(Generic[Value]):
    """What a worker sends back: a task's result, or the error that ended it."""

    result: Value | None = None
    error: Exception | None = None
    node: str = ""

    def get(self) -> Result[Value]:
        """Return the result; raise the error."""
        if self.error is not None:
            raise self.error
        return Result(self.result, self.node)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Result(Generic[Value]):
    """What a task returned, and the machine that it ran on."""

    value: Value
    node: str


def elsewhere(node: str) -> str:
    """Say where something ran, to be put behind its name; nothing where it ran on this machine.

    >>> elsewhere("node-7")
    ' on node-7'
    """
    return "" if node in ("", platform.node()) else f" on {node}"


def check_deaths(task: object, deaths: int, how: str) -> None:
    """Raise where so many workers died of a task, the last one in this way, that it gets no other."""
    if deaths > RETRIES:
        raise NesbsError(
            f"{task}: {deaths} workers that tried it have died, the last one {how}, perhaps for want of memory: the "
            "same command resumes; fewer --workers take less memory"
        )
