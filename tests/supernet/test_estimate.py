"""Estimates: a function of supernet, architecture and images, of nothing else."""

import pytest
import torch

from nesbs.spaces import nasbench201, toy_edges
from nesbs.supernet import Estimator, Supernet, content_order, train_supernet


@pytest.fixture(scope="module")
def supernet(mini):
    return train_supernet(nasbench201(), mini.search_train, seed=0, epochs=1, channels=4, batch_size=32)


def test_estimates_do_not_depend_on_what_was_estimated_before(supernet, mini):
    architectures = nasbench201().sample(4, generator=torch.Generator().manual_seed(0))
    forwards, backwards = (Estimator(supernet, mini.search_valid, batch_size=32) for _ in range(2))
    one = {a: forwards.logits(a) for a in architectures}
    two = {a: backwards.logits(a) for a in reversed(architectures)}
    assert all(torch.equal(one[a], two[a]) for a in architectures)


def test_estimates_do_not_depend_on_how_the_data_were_sorted(supernet, mini):
    split = mini.search_valid
    [architecture] = nasbench201().sample(1, generator=torch.Generator().manual_seed(1))
    by_class = split.labels.argsort(stable=True)
    plain = Estimator(supernet, split, batch_size=32).logits(architecture)
    sorted_ = Estimator(supernet, split.subset(by_class), batch_size=32).logits(architecture)
    torch.testing.assert_close(sorted_, plain[by_class], atol=1e-6, rtol=1e-5)


def test_the_order_mixes_the_classes(mini):
    split = mini.search_valid.subset(mini.search_valid.labels.argsort(stable=True))
    first = split.labels[content_order(split)][:30]
    assert len(first.unique()) >= 7
    assert sorted(content_order(split).tolist()) == list(range(len(split)))


def test_the_order_is_that_of_a_projection_in_exact_arithmetic(noise):
    split = noise.search_valid
    pixels = split.bytes(torch.arange(len(split))).flatten(1).tolist()
    weights = torch.randint(-(2**62), 2**62, (len(pixels[0]),), generator=torch.Generator().manual_seed(0)).tolist()
    sums = [sum(pixel * weight for pixel, weight in zip(image, weights, strict=True)) for image in pixels]
    wrapped = [(value + 2**63) % 2**64 for value in sums]  # as 64 bits hold them, the smallest first
    assert content_order(split).tolist() == sorted(range(len(split)), key=wrapped.__getitem__)


def test_a_supernet_made_by_hand_estimates_in_full_precision(noise):
    built = train_supernet(toy_edges(), noise.search_train, epochs=1, channels=2, cells=1)
    by_hand = Supernet(built.space, built.network).eval()
    architecture = list(toy_edges())[-1]
    one, two = (Estimator(each, noise.search_valid).logits(architecture) for each in (built, by_hand))
    assert torch.equal(one, two)


def test_batchnorm_uses_the_statistics_of_the_batch(supernet, mini):
    # By hand: the batches in content order, the last one filled from the front, no running averages.
    split, size = mini.search_valid, 32
    [architecture] = nasbench201().sample(1, generator=torch.Generator().manual_seed(2))
    order = content_order(split)
    wrapped = torch.cat([order, order])[: -(-len(split) // size) * size]
    expected = torch.empty(len(split), split.classes)
    with torch.no_grad():
        for index in reversed(wrapped.split(size)):  # images seen twice keep their first batch's answer
            expected[index] = supernet(split.pixels(index), architecture)
    assert torch.equal(Estimator(supernet, split, batch_size=size).logits(architecture), expected)
    assert not any("running" in name for name in supernet.state_dict())


def test_predictions_are_computed_once(mini):
    supernet = train_supernet(toy_edges(), mini.search_train, seed=0, epochs=1, channels=2)
    estimator = Estimator(supernet, mini.search_valid)
    calls = []
    supernet.register_forward_hook(lambda *arguments: calls.append(1))
    architectures = list(toy_edges())[:3]
    estimator.log_probs(architectures)
    first = len(calls)
    predicted = estimator.log_probs([*architectures, *architectures])
    assert len(calls) == first > 0
    assert len(estimator) == 3
    assert predicted.shape == (6, len(mini.search_valid), 10)


def test_a_dead_architecture_is_estimated_as_a_number(supernet, mini):
    dead = nasbench201().parse("|none~0|+|none~0|none~1|+|none~0|none~1|none~2|")
    assert Estimator(supernet, mini.search_valid).log_probs([dead]).isfinite().all()


def test_many_at_once_are_the_estimates_one_by_one(supernet, mini):
    # What a GPU does, done here: groups of three go through the supernet together.
    architectures = nasbench201().sample(7, generator=torch.Generator().manual_seed(3))
    alone = Estimator(supernet, mini.search_valid, batch_size=32)
    grouped = Estimator(supernet, mini.search_valid, batch_size=32)
    for start in range(0, 7, 3):
        group = architectures[start : start + 3]
        predicted = grouped._predict(group)
        for architecture, logits in zip(group, predicted, strict=True):
            torch.testing.assert_close(logits, alone.logits(architecture), atol=1e-5, rtol=1e-5)


def test_preparing_tells_how_many_are_done(supernet, mini):
    architectures = nasbench201().sample(3, generator=torch.Generator().manual_seed(4))
    estimator, heard = Estimator(supernet, mini.search_valid, batch_size=32), []
    estimator.logits(architectures[1])
    estimator.prepare(architectures, lambda done, total: heard.append((done, total)))
    assert heard == [(2, 3), (3, 3)]
    assert len(estimator) == 3
