"""Measures against an independent implementation and by hand."""

import pytest
import torch
from torchmetrics.functional.classification import multiclass_calibration_error

from nesbs import metrics


def random_case(seed, classes=5, images=200, sharpness=2.0):
    g = torch.Generator().manual_seed(seed)
    log_probs = (sharpness * torch.randn(images, classes, generator=g)).log_softmax(-1)
    return log_probs, torch.randint(classes, (images,), generator=g)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bins", [1, 10, 15])
def test_ece_equals_torchmetrics(seed, bins):
    log_probs, labels = random_case(seed)
    theirs = multiclass_calibration_error(log_probs.exp(), labels, num_classes=5, n_bins=bins, norm="l1")
    assert float(metrics.ece(log_probs, labels, bins)) == pytest.approx(float(theirs), abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_error_nll_and_brier_equal_a_plain_count(seed):
    log_probs, labels = random_case(seed)
    probs = log_probs.exp()
    wrong = sum(int(p.argmax()) != int(y) for p, y in zip(probs, labels, strict=True)) / len(labels)
    nll = -sum(float(p[y].log()) for p, y in zip(probs, labels, strict=True)) / len(labels)
    brier = sum(
        sum((float(p[c]) - float(c == y)) ** 2 for c in range(5)) for p, y in zip(probs, labels, strict=True)
    ) / len(labels)
    assert float(metrics.error(log_probs, labels)) == pytest.approx(wrong)
    assert float(metrics.nll(log_probs, labels)) == pytest.approx(nll, rel=1e-5)
    assert float(metrics.brier(log_probs, labels)) == pytest.approx(brier, rel=1e-5)


def test_leading_axes_are_kept():
    cases = [random_case(seed) for seed in range(3)]
    stacked, labels = torch.stack([log_probs for log_probs, _ in cases]), cases[0][1]
    for measure in (metrics.error, metrics.nll, metrics.brier, metrics.ece):
        together = measure(stacked, labels)
        assert together.shape == (3,)
        assert together.tolist() == pytest.approx([float(measure(log_probs, labels)) for log_probs in stacked])


def test_certain_and_wrong():
    log_probs, labels = torch.tensor([[0.0, -torch.inf]]), torch.tensor([1])
    assert metrics.error(log_probs, labels) == 1
    assert metrics.nll(log_probs, labels) == torch.inf
    assert metrics.brier(log_probs, labels) == 2
    assert metrics.ece(log_probs, labels) == 1


def test_averages():
    log_probs = torch.stack([random_case(seed)[0] for seed in range(4)])
    torch.testing.assert_close(metrics.average(log_probs).exp(), log_probs.exp().mean(0))
    torch.testing.assert_close(metrics.average_logits(log_probs).exp(), log_probs.mean(0).softmax(-1))


def test_disagreement_counts_pairs():
    # Labels 0 0 0 0 / 0 0 1 1 / 0 1 1 0: pairs differ on 2, 2 and 2 of 4 images.
    labels = torch.tensor([[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 1, 0]])
    log_probs = torch.nn.functional.one_hot(labels, 2).float().mul(4).log_softmax(-1)
    assert float(metrics.disagreement(log_probs)) == pytest.approx(0.5)
    assert metrics.disagreement(log_probs[:1]) == 0
