"""Knowing when not to answer: a threshold for a wanted error, sets of classes for a wanted coverage."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nesbs.errors import NesbsError
from nesbs.evaluation import conformal
from nesbs.evaluation.selective import threshold_for
from nesbs.records.held_out_answers import HeldOutAnswers


@dataclass(frozen=True)
class Caution:
    """Where to abstain and how large sets are; None where that was not asked for.

    Both look at the ensemble's probabilities before the temperature.
    """

    threshold: float | None = None  # of the highest probability: below it there is no answer
    reach: float | None = None  # of the scores of the classes in a set

    def answered(self, log_probs: Tensor) -> list[bool]:
        """Return whether each image is answered, from log-probabilities (images, classes).

        >>> Caution(threshold=0.7).answered(torch.tensor([[0.9, 0.1], [0.4, 0.6]]).log())
        [True, False]
        """
        if self.threshold is None:
            return [True] * len(log_probs)
        # Thresholds are written with six digits.
        answered: list[bool] = (log_probs.double().exp().max(-1).values >= self.threshold - 1e-6).tolist()
        return answered

    def sets(self, log_probs: Tensor) -> list[tuple[int, ...] | None]:
        """Return the numbers of the classes in each image's set, the likeliest first; None where none was asked for.

        >>> Caution(reach=0.6).sets(torch.tensor([[0.2, 0.5, 0.3]]).log())
        [(1, 2)]
        """
        if self.reach is None:
            return [None] * len(log_probs)
        inside = conformal.sets(log_probs, self.reach + 1e-6)
        order = log_probs.sort(dim=-1, descending=True, stable=True).indices
        rows = zip(order.tolist(), inside.tolist(), strict=True)
        return [tuple(place for place in places if held[place]) for places, held in rows]


def caution_for(
    answers: HeldOutAnswers | None, *, error: float | None = None, coverage: float | None = None
) -> Caution:
    """Fit a threshold for a wanted error among answered images, and sets that hold the label with a wanted coverage.

    >>> answers = HeldOutAnswers(confidence=[0.9, 0.8, 0.7, 0.6], right=[1, 1, 1, 0], score=[0.9, 0.8, 0.7, 1.0])
    >>> caution_for(answers, error=0.25, coverage=0.8)
    Caution(threshold=0.7, reach=1.0)
    """
    if error is None and coverage is None:
        return Caution()
    if answers is None or not answers.whole():
        lacks = "this run has no" if answers is None else "this run has a damaged"
        raise NesbsError(
            f"{lacks} members/{HeldOutAnswers.FILE}, to which thresholds and sets are fitted: "
            "`nesbs evaluate RUN` makes it"
        )
    confidence, right, score = (
        torch.tensor(column, dtype=torch.float64) for column in (answers.confidence, answers.right, answers.score)
    )
    return Caution(
        threshold=None if error is None else threshold_for(confidence, right > 0, error),
        reach=None if coverage is None else conformal.quantile(score, coverage),
    )
