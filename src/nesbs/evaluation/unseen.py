"""Unseen data: whether an ensemble is less certain about images of another data set than about its own."""

from dataclasses import replace

from torch import Tensor

from nesbs import metrics
from nesbs.data import Split
from nesbs.data.conversion import converted


def brought_to(split: Split, like: Split) -> Split:
    """Return a split's images with the channels, the size, the mean and deviation of another's, on its device."""
    moved = converted(split.to(like.device), channels=like.channels, size=like.size)
    return replace(moved, mean=like.mean, std=like.std)


def certainties(log_probs: Tensor, members: Tensor | None = None) -> dict[str, Tensor]:
    """Return scores of every image that are higher the more certain a network is, (images,) each.

    From log-probabilities (images, classes): the largest (in the order of the largest probability) and minus the
    entropy; with two or more `members` (members, images, classes) minus their mutual information.

    >>> import torch
    >>> {name: score.tolist() for name, score in certainties(torch.tensor([[1.0, 0.0]]).log()).items()}
    {'max_probability': [0.0], 'entropy': [-0.0]}
    """
    scores = {"max_probability": log_probs.max(-1).values, "entropy": -metrics.entropy(log_probs)}
    if members is not None and len(members) > 1:
        scores["mutual_information"] = -metrics.mutual_information(members)
    return scores


def detection(seen: dict[str, Tensor], unseen: dict[str, Tensor]) -> dict[str, dict[str, float]]:
    """Return AUROC and false-positive rate at 95 % of each score, from its values on seen and unseen images.

    >>> import torch
    >>> detection({"entropy": torch.tensor([-0.1, -0.2])}, {"entropy": torch.tensor([-0.9, -0.15])})
    {'entropy': {'auroc': 0.75, 'fpr95': 0.5}}
    """
    return {
        name: {
            "auroc": float(metrics.auroc(seen[name], unseen[name])),
            "fpr95": float(metrics.fpr_at(seen[name], unseen[name], 0.95)),
        }
        for name in seen
    }
