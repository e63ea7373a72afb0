"""Every space: text, indices, draws and networks agree with each other."""

import itertools
import math
from collections import Counter

import pytest
import torch
from contracts import SPACES, TOYS
from scipy import stats

from nesbs.errors import NesbsError
from nesbs.posterior import Posterior
from nesbs.samplers import MonteCarlo, Uniform
from nesbs.spaces import EdgeSpace, PairSpace, PathNetwork, differing, toy_pairs


@pytest.mark.parametrize("make", SPACES)
def test_text_and_indices_round_trip(make, random):
    space = make()
    for architecture in space.sample(200, generator=random):
        assert space.parse(str(architecture)) == architecture
        assert space.architecture([max(0, i) for i in space.encode(architecture)]) == architecture


@pytest.mark.parametrize("make", TOYS)
def test_length_is_the_number_of_different_architectures(make):
    space = make()
    everything = list(space)
    assert len(everything) == len(set(everything)) == len(space)


@pytest.mark.parametrize("make", TOYS)
def test_length_equals_a_count_by_brute_force(make):
    # Every setting of every variable, those that play no part included, decoded and counted.
    space = make()
    settings = itertools.product(*(range(len(variable.choices)) for variable in space.variables))
    assert {space.architecture(setting) for setting in settings} == set(space)


@pytest.mark.parametrize("make", TOYS)
def test_draws_are_uniform_over_a_toy_space(make):
    space = make()
    counts = Counter(space.sample(10 * len(space), generator=torch.Generator().manual_seed(1)))
    assert counts.keys() <= set(space)
    assert stats.chisquare([counts[architecture] for architecture in space]).pvalue > 0.001


def marginal_p_value(space, indices):
    """The smallest p-value of uniform marginals over the variables, for drawn indices (draws, variables)."""
    values = []
    for column, variable in zip(indices.T, space.variables, strict=True):
        played = column[column >= 0]
        counts = torch.bincount(played, minlength=len(variable.choices))
        values.append(stats.chisquare(counts.numpy()).pvalue)
    return min(values)


@pytest.mark.parametrize("make", SPACES)
def test_draws_have_uniform_marginals(make):
    space = make()
    drawn = space.sample(10_000, generator=torch.Generator().manual_seed(2))
    assert marginal_p_value(space, space.encode_all(drawn)) > 0.001 / len(space.variables)


def test_the_marginal_test_catches_an_operation_that_is_20_percent_likelier():
    # The check above must be able to fail: one operation of one edge at 1.2 / 5.2 instead of 1 / 5.
    space = SPACES[2]()
    indices = space.encode_all(space.sample(10_000, generator=torch.Generator().manual_seed(2)))
    weights = torch.tensor([1.2, 1.0, 1.0, 1.0, 1.0])
    indices[:, 3] = torch.multinomial(weights, 10_000, replacement=True, generator=torch.Generator().manual_seed(3))
    assert marginal_p_value(space, indices) < 0.001 / len(space.variables)


@pytest.mark.parametrize("make", SPACES)
def test_members_and_supernet_give_logits_at_every_legal_size(make, random):
    space = make()
    supernet = space.supernet(classes=7, in_channels=3, channels=4, cells=3, affine=False)
    for side, architecture in zip((8, 12, 28, 32), space.sample(4, generator=random), strict=True):
        images = torch.rand(2, 3, side, side, generator=random)
        member = space.network(architecture, classes=7, channels=4, cells=3)
        assert member(images).shape == supernet(images, architecture).shape == (2, 7)


@pytest.mark.parametrize("make", SPACES)
def test_one_path_equals_the_mixture_with_its_gates(make, random):
    space = make()
    supernet = space.supernet(classes=5, in_channels=1, channels=4, cells=3, affine=False)
    images = torch.rand(6, 1, 8, 8, generator=random)
    widest = max(len(variable.choices) for variable in space.variables)
    for architecture in space.sample(5, generator=random):
        weights = torch.zeros(len(space.variables), widest)
        for row, choice in enumerate(space.encode(architecture)):
            weights[row, max(choice, 0)] = 1
        mixed = supernet.mixture(images, space.gates(weights))
        torch.testing.assert_close(mixed, supernet(images, architecture), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("make", SPACES)
@pytest.mark.parametrize("partial", [1, 2])
def test_no_gradient_is_computed_through_a_gate_that_is_0(make, partial, random):
    """Those of the gates are the same without; operations whose gate is 0 get none at all."""
    space = make()
    supernet = space.supernet(classes=5, in_channels=1, channels=4, cells=3, affine=False, partial=partial)
    images = torch.rand(6, 1, 8, 8, generator=random)
    weights = torch.zeros(len(space.variables), max(len(variable.choices) for variable in space.variables))
    drawn = next(one for one in space.sample(20, generator=random) if not space.is_dead(one))
    for row, choice in enumerate(space.encode(drawn)):
        weights[row, max(choice, 0)] = 1
    found = []
    for mixture in (supernet.mixture, supernet.mixture_of_open):
        gates = space.gates(weights).clone().requires_grad_()
        logits = mixture(images, gates)
        slope, *by_weights = torch.autograd.grad(
            logits.log_softmax(-1)[:, 0].sum(), [gates, *supernet.parameters()], allow_unused=True
        )
        found.append((logits.detach(), slope, [value is not None for value in by_weights]))
    (logits, slope, reached), (other, same, open_reached) = found
    torch.testing.assert_close(other, logits, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(same, slope, atol=1e-4, rtol=1e-4)
    assert int((same[space.gates(weights) == 0] != 0).sum()) > 0  # what has no weight has a slope all the same
    spared = type(supernet).mixture_of_open is not PathNetwork.mixture_of_open
    assert sum(open_reached) < sum(reached) if spared else open_reached == reached


@pytest.mark.parametrize("make", SPACES)
@pytest.mark.parametrize("affine", [False, True])
def test_many_paths_at_once_are_the_paths_one_by_one(make, affine, random):
    space = make()
    supernet = space.supernet(classes=5, in_channels=1, channels=4, cells=3, affine=affine)
    images = torch.rand(6, 1, 8, 8, generator=random)
    drawn = space.sample(12, generator=random)
    if "none" in space.operations:
        drawn.append(space.architecture([0] * len(space.variables)))  # nothing reaches the output
    drawn += drawn[:2]
    many = supernet.many(images, drawn)
    alone = torch.stack([supernet(images, architecture) for architecture in drawn])
    torch.testing.assert_close(many, alone, atol=1e-5, rtol=1e-5)
    assert len(many.detach().unique(dim=0)) > 6  # the paths do differ


@pytest.mark.parametrize("make", SPACES)
def test_a_size_the_space_cannot_take_is_refused(make):
    with pytest.raises(NesbsError, match=r"multiples of 4 and at least 8, found 30×28: set data.size"):
        make().check_images(30, 28)
    with pytest.raises(NesbsError, match="found 4×4"):
        make().check_images(4, 4)


@pytest.mark.parametrize("make", SPACES)
def test_the_same_generator_draws_the_same(make):
    space = make()
    one, two = (space.sample(20, generator=torch.Generator().manual_seed(5)) for _ in range(2))
    assert one == two
    assert one != space.sample(20, generator=torch.Generator().manual_seed(6))


@pytest.mark.parametrize("other", SPACES)
@pytest.mark.parametrize("make", SPACES)
def test_an_architecture_of_another_space_is_refused(make, other, random):
    space = make()
    for architecture in other().sample(20, generator=random):
        if other is make:
            assert len(space.check(architecture)) == len(space.variables)
        else:
            with pytest.raises(NesbsError, match=f"^this architecture is not of space {space.name}: "):
                space.check(architecture)


def test_a_space_may_hold_more_architectures_than_len_can_say(random):
    space = EdgeSpace("many", 8, ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3"))
    assert space.size == 5**28 > 2**63
    posterior = Posterior(space)
    assert float(posterior.kl()) == pytest.approx(0.0, abs=1e-4)
    assert posterior.to_json()["log_size"] == pytest.approx(28 * math.log(5))
    for sampler in (MonteCarlo(), Uniform()):
        [proposal] = sampler.propose(posterior, size=3, rounds=1, generator=random)
        assert len(set(proposal.architectures)) == 3


@pytest.mark.parametrize(
    ("nodes", "operations", "message"),
    [
        (1, ("none",), "the number of nodes of space mine must be a whole number, at least 2, found 1"),
        (2.5, ("none",), "at least 2, found 2.5"),
        (3, (), "space mine needs operations that all differ, found none$"),
        (3, ("none", "none"), "space mine needs operations that all differ, found none, none"),
    ],
)
def test_a_space_without_a_choice_is_refused(nodes, operations, message):
    with pytest.raises(NesbsError, match=message):
        EdgeSpace("mine", nodes, operations)
    with pytest.raises(NesbsError, match=message.replace("least 2", "least 1").replace("found 1", "found 0")):
        PairSpace("mine", 0 if nodes == 1 else nodes, operations, member_size=(3, 4), supernet_size=(3, 4))


def test_an_edge_is_its_node_its_source_and_its_operation():
    # Both take sep_conv_3x3 on state 1 in their second node, once as its second edge and once as its first.
    same = "('skip_connect', 0), ('skip_connect', 1)"
    one, other = (
        toy_pairs().parse(f"normal=[{same}, ('sep_conv_3x3', 1), ('skip_connect', {source})] reduce=[{same}, {same}]")
        for source in (0, 2)
    )
    assert differing([one, other]) == 1 / 8


@pytest.mark.parametrize("make", SPACES)
def test_a_text_is_no_architecture(make):
    with pytest.raises(NesbsError, match=r"^architecture must be an Architecture, .*, found 'resnet'$"):
        make().network("resnet")
