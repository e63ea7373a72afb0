"""Measures of an ensemble, of each member, and of how they differ."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pydantic import Field
from torch import Tensor

from nesbs import metrics
from nesbs.data import Split
from nesbs.ensemble import Ensemble
from nesbs.errors import NesbsError
from nesbs.settings import Settings


class EvaluationSettings(Settings):
    """What is measured (recipe section `evaluation`)."""

    batch_size: int = Field(500, ge=1)
    bins: int = Field(15, ge=1, description="of the calibration error")
    uniform: bool = Field(False, description="also train and measure a uniform-random ensemble of the same size")


@dataclass(frozen=True)
class MemberScores:
    """One network's measures; error is a share (0 to 1)."""

    error: float
    nll: float
    brier: float
    ece: float


@dataclass(frozen=True)
class Scores:
    """An ensemble's measures: its own, the mean error of its members (ATE), their disagreement (PPD)."""

    error: float
    nll: float
    brier: float
    ece: float
    member_error: float
    disagreement: float
    disagreement_matrix: tuple[tuple[float, ...], ...]
    members: tuple[MemberScores, ...]

    @property
    def best_member(self) -> MemberScores:
        """The best member by each measure on its own: the hardest single network to beat, in hindsight."""
        return MemberScores(
            *(min(getattr(member, name) for member in self.members) for name in ("error", "nll", "brier", "ece"))
        )

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def score_logits(logits: Tensor, combined: Tensor, labels: Tensor, *, bins: int = 15) -> Scores:
    """Measures from members' logits (members, images, classes) and the ensemble's log-probabilities (images, classes).

    >>> import torch
    >>> logits = torch.tensor([[[0.9, 0.1], [0.8, 0.2]], [[0.9, 0.1], [0.3, 0.7]]]).log()
    >>> scores = score_logits(logits, metrics.average(logits), torch.tensor([0, 1]))
    >>> scores.error, scores.member_error, scores.disagreement
    (0.5, 0.25, 0.5)
    """
    log_probs = logits.log_softmax(-1)

    def measures(predicted: Tensor) -> list[Tensor]:
        return [
            metrics.error(predicted, labels),
            metrics.nll(predicted, labels),
            metrics.brier(predicted, labels),
            metrics.ece(predicted, labels, bins),
        ]

    columns = [column.tolist() for column in measures(log_probs)]
    members = tuple(MemberScores(*row) for row in zip(*columns, strict=True))
    error, nll, brier, ece = (value.item() for value in measures(combined))
    return Scores(
        error,
        nll,
        brier,
        ece,
        member_error=sum(member.error for member in members) / len(members),
        disagreement=metrics.disagreement(log_probs).item(),
        disagreement_matrix=tuple(tuple(row) for row in metrics.disagreement_matrix(log_probs).tolist()),
        members=members,
    )


def evaluate(ensemble: Ensemble, split: Split, **settings: object) -> Scores:
    """Measure an ensemble on a split (usually `data.test`).

    `settings` are those of the recipe's section `evaluation`: `batch_size`, `bins`.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.ensemble import train_ensemble
    >>> from nesbs.spaces import toy_edges
    >>> data = load_dataset("fashion-mini", train_limit=200, test_limit=100)
    >>> ensemble = train_ensemble(toy_edges(), list(toy_edges())[-2:], data.train, epochs=1, cells=1, channels=4)
    >>> 0 <= evaluate(ensemble, data.test).error <= 1
    True
    """
    chosen = EvaluationSettings.of(settings)
    logits = ensemble.predict(split, batch_size=chosen.batch_size)
    if not bool(logits.isfinite().all()):
        raise NesbsError("the ensemble's predictions are not numbers: a member's weights are broken, train it again")
    return score_logits(logits, ensemble.combined(logits), split.labels, bins=chosen.bins)
