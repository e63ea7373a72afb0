"""What a recipe says about itself."""

import pytest

from nesbs.records import Recipe
from nesbs.runs.recipe import load_recipe


@pytest.mark.parametrize("name", ["cifar10-nasbench201-paper", "cifar10-darts-paper"])
def test_the_papers_recipes_add_nothing(name):
    assert load_recipe(name).additions() == ()


def test_everything_of_ours_is_named():
    assert load_recipe("cifar10-nasbench201").additions() == (
        "groups of paths in the supernet's training (supernet.paths=mixed)",
        "no dead architectures in the supernet's training",
        "leave-one-out gradients for the posterior",
        "rank shares of 256 reference architectures as evidence",
        "untrained networks in the evidence",
        "the best of 4 fits of the posterior",
        "ensembles judged by other than their loss (search.judge=posterior)",
        "members that differ on 35 % of their edges (search.apart)",
    )
    others = {"sampler": {"name": "uniform"}, "posterior": {"noise": 0.1, "estimator": "straight-through"}}
    assert Recipe.of(others).additions() == (
        "a share of labels taken for random",
        "ensembles drawn uniformly, without the posterior",
    )


def test_other_judges_are_named():
    changes = ["search.judge=trained", "search.noise=100"]
    assert load_recipe("cifar10-nasbench201-paper", changes).additions() == (
        "ensembles judged by other than their loss (search.judge=trained)",
        "the most probable of the ensembles that held-out images do not tell apart",
    )


def test_without_a_search_nothing_is_added():
    assert load_recipe("demo", ["ensemble.architectures=[resnet]"]).additions() == ()
