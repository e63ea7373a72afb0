"""Thresholds and sets keep what they promise on images that they were not fitted to."""

import pytest
import torch

from nesbs import NesbsError
from nesbs.evaluation import conformal
from nesbs.evaluation.selective import aurc, risk_coverage, threshold_for


def drawn(images, generator, classes=6, sharpness=1.7):
    """Predictions that are too sure of themselves, and labels drawn from what would be right."""
    logits = 1.5 * torch.randn(images, classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]
    return (sharpness * logits).log_softmax(-1), labels


@pytest.mark.parametrize("randomised", [False, True])
@pytest.mark.parametrize("coverage", [0.8, 0.95])
def test_mean_coverage_over_fresh_splits_is_the_wanted_one(coverage, randomised):
    """Not below it by more than three standard errors of 200 splits; of randomised sets not above either."""
    random, covered, held_out = torch.Generator().manual_seed(0), [], 99
    for _ in range(200):
        log_probs, labels = drawn(held_out + 200, random)
        part = torch.rand(len(labels), generator=random) if randomised else None
        fit, other = slice(0, held_out), slice(held_out, None)
        parts = (None, None) if part is None else (part[fit], part[other])
        reach = conformal.quantile(conformal.label_scores(log_probs[fit], labels[fit], parts[0]), coverage)
        inside = conformal.sets(log_probs[other], reach, parts[1])
        covered.append(float(inside.gather(-1, labels[other, None]).double().mean()))
    mean = torch.tensor(covered)
    error = float(mean.std()) / len(covered) ** 0.5
    assert float(mean.mean()) >= coverage - 3 * error
    if randomised:
        assert float(mean.mean()) <= coverage + 1 / (held_out + 1) + 3 * error


def test_sets_grow_with_unsureness_and_hold_the_likeliest_class():
    log_probs = torch.tensor([[0.97, 0.02, 0.01], [0.4, 0.35, 0.25]]).log()
    assert conformal.sets(log_probs, 0.9).tolist() == [[True, False, False], [True, True, True]]
    assert conformal.sets(log_probs, 0.1).tolist() == [[True, False, False], [True, False, False]]
    part = torch.tensor([1.0, 1.0])
    assert not conformal.sets(log_probs, 0.1, part).any()


def test_too_few_images_for_a_coverage_are_said():
    assert conformal.quantile(torch.arange(19.0), 0.95) == 18
    with pytest.raises(NesbsError, match="a coverage of 0.95 needs 19 held-out images or more, there are 18"):
        conformal.quantile(torch.arange(18.0), 0.95)
    with pytest.raises(NesbsError, match="between 0 and 1, found 1.5"):
        conformal.quantile(torch.arange(18.0), 1.5)


@pytest.mark.parametrize("coverage", [0.9999, 0.99, 0.5, 1e-6, *(place / 97 for place in range(1, 97))])
def test_so_many_images_are_needed_for_a_coverage_and_no_fewer(coverage):
    needed = conformal.images_for(coverage)
    conformal.quantile(torch.zeros(needed), coverage)
    if needed > 1:
        with pytest.raises(NesbsError, match=f"needs {needed} held-out images"):
            conformal.quantile(torch.zeros(needed - 1), coverage)


def test_images_of_one_confidence_are_answered_together():
    confidence, right = torch.tensor([0.9, 0.5, 0.5, 0.5]), torch.tensor([True, False, True, True])
    for order in ([0, 1, 2, 3], [3, 2, 1, 0]):
        coverage, risk = risk_coverage(confidence[order], right[order])
        assert coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
        assert risk.tolist() == [0.0, 0.25, 0.25, 0.25]
    constant = torch.full((4,), 0.5)
    assert float(aurc(constant, right)) == 0.25  # a confidence that says nothing has the error itself


def test_the_threshold_is_the_lowest_that_is_safe():
    confidence = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.6, 0.5], dtype=torch.float64)
    right = torch.tensor([True, True, True, True, False, True])
    assert threshold_for(confidence, right, 0.3) == 0.5  # (1 + 1) / (6 + 1)
    assert threshold_for(confidence, right, 0.26) == 0.7  # (0 + 1) / (3 + 1); 0.6 would bring both
    with pytest.raises(NesbsError, match="no threshold keeps the error at 0.05 .*: it takes 19 right answers in a row"):
        threshold_for(confidence, right, 0.05)
    with pytest.raises(NesbsError, match="too many are wrong; allow a larger one"):
        threshold_for(confidence, ~right, 0.2)


def test_a_threshold_keeps_its_error_on_other_images():
    random, errors = torch.Generator().manual_seed(1), []
    for _ in range(50):
        log_probs, labels = drawn(1000, random, sharpness=1.0)
        confidence, answer = log_probs.exp().max(-1)
        right = answer == labels
        answered = confidence[500:] >= threshold_for(confidence[:500], right[:500], 0.3)
        errors.append(float((~right[500:])[answered].double().mean()))
        assert answered.double().mean() > 0.1

    assert 0.25 < sum(errors) / len(errors) < 0.31


def test_a_coverage_of_almost_nothing_reaches_the_smallest_score():
    assert conformal.quantile(torch.linspace(0, 1, 101), 1e-12) == 0
