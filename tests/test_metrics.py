"""Measures against independent implementations and by hand: random predictions, ties, degenerate cases."""

import math

import numpy as np
import pytest
import torch
from torchmetrics.functional.classification import (
    binary_auroc,
    multiclass_accuracy,
    multiclass_calibration_error,
)
from torchmetrics.functional.regression import kl_divergence as their_kl

from nesbs import metrics
from nesbs.errors import NesbsError

MEASURES = (metrics.error, metrics.top_k_error, metrics.nll, metrics.brier, metrics.ece)


def random_case(seed, classes=5, images=200, sharpness=2.0):
    g = torch.Generator().manual_seed(seed)
    log_probs = (sharpness * torch.randn(images, classes, generator=g)).log_softmax(-1)
    return log_probs, torch.randint(classes, (images,), generator=g)


def tied_case(seed, classes=6, images=300):
    """Probabilities that are multiples of a quarter of the largest: many classes of an image are equal."""
    g = torch.Generator().manual_seed(seed)
    weights = torch.randint(1, 4, (images, classes), generator=g).double()
    return (weights / weights.sum(-1, keepdim=True)).log(), torch.randint(classes, (images,), generator=g)


def close(ours, theirs):
    assert ours.dtype == torch.float64
    assert float(ours) == pytest.approx(float(theirs), rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("bins", [1, 10, 15])
def test_ece_equals_torchmetrics(seed, bins):
    log_probs, labels = random_case(seed)
    probs = log_probs.double().exp()
    close(
        metrics.ece(log_probs, labels, bins),
        multiclass_calibration_error(probs, labels, num_classes=5, n_bins=bins, norm="l1"),
    )


def ece_by_hand(probs, labels, bins):
    """Guo et al. (2017) in plain fractions of the bin width: a confidence at an edge belongs to the bin below."""
    held = [[] for _ in range(bins)]
    for p, y in zip(probs.tolist(), labels.tolist(), strict=True):
        top = max(p)
        place = next(i for i in range(bins) if top <= (i + 1) / bins + 1e-9)
        held[place].append((top, p.index(top) == y))
    gaps = [abs(sum(right for _, right in bin_) - sum(top for top, _ in bin_)) for bin_ in held]
    return sum(gaps) / len(labels)


@pytest.mark.parametrize("single", [False, True])
def test_ece_at_the_edges_of_bins(single):
    # With ten bins 0.5, 0.6, … are edges and 1 is the end of the last bin; neighbours are right and wrong by turns,
    # so that a confidence in another bin changes the sum.
    tops = torch.tensor([0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0], dtype=torch.float64)
    probs = torch.stack([tops, 0.6 * (1 - tops), 0.4 * (1 - tops)], -1)
    labels = torch.arange(len(tops)) % 2
    expected = ece_by_hand(probs, labels, 10)
    log_probs = probs.log()
    close(metrics.ece(log_probs.float() if single else log_probs, labels, 10), expected)


@pytest.mark.parametrize("bins", [10, 100, 1000])
def test_a_rounded_confidence_stays_in_its_bin_however_fine_bins_are(bins):
    # 0.8 in float32 lies a little above it: alone in its bin, right and wrong cancel only where 0.8 of float64 is.
    exact, rounded = (torch.tensor([[0.8, 0.2]], dtype=kind).log().double() for kind in (torch.float64, torch.float32))
    both, labels = torch.cat([exact, rounded]), torch.tensor([0, 1])
    close(metrics.ece(both, labels, bins), abs(0.2 - 0.8) / 2)


@pytest.mark.parametrize("case", [random_case, tied_case])
@pytest.mark.parametrize("seed", range(3))
def test_error_nll_and_brier_equal_a_plain_count(seed, case):
    log_probs, labels = case(seed)
    pairs = list(zip(log_probs.double().exp().tolist(), labels.tolist(), strict=True))
    close(metrics.error(log_probs, labels), sum(p.index(max(p)) != y for p, y in pairs) / len(pairs))
    close(metrics.nll(log_probs, labels), -sum(math.log(p[y]) for p, y in pairs) / len(pairs))
    brier = sum(sum((q - float(c == y)) ** 2 for c, q in enumerate(p)) for p, y in pairs) / len(pairs)
    close(metrics.brier(log_probs, labels), brier)


@pytest.mark.parametrize("noise", [0.1, 0.5])
def test_nll_where_a_share_of_the_labels_is_random(noise):
    log_probs, labels = random_case(0)
    pairs = list(zip(log_probs.double().exp().tolist(), labels.tolist(), strict=True))
    expected = -sum(math.log((1 - noise) * p[y] + noise / 5) for p, y in pairs) / len(pairs)
    close(metrics.nll(log_probs, labels, noise=noise), expected)


def test_without_random_labels_a_tiny_probability_is_kept():
    assert metrics.nll(torch.tensor([[0.0, -2000.0]]), torch.tensor([1])) == 2000  # whose probability is 0 in float64


def test_the_calibration_error_has_fifteen_bins():
    log_probs, labels = random_case(0)
    assert metrics.ece(log_probs, labels) == metrics.ece(log_probs, labels, 15) != metrics.ece(log_probs, labels, 14)


@pytest.mark.parametrize("classes", [2, 5, 12])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_top_k_error_equals_torchmetrics(classes, k):
    log_probs, labels = random_case(classes, classes)
    if k <= classes:
        right = multiclass_accuracy(log_probs.exp(), labels, num_classes=classes, top_k=k, average="micro")
        close(metrics.top_k_error(log_probs, labels, k), 1 - float(right.double()))
    else:
        assert metrics.top_k_error(log_probs, labels, k) == 0


@pytest.mark.parametrize("k", [1, 2, 3, 5, 6])
def test_of_equal_classes_the_first_is_predicted(k):
    log_probs, labels = tied_case(0)
    wrong = 0
    for p, y in zip(log_probs.tolist(), labels.tolist(), strict=True):
        wrong += y not in sorted(range(len(p)), key=lambda c: (-p[c], c))[:k]
    close(metrics.top_k_error(log_probs, labels, k), wrong / len(labels))
    assert metrics.top_k_error(log_probs, labels, 1) == metrics.error(log_probs, labels)


def test_top_k_needs_a_class():
    with pytest.raises(NesbsError, match="k must be 1 or more, found 0"):
        metrics.top_k_error(*random_case(0), k=0)


def test_leading_axes_are_kept():
    cases = [random_case(seed, classes=7) for seed in range(3)]
    stacked, labels = torch.stack([log_probs for log_probs, _ in cases]), cases[0][1]
    for measure in MEASURES:
        together = measure(stacked, labels)
        assert together.shape == (3,)
        assert together.tolist() == pytest.approx([float(measure(log_probs, labels)) for log_probs in stacked])
    human = stacked[0].exp()
    for measure in (metrics.cross_entropy, metrics.kl_divergence, metrics.total_variation):
        together = measure(stacked, human)
        assert together.tolist() == pytest.approx([float(measure(log_probs, human)) for log_probs in stacked])


def test_certain_and_wrong():
    log_probs, labels = torch.tensor([[0.0, -torch.inf]]), torch.tensor([1])
    assert metrics.error(log_probs, labels) == 1
    assert metrics.top_k_error(log_probs, labels, 1) == 1
    assert metrics.nll(log_probs, labels) == torch.inf
    assert metrics.brier(log_probs, labels) == 2
    assert metrics.ece(log_probs, labels) == 1
    assert metrics.entropy(log_probs) == 0
    human = torch.tensor([[0.0, 1.0]])
    assert metrics.cross_entropy(log_probs, human) == torch.inf
    assert metrics.kl_divergence(log_probs, human) == torch.inf
    assert metrics.total_variation(log_probs, human) == 1


def test_certain_and_right_and_one_class():
    for log_probs, labels in (
        (torch.tensor([[-torch.inf, 0.0]]), torch.tensor([1])),
        (torch.zeros(4, 1), torch.zeros(4, dtype=torch.long)),
    ):
        for measure in MEASURES:
            assert measure(log_probs, labels) == 0
        assert metrics.entropy(log_probs).tolist() == [0] * len(labels)
        target = log_probs.exp()
        for measure in (metrics.cross_entropy, metrics.kl_divergence, metrics.total_variation):
            assert measure(log_probs, target) == 0


def test_averages():
    log_probs = torch.stack([random_case(seed)[0] for seed in range(4)])
    torch.testing.assert_close(metrics.average(log_probs).exp(), log_probs.exp().mean(0))
    torch.testing.assert_close(metrics.combine(log_probs, "logits").exp(), log_probs.mean(0).softmax(-1))


def test_disagreement_counts_pairs():
    # Labels 0 0 0 0 / 0 0 1 1 / 0 1 1 0: pairs differ on 2, 2 and 2 of 4 images.
    labels = torch.tensor([[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 1, 0]])
    log_probs = torch.nn.functional.one_hot(labels, 2).float().mul(4).log_softmax(-1)
    close(metrics.disagreement(log_probs), 0.5)
    assert metrics.disagreement(log_probs[:1]) == 0


@pytest.mark.parametrize("members", [2, 5])
def test_disagreement_equals_a_plain_count(members):
    log_probs = torch.stack([random_case(seed)[0] for seed in range(members)])
    labels = log_probs.argmax(-1).tolist()
    shares = [
        sum(a != b for a, b in zip(labels[i], labels[j], strict=True)) / len(labels[i])
        for i in range(members)
        for j in range(i)
    ]
    close(metrics.disagreement(log_probs), sum(shares) / len(shares))


def test_entropy_and_mutual_information_by_hand():
    log_probs = torch.stack([random_case(seed, sharpness=4.0)[0] for seed in range(3)])
    probs = log_probs.double().exp().numpy()

    def entropy(p):
        return -(p * np.log(p)).sum(-1)

    assert metrics.entropy(log_probs).numpy() == pytest.approx(entropy(probs), abs=1e-9)
    expected = entropy(probs.mean(0)) - entropy(probs).mean(0)
    assert metrics.mutual_information(log_probs).numpy() == pytest.approx(expected, abs=1e-7)


def test_members_that_agree_share_no_information():
    same = random_case(0)[0].expand(3, -1, -1)
    information = metrics.mutual_information(same)
    assert float(information.min()) >= 0
    assert float(information.max()) < 1e-6
    assert float(metrics.mutual_information(same[:1]).max()) < 1e-6


def scores_of(seed, kind):
    g = torch.Generator().manual_seed(seed)
    seen, unseen = torch.randn(137, generator=g).double() + 0.7, torch.randn(211, generator=g).double()
    if kind == "ties":
        return seen.round(), unseen.round()
    if kind == "constant":
        return torch.ones(20), torch.ones(30)
    if kind == "apart":
        return seen.abs() + 1, -unseen.abs()
    return seen, unseen


KINDS = ["random", "ties", "constant", "apart"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_auroc_equals_every_pair_and_torchmetrics(seed, kind):
    seen, unseen = scores_of(seed, kind)
    above = (seen[:, None] > unseen).double() + (seen[:, None] == unseen).double() / 2
    close(metrics.auroc(seen, unseen), above.mean())
    # Their scores must lie in [0, 1], or a sigmoid makes equals of them.
    scores = torch.cat([seen, unseen]).double()
    scores = (scores - scores.min()) / (scores.max() - scores.min()).clamp_min(1e-9)
    truth = torch.cat([torch.ones(len(seen)), torch.zeros(len(unseen))]).long()
    close(metrics.auroc(seen, unseen), binary_auroc(scores, truth))
    close(metrics.auroc(-seen, -unseen), 1 - above.mean())


def fpr_by_hand(seen, unseen, kept):
    """The first point of the ROC curve, thresholds from the top, whose true-positive rate is high enough."""
    for threshold in sorted(set(seen.tolist() + unseen.tolist()), reverse=True):
        if sum(s >= threshold for s in seen.tolist()) / len(seen) >= kept:
            return sum(s >= threshold for s in unseen.tolist()) / len(unseen)
    raise AssertionError


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kept", [0.05, 0.5, 0.8, 0.95, 1.0])
def test_false_positives_equal_a_walk_down_the_roc_curve(kind, kept):
    seen, unseen = scores_of(4, kind)
    for count in (100, 20, len(seen)):
        part = seen[:count]
        close(metrics.fpr_at(part, unseen, kept), fpr_by_hand(part, unseen, kept))


@pytest.mark.parametrize("kind", KINDS)
def test_scikit_learn_agrees(kind):
    theirs = pytest.importorskip("sklearn.metrics")
    seen, unseen = scores_of(5, kind)
    truth, scores = [1] * len(seen) + [0] * len(unseen), torch.cat([seen, unseen]).numpy()
    close(metrics.auroc(seen, unseen), theirs.roc_auc_score(truth, scores))
    fpr, tpr, _ = theirs.roc_curve(truth, scores, drop_intermediate=False)
    close(metrics.fpr_at(seen, unseen), fpr[tpr >= 0.95][0])
    log_probs, labels = random_case(1, 8)
    probs = log_probs.double().softmax(-1).numpy()
    close(metrics.nll(log_probs, labels), theirs.log_loss(labels, probs, labels=range(8)))
    right = theirs.top_k_accuracy_score(labels, probs, k=5, labels=range(8))
    close(metrics.top_k_error(log_probs, labels), 1 - right)


def test_shares_of_seen_data_are_counted_not_rounded():
    # 0.07 × 100 is a little above 7 in floating point; seven of a hundred are enough.
    seen = torch.arange(100, 0, -1).double()
    close(metrics.fpr_at(seen, torch.tensor([94.0, 93.5, 1.0, 1.0]), 0.07), 0.25)


def test_scores_must_be_there():
    for measure in (metrics.auroc, metrics.fpr_at):
        with pytest.raises(NesbsError, match="scores of unseen data must be numbers on one axis, found shape .0,"):
            measure(torch.ones(3), torch.ones(0))
        with pytest.raises(NesbsError, match="scores of seen data must be numbers"):
            measure(torch.tensor([torch.nan]), torch.ones(2))
    with pytest.raises(NesbsError, match="above 0 and at most 1, found 95"):
        metrics.fpr_at(torch.ones(2), torch.ones(2), 95)


@pytest.mark.parametrize("seed", range(3))
def test_distances_to_people_equal_torchmetrics_and_a_plain_count(seed):
    log_probs, _ = random_case(seed)
    g = torch.Generator().manual_seed(seed + 50)
    votes = torch.randint(0, 4, (200, 5), generator=g).double()
    votes[:, 0] += 1
    human = votes / votes.sum(-1, keepdim=True)
    close(metrics.kl_divergence(log_probs, human), their_kl(human, log_probs.double().exp()))
    p, q = human.numpy(), log_probs.double().exp().numpy()
    close(metrics.cross_entropy(log_probs, human), -(p * np.log(q)).sum(-1).mean())
    close(metrics.total_variation(log_probs, human), np.maximum(p - q, 0).sum(-1).mean())


def test_a_certain_crowd_is_a_label():
    log_probs, labels = random_case(0)
    certain = torch.nn.functional.one_hot(labels, 5)
    close(metrics.cross_entropy(log_probs, certain), metrics.nll(log_probs, labels))
    close(metrics.kl_divergence(log_probs, certain), metrics.nll(log_probs, labels))
