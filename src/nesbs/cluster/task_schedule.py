"""When tasks of known length would run on so many workers: list scheduling, on paper."""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PlannedTask:
    """A task of so many seconds, which begins when the tasks at the places `after`, all before its own, have ended."""

    seconds: float
    after: tuple[int, ...] = ()


@dataclass(frozen=True)
class PlacedTask:
    """When a task begins and ends, in seconds, and on which worker."""

    start: float
    end: float
    worker: int


def schedule(tasks: Sequence[PlannedTask], workers: int) -> list[PlacedTask]:
    """Place tasks on workers, each of which runs one at a time.

    A worker that is free takes, of the tasks that may begin, the one from which the longest way to the end is left; of
    two alike, the earlier one. So `train_by_workers` gives out epochs. No worker waits while a task may begin.

    >>> tasks = [PlannedTask(2.0), PlannedTask(1.0), PlannedTask(1.0, after=(1,)), PlannedTask(3.0, after=(0, 2))]
    >>> [(task.start, task.end) for task in schedule(tasks, 2)]
    [(0.0, 2.0), (0.0, 1.0), (1.0, 2.0), (2.0, 5.0)]
    """
    followers: list[list[int]] = [[] for _ in tasks]
    for place, task in enumerate(tasks):
        for before in task.after:
            followers[before].append(place)
    left = [0.0] * len(tasks)  # seconds of the longest way to the end, with the task itself
    for place in reversed(range(len(tasks))):
        left[place] = tasks[place].seconds + max((left[each] for each in followers[place]), default=0.0)
    missing = [len(task.after) for task in tasks]
    ready = [(-left[place], place) for place in range(len(tasks)) if not missing[place]]
    heapq.heapify(ready)
    free = list(range(workers))
    running: list[tuple[float, int, int]] = []  # (end, worker, place)
    placed: dict[int, PlacedTask] = {}
    now = 0.0
    while ready or running:
        while ready and free:
            place, worker = heapq.heappop(ready)[1], heapq.heappop(free)
            placed[place] = PlacedTask(now, now + tasks[place].seconds, worker)
            heapq.heappush(running, (placed[place].end, worker, place))
        now = running[0][0]
        while running and running[0][0] == now:  # all that end together, before any begins
            _, worker, place = heapq.heappop(running)
            heapq.heappush(free, worker)
            for each in followers[place]:
                missing[each] -= 1
                if not missing[each]:
                    heapq.heappush(ready, (-left[each], each))
    return [placed[place] for place in range(len(tasks))]
