"""The DARTS space: published sizes, texts, partial channels."""

import pytest
import torch

from nesbs.errors import NesbsError
from nesbs.spaces import darts, toy_edges, toy_pairs, zoo
from nesbs.spaces.operations import Partial, operation

SPACE = darts()
TEXT = str(zoo["darts-v2"])


def test_the_space_has_the_size_of_two_cells_of_four_nodes():
    a_cell = 1
    for inputs in (2, 3, 4, 5):
        a_cell *= inputs * (inputs - 1) // 2 * 7 * 7
    assert len(SPACE) == a_cell**2


def test_genotype_lists_as_they_are_published_are_read():
    # The layout of published files: spaces around '=', lines of their own, inputs in any order.
    text = """
    normal        = [('sep_conv_3x3', 1), ('sep_conv_3x3', 0), ('sep_conv_3x3', 0), ('sep_conv_3x3', 1),
                     ('sep_conv_3x3', 1), ('skip_connect', 0), ('skip_connect', 0), ('dil_conv_3x3', 2)]
    normal_concat = [2, 3, 4, 5]
    reduce        = [('max_pool_3x3', 0), ('max_pool_3x3', 1), ('skip_connect', 2), ('max_pool_3x3', 1),
                     ('max_pool_3x3', 0), ('skip_connect', 2), ('skip_connect', 2), ('max_pool_3x3', 1)]
    reduce_concat = [2, 3, 4, 5]
    """
    assert SPACE.parse(text) == zoo["darts-v2"]


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_what_is_drawn_builds_and_runs(count):
    drawn = SPACE.sample(count, generator=torch.Generator().manual_seed(0))
    assert len(set(drawn)) == count
    images = {side: torch.rand(1, 3, side, side) for side in (8, 16, 28, 32)}
    with torch.no_grad():
        for architecture, side in zip(drawn, [8, 8, 8, 8, 8, 16, 16, 16, 28, 32] * (count // 10), strict=True):
            logits = SPACE.network(architecture, channels=2, cells=3).eval()(images[side])
            assert logits.shape == (1, 10)
            assert logits.isfinite().all()


def test_reduction_cells_stand_at_one_and_two_thirds():
    with torch.device("meta"):
        network = SPACE.network(zoo["darts-v2"]).network
    assert [i for i, cell in enumerate(network.cells) if cell.reduces] == [6, 13]


@pytest.mark.parametrize("stride", [1, 2])
def test_bypassed_channels_arrive_unchanged_up_to_the_shuffle(stride):
    torch.manual_seed(0)
    module = operation("sep_conv_3x3", 4, stride, torch.nn.BatchNorm2d)
    x = torch.rand(2, 8, 8, 8)
    out = Partial(module, 2, stride)(x)
    through, around = out[:, 0::2], out[:, 1::2]  # the shuffle deals the halves out in turn
    torch.testing.assert_close(through, module(x[:, :4]))
    bypassed = x[:, 4:] if stride == 1 else torch.nn.functional.max_pool2d(x[:, 4:], 2)
    assert torch.equal(around, bypassed)


def supernet(partial, space=None):
    torch.manual_seed(0)
    space = space or toy_pairs()
    return space.supernet(classes=3, in_channels=1, channels=4, cells=3, affine=False, partial=partial)


@pytest.mark.parametrize("name", SPACE.operations)
def test_one_part_is_no_partial_channels_bit_for_bit(name, random):
    module = operation(name, 4, 1, torch.nn.BatchNorm2d)
    x = torch.rand(3, 4, 8, 8, generator=random)
    assert torch.equal(Partial(module, 1, 1)(x), module(x))
    assert not any(isinstance(part, Partial) for part in supernet(1).modules())
    assert any(isinstance(part, Partial) for part in supernet(2).modules())


def test_two_parts_have_fewer_parameters_and_run(random):
    one, two = supernet(1, SPACE), supernet(2, SPACE)
    counts = [sum(p.numel() for p in network.parameters()) for network in (one, two)]
    assert counts[1] < counts[0]
    logits = two(torch.rand(2, 1, 16, 16, generator=random), SPACE.sample(generator=random))
    assert logits.shape == (2, 3)


def test_partial_channels_that_do_not_fit_are_refused():
    with pytest.raises(NesbsError, match=r"supernet\.channels must be a multiple of supernet\.partial .3., found 4"):
        supernet(3)
    with pytest.raises(NesbsError, match=r"supernet\.channels must be a multiple of supernet\.partial .3., found 4"):
        supernet(3, toy_edges())


def test_too_few_cells_to_hold_a_normal_one_are_refused():
    with pytest.raises(NesbsError, match="space darts needs 3 cells or more .one normal, two reductions., found 2"):
        SPACE.network(zoo["darts-v2"], cells=2, channels=4)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("('dil_conv_3x3', 2)] reduce", "('dil_conv_3x3', 0)] reduce", "normal node 5 must take two distinct inputs"),
        ("('dil_conv_3x3', 2)] reduce", "('dil_conv_4x4', 2)] reduce", "did you mean dil_conv_"),
        ("('dil_conv_3x3', 2)] reduce", "('none', 2)] reduce", "unknown operation none in the normal cell"),
        ("('dil_conv_3x3', 2)] reduce", "('dil_conv_3x3', 2.5)] reduce", "is not a list of"),
        (", ('dil_conv_3x3', 2)] reduce", "] reduce", "has 8 entries, two a node; found 7"),
    ],
)
def test_a_wrong_text_is_refused(old, new, message):
    assert old in TEXT
    with pytest.raises(NesbsError, match=message):
        SPACE.parse(TEXT.replace(old, new, 1))
