"""Budgets of a comparison: architectures that each method may judge, or seconds that its search may take.

    RUN/rivals/budget.json  how much of each search fits into the seconds, so that a resumed comparison uses the same

How much fits is measured. Measuring itself is not charged: a method's record holds the seconds that its search then
took.
"""

import time
from collections.abc import Callable, Iterable

from nesbs import files
from nesbs.errors import NesbsError, shown
from nesbs.records.recipe import Recipe
from nesbs.runs.resumable_run import Run
from nesbs.samplers import Sampler, SvgdRd, get_sampler
from nesbs.spaces import Architecture
from nesbs.supernet import Estimator

MOST = 5_000  # ensembles that are drawn at once, however long the budget
OVER = 1.1  # a search that took this much of its budget is over it; less is the noise of measuring


def budgeted(recipe: Recipe, budget: int) -> Recipe:
    """The recipe in which every method may judge `budget` architectures: as pool, or as rounds of ensembles.

    >>> from nesbs.runs.recipe import load_recipe
    >>> recipe = budgeted(load_recipe("toy"), 12)
    >>> recipe.rivals.pool, recipe.search.rounds, recipe.ensemble.size, len(recipe.sampler.delta)
    (12, 3, 2, 2)
    >>> recipe.rivals.rounds, recipe.rivals.samples
    (6, 12)
    """
    values = values_of_delta(recipe)
    rounds = budget // (recipe.ensemble.size * values)
    if rounds < 1:
        raise NesbsError(
            f"--budget {budget} is less than one ensemble of {recipe.ensemble.size} for each δ ({values}): raise it, "
            "or set fewer values of sampler.delta (of search.trials)"
        )
    population = recipe.rivals.population
    rivals = {
        "pool": budget,
        "rounds": rounds * values,  # nesbs-mc draws as many ensembles as nesbs
        "samples": budget,
        "population": None if population is None else min(population, budget),
    }
    return recipe.model_copy(
        update={
            "search": recipe.search.model_copy(update={"rounds": rounds}),
            "rivals": recipe.rivals.model_copy(update=rivals),
        }
    )


def ensembles_judged(recipe: Recipe) -> int:
    """How many ensembles `nesbs` judges: those of every round and δ. `nesbs-mc` is given as many.

    >>> from nesbs.runs.recipe import load_recipe
    >>> ensembles_judged(load_recipe("cifar10-nasbench201"))  # ten rounds, eight values of δ
    80
    """
    return recipe.search.rounds * values_of_delta(recipe)


def values_of_delta(recipe: Recipe) -> int:
    """How many values of δ `nesbs` tries: the grid's, or those of Bayesian optimisation."""
    return recipe.search.trials if recipe.search.tune == "bayesian" else deltas_of(get_sampler(recipe.sampler))


def deltas_of(sampler: Sampler) -> int:
    """How many values of δ a round draws ensembles for."""
    return len(sampler.deltas) if isinstance(sampler, SvgdRd) else 1


def timed(recipe: Recipe, seconds: float) -> Recipe:
    """The recipe in which the search of every method may take so many seconds.

    >>> from nesbs.runs.recipe import load_recipe
    >>> timed(load_recipe("toy"), 60).rivals.seconds
    60.0
    """
    if recipe.search.tune != "grid":
        raise NesbsError("--budget in seconds needs search.tune=grid: the rounds are what fits")
    return recipe.model_copy(update={"rivals": recipe.rivals.model_copy(update={"seconds": float(seconds)})})


def measured_once(run: Run, key: str, measure: Callable[[], int]) -> int:
    """How much fits into the budget, measured once in a run and then read from its file."""
    path = run.folder / "rivals" / "budget.json"
    counts = files.read_mapping(path) if path.is_file() else {}
    if key not in counts:
        counts[key] = measure()
        files.write_json(path, counts)
    if not isinstance(counts[key], int):
        raise NesbsError(f"{path}: {key} must be a whole number, found {shown(counts[key])}: {files.AGAIN}")
    return int(counts[key])


def affordable(
    draws: Iterable[Architecture], cost: Callable[[Architecture], float], left: float, *, least: int
) -> list[Architecture]:
    """The first draws that can be judged in the seconds that are left, `least` of them at any rate.

    `cost` judges one and returns its seconds.

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
        seconds = seconds_of(lambda: estimator.log_probs([architecture]).sum().item())
        estimator.forget([architecture])  # only the time is wanted, and the answers to all images are large
        return seconds

    return cost


def times_within(left: float, trial: Callable[[int], object], usual: int, *, most: int) -> int:
    """How many pieces of work fit into the seconds that are left, by trials of one and of the usual number; 1 at least.

    What a trial takes however many pieces it has, such as judging at the end, counts once.

    >>> times_within(3.0, lambda number: time.sleep(0.1 + 0.01 * number), 5, most=10)
    10
    """
    trial(1)  # what the first of a process prepares is not the price of the others
    number = max(usual, 2)
    one, several = seconds_of(lambda: trial(1)), seconds_of(lambda: trial(number))
    each = (several - one) / (number - 1)
    if each <= 0:  # too short to tell from noise
        one = each = several / number
    return max(1, min(most, int(1 + (left - one) / each)))


def seconds_of(work: Callable[[], object]) -> float:
    """The seconds that something takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
