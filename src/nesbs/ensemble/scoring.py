"""Scoring ensembles by cached predictions: whatever their number, one computation."""

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from nesbs import metrics
from nesbs.data import Split
from nesbs.ensemble.settings import EnsembleSettings
from nesbs.metrics import Combine
from nesbs.spaces import Architecture
from nesbs.supernet import Estimator

# The validation loss of each of several ensembles, (ensembles,).
Score = Callable[[Sequence[Sequence[Architecture]]], Tensor]
COMBINE = EnsembleSettings().combine
AT_ONCE = 64  # candidates whose predictions are in memory together
TINY = torch.finfo(torch.float64).tiny


class Judge(Protocol):
    """Scores ensembles: the lower, the better."""

    def __call__(self, ensembles: Sequence[Sequence[Architecture]], weights: Tensor | None = None, /) -> Tensor:
        """Return the score of each ensemble, (ensembles,).

        With weights of the held-out images (resamples, images), whose rows add up to 1: (resamples, ensembles).
        """


class Predictor(Protocol):
    """Predictions of any architecture on one split: a supernet's `Estimator`, or networks trained alone."""

    @property
    def split(self) -> Split:
        """The images that are predicted."""

    def log_probs(self, architectures: Sequence[Architecture]) -> Tensor:
        """Return log-probabilities (architectures, images, classes)."""


def ensemble_losses(
    log_probs: Tensor, labels: Tensor, members: Tensor, combine: Combine = COMBINE, weights: Tensor | None = None
) -> Tensor:
    """Return the validation NLL of many ensembles of cached predictions, in one computation.

    log_probs (candidates, images, classes), labels (images,), members (ensembles, size) of candidates'
    indices; returns (ensembles,). With weights of the images as a `Judge` takes them: (resamples, ensembles).

    >>> predictions = torch.tensor([[[0.8, 0.2]], [[0.4, 0.6]]]).log()
    >>> ensemble_losses(predictions, torch.tensor([0]), torch.tensor([[0, 0], [0, 1]])).exp().reciprocal()
    tensor([0.8000, 0.6000], dtype=torch.float64)
    """
    if combine == "probabilities":
        return losses_of_means(of_label(log_probs, labels), members, weights)
    candidates, images, classes = log_probs.shape
    share = _shares(members, candidates, log_probs.device)
    losses = _zeros(members, weights, log_probs.device)
    for part in _parts(images, len(members) * classes, log_probs.device):
        combined = torch.einsum("ec,cik->eik", share, log_probs[:, part].double()).log_softmax(-1)
        if weights is None:
            losses += metrics.nll(combined, labels[part]) * len(part)
        else:
            losses -= weights[:, part].to(losses) @ of_label(combined, labels[part]).clamp_min(TINY).log().T
    return losses / images if weights is None else losses


def of_label(log_probs: Tensor, labels: Tensor) -> Tensor:
    """Return the labels' probabilities: (candidates, images, classes) to (candidates, images), in float64.

    The loss of an ensemble that averages probabilities needs no more of its members.
    """
    return log_probs[:, torch.arange(len(labels), device=labels.device), labels].double().exp()


def losses_of_means(probabilities: Tensor, members: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return what `ensemble_losses` does from the labels' probabilities (candidates, images), which are averaged.

    An average is a matrix product.
    """
    candidates, images = probabilities.shape
    share = _shares(members, candidates, probabilities.device)
    losses = _zeros(members, weights, probabilities.device)
    for part in _parts(images, len(members), probabilities.device):
        logs = (share @ probabilities[:, part]).clamp_min(TINY).log()
        losses -= logs.sum(1) if weights is None else weights[:, part].to(losses) @ logs.T
    return losses / images if weights is None else losses


def _zeros(members: Tensor, weights: Tensor | None, device: torch.device) -> Tensor:
    """Losses to be added to: (ensembles,), or with weights (resamples, ensembles)."""
    rows = [] if weights is None else [len(weights)]
    return torch.zeros(*rows, len(members), dtype=torch.float64, device=device)


def _shares(members: Tensor, candidates: int, device: torch.device) -> Tensor:
    """Each candidate's weight in each ensemble, (ensembles, candidates)."""
    share = torch.zeros(len(members), candidates, dtype=torch.float64, device=device)
    return share.scatter_add_(1, members, torch.full(members.shape, 1 / members.shape[1]).to(share))


def _parts(images: int, width: int, device: torch.device) -> Sequence[Tensor]:
    """Images in parts, so that memory stays bounded whatever the number of ensembles."""
    parts: Sequence[Tensor] = torch.arange(images, device=device).split(max(1, 2**24 // width))
    return parts


def distinct(ensembles: Sequence[Sequence[Architecture]]) -> tuple[list[Architecture], Tensor]:
    """Return all members once, and the places among them of each ensemble's, (ensembles, size)."""
    members = list(dict.fromkeys(member for ensemble in ensembles for member in ensemble))
    place = {member: i for i, member in enumerate(members)}
    return members, torch.tensor([[place[member] for member in ensemble] for ensemble in ensembles])


def scorer(estimator: Predictor, combine: Combine = COMBINE, *, noise: float = 0.0) -> Judge:
    """Make a score of ensembles: their validation loss, estimated with the supernet's weights (Algorithm 1, line 6).

    Of a candidate the labels' probabilities are stored, so that it is estimated once however often its ensembles are
    scored; its whole predictions, of all classes, are freed. With `noise`, where probabilities are combined, that share
    of the labels is taken for random (see `metrics.nll`).
    """
    probabilities: dict[Architecture, Tensor] = {}  # of the labels

    def score(ensembles: Sequence[Sequence[Architecture]], weights: Tensor | None = None) -> Tensor:
        labels = estimator.split.labels
        asked, places = distinct(ensembles)
        members = places.to(labels.device)
        if combine == "logits":
            return ensemble_losses(estimator.log_probs(asked), labels, members, combine, weights).cpu()
        missing = [architecture for architecture in asked if architecture not in probabilities]
        for start in range(0, len(missing), AT_ONCE):
            part = missing[start : start + AT_ONCE]
            log_probs = estimator.log_probs(part)
            right = of_label(log_probs, labels)
            right = (1 - noise) * right + noise / log_probs.shape[-1] if noise > 0 else right
            probabilities.update(zip(part, right, strict=True))
            if isinstance(estimator, Estimator):
                estimator.forget(part)
        stored = torch.stack([probabilities[architecture] for architecture in asked])
        return losses_of_means(stored, members, weights).cpu()

    return score
