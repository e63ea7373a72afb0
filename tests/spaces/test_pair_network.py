"""The DARTS evaluation networks: published sizes on CIFAR and ImageNet, the auxiliary tower, DropPath."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from nesbs.errors import NesbsError
from nesbs.spaces import darts, multiply_adds, nasbench201, parameters, toy_pairs, widest, zoo
from nesbs.spaces.nasbench201 import Reduction

SPACE = darts()
SMALL = {"cells": 3, "channels": 4}


def count(member):
    return sum(parameter.numel() for parameter in member.parameters())


@pytest.mark.parametrize(
    ("classes", "stem", "added"),
    [
        # 576·128 + 2·128 + 128·768·4 + 2·768 + 768·classes + classes
        (10, "cifar", 476_426),
        (100, "cifar", 476_426 + 90 * 769),
        # On ImageNet without the last BatchNorm; 48 channels make 768 at the tower.
        (1000, "imagenet", 768 * 128 + 256 + 393_216 + 769_000),
    ],
)
@pytest.mark.usefixtures("shapes_alone")
def test_the_auxiliary_tower_adds_what_darts_adds(classes, stem, added):
    channels, cells = (36, 20) if stem == "cifar" else (48, 14)
    with torch.device("meta"):
        with_tower, without = (
            SPACE.network(
                zoo["darts-v2"], classes=classes, channels=channels, cells=cells, stem=stem, auxiliary=auxiliary
            )
            for auxiliary in (True, False)
        )
    assert count(with_tower) - count(without) == added
    assert parameters(with_tower) == parameters(without) == count(without)


@pytest.mark.parametrize(
    ("name", "millions"),
    [("darts-v2", 4.7), ("p-darts", 4.9), ("pc-darts", 5.3)],  # each paper's own ImageNet row, 48 channels
)
@pytest.mark.usefixtures("shapes_alone")
def test_imagenet_networks_have_their_published_sizes(name, millions):
    with torch.device("meta"):
        member = SPACE.network(zoo[name], classes=1000, channels=48, cells=14, stem="imagenet")
    assert round(parameters(member) / 1e6, 1) == millions
    assert 500e6 < multiply_adds(member, (3, 224, 224)) < 600e6


@pytest.mark.usefixtures("shapes_alone")
def test_the_widest_network_under_a_limit_of_multiply_adds():
    def network(channels):
        with torch.device("meta"):
            return SPACE.network(zoo["pc-darts"], classes=1000, channels=channels, cells=3, stem="imagenet")

    image, limit = (3, 224, 224), 30_000_000
    chosen = widest(network, image, limit)
    assert chosen % 2 == 0
    assert multiply_adds(network(chosen), image) < limit <= multiply_adds(network(chosen + 2), image)
    with pytest.raises(NesbsError, match=r"members.multiply_adds=1000 is too few: 2 channels need \d+"):
        widest(network, image, 1000)


def test_multiply_adds_are_those_of_torchs_own_counter():
    member = darts().network(zoo["darts-v2"], channels=4, cells=3, auxiliary=True).train()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        member.eval()(torch.zeros(1, 3, 16, 16))
    assert multiply_adds(member.train(), (3, 16, 16)) == counter.get_total_flops() / 2
    assert member.training


def test_counting_leaves_every_layer_in_its_own_mode():
    member = toy_pairs().network(next(iter(toy_pairs()))).train()
    member.network.stem.eval()
    before = [module.training for module in member.modules()]
    multiply_adds(member, (3, 8, 8))
    assert [module.training for module in member.modules()] == before
    assert {True, False} == set(before)


def test_no_layer_is_left_out_where_a_device_takes_a_shortcut_past_it(monkeypatch):
    """On a GPU a reduction's shortcut is one convolution that is no layer."""
    member = nasbench201().network(next(iter(nasbench201())), channels=4, cells=1)
    expected = multiply_adds(member, (3, 16, 16))
    with torch.no_grad():
        plain = member.eval()(torch.ones(1, 3, 16, 16))
    as_on_a_gpu = lambda self, x: self._as_one(x) if x.device.type == "cpu" else self.shortcut(x)  # noqa: E731
    monkeypatch.setattr(Reduction, "past", as_on_a_gpu)
    assert multiply_adds(member, (3, 16, 16)) == expected
    with torch.no_grad():
        torch.testing.assert_close(member(torch.ones(1, 3, 16, 16)), plain)


def test_multiply_adds_equal_a_hand_count():
    # One 3×3 convolution of 2 channels on each of three cells' edge, by hand.
    space = nasbench201()
    empty, one = (
        space.network(
            space.parse(f"|{op}~0|+|none~0|skip_connect~1|+|none~0|none~1|skip_connect~2|"), channels=2, cells=1
        )
        for op in ("skip_connect", "nor_conv_3x3")
    )
    by_hand = sum(9 * width * width * side * side for width, side in ((2, 8), (4, 4), (8, 2)))
    assert multiply_adds(one, (3, 8, 8)) - multiply_adds(empty, (3, 8, 8)) == by_hand
    assert next(one.parameters()).device.type == "cpu"  # counting leaves the network where it is


@pytest.mark.parametrize("side", [8, 12, 16, 20, 28, 32, 64])
def test_the_tower_takes_every_size_the_space_takes_and_is_there_in_training_alone(side):
    torch.manual_seed(0)
    member = SPACE.network(zoo["darts-v2"], **SMALL, auxiliary=True)
    images = torch.rand(2, 3, side, side)
    logits, auxiliary = member.outputs(images)
    assert logits.shape == auxiliary.shape == (2, 10)
    member.eval()
    assert member.outputs(images)[1] is None
    torch.testing.assert_close(member(images), member.outputs(images)[0])


def test_the_tower_pools_as_darts_does_on_cifar_and_imagenet():
    torch.manual_seed(0)
    tower = SPACE.network(zoo["darts-v2"], **SMALL, auxiliary=True).network.auxiliary.eval()
    for side, stride in ((8, 3), (7, 2)):
        state = torch.randn(2, 64, side, side)
        pooled = torch.nn.functional.avg_pool2d(state.relu(), 5, stride, count_include_pad=False)
        assert pooled.shape[2:] == (2, 2)
        torch.testing.assert_close(tower(state), tower.head(tower.convolutions(pooled).flatten(1)))


def test_the_imagenet_stem_takes_an_eighth_and_says_which_sizes():
    torch.manual_seed(0)
    member = SPACE.network(zoo["darts-v2"], **SMALL, stem="imagenet", auxiliary=True)
    stem = member.network.stem(torch.rand(1, 3, 64, 64))
    assert [tuple(state.shape) for state in stem] == [(1, 4, 16, 16), (1, 4, 8, 8)]
    logits, auxiliary = member.outputs(torch.rand(2, 3, 64, 64))
    assert logits.shape == auxiliary.shape == (2, 10)
    for side in (28, 32):  # of 32 pixels the auxiliary tower would get one
        with pytest.raises(NesbsError, match="sides are multiples of 32 and at least 64, found"):
            SPACE.check_images(side, side, "imagenet")
    with pytest.raises(NesbsError, match="space nasbench201 has no ImageNet stem and no auxiliary tower"):
        nasbench201().network(next(iter(nasbench201())), stem="imagenet")
    with pytest.raises(NesbsError, match="the stem imagenet halves the channels: there must be two or more, found 1"):
        SPACE.network(zoo["darts-v2"], channels=1, cells=3, stem="imagenet")


@pytest.mark.parametrize("space", [toy_pairs(), nasbench201()], ids=lambda space: space.name)
def test_drop_path_of_one_is_the_network_and_of_zero_is_what_hands_on(space):
    torch.manual_seed(0)
    text = {
        "toy-pairs": "normal=[('sep_conv_3x3', 0), ('skip_connect', 1), ('sep_conv_3x3', 1), ('sep_conv_3x3', 2)] "
        "reduce=[('sep_conv_3x3', 0), ('skip_connect', 1), ('sep_conv_3x3', 1), ('sep_conv_3x3', 2)]",
        "nasbench201": "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_1x1~1|+|skip_connect~0|none~1|nor_conv_3x3~2|",
    }[space.name]
    member = space.network(space.parse(text), cells=3, channels=4).eval()
    images = torch.rand(4, 3, 16, 16)
    ones = torch.ones(*member.network.drop_paths, 4)
    assert torch.equal(member.outputs(images, drop=ones)[0], member(images))
    # Dropping one image's paths changes that image alone.
    ones[:, :, 1] = 0
    changed = (member.outputs(images, drop=ones)[0] != member(images)).any(1)
    assert changed.tolist() == [False, True, False, False]
    # With every convolution dropped the cell is its skips: the logits of the same cell without the others.
    if space.name == "nasbench201":
        skips = space.parse("|none~0|+|skip_connect~0|none~1|+|skip_connect~0|none~1|none~2|")
        alone = member.network.outputs(images, skips)[0]
        torch.testing.assert_close(member.outputs(images, drop=torch.zeros_like(ones))[0], alone)


def test_drop_path_scales_what_an_edge_carries():
    torch.manual_seed(0)
    space = nasbench201()
    one = space.parse("|none~0|+|none~0|none~1|+|nor_conv_3x3~0|none~1|none~2|")
    network = space.network(one, cells=1, channels=4).eval().network
    cell, x = network.stages[0][0], torch.rand(3, 4, 8, 8)
    (live,) = space.live(one)
    scales = torch.tensor([[0.0, 1.0, 1.25]])
    plain, scaled = cell.path([x], live)[-1], cell.path([x], live, scales)[-1]
    torch.testing.assert_close(scaled, plain * scales[0][:, None, None, None])
