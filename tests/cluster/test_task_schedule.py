"""A schedule on paper: closed forms, bounds, a simulation second by second, and what was measured by two workers."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from nesbs.cluster.task_schedule import PlannedTask, schedule

SPEED = Path(__file__).parents[2] / "results" / "cluster" / "speed.json"


def random_tasks(seed, count=40):
    """Tasks of whole seconds, each after up to three earlier ones."""
    random = np.random.default_rng(seed)
    return [
        PlannedTask(
            float(random.integers(1, 9)),
            tuple(sorted({int(random.integers(place)) for _ in range(random.integers(4))})) if place else (),
        )
        for place in range(count)
    ]


def longest_way(tasks, place):
    """Seconds from a task's beginning to the last end that hangs on it, by trying every way."""
    after = [other for other, task in enumerate(tasks) if place in task.after]
    return tasks[place].seconds + max((longest_way(tasks, other) for other in after), default=0.0)


def simulated(tasks, workers):
    """The beginning of every task, by a clock that goes second by second."""
    left = [task.seconds for task in tasks]
    ways = [longest_way(tasks, place) for place in range(len(tasks))]
    begun, second = {}, 0
    while any(left):
        at_work = [place for place in begun if left[place]]
        may_begin = [
            place
            for place, task in enumerate(tasks)
            if place not in begun and not any(left[other] for other in task.after)
        ]
        may_begin.sort(key=lambda place: (-ways[place], place))
        begun |= dict.fromkeys(may_begin[: workers - len(at_work)], float(second))
        for place in [place for place in begun if left[place]]:
            left[place] -= 1
        second += 1
    return [begun[place] for place in range(len(tasks))]


def end(tasks, workers):
    return max(task.end for task in schedule(tasks, workers))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_the_schedule_is_what_a_clock_that_goes_second_by_second_gives(seed, workers):
    tasks = random_tasks(seed, 16)
    placed = schedule(tasks, workers)
    assert [each.start for each in placed] == simulated(tasks, workers)
    for worker in range(workers):  # one task at a time
        mine = sorted((each.start, each.end) for each in placed if each.worker == worker)
        assert all(earlier[1] <= later[0] for earlier, later in pairwise(mine))


@pytest.mark.parametrize("seed", range(5))
def test_one_worker_takes_the_sum_and_many_take_the_longest_way(seed):
    tasks = random_tasks(seed, 16)
    total, longest = sum(task.seconds for task in tasks), max(longest_way(tasks, place) for place in range(16))
    assert end(tasks, 1) == total
    assert end(tasks, 16) == longest
    for workers in (2, 3, 5):  # Graham's bound of list scheduling
        assert max(longest, total / workers) <= end(tasks, workers) <= total / workers + (1 - 1 / workers) * longest


def test_equal_tasks_run_in_rounds_and_in_parts_they_fill_the_workers():
    assert end([PlannedTask(10.0)] * 7, 3) == 30.0
    parts = [PlannedTask(1.0, (place - 7,) if place >= 7 else ()) for place in range(70)]  # ten of each of the seven
    assert end(parts, 3) == 24.0  # 70 / 3, whole parts


def test_two_workers_took_what_the_schedule_says_and_the_start_of_processes():
    record = json.loads(SPEED.read_text())
    [one], [two] = ([row for row in record["pool"] if row["workers"] == count] for count in (1, 2))
    each, networks = one["seconds"] / record["networks"], record["networks"]
    planned = end([PlannedTask(each)] * networks, 2)
    assert planned == pytest.approx(one["seconds"] / 2)
    assert 1.0 <= two["seconds"] / planned < 1.2
    # With what processes and copies cost the CPUs counted, it is closer.
    assert end([PlannedTask(two["cpu_seconds"] / networks)] * networks, 2) == pytest.approx(two["seconds"], rel=0.05)
