"""Unseen data: whether an ensemble is less certain about images of another data set than about its own."""

from __future__ import annotations

import torch
from torch import Tensor

from nesbs import metrics
from nesbs.data import Split

LUMINANCE = (0.299, 0.587, 0.114)  # of red, green, blue; ITU-R BT.601, as Pillow's mode L


def brought_to(split: Split, like: Split) -> Split:
    """A split's images with the channels and the size of another's, on its device.

    Grey becomes colour by repeating, colour grey by its luminance; sizes change by bilinear interpolation with
    antialiasing, and the sides' proportions with them.
    """
    images = torch.empty(len(split), like.channels, *like.size, dtype=torch.uint8, device=like.device)
    for part in torch.arange(len(split), device=split.device).split(1000):  # floats take four times the room
        pixels = split.bytes(part).to(like.device).float()
        if split.channels == 3 and like.channels == 1:
            pixels = torch.einsum("ichw,c->ihw", pixels, torch.tensor(LUMINANCE, device=like.device))[:, None]
        elif split.channels == 1 and like.channels == 3:
            pixels = pixels.expand(-1, 3, -1, -1)
        if split.size != like.size:
            pixels = torch.nn.functional.interpolate(
                pixels, like.size, mode="bilinear", antialias=True, align_corners=False
            )
        images[part.to(like.device)] = pixels.round().clamp(0, 255).to(torch.uint8)
    return Split(images, split.labels.to(like.device), split.class_names, like.mean, like.std)


def certainties(log_probs: Tensor, members: Tensor | None = None) -> dict[str, Tensor]:
    """Scores of every image that are higher the more certain a network is, (images,) each.

    From log-probabilities (images, classes): the largest (in the order of the largest probability) and minus the
    entropy; with two or more `members` (members, images, classes) minus their mutual information.

    >>> {name: score.tolist() for name, score in certainties(torch.tensor([[1.0, 0.0]]).log()).items()}
    {'max_probability': [0.0], 'entropy': [-0.0]}
    """
    scores = {"max_probability": log_probs.max(-1).values, "entropy": -metrics.entropy(log_probs)}
    if members is not None and len(members) > 1:
        scores["mutual_information"] = -metrics.mutual_information(members)
    return scores


def detection(seen: dict[str, Tensor], unseen: dict[str, Tensor]) -> dict[str, dict[str, float]]:
    """AUROC and false-positive rate at 95 % of each score, from its values on seen and on unseen images.

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
