"""A budget in seconds (`nesbs compare --budget 60s`): how much of a search fits into it, found by measuring.

    RUN/rivals/budget.json  what was found to fit, so that a later sitting goes on with the same numbers

Measuring itself is not charged: a method's record holds the seconds that its search then took.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from nesbs import files
from nesbs.runs.run import Run
from nesbs.spaces import Architecture
from nesbs.supernet import Estimator

MOST = 5_000  # ensembles that are drawn at once, however long the budget
OVER = 1.1  # a search that took this much of its budget is over it; less is the noise of measuring


def remembered(run: Run, key: str, find: Callable[[], int]) -> int:
    """A number that was found to fit into the budget, found once in a run."""
    path = run.folder / "rivals" / "budget.json"
    known = files.read_mapping(path) if path.is_file() else {}
    if key not in known:
        known[key] = find()
        files.write_json(path, known)
    return int(known[key])


def affordable(
    draws: Iterable[Architecture], cost: Callable[[Architecture], float], left: float, *, least: int
) -> list[Architecture]:
    """The first draws that can be judged in the seconds that are left, `least` of them at any rate.

    `cost` judges one and tells its seconds.

    >>> from nesbs.spaces import toy_edges
    >>> len(affordable(toy_edges(), lambda _: 0.5, 2.2, least=3))
    4
    """
    taken: list[Architecture] = []
    spent = 0.0
    for architecture in draws:
        spent += cost(architecture)
        if spent > left and len(taken) >= least:
            break
        taken.append(architecture)
    return taken


def estimating(run: Run) -> Callable[[Architecture], float]:
    """A cost for `affordable`: the seconds of one estimate with the supernet's weights."""
    supernet, valid, size = run.supernet(), run.data.search_valid, run.recipe.search.batch_size
    # What the first estimate of a process prepares is not the price of the others.
    Estimator(supernet, valid, batch_size=size).log_probs([run.space.architecture([0] * len(run.space.variables))])
    estimator = Estimator(supernet, valid, batch_size=size)

    def cost(architecture: Architecture) -> float:
        return seconds_of(lambda: estimator.log_probs([architecture]).sum().item())

    return cost


def times_within(left: float, trial: Callable[[int], object], usual: int, *, most: int) -> int:
    """How often a piece of work fits into the seconds that are left, from a trial of the usual number; 1 at least.

    >>> times_within(3.0, lambda number: time.sleep(0.01 * number), 5, most=10)
    10
    """
    per_piece = seconds_of(lambda: trial(usual)) / usual
    return max(1, min(most, int(left / per_piece)))


def seconds_of(work: Callable[[], object]) -> float:
    """The seconds that something takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
