"""What rivals end with is within the limits, whatever they judge best."""

import shutil

import pytest
import torch

from nesbs.compare.harness import Harness
from nesbs.compare.methods import METHODS
from nesbs.ensemble import Limits, LimitSettings
from nesbs.errors import NesbsError
from nesbs.rivals import best_of_births, evolve, nes_rs, uniform_pool, urs
from nesbs.runs.recipe import load_recipe
from nesbs.runs.resumable_run import Run
from nesbs.spaces import TimedCosts, nasbench201, toy_edges

EDGES = TimedCosts(toy_edges(), lambda one: toy_edges().network(one, channels=4, cells=1), (3, 8, 8))
CELLS = TimedCosts(nasbench201(), lambda one: nasbench201().network(one, channels=4, cells=1), (3, 8, 8))


def random():
    return torch.Generator().manual_seed(0)


def costly_is_good(costs):
    def score(ensembles):
        return torch.tensor([-sum(costs(one).parameters for one in some) / len(some) for some in ensembles])

    return score


def limits_at(costs, share, per):
    values = sorted(costs(one).parameters for one in costs.space.sample(300, generator=random()))
    bound = values[int(share * 300)] * (3 if per == "ensemble" else 1)
    return Limits(LimitSettings(parameters=bound, per=per), costs, 3)


@pytest.mark.parametrize("per", ["member", "ensemble"])
def test_pools_and_what_is_chosen_from_them_are_within_the_limits(per):
    limits, score = limits_at(CELLS, 0.3, per), costly_is_good(CELLS)
    pool = uniform_pool(CELLS.space, 30, generator=random(), allowed=limits, size=3)
    assert len(set(pool)) == 30
    assert all(limits(pool[i : i + 3]) for i in range(0, 30, 3))
    assert uniform_pool(CELLS.space, 12, generator=random(), allowed=limits, size=3) == pool[:12]
    births = evolve(CELLS.space, pool[:6], score, budget=30, parents=3, allowed=limits, generator=random())
    found = [urs(pool, 3, score, limits), nes_rs(pool, 3, score, limits)]
    found.append(best_of_births(births, pool[:6], 3, score, limits=limits))
    for selection in found:
        assert limits(selection.architectures)
        assert all(limits((one,)) for one, _ in selection.candidates)
    if per == "ensemble":  # the three best are not, so that the limit has an effect
        assert not limits(sorted(pool, key=lambda one: -CELLS(one).parameters)[:3])


def test_a_pool_larger_than_what_is_within_the_limits_is_refused():
    least = min(EDGES(one).parameters for one in toy_edges())
    few = [one for one in toy_edges() if EDGES(one).parameters == least]
    limits = Limits(LimitSettings(parameters=least), EDGES, 1)
    assert set(uniform_pool(toy_edges(), len(few), generator=random(), allowed=limits)) == set(few)
    with pytest.raises(NesbsError, match=rf"only {len(few)} within search.limits were found"):
        uniform_pool(toy_edges(), len(few) + 1, generator=random(), allowed=limits)


def test_a_pool_under_two_limits_begins_with_one_whose_copies_are_within_them():
    def allowed(some):
        return max(str(some).count(op) * 2 / len(some) for op in ("conv", "skip")) <= 3

    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        pool = uniform_pool(toy_edges(), 4, generator=generator, allowed=allowed, size=2)
        assert any(allowed((one, one)) for one in pool[:2])


SMALL = [
    *("space.name=toy-edges", "data.train_limit=60", "data.size=12", "supernet.epochs=1", "supernet.cells=1"),
    *("supernet.batch_size=20", "posterior.steps=2", "sampler.steps=2", "members.cells=1", "rivals.judge=supernet"),
    *("rivals.pool=6", "rivals.samples=4", "rivals.measure=supernet"),
]
SEARCHES = ["nesbs", "nesbs-mc", "random", "drawn", "likeliest", "urs", "nes-rs", "nes-re", "deep", "single-best"]
ONE_SHOT = ["rsps", "darts", "gdas", "setn", "enas", "snas"]


def recipe_of(name):
    """A recipe under whose seed the method chooses something that is not the cheapest."""
    return load_recipe("toy", SMALL, threads=1, seed=7 if name == "gdas" else 4)


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A run that has what rivals share, and what each method chooses where nothing is limited."""
    folder = tmp_path_factory.mktemp("limits") / "run"
    run = Run.create(folder, recipe_of("nesbs"))
    run.posterior()
    begun = shutil.copytree(folder, folder.with_name("begun"))

    def chosen(name):
        return METHODS[name].choose(Harness(Run(folder, recipe_of(name), data=run.data))).architectures

    return begun, {name: chosen(name) for name in [*SEARCHES, *ONE_SHOT]}


@pytest.mark.parametrize("name", [*SEARCHES, *ONE_SHOT])
def test_a_method_keeps_to_a_limit_that_it_exceeds_without_it(name, searched, tmp_path):
    folder, unlimited = searched
    recipe = recipe_of(name)
    run = Run(shutil.copytree(folder, tmp_path / "run"), recipe)
    cost = {one: run.costs.members(one).parameters for one in toy_edges()}
    bound, per = sum(cost[one] for one in unlimited[name]) - 1, "member" if METHODS[name].one_network else "ensemble"
    assert bound >= len(unlimited[name]) * min(cost.values())
    limits = LimitSettings(parameters=bound, multiply_adds=10**9, per=per)
    limited = recipe.model_copy(update={"search": recipe.search.model_copy(update={"limits": limits})})
    chosen = METHODS[name].choose(Harness(Run(run.folder, limited, data=run.data))).architectures
    assert len(chosen) == len(unlimited[name])
    assert sum(cost[one] for one in chosen) <= bound
