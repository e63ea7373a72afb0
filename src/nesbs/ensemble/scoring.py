"""Scoring ensembles by cached predictions: whatever their number, one computation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import torch
from torch import Tensor

from nesbs import metrics
from nesbs.data import Split
from nesbs.spaces import Architecture

Combine = Literal["probabilities", "logits"]
# The validation loss of each of several ensembles, (ensembles,).
Score = Callable[[Sequence[Sequence[Architecture]]], Tensor]


class Predictor(Protocol):
    """Knows the predictions of any architecture on one split: a supernet's `Estimator`, or networks trained alone."""

    @property
    def split(self) -> Split:
        """The images that are predicted."""

    def log_probs(self, architectures: Sequence[Architecture]) -> Tensor:
        """Log-probabilities (architectures, images, classes)."""


def ensemble_losses(log_probs: Tensor, labels: Tensor, members: Tensor, combine: Combine = "probabilities") -> Tensor:
    """Validation NLL of many ensembles of cached predictions, in one computation.

    log_probs (candidates, images, classes), labels (images,), members (ensembles, size) of candidates'
    indices; returns (ensembles,).

    >>> predictions = torch.tensor([[[0.8, 0.2]], [[0.4, 0.6]]]).log()
    >>> ensemble_losses(predictions, torch.tensor([0]), torch.tensor([[0, 0], [0, 1]])).exp().reciprocal()
    tensor([0.8000, 0.6000], dtype=torch.float64)
    """
    candidates, images, _ = log_probs.shape
    share = torch.zeros(len(members), candidates, dtype=torch.float64, device=log_probs.device)
    share.scatter_add_(1, members, torch.full(members.shape, 1 / members.shape[1]).to(share))
    losses = torch.zeros(len(members), dtype=torch.float64, device=log_probs.device)
    # Images in parts, so that memory stays bounded whatever the number of ensembles.
    width = 1 if combine == "probabilities" else log_probs.shape[-1]
    for part in torch.arange(images, device=log_probs.device).split(max(1, 2**24 // (len(members) * width))):
        if combine == "probabilities":
            # The loss needs the label's probability alone: an average of ensembles is a matrix product.
            of_label = log_probs[:, part, labels[part]].double().exp()
            losses -= (share @ of_label).clamp_min(torch.finfo(torch.float64).tiny).log().sum(1)
        else:
            logits = torch.einsum("ec,cik->eik", share, log_probs[:, part].double())
            losses += metrics.nll(logits.log_softmax(-1), labels[part]) * len(part)
    return losses / images


def scorer(estimator: Predictor, combine: Combine = "probabilities") -> Score:
    """Score ensembles by their validation loss, such as the supernet's weights estimate it (Algorithm 1, line 6)."""

    def score(ensembles: Sequence[Sequence[Architecture]]) -> Tensor:
        known = list(dict.fromkeys(member for ensemble in ensembles for member in ensemble))
        place = {architecture: i for i, architecture in enumerate(known)}
        members = torch.tensor([[place[member] for member in ensemble] for ensemble in ensembles])
        labels = estimator.split.labels
        return ensemble_losses(estimator.log_probs(known), labels, members.to(labels.device), combine).cpu()

    return score
