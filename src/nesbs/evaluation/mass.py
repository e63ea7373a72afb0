"""Where a posterior puts its mass, judged by architectures whose true performance is known."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Mass:
    """How a posterior weighs architectures of known accuracy; probabilities are normalised over them.

    `expected` and `uniform` are the mean accuracy under the posterior and under the uniform prior, `best` the
    highest; `effective` is the effective sample size, 1 / Σ p². `mode_rank` is the rank (from 1) of the likeliest
    among the known by true accuracy; `top1` and `top10` are the mass on the truly best 1 % and 10 %.
    """

    architectures: int
    expected: float
    uniform: float
    best: float
    effective: float
    mode_rank: int
    mode_accuracy: float
    top1: float
    top10: float

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def mass(log_probs: np.ndarray, accuracies: np.ndarray) -> Mass:
    """Judge a posterior by log-probabilities and true accuracies (architectures,) of known architectures.

    >>> judged = mass(np.log(np.array([0.5, 0.25, 0.25])), np.array([90.0, 80.0, 70.0]))
    >>> judged.expected, judged.uniform, judged.mode_rank, round(judged.effective, 2)
    (82.5, 80.0, 1, 2.67)
    """
    weights = np.exp(log_probs - log_probs.max())
    weights = weights / weights.sum()
    order = np.argsort(-accuracies, kind="stable")
    likeliest = int(np.argmax(log_probs))

    def on_best(share: float) -> float:
        return float(weights[order[: max(1, round(share * len(order)))]].sum())

    return Mass(
        len(accuracies),
        float(weights @ accuracies),
        float(accuracies.mean()),
        float(accuracies.max()),
        float(1 / np.square(weights).sum()),
        int(np.flatnonzero(order == likeliest)[0]) + 1,
        float(accuracies[likeliest]),
        on_best(0.01),
        on_best(0.1),
    )
