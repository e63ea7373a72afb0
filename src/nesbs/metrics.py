"""Every measure of predictions, written once: error, NLL, Brier, ECE, disagreement and others.

Unless it says otherwise a function takes log-probabilities of shape (…, images, classes) and labels of shape
(images,), and returns one float64 value for each leading index: members keep an axis of their own. Sums are
made in float64. A log-probability of −∞ is allowed: certain and wrong has an infinite NLL.
"""

import math
from typing import Literal

import torch
from torch import Tensor

from nesbs.errors import NesbsError

Combine = Literal["probabilities", "logits"]  # what an ensemble averages
BINS = 15  # of the calibration error, as in Guo et al. (2017)
EDGE = 1e-7  # a confidence so near above the edge of a bin is at it: float32 predictions are no finer


def average(log_probs: Tensor) -> Tensor:
    """Return the log of the members' mean probability: (members, images, classes) to (images, classes).

    >>> average(torch.tensor([[[0.2, 0.8]], [[0.6, 0.4]]]).log()).exp()
    tensor([[0.4000, 0.6000]])
    """
    return log_probs.logsumexp(0) - math.log(log_probs.shape[0])


def combine(logits: Tensor, how: Combine) -> Tensor:
    """Return the ensemble's log-probabilities (images, classes) from its members' logits (members, images, classes).

    Members are averaged after the softmax (`probabilities`) or before it (`logits`).

    >>> logits = torch.tensor([[[0.2, 0.8]], [[0.6, 0.4]]]).log()
    >>> combine(logits, "probabilities").exp()
    tensor([[0.4000, 0.6000]])
    >>> combine(logits, "logits").exp()
    tensor([[0.3798, 0.6202]])
    """
    if how == "probabilities":
        return average(logits.log_softmax(-1))
    if how == "logits":
        return logits.mean(0).log_softmax(-1)
    raise NesbsError(f"members are combined by probabilities or logits, found {how!r}")


def error(log_probs: Tensor, labels: Tensor) -> Tensor:
    """Return the share of images whose most probable class (the first of equals) is not the label.

    >>> error(torch.tensor([[0.9, 0.1], [0.8, 0.2]]).log(), torch.tensor([0, 1]))
    tensor(0.5000, dtype=torch.float64)
    """
    return (log_probs.argmax(-1) != labels).double().mean(-1)


def confusion(log_probs: Tensor, labels: Tensor) -> Tensor:
    """Return how many images of each class got each answer, (labels, answers), from (images, classes).

    >>> confusion(torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]]).log(), torch.tensor([0, 1, 1]))
    tensor([[1, 0],
            [1, 1]])
    """
    classes = log_probs.shape[-1]
    return (labels * classes + log_probs.argmax(-1)).bincount(minlength=classes**2).reshape(classes, classes)


def top_k_error(log_probs: Tensor, labels: Tensor, k: int = 5) -> Tensor:
    """Return the share of images whose label is not among the `k` most probable classes.

    Of equally probable classes the one of lower number comes first, as in `error`, which is the case k = 1.
    With k classes or fewer nothing can be wrong.

    >>> top_k_error(torch.tensor([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2]]).log(), torch.tensor([1, 2]), k=2)
    tensor(0.5000, dtype=torch.float64)
    """
    if k < 1:
        raise NesbsError(f"top_k_error: k must be 1 or more, found {k}")
    of_label = _of_label(log_probs, labels)[..., None]
    before = torch.arange(log_probs.shape[-1], device=labels.device) < labels[:, None]
    rank = ((log_probs > of_label) | ((log_probs == of_label) & before)).sum(-1)
    return (rank >= k).double().mean(-1)


def nll(log_probs: Tensor, labels: Tensor, *, noise: float = 0.0) -> Tensor:
    """Return the mean negative log-probability of the label.

    With `noise` a share of the labels is taken for random, so that no single image can cost much:
    −log((1 − noise) p + noise / classes).

    >>> nll(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([0]))
    tensor(0.6931, dtype=torch.float64)
    >>> nll(torch.tensor([[1e-9, 1.0]]).log(), torch.tensor([0]), noise=0.2)  # −log 0.1
    tensor(2.3026, dtype=torch.float64)
    """
    of_label = _of_label(log_probs, labels).double()
    if noise > 0:
        of_label = torch.log((1 - noise) * of_label.exp() + noise / log_probs.shape[-1])
    return -of_label.mean(-1)


def brier(log_probs: Tensor, labels: Tensor) -> Tensor:
    """Return the mean squared distance to the one-hot label, summed over classes (from 0 to 2).

    >>> brier(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([0]))
    tensor(0.5000, dtype=torch.float64)
    """
    probs = log_probs.double().exp()
    one_hot = torch.nn.functional.one_hot(labels, probs.shape[-1]).to(probs)
    return (probs - one_hot).square().sum(-1).mean(-1)


def ece(log_probs: Tensor, labels: Tensor, bins: int = BINS) -> Tensor:
    """Return the expected calibration error: the mean gap of confidence and accuracy over bins of confidence.

    Bin i of n is (i/n, (i+1)/n], as in Guo et al. (2017): a confidence at an edge counts below it, and one of 1
    in the last bin. (torchmetrics puts an edge above it and 1 in a bin of its own.)

    >>> ece(torch.tensor([[0.8, 0.2], [0.8, 0.2]]).log(), torch.tensor([0, 1]))
    tensor(0.3000, dtype=torch.float64)
    """
    gaps = calibration_gaps(log_probs, labels, bins)
    return gaps.sum(-2).abs().sum(-1) / gaps.shape[-2]


def calibration_gaps(log_probs: Tensor, labels: Tensor, bins: int = BINS) -> Tensor:
    """Return what every image adds to the sums of which the ECE takes the size, (…, images, bins).

    In the bin of its confidence that is 1 or 0, as it is right or wrong, less the confidence.

    >>> calibration_gaps(torch.tensor([[0.75, 0.25]] * 2).log(), torch.tensor([0, 1]), 2)[:, 1]
    tensor([ 0.2500, -0.7500], dtype=torch.float64)
    """
    _, gap, held = _binned(log_probs, labels, bins)
    return held * gap[..., None]


def reliability(log_probs: Tensor, labels: Tensor, bins: int = BINS) -> tuple[Tensor, Tensor, Tensor]:
    """Return what the ECE sums, bin by bin: number of images, mean confidence and accuracy, (…, bins) each.

    The bins are those of `ece`; an empty one has confidence and accuracy NaN.

    >>> count, confidence, accuracy = reliability(torch.tensor([[0.8, 0.2]] * 2).log(), torch.tensor([0, 1]), 2)
    >>> count, confidence
    (tensor([0., 2.], dtype=torch.float64), tensor([   nan, 0.8000], dtype=torch.float64))
    """
    confidence, gap, held = _binned(log_probs, labels, bins)
    count = held.sum(-2)
    sums = ((held * values[..., None]).sum(-2) for values in (confidence, gap + confidence))
    mean_confidence, accuracy = (total / count for total in sums)
    return count, mean_confidence, accuracy


def disagreement(log_probs: Tensor) -> Tensor:
    """Return the share of images that two members label differently, mean over pairs (PPD).

    Takes (members, images, classes); one member disagrees with nobody.

    >>> disagreement(torch.tensor([[[0.9, 0.1], [0.9, 0.1]], [[0.9, 0.1], [0.1, 0.9]]]).log())
    tensor(0.5000, dtype=torch.float64)
    """
    members = log_probs.shape[0]
    return disagreement_matrix(log_probs).sum() / max(members * (members - 1), 1)


def disagreement_matrix(log_probs: Tensor) -> Tensor:
    """Return the share of images on which each pair differs: (members, images, classes) to (members, members)."""
    labels = log_probs.argmax(-1)
    return (labels[:, None] != labels[None, :]).double().mean(-1)


def image_disagreement(log_probs: Tensor) -> Tensor:
    """Return the share of pairs of members that label each image differently: (members, images, classes) to (images,).

    Its mean over the images is `disagreement`.

    >>> image_disagreement(torch.tensor([[[0.9, 0.1], [0.9, 0.1]], [[0.9, 0.1], [0.1, 0.9]]]).log())
    tensor([0., 1.], dtype=torch.float64)
    """
    labels, members = log_probs.argmax(-1), log_probs.shape[0]
    differ = (labels[:, None] != labels[None, :]).double().sum((0, 1))
    return differ / max(members * (members - 1), 1)


def entropy(log_probs: Tensor) -> Tensor:
    """Return the entropy in nats of every prediction: (…, images, classes) to (…, images).

    >>> entropy(torch.tensor([[0.5, 0.5], [1.0, 0.0]]).log())
    tensor([0.6931, 0.0000], dtype=torch.float64)
    """
    known = log_probs.double()
    # Not torch.special.entr, which torch 2.11 cannot turn into ONNX; what is impossible, log 0, counts for nothing.
    return (known.exp() * -known.clamp_min(torch.finfo(known.dtype).min)).sum(-1)


def mutual_information(log_probs: Tensor) -> Tensor:
    """Return how much the members' answers differ, in nats: (members, images, classes) to (images,).

    The entropy of their mean prediction less the mean of their entropies; never negative, 0 for one member.

    >>> mutual_information(torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]]).log())
    tensor([0.6931], dtype=torch.float64)
    """
    log_probs = log_probs.double()
    return (entropy(average(log_probs)) - entropy(log_probs).mean(0)).clamp_min(0)


def auroc(seen: Tensor, unseen: Tensor) -> Tensor:
    """Return the chance that a score of `seen` (images,) is above one of `unseen` (other images,); equals count half.

    The area under the ROC curve, exactly, with the seen data as the positive class.

    >>> auroc(torch.tensor([0.9, 0.5]), torch.tensor([0.5, 0.1]))
    tensor(0.8750, dtype=torch.float64)
    """
    _check_scores(seen, unseen)
    ordered = unseen.sort().values
    below, up_to = (torch.searchsorted(ordered, seen.contiguous(), right=right) for right in (False, True))
    return (below + up_to).double().mean() / (2 * len(unseen))


def fpr_at(seen: Tensor, unseen: Tensor, share: float = 0.95) -> Tensor:
    """Return the share of unseen data taken for seen where the threshold keeps a `share` of the seen data or more.

    The threshold is the highest that does so; a score at it counts as seen, on both sides.

    >>> fpr_at(torch.tensor([0.9, 0.8, 0.7, 0.6]), torch.tensor([0.75, 0.65, 0.5, 0.1]), 0.75)
    tensor(0.2500, dtype=torch.float64)
    """
    _check_scores(seen, unseen)
    if not 0 < share <= 1:
        raise NesbsError(f"fpr_at: the share kept must be above 0 and at most 1, found {share}")
    count = math.ceil(share * len(seen) - 1e-9)  # 0.07 × 100 is 7.000000000000001
    threshold = seen.sort(descending=True).values[count - 1]
    return (unseen >= threshold).double().mean()


def cross_entropy(log_probs: Tensor, target: Tensor) -> Tensor:
    """Return the mean cross-entropy of predictions (…, images, classes) to distributions `target` (images, classes).

    >>> cross_entropy(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.9, 0.1]]))
    tensor(0.6931, dtype=torch.float64)
    """
    return _cross_entropies(log_probs, target).mean(-1)


def kl_divergence(log_probs: Tensor, target: Tensor) -> Tensor:
    """Return the mean KL divergence from predictions (…, images, classes) to distributions `target` (images, classes).

    >>> kl_divergence(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[1.0, 0.0]]))
    tensor(0.6931, dtype=torch.float64)
    """
    own: Tensor = torch.special.entr(target.double()).sum(-1)
    return (_cross_entropies(log_probs, target) - own).clamp_min(0).mean(-1)


def total_variation(log_probs: Tensor, target: Tensor) -> Tensor:
    """Return the mean total variation distance of predictions (…, images, classes) and `target` (images, classes).

    >>> total_variation(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([[0.9, 0.1]]))
    tensor(0.4000, dtype=torch.float64)
    """
    return (log_probs.double().exp() - target.double()).abs().sum(-1).mean(-1) / 2


def _binned(log_probs: Tensor, labels: Tensor, bins: int) -> tuple[Tensor, Tensor, Tensor]:
    """Confidence and (right − confidence), (…, images); which bin holds an image, (…, images, bins) of 0 and 1."""
    confidence, predicted = log_probs.double().exp().max(-1)
    gap = (predicted == labels).double() - confidence
    index = ((confidence - EDGE) * bins).ceil().long().clamp(1, bins) - 1
    # A sum over a table, since scatter_add on a GPU adds in another order each time.
    return confidence, gap, torch.nn.functional.one_hot(index, bins).to(gap)


def _of_label(log_probs: Tensor, labels: Tensor) -> Tensor:
    """The label's log-probability, (…, images)."""
    index = labels.expand(log_probs.shape[:-1])[..., None]
    return log_probs.gather(-1, index)[..., 0]


def _cross_entropies(log_probs: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy of every image, (…, images); a class that the target leaves out costs nothing."""
    target = target.double()
    return -torch.where(target > 0, target * log_probs.double(), 0.0).sum(-1)


def _check_scores(seen: Tensor, unseen: Tensor) -> None:
    for name, scores in (("seen", seen), ("unseen", unseen)):
        if scores.ndim != 1 or len(scores) == 0 or bool(scores.isnan().any()):
            raise NesbsError(f"scores of {name} data must be numbers on one axis, found shape {tuple(scores.shape)}")
