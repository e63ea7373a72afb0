"""NAS-Bench-201: the benchmark's sizes, its strings, and architectures in which nothing arrives."""

import csv
from pathlib import Path

import pytest
import torch

from nesbs.errors import NesbsError
from nesbs.spaces import nasbench201
from nesbs.spaces.architecture import live
from nesbs.spaces.operations import Partial

SPACE = nasbench201()
ROWS = list(csv.DictReader((Path(__file__).parents[1] / "nasbench201_sample.csv").read_text().splitlines()))
COLUMNS = {10: "params_cifar10", 100: "params_cifar100", 120: "params_imagenet16_120"}


def check_sizes(rows):
    with torch.device("meta"):  # sizes need no numbers
        for row in rows:
            architecture = SPACE.parse(row["architecture"])
            for classes, column in COLUMNS.items():
                network = SPACE.network(architecture, classes=classes)
                assert sum(p.numel() for p in network.parameters()) == int(row[column]), row


def test_sizes_equal_the_benchmarks():
    check_sizes(ROWS[::200])


@pytest.mark.slow
def test_sizes_equal_the_benchmarks_on_all_rows():
    check_sizes(ROWS)


def test_strings_are_the_benchmarks():
    assert all(str(SPACE.parse(row["architecture"])) == row["architecture"] for row in ROWS)


def test_dead_architectures_are_those_whose_accuracy_is_chance():
    dead = [architecture for architecture in SPACE if SPACE.is_dead(architecture)]
    assert len(dead) == 341
    for row in ROWS:
        at_chance = abs(float(row["valid_acc_cifar10"]) - 10) < 0.5
        assert SPACE.is_dead(SPACE.parse(row["architecture"])) == at_chance, row


def test_a_dead_architecture_has_a_finite_answer():
    dead = SPACE.parse("|none~0|+|none~0|none~1|+|none~0|none~1|none~2|")
    network = SPACE.network(dead, channels=4, cells=1)
    logits = network(torch.rand(3, 3, 8, 8))
    assert logits.isfinite().all()
    assert torch.equal(logits[0], logits[1])


def test_live_part_by_hand():
    # 0→1 leads to node 1, from which only `none` leaves: dead. 0→2→3 lives.
    cell = SPACE.parse("|nor_conv_3x3~0|+|skip_connect~0|none~1|+|none~0|none~1|nor_conv_1x1~2|").cells[0]
    assert live(cell, 1, (3,)) == ((), (("skip_connect", 0),), (("nor_conv_1x1", 2),))


def test_a_cell_computes_the_sum_of_its_edges():
    # Skips and one pooling: node 1 is x, node 2 pool(x), node 3 their sum with x.
    architecture = SPACE.parse(
        "|skip_connect~0|+|avg_pool_3x3~0|none~1|+|skip_connect~0|skip_connect~1|skip_connect~2|"
    )
    network = SPACE.network(architecture, channels=4, cells=1).network
    x = torch.rand(2, 4, 8, 8)
    pooled = torch.nn.functional.avg_pool2d(x, 3, 1, 1, count_include_pad=False)
    out = network.stages[0][0].path([x], SPACE.live(architecture)[0])[-1]
    torch.testing.assert_close(out, 2 * x + pooled)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("|none~0|+|none~0|none~1|", "has 2 nodes joined by '\\+', space nasbench201 needs 3"),
        ("|none~0|+|none~0|none~1|+|none~0|none~1|conv~2|", "unknown operation conv"),
        ("|none~0|+|none~0|none~1|+|none~0|none~1|nor_conv_3x4~2|", "did you mean nor_conv_3x3?"),
        ("|none~0|+|none~1|none~0|+|none~0|none~1|none~2|", "must name the sources 0, 1 in order"),
        ("|none~0|+|none~0|none~1|+nonsense", "is not of the form"),
    ],
)
def test_a_wrong_string_is_refused(text, message):
    with pytest.raises(NesbsError, match=message):
        SPACE.parse(text)


def test_partial_channels_run_half_of_them_and_nothing_passes_by_none(random):
    """One path, many paths and the mixture of one-hot gates agree; `none` is no edge, whatever K is."""
    torch.manual_seed(0)
    network = SPACE.supernet(classes=3, in_channels=3, channels=4, cells=1, affine=False, partial=2)
    whole = SPACE.supernet(classes=3, in_channels=3, channels=4, cells=1, affine=False)
    assert sum(p.numel() for p in network.parameters()) < sum(p.numel() for p in whole.parameters())
    assert any(isinstance(module, Partial) for module in network.modules())
    assert not any(isinstance(module, Partial) for module in whole.modules())
    images = torch.rand(4, 3, 8, 8, generator=random)
    dead = SPACE.parse("|none~0|+|none~0|none~1|+|none~0|none~1|none~2|")
    drawn = [*SPACE.sample(5, generator=random), dead]
    together = network.many(images, drawn)
    for architecture, logits in zip(drawn, together, strict=True):
        alone = network(images, architecture)
        torch.testing.assert_close(logits, alone, rtol=0, atol=1e-5)
        if architecture != dead:
            gates = torch.nn.functional.one_hot(SPACE.encode_all([architecture])[0], 5).float()[None]
            torch.testing.assert_close(network.mixture(images, gates), alone, rtol=0, atol=1e-5)
    assert torch.equal(together[-1][0], together[-1][1])  # nothing of the image arrives
    # A path of skips alone hands all channels on, shuffled: what passes by is not lost.
    skip = network.stages[0][0].edges["1_0"]["skip_connect"]
    x = torch.rand(1, 4, 2, 2, generator=random)
    assert torch.equal(skip(x), x[:, [0, 2, 1, 3]])
