"""Costs that are summed up equal those of the networks that are built, and few networks are built."""

import pytest
import torch

from nesbs.spaces import (
    NetworkCost,
    NetworkCosts,
    darts,
    multiply_adds,
    nasbench201,
    parameters,
    toy_edges,
    toy_pairs,
    zoo,
)

IMAGE = (3, 8, 8)


def built(space, architecture, **settings):
    """The cost of the network itself."""
    member = space.network(architecture, channels=4, **settings)
    return NetworkCost(parameters(member), multiply_adds(member, IMAGE))


@pytest.mark.parametrize(
    ("make", "settings", "most"),
    [(nasbench201, {"cells": 1}, 8), (darts, {"cells": 3, "auxiliary": True}, 14), (toy_edges, {"cells": 2}, 4)],
)
def test_summed_costs_are_those_of_the_network_for_every_operation_and_random_architectures(make, settings, most):
    space, made = make(), []
    costs = NetworkCosts(space, lambda one: made.append(one) or space.network(one, channels=4, **settings), IMAGE)
    same = [space.architecture([i % len(one.choices) for one in space.variables]) for i in range(len(space.operations))]
    some = [*same, *space.sample(12, generator=torch.Generator().manual_seed(0))]
    assert [costs(one) for one in some] == [built(space, one, **settings) for one in some]
    for one in space.sample(300, generator=torch.Generator().manual_seed(1)):
        costs(one)
    assert len(made) <= most, "parts are learned from a few networks"


def test_where_widths_depend_on_the_architecture_each_network_is_built():
    space = toy_pairs()
    wide = lambda one: space.network(one, channels=4 + 4 * str(one).count("sep"))  # noqa: E731
    costs, some = (
        NetworkCosts(space, wide, IMAGE, additive=False),
        space.sample(6, generator=torch.Generator().manual_seed(0)),
    )
    for one in [*some, *some]:
        member = wide(one)
        assert costs(one) == NetworkCost(parameters(member), multiply_adds(member, IMAGE))


def test_a_published_cell_from_outside_the_space_is_counted_as_built():
    space = darts()
    costs = NetworkCosts(space, lambda one: space.network(one, channels=4, cells=3), IMAGE)
    costs(space.sample(generator=torch.Generator().manual_seed(0)))
    assert costs(zoo["pnas"]) == built(space, zoo["pnas"], cells=3)
