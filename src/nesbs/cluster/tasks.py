"""Run tasks here, in processes of this machine or on Ray, and hand results back as they come: one contract for all."""

import platform
from collections.abc import Callable, Generator

from nesbs.cluster.contract import Result, Shared, Task, Value, Workers
from nesbs.cluster.on_ray import run_on_ray
from nesbs.cluster.processes import run_in_processes


def run_tasks(
    next_task: Callable[[], Task[Shared, Value] | None],
    shared: Shared,
    *,
    workers: Workers = Workers(),  # noqa: B008 - frozen
    gpu: bool = False,
) -> Generator[Result[Value], None, None]:
    """Yield the result of every task, in the order in which they end.

    `next_task` is asked for a task whenever there is room, after what ended was handed back, so it may depend on
    results so far. None: there is none now; it is asked again after the next result, and it ends with the last. An
    error of a task is raised here; workers still at work are ended. `gpu` says whether tasks use one.

    >>> from functools import partial
    >>> tasks = iter([partial(pow, 2), partial(pow, 3)])
    >>> [result.value for result in run_tasks(lambda: next(tasks, None), 5)]
    [32, 243]
    """
    if workers.on_ray:
        yield from run_on_ray(next_task, shared, workers, gpu=gpu)
    elif workers.apart or (workers.count is not None and workers.count > 1):
        yield from run_in_processes(next_task, shared, workers, gpu=gpu)
    else:
        while (task := next_task()) is not None:
            yield Result(task(shared), platform.node())
