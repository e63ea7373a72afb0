"""Spaces whose nodes choose pairs of inputs."""

import pytest

from nesbs.errors import NesbsError
from nesbs.spaces import toy_pairs

SPACE = toy_pairs()
TEXT = (
    "normal=[('skip_connect', 0), ('sep_conv_3x3', 1), ('sep_conv_3x3', 0), ('sep_conv_3x3', 2)] "
    "reduce=[('skip_connect', 0), ('skip_connect', 1), ('skip_connect', 1), ('sep_conv_3x3', 2)]"
)


def test_the_order_of_a_nodes_inputs_does_not_matter():
    swapped = TEXT.replace("('sep_conv_3x3', 0), ('sep_conv_3x3', 2)", "('sep_conv_3x3', 2), ('sep_conv_3x3', 0)")
    assert swapped != TEXT
    assert SPACE.parse(swapped) == SPACE.parse(TEXT)
    assert str(SPACE.parse(swapped)) == TEXT


def test_operations_on_edges_no_pair_holds_play_no_part():
    encoded = dict(zip((v.name for v in SPACE.variables), SPACE.encode(SPACE.parse(TEXT)), strict=True))
    assert encoded["normal inputs of 3"] == 1  # 0+2
    assert encoded["normal 1→3"] == -1
    assert encoded["normal 2→3"] == 1
    assert "normal inputs of 2" not in encoded  # one pair: nothing to choose


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("('sep_conv_3x3', 2)] reduce", "('sep_conv_3x3', 0)] reduce", "node 3 must take two distinct inputs below 3"),
        ("('sep_conv_3x3', 2)] reduce", "('sep_conv_3x3', 7)] reduce", "found 0 and 7"),
        ("('sep_conv_3x3', 2)] reduce", "('sep_conv_4x4', 2)] reduce", "did you mean sep_conv_3x3?"),
        ("('skip_connect', 0), ('sep_conv_3x3', 1), ", "", "has 4 entries, two a node; found 2"),
        ("reduce=", "other=", "no list reduce="),
        ("('sep_conv_3x3', 2)] reduce", "__import__('os')] reduce", "not a list of"),
    ],
)
def test_a_wrong_text_is_refused(old, new, message):
    with pytest.raises(NesbsError, match=message):
        SPACE.parse(TEXT.replace(old, new, 1))
