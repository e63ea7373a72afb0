"""The measures of an ensemble."""

import pytest
import torch

from nesbs import metrics
from nesbs.ensemble import train_ensemble
from nesbs.errors import NesbsError
from nesbs.evaluation import evaluate, score_logits
from nesbs.spaces import toy_edges


def test_scores_by_hand():
    # Two members, four images, two classes; all labels 0.
    p = torch.tensor([[0.9, 0.6, 0.3, 0.2], [0.8, 0.3, 0.9, 0.4]])
    logits = torch.stack([p, 1 - p], -1).log()
    scores = score_logits(logits, metrics.average(logits), torch.zeros(4, dtype=torch.long))
    assert [member.error for member in scores.members] == [0.5, 0.5]
    assert scores.member_error == 0.5
    mean = p.mean(0)  # 0.85, 0.45, 0.6, 0.3
    assert scores.error == 0.5
    assert scores.nll == pytest.approx(float(-mean.log().mean()))
    assert scores.brier == pytest.approx(float((2 * (1 - mean) ** 2).mean()))
    assert scores.disagreement == 0.5
    assert scores.disagreement_matrix == ((0.0, 0.5), (0.5, 0.0))


def test_the_best_member_is_best_by_each_measure():
    logits = torch.randn(3, 40, 5, generator=torch.Generator().manual_seed(0))
    scores = score_logits(logits, metrics.average(logits.log_softmax(-1)), torch.arange(40) % 5)
    for name in ("error", "nll", "brier", "ece"):
        assert getattr(scores.best_member, name) == min(getattr(member, name) for member in scores.members)


def test_an_ensemble_is_measured_on_a_split(noise):
    architectures = list(toy_edges())[-2:]
    ensemble = train_ensemble(toy_edges(), architectures, noise.train, epochs=1, cells=1, channels=2, batch_size=16)
    scores = evaluate(ensemble, noise.test, batch_size=5)
    logits = ensemble.predict(noise.test)
    assert scores.nll == pytest.approx(
        float(metrics.nll(metrics.average(logits.log_softmax(-1)), noise.test.labels)), rel=1e-4
    )
    with torch.no_grad():
        next(ensemble.parameters()).fill_(torch.nan)
    with pytest.raises(NesbsError, match="predictions are not numbers"):
        evaluate(ensemble, noise.test)


def test_gains_are_positive_where_the_ensemble_is_better():
    # Member 1 errs on image 0, member 2 on image 1; together they are right on both.
    p = torch.tensor([[0.4, 0.9], [0.9, 0.4]])
    logits = torch.stack([p, 1 - p], -1).log()
    scores = score_logits(logits, metrics.average(logits), torch.zeros(2, dtype=torch.long))
    assert scores.error == 0
    assert scores.gain_over_best.error == 0.5
    assert scores.gain_over_mean.error == 0.5
    assert scores.gain_over_mean.nll == pytest.approx(float(-p.log().mean() + p.mean(0).log().mean()))
    assert scores.mean_member.error == scores.member_error


def test_the_top_five_of_seven_classes():
    logits = torch.arange(7, 0, -1).float().expand(1, 7, 7)  # class 0 first, class 6 last
    scores = score_logits(logits, metrics.average(logits.log_softmax(-1)), torch.arange(7))
    assert scores.top5_error == scores.members[0].top5_error == pytest.approx(2 / 7)
    assert scores.error == pytest.approx(6 / 7)
