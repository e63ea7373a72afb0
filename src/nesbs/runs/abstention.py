"""When an ensemble should not answer: measured on the test images, and kept beside the members for predicting.

Thresholds and sets are fitted to images that the members did not learn from (`calibration` or `search_valid`, where
there are such), or to one half of the test images, and measured on the other.
"""

from __future__ import annotations

import torch
from torch import Tensor

from nesbs import rng
from nesbs.errors import NesbsError
from nesbs.evaluation import conformal
from nesbs.evaluation.calibration import halves
from nesbs.evaluation.selective import aurc, risk_coverage, threshold_for
from nesbs.records.held_out_answers import HeldOutAnswers
from nesbs.records.metrics import Abstention, AbstentionRow, SetRow

ERRORS = (0.01, 0.02, 0.05, 0.1)  # wanted among answered images
COVERAGES = (0.8, 0.9, 0.95, 0.99)  # wanted of sets
POINTS = 50  # of the curve
DIGITS = 6
HALF = "half of the test images"


def held_out_answers(log_probs: Tensor, labels: Tensor, images: str) -> HeldOutAnswers:
    """Return what thresholds and sets are fitted to, from log-probabilities (images, classes) and labels (images,).

    >>> held_out_answers(torch.tensor([[0.75, 0.25]]).log(), torch.tensor([1]), HALF).to_json()
    {'images': 'half of the test images', 'confidence': [0.75], 'right': [0], 'score': [0.75]}
    """
    confidence, answer = log_probs.double().exp().max(-1)
    score = conformal.label_scores(log_probs, labels)
    return HeldOutAnswers(
        images=images,
        confidence=_rounded(confidence),
        right=(answer == labels).long().tolist(),
        score=_rounded(score),
    )


def parts(
    networks: Tensor, labels: Tensor, held_out: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return log-probabilities (images, classes) and labels to fit on, then those to measure on.

    `held_out` has those of images that the members did not learn from; without them the test images are halved.
    """
    if held_out is not None:
        return *held_out, networks, labels
    first, second = halves(labels)
    return networks[first], labels[first], networks[second], labels[second]


def measure_abstention(
    networks: Tensor, labels: Tensor, held_out: tuple[Tensor, Tensor] | None = None, *, fitted_on: str = HALF
) -> Abstention | None:
    """Measure when to answer, from log-probabilities (1 + members, test images, classes), the ensemble's first.

    `fitted_on` names the `held_out` images. None where there are too few images to halve.
    """
    if len(labels) < 2:
        return None
    confidence, answer = networks.double().exp().max(-1)
    right = answer == labels
    coverage, risk = risk_coverage(confidence[0], right[0])
    shown = torch.linspace(0, len(labels) - 1, min(POINTS, len(labels))).round().long()
    fit, fit_labels, other, other_labels = parts(networks[0], labels, held_out)
    return Abstention(
        aurc=float(aurc(confidence[0], right[0])),
        member_aurc=[float(aurc(*each)) for each in zip(confidence[1:], right[1:], strict=True)],
        coverage=_rounded(coverage[shown]),
        risk=_rounded(risk[shown]),
        fitted_on=fitted_on,
        fitted_images=len(fit_labels),
        measured_images=len(other_labels),
        thresholds=[_threshold(fit, fit_labels, other, other_labels, wanted) for wanted in ERRORS],
        sets=[_set(fit, fit_labels, other, other_labels, wanted) for wanted in COVERAGES],
    )


def _threshold(fit: Tensor, fit_labels: Tensor, other: Tensor, labels: Tensor, wanted: float) -> AbstentionRow:
    confidence, answer = fit.double().exp().max(-1)
    try:
        threshold = threshold_for(confidence, answer == fit_labels, wanted)
    except NesbsError:
        return AbstentionRow(wanted=wanted)
    confidence, answer = other.double().exp().max(-1)
    answered = confidence >= threshold
    error = float((answer != labels)[answered].double().mean()) if bool(answered.any()) else None
    return AbstentionRow(wanted=wanted, threshold=threshold, coverage=float(answered.double().mean()), error=error)


def _set(fit: Tensor, fit_labels: Tensor, other: Tensor, labels: Tensor, wanted: float) -> SetRow:
    """The randomised form draws one number for each image, the same in every run."""
    found: dict[str, float] = {"wanted": wanted}
    random = rng.generator(0, "randomised sets")
    for prefix in ("", "randomised_"):
        draws = [torch.rand(len(each), generator=random).to(each.device) if prefix else None for each in (fit, other)]
        try:
            reach = conformal.quantile(conformal.label_scores(fit, fit_labels, draws[0]), wanted)
        except NesbsError:
            return SetRow(wanted=wanted)
        inside = conformal.sets(other, reach, draws[1])
        found[f"{prefix}covered"] = float(inside.gather(-1, labels[:, None]).double().mean())
        found[f"{prefix}size"] = float(inside.sum(-1).double().mean())
    return SetRow(**found)


def _rounded(values: Tensor) -> list[float]:
    return [round(value, DIGITS) for value in values.tolist()]
