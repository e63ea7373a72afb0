"""Error, NLL, Brier, ECE, disagreement: once, for everybody.

Every function takes log-probabilities of shape (…, images, classes) and labels of shape (images,), and
returns one value for each leading index: members keep an axis of their own.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def average(log_probs: Tensor) -> Tensor:
    """Log of the members' mean probability: (members, images, classes) to (images, classes).

    >>> average(torch.tensor([[[0.2, 0.8]], [[0.6, 0.4]]]).log()).exp()
    tensor([[0.4000, 0.6000]])
    """
    return log_probs.logsumexp(0) - math.log(log_probs.shape[0])


def average_logits(logits: Tensor) -> Tensor:
    """The other way to combine members: mean logits, then softmax; (members, images, classes) to (images, classes)."""
    return logits.mean(0).log_softmax(-1)


def error(log_probs: Tensor, labels: Tensor) -> Tensor:
    """Share of images whose most probable class is not the label.

    >>> error(torch.tensor([[0.9, 0.1], [0.8, 0.2]]).log(), torch.tensor([0, 1]))
    tensor(0.5000)
    """
    return (log_probs.argmax(-1) != labels).double().mean(-1).float()


def nll(log_probs: Tensor, labels: Tensor) -> Tensor:
    """Mean negative log-probability of the label.

    >>> nll(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([0]))
    tensor(0.6931)
    """
    return -_of_label(log_probs, labels).double().mean(-1).float()


def brier(log_probs: Tensor, labels: Tensor) -> Tensor:
    """Mean squared distance to the one-hot label, summed over classes (from 0 to 2).

    >>> brier(torch.tensor([[0.5, 0.5]]).log(), torch.tensor([0]))
    tensor(0.5000)
    """
    probs = log_probs.double().exp()
    one_hot = torch.nn.functional.one_hot(labels, probs.shape[-1]).to(probs)
    return (probs - one_hot).square().sum(-1).mean(-1).float()


def ece(log_probs: Tensor, labels: Tensor, bins: int = 15) -> Tensor:
    """Expected calibration error: mean gap of confidence and accuracy over equal-width bins of confidence.

    >>> ece(torch.tensor([[0.8, 0.2], [0.8, 0.2]]).log(), torch.tensor([0, 1]))
    tensor(0.3000)
    """
    confidence, predicted = log_probs.double().exp().max(-1)
    gap = (predicted == labels).double() - confidence
    index = (confidence * bins).ceil().long().clamp(1, bins) - 1  # bin i is ((i) / bins, (i + 1) / bins]
    sums = torch.zeros(*gap.shape[:-1], bins, dtype=gap.dtype, device=gap.device)
    return (sums.scatter_add(-1, index, gap).abs().sum(-1) / gap.shape[-1]).float()


def disagreement(log_probs: Tensor) -> Tensor:
    """Pairwise predictive disagreement (PPD): share of images two members label differently, mean over pairs.

    Takes (members, images, classes); one member disagrees with nobody.

    >>> disagreement(torch.tensor([[[0.9, 0.1], [0.9, 0.1]], [[0.9, 0.1], [0.1, 0.9]]]).log())
    tensor(0.5000)
    """
    members = log_probs.shape[0]
    if members < 2:
        return torch.zeros((), device=log_probs.device)
    matrix = disagreement_matrix(log_probs)
    return matrix.sum() / (members * (members - 1))


def disagreement_matrix(log_probs: Tensor) -> Tensor:
    """Share of images on which each pair of members differs: (members, images, classes) to (members, members)."""
    labels = log_probs.argmax(-1)
    return (labels[:, None] != labels[None, :]).double().mean(-1).float()


def _of_label(log_probs: Tensor, labels: Tensor) -> Tensor:
    """The label's log-probability, (…, images)."""
    index = labels.expand(log_probs.shape[:-1])[..., None]
    return log_probs.gather(-1, index)[..., 0]
