"""Answering only where it is sure (selective classification; El-Yaniv and Wiener, 2010; Geifman and El-Yaniv, 2017).

An image is answered where the highest probability reaches a threshold. Coverage is the share of images that are
answered, risk the error among those.
"""

import torch
from torch import Tensor

from nesbs.errors import NesbsError


def risk_coverage(confidence: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Return coverage and risk where the 1, 2, … surest images are answered, (images,) each.

    Takes the confidence (images,) and whether each answer is right (images,). Images of one confidence are answered
    together: each has the risk of all of them.

    >>> coverage, risk = risk_coverage(torch.tensor([0.9, 0.5, 0.8, 0.6]), torch.tensor([True, False, True, True]))
    >>> coverage.tolist(), risk.tolist()
    ([0.25, 0.5, 0.75, 1.0], [0.0, 0.0, 0.0, 0.25])
    """
    if len(right) == 0:
        raise NesbsError("a risk-coverage curve needs an image or more")
    ordered, order = confidence.double().sort(descending=True, stable=True)
    wrong = (~right[order].bool()).double().cumsum(0)
    answered = torch.arange(1, len(right) + 1, dtype=torch.float64, device=right.device)
    last = torch.searchsorted(-ordered, -ordered, right=True) - 1  # of the images of one confidence
    return answered / len(right), wrong[last] / answered[last]


def aurc(confidence: Tensor, right: Tensor) -> Tensor:
    """Return the area under the risk-coverage curve: the mean risk over all coverages, lower is better.

    >>> aurc(torch.tensor([0.9, 0.5, 0.8, 0.6]), torch.tensor([True, False, True, True]))
    tensor(0.0625, dtype=torch.float64)
    """
    return risk_coverage(confidence, right)[1].mean()


def threshold_for(confidence: Tensor, right: Tensor, error: float) -> float:
    """Return the lowest threshold on the confidence that keeps the error among answered images at `error`.

    Counted is one more wrong answer than there was, (wrong + 1) / (answered + 1), since a threshold picked on these
    images is flattered by them. That leans to the safe side; it is no guarantee, so measure it on other images.

    >>> right = torch.tensor([True] * 9 + [False])
    >>> round(threshold_for(torch.linspace(0.95, 0.5, 10), right, 0.1), 2)  # (0 + 1) / (9 + 1)
    0.55
    """
    if not 0 < error < 1:
        raise NesbsError(f"a wanted error lies between 0 and 1, found {error}")
    coverage, risk = risk_coverage(confidence, right)
    answered = coverage * len(right)
    safe = (risk * answered + 1) / (answered + 1) <= error + 1e-12
    ordered = confidence.double().sort(descending=True).values
    last = torch.searchsorted(-ordered, -ordered, right=True) - 1
    safe = safe[last]  # of one confidence all or none
    if not bool(safe.any()):
        need = -int(-(1 / error - 1) // 1)
        few = (
            f"it takes {need} right answers in a row, of {len(right)} images"
            if len(right) < need
            else "too many are wrong"
        )
        raise NesbsError(f"no threshold keeps the error at {error:g} on the held-out images: {few}; allow a larger one")
    return float(ordered[safe].min())
