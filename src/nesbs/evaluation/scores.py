"""Measures of an ensemble, of each member, and of how they differ."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from statistics import fmean
from typing import Any

from torch import Tensor

from nesbs import metrics
from nesbs.data import Split
from nesbs.ensemble import Ensemble
from nesbs.errors import NesbsError, expect
from nesbs.evaluation.settings import EvaluationSettings
from nesbs.settings import checked_keywords

DEFAULT = EvaluationSettings()


@dataclass(frozen=True)
class MemberScores:
    """One network's measures, lower is better for all, errors as shares (0 to 1); or how far one is below another."""

    error: float
    nll: float
    brier: float
    ece: float
    top5_error: float


@dataclass(frozen=True)
class Scores(MemberScores):
    """An ensemble's measures: its own, the mean error of its members (ATE), their disagreement (PPD)."""

    member_error: float
    disagreement: float
    disagreement_matrix: tuple[tuple[float, ...], ...]
    members: tuple[MemberScores, ...]

    @property
    def best_member(self) -> MemberScores:
        """The best member by each measure on its own: the hardest single network to beat, in hindsight."""
        return MemberScores(**lowest(self.members))

    @property
    def mean_member(self) -> MemberScores:
        """The mean over the members, measure by measure."""
        return MemberScores(**{name: fmean(getattr(member, name) for member in self.members) for name in MEASURES})

    @property
    def gain_over_best(self) -> MemberScores:
        """By how much the ensemble is better than its best member by each measure."""
        return self._gain(self.best_member)

    @property
    def gain_over_mean(self) -> MemberScores:
        """By how much the ensemble is better than its members are on average."""
        return self._gain(self.mean_member)

    def to_json(self) -> dict[str, Any]:
        """Plain data, gains included."""
        gains = {"gain_over_best": asdict(self.gain_over_best), "gain_over_mean": asdict(self.gain_over_mean)}
        return {**asdict(self), **gains}

    def _gain(self, other: MemberScores) -> MemberScores:
        return MemberScores(**{name: getattr(other, name) - getattr(self, name) for name in MEASURES})


MEASURES = tuple(field.name for field in fields(MemberScores))


def lowest(members: Iterable[Any]) -> dict[str, Any]:
    """The lowest value among members for each measure on its own; None where no member has it.

    >>> lowest([MemberScores(0.1, 0.5, 0.2, 0.1, 0.0), MemberScores(0.2, 0.4, 0.2, 0.1, 0.0)])["nll"]
    0.4
    """
    members = list(members)
    values = {name: [getattr(member, name) for member in members] for name in MEASURES}
    return {name: min((v for v in column if v is not None), default=None) for name, column in values.items()}


def score_log_probs(log_probs: Tensor, labels: Tensor, *, bins: int = metrics.BINS) -> list[MemberScores]:
    """Measures of each network from log-probabilities (networks, images, classes) and labels (images,).

    >>> import torch
    >>> [scores] = score_log_probs(torch.tensor([[[0.0, -torch.inf], [0.0, -torch.inf]]]), torch.tensor([0, 1]))
    >>> scores
    MemberScores(error=0.5, nll=inf, brier=1.0, ece=0.5, top5_error=0.0)
    """
    columns = {
        "error": metrics.error(log_probs, labels),
        "nll": metrics.nll(log_probs, labels),
        "brier": metrics.brier(log_probs, labels),
        "ece": metrics.ece(log_probs, labels, bins),
        "top5_error": metrics.top_k_error(log_probs, labels, 5),
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [MemberScores(**dict(zip(columns, row, strict=True))) for row in rows]


def score_logits(logits: Tensor, combined: Tensor, labels: Tensor, *, bins: int = metrics.BINS) -> Scores:
    """Measures from members' logits (members, images, classes) and the ensemble's log-probabilities (images, classes).

    >>> import torch
    >>> logits = torch.tensor([[[0.9, 0.1], [0.8, 0.2]], [[0.9, 0.1], [0.3, 0.7]]]).log()
    >>> scores = score_logits(logits, metrics.average(logits), torch.tensor([0, 1]))
    >>> scores.error, scores.member_error, scores.disagreement, scores.gain_over_mean.error
    (0.5, 0.25, 0.5, -0.25)
    """
    log_probs = logits.double().log_softmax(-1)
    members = score_log_probs(log_probs, labels, bins=bins)
    [own] = score_log_probs(combined[None], labels, bins=bins)
    return Scores(
        **asdict(own),
        member_error=fmean(member.error for member in members),
        disagreement=metrics.disagreement(log_probs).item(),
        disagreement_matrix=tuple(tuple(row) for row in metrics.disagreement_matrix(log_probs).tolist()),
        members=tuple(members),
    )


@checked_keywords
def evaluate(
    ensemble: Ensemble, split: Split, *, batch_size: int = DEFAULT.batch_size, bins: int = DEFAULT.bins
) -> Scores:
    """Measure an ensemble on a split (usually `data.test`).

    Of the recipe's section `evaluation` (`EvaluationSettings`) these are the settings that matter here: how many
    images are predicted at once, and the bins of the calibration error.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.ensemble import train_ensemble
    >>> from nesbs.spaces import toy_edges
    >>> data = load_dataset("fashion-mini", train_limit=200, test_limit=100)
    >>> ensemble = train_ensemble(toy_edges(), list(toy_edges())[-2:], data.train, epochs=1, cells=1, channels=4)
    >>> 0 <= evaluate(ensemble, data.test).error <= 1
    True
    """
    settings = EvaluationSettings.from_arguments(locals())
    expect(ensemble, Ensemble, "ensemble must be an Ensemble, which train_ensemble returns")
    ensemble.check_split(split)
    predicted = predictions(ensemble, split, batch_size=settings.batch_size)
    return score_logits(*predicted, split.labels, bins=settings.bins)


def predictions(
    ensemble: Ensemble, split: Split, *, batch_size: int = DEFAULT.batch_size, **change: Any
) -> tuple[Tensor, Tensor]:
    """Members' logits (members, images, classes) and the ensemble's log-probabilities (images, classes), in float64.

    In float64 the log-probability of a finite logit is finite: the measures of real networks are numbers, however
    certain and wrong they are. `change` is handed on to `Ensemble.predict`.
    """
    logits = ensemble.predict(split, batch_size=batch_size, **change).double()
    if not bool(logits.isfinite().all()):
        raise NesbsError("the ensemble's predictions are not numbers: a member's weights are broken, train it again")
    return logits, ensemble.combined(logits)
