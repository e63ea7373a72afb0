"""Temperatures: a known one is recovered, the optimum is one, and what cannot be fitted is said."""

import math

import pytest
import torch
from scipy.optimize import minimize_scalar

from nesbs import metrics
from nesbs.errors import NesbsError
from nesbs.evaluation.calibration import COLDEST, HOTTEST, calibrate, cross_calibrate, fit_temperature, halves, scale


def sampled(seed, images=400, classes=6, sharpness=2.0):
    """True logits, and labels drawn from their softmax."""
    g = torch.Generator().manual_seed(seed)
    logits = sharpness * torch.randn(images, classes, generator=g, dtype=torch.float64)
    return logits, torch.multinomial(logits.softmax(-1), 1, generator=g)[:, 0]


@pytest.mark.parametrize("factor", [0.3, 1.0, 4.0])
def test_a_known_temperature_is_recovered(factor):
    logits, labels = sampled(0, images=60_000)
    # Logits that are too large by a factor need that temperature; 60,000 labels know it to about 1 %.
    assert fit_temperature(factor * logits, labels) == pytest.approx(factor, rel=0.02)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("factor", [0.2, 1.0, 7.0])
def test_the_optimum_is_scipys(seed, factor):
    logits, labels = sampled(seed)
    logits = factor * logits

    def loss(log_temperature):
        return float(metrics.nll(scale(logits, math.exp(log_temperature)), labels))

    found = minimize_scalar(loss, bracket=(-1, 1), options={"xtol": 1e-10})
    temperature = fit_temperature(logits, labels)
    assert loss(math.log(temperature)) <= found.fun + 1e-14
    assert temperature == pytest.approx(math.exp(found.x), rel=1e-6)


def test_the_derivative_is_zero_at_the_optimum():
    logits, labels = sampled(3)
    inverse = torch.tensor(1 / fit_temperature(logits, labels), dtype=torch.float64, requires_grad=True)
    torch.nn.functional.cross_entropy(inverse * logits, labels).backward()
    assert abs(float(inverse.grad)) < 1e-10


def test_a_shift_of_an_image_changes_nothing():
    logits, labels = sampled(1)
    assert fit_temperature(logits + 50, labels) == pytest.approx(fit_temperature(logits.log_softmax(-1), labels))


@pytest.mark.parametrize(
    ("logits", "labels", "temperature"),
    [
        (torch.zeros(5, 1), torch.zeros(5).long(), 1.0),  # one class
        (torch.zeros(5, 3), torch.arange(5) % 3, 1.0),  # all classes alike
        (torch.eye(3) * 9, torch.arange(3), COLDEST),  # every answer right
        (torch.eye(3) * 9, (torch.arange(3) + 1) % 3, HOTTEST),  # every answer wrong
        (torch.eye(2) * 1e30, torch.tensor([0, 0]), HOTTEST),  # half, and certain beyond all measure
    ],
)
def test_degenerate_predictions_have_a_finite_temperature(logits, labels, temperature):
    assert fit_temperature(logits, labels) == temperature
    calibration = calibrate(logits, labels, logits, labels)
    assert all(math.isfinite(value) for value in (*calibration.after.values(), *calibration.before.values()))


def test_predictions_must_be_finite():
    with pytest.raises(NesbsError, match="fitted to finite predictions, found 1 images"):
        fit_temperature(torch.tensor([[0.0, -torch.inf]]), torch.tensor([1]))
    with pytest.raises(NesbsError, match="found 0 images"):
        fit_temperature(torch.zeros(0, 2), torch.zeros(0).long())
    with pytest.raises(NesbsError, match="needs two images or more, found 1"):
        cross_calibrate(torch.zeros(1, 2), torch.zeros(1).long())


def test_calibrate_fits_on_the_held_out_images_only():
    held_out, held_out_labels = sampled(0)
    test, labels = sampled(1, images=300)
    calibration = calibrate(5 * held_out, held_out_labels, 5 * test, labels)
    temperature = fit_temperature(5 * held_out, held_out_labels)
    assert calibration.temperatures == (temperature,)
    for measured, log_probs in ((calibration.before, 5 * test), (calibration.after, 5 * test / temperature)):
        log_probs = log_probs.log_softmax(-1)
        assert measured["nll"] == pytest.approx(float(metrics.nll(log_probs, labels)))
        assert measured["brier"] == pytest.approx(float(metrics.brier(log_probs, labels)))
        assert measured["ece"] == pytest.approx(float(metrics.ece(log_probs, labels)))
    assert calibration.after["nll"] < calibration.before["nll"]


def test_each_half_is_scaled_with_the_others_temperature():
    logits, labels = sampled(2, images=60)
    logits = logits * 3
    first, second = halves(labels)
    calibration = cross_calibrate(logits, labels)
    assert abs(calibration.temperatures[0] - calibration.temperatures[1]) > 0.1
    assert calibration.temperatures == (
        fit_temperature(logits[first], labels[first]),
        fit_temperature(logits[second], labels[second]),
    )
    after = [
        float(metrics.nll((logits[own] / temperature).log_softmax(-1), labels[own]))
        for own, temperature in ((second, calibration.temperatures[0]), (first, calibration.temperatures[1]))
    ]
    assert calibration.after["nll"] == pytest.approx(sum(after) / 2)
    assert calibration.before["nll"] == pytest.approx(float(metrics.nll(logits.log_softmax(-1), labels)))
    assert calibration == cross_calibrate(logits, labels)


def test_halves_are_of_every_class_alike():
    labels = torch.tensor([0] * 10 + [1] * 7 + [2] * 3 + [3])[torch.randperm(21, generator=torch.Generator())]
    first, second = halves(labels)
    assert sorted([*first.tolist(), *second.tolist()]) == list(range(21))
    for label in range(4):
        counts = [int((labels[half] == label).sum()) for half in (first, second)]
        assert abs(counts[0] - counts[1]) <= 1
    assert first.tolist() == halves(labels)[0].tolist() != labels.argsort(stable=True)[0::2].tolist()
