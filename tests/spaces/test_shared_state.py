"""Many architectures at once: common work is done once, and BatchNorm keeps their batches apart."""

import torch

from nesbs.spaces import nasbench201
from nesbs.spaces.shared_state import SharedState, each, join_states

SPACE = nasbench201()


def test_each_batch_has_statistics_of_its_own():
    torch.manual_seed(0)
    norm = torch.nn.BatchNorm2d(3, affine=False, track_running_stats=False)
    values = torch.randn(4, 8, 3, 5, 5) * torch.arange(1, 5)[:, None, None, None, None] + 7
    apart = each(norm, values)
    torch.testing.assert_close(apart, torch.stack([norm(batch) for batch in values]))
    assert apart.mean((1, 3, 4)).abs().max() < 1e-5


def test_what_architectures_have_in_common_is_computed_once():
    torch.manual_seed(0)
    supernet = SPACE.supernet(classes=5, in_channels=1, channels=4, cells=1, affine=False).eval()
    seen = []
    operation = supernet.stages[0][0].edges["1_0"]["nor_conv_3x3"]
    operation.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].shape))
    later = supernet.stages[1][0].edges["1_0"]["nor_conv_3x3"]
    sizes = []
    later[1].register_forward_hook(lambda module, inputs, output: sizes.append(inputs[0].shape))
    text = "|nor_conv_3x3~0|+|{0}~0|skip_connect~1|+|skip_connect~0|none~1|skip_connect~2|"
    drawn = [SPACE.parse(text.format(op)) for op in ("none", "skip_connect", "nor_conv_1x1", "none")]
    supernet.many(torch.rand(6, 1, 8, 8), drawn)
    assert len(seen) == 1  # all four share the first edge of the first cell
    assert len(sizes) == 1  # three distinct values meet it in the second stage, in one call


def test_combinations_are_joined_once_and_found_again():
    values = {"a": torch.tensor([[1.0], [2.0]]), "b": torch.tensor([[10.0]])}
    joins = []

    def join(parts):
        joins.append(len(parts[0]))
        return sum(parts[1:], parts[0])

    def arriving(*rows):
        return [(name, values[name], row) for name, row in rows]

    parts = [
        arriving(("a", 0), ("b", 0)),
        arriving(("a", 1)),
        [],
        arriving(("a", 1), ("b", 0)),
        arriving(("a", 0), ("b", 0)),
    ]
    joined, rows = join_states(parts, join)
    assert [None if row is None else joined[row].item() for row in rows] == [11.0, 2.0, None, 12.0, 11.0]
    assert sorted(joins) == [1, 2]
    assert join_states([[], []], join) == (None, (None, None))


def test_a_state_is_given_back_in_the_architectures_order():
    state = SharedState(torch.tensor([[1.0], [2.0], [3.0]]), (2, 0, 0, 1))
    assert state.apply(lambda value: value * 10).expanded().flatten().tolist() == [30.0, 10.0, 10.0, 20.0]
