"""Untrained networks: what they answer, by hand; and that it says something about a benchmark's accuracies."""

import csv
import itertools
from pathlib import Path

import pytest
import torch
from contracts import TOYS
from scipy.stats import spearmanr

from nesbs.data.split import make_split
from nesbs.spaces import nasbench201, toy_edges
from nesbs.supernet import Untrained
from nesbs.supernet.untrained import CHANGE, IMAGES, answers


def test_vectors_count_as_many_as_differ():
    none_alike = torch.eye(6) - torch.eye(6).mean(-1, keepdim=True)  # correlations of −1/5 with each of the others
    assert answers(none_alike) == pytest.approx(36 / (6 + 30 / 25))
    one = torch.rand(1, 50)
    assert answers(one.expand(6, -1)) == pytest.approx(1)
    assert answers(torch.cat([one, -2 * one, one + 3])) == pytest.approx(1)  # correlations alone count
    assert answers(torch.zeros(6, 50)) == 1  # nothing changed
    assert answers(torch.randn(6, 100_000, generator=torch.Generator().manual_seed(0))) == pytest.approx(6, abs=0.01)


@pytest.mark.parametrize("make", TOYS)
def test_the_score_is_that_of_each_network_alone(make, mini):
    space = make()
    untrained = Untrained(space, mini.search_train, cells=3, channels=4, seed=1)
    drawn = space.sample(5, generator=torch.Generator().manual_seed(0))
    found = untrained.scores(drawn)
    assert torch.equal(untrained.scores(drawn[::-1]), found.flip(0))
    network, states = untrained._network, []
    plain = network.classify
    network.classify = lambda state: states.append(state) or plain(state)  # listens to what the head is given
    for architecture, score in zip(drawn, found.tolist(), strict=True):
        for images in (untrained._images, untrained._changed):
            with torch.no_grad():
                network(images, architecture)
        before, after = states[-2:]
        if space.is_dead(architecture):
            assert score == 0
        else:
            correlations = torch.corrcoef((after - before).flatten(1).double())
            assert score == pytest.approx(float((IMAGES**2 / correlations.square().sum()).log()), abs=1e-3)


@pytest.mark.parametrize("make", TOYS)
def test_many_at_once_score_as_one_by_one(make, mini):
    # As on a GPU; among them dead ones, and ones that are alike in part.
    space = make()
    drawn = list(itertools.islice(space, 30))
    untrained = Untrained(space, mini.search_train, cells=3, channels=4)
    torch.testing.assert_close(untrained._scored(drawn), untrained.scores(drawn), atol=2e-3, rtol=0)


def test_every_image_is_changed_alike(mini):
    untrained = Untrained(toy_edges(), mini.search_train, cells=1, channels=4)
    change = untrained._changed - untrained._images
    torch.testing.assert_close(change, change[:1].expand_as(change), atol=1e-6, rtol=0)
    assert float(change.std()) == pytest.approx(CHANGE, rel=0.1)


def test_every_channel_is_changed_by_itself():
    images = torch.randint(256, (20, 3, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    split = make_split(images, torch.arange(20) % 2, ("a", "b"), source="colours")
    untrained = Untrained(toy_edges(), split, cells=1, channels=4)
    change = (untrained._changed - untrained._images)[0].flatten(1)
    assert float(torch.corrcoef(change).triu(1).abs().max()) < 0.5


def test_what_nothing_passes_through_makes_no_difference(mini):
    space = nasbench201()
    behind_none = [f"|none~0|+|none~0|{op}~1|+|nor_conv_3x3~0|none~1|none~2|" for op in space.operations]
    untrained = Untrained(space, mini.search_train, cells=1, channels=4)
    scores = untrained.scores([space.parse(text) for text in behind_none])
    assert len(set(scores.tolist())) == 1
    assert len(untrained._cache) == 1  # looked at once


def test_it_depends_on_the_seed_and_on_the_depth(mini):
    space = nasbench201()
    drawn = [space.parse("|nor_conv_3x3~0|+|skip_connect~0|nor_conv_3x3~1|+|avg_pool_3x3~0|none~1|skip_connect~2|")]
    shallow, again, other, deep = (
        float(Untrained(space, mini.search_train, cells=cells, channels=4, seed=seed).scores(drawn))
        for cells, seed in ((1, 0), (1, 0), (1, 1), (3, 0))
    )
    assert shallow == again
    assert len({shallow, other, deep}) == 3


def test_untrained_networks_of_full_depth_rank_a_benchmark(mini):
    # The benchmark trained on CIFAR-10; even untrained and on other images the better networks answer more variously.
    with (Path(__file__).parents[1] / "nasbench201_sample.csv").open() as opened:
        rows = list(csv.DictReader(opened))[:30]
    space = nasbench201()
    found = Untrained(space, mini.search_train, channels=8).scores([space.parse(row["architecture"]) for row in rows])
    truth = [float(row["valid_acc_cifar10"]) for row in rows]
    assert spearmanr(found, truth).statistic > 0.6
