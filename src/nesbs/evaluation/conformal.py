"""Sets of classes that hold the right one with a wanted probability: split conformal prediction, adaptive sets.

Romano, Sesia and Candès (2020), Classification with valid and adaptive coverage (APS). An image's score is the
probability of all classes before its label, the likeliest first. The randomised form, the paper's, adds a random part
of the label's own; adding all of it would leave out the surest answers. A set holds the classes whose score is at most
the quantile of the scores of held-out images. Where those and the new image are exchangeable, the set holds the label
with the wanted probability or a little more: randomised, more by 1 / (held-out images + 1) at most.
"""

import math
from itertools import count

import torch
from torch import Tensor

from nesbs.errors import NesbsError


def class_scores(log_probs: Tensor, part: Tensor | None = None) -> Tensor:
    """Return the score that each class would have as the label: log-probabilities (images, classes) to that shape.

    `part` (images,) from 0 to 1 is how much of the class's own probability counts; none of it without.

    >>> class_scores(torch.tensor([[0.2, 0.5, 0.3]]).log())
    tensor([[0.8000, 0.0000, 0.5000]], dtype=torch.float64)
    >>> class_scores(torch.tensor([[0.2, 0.5, 0.3]]).log(), torch.tensor([0.5]))
    tensor([[0.9000, 0.2500, 0.6500]], dtype=torch.float64)
    """
    probabilities, order = log_probs.double().softmax(-1).sort(dim=-1, descending=True, stable=True)
    scores = probabilities.cumsum(-1) - probabilities
    if part is not None:
        scores = scores + part.double()[:, None] * probabilities
    return torch.empty_like(scores).scatter_(-1, order, scores)


def label_scores(log_probs: Tensor, labels: Tensor, part: Tensor | None = None) -> Tensor:
    """Return the score of each image's label, (images,).

    >>> label_scores(torch.tensor([[0.2, 0.5, 0.3]]).log(), torch.tensor([2]))
    tensor([0.5000], dtype=torch.float64)
    """
    return class_scores(log_probs, part).gather(-1, labels[:, None])[:, 0]


def quantile(scores: Tensor, coverage: float) -> float:
    """Return what a set's scores may reach: the ⌈(images + 1) · coverage⌉-th smallest held-out score, of (images,).

    Too few images for the wanted coverage are an error.

    >>> quantile(torch.tensor([0.1, 0.5, 0.2, 0.25]), 0.6)
    0.25
    """
    if not 0 < coverage < 1:
        raise NesbsError(f"a wanted coverage lies between 0 and 1, found {coverage}")
    place = _place(len(scores), coverage)
    if place > len(scores):
        raise NesbsError(
            f"a coverage of {coverage:g} needs {images_for(coverage)} held-out images or more, there are "
            f"{len(scores)}: ask for less"
        )
    return float(scores.sort().values[place - 1])


def images_for(coverage: float) -> int:
    """Return how many held-out images a coverage needs at least.

    >>> images_for(0.95), images_for(0.5)
    (19, 1)
    """
    about = math.ceil(coverage / (1 - coverage))
    return next(images for images in count(max(1, about - 2)) if _place(images, coverage) <= images)


def _place(images: int, coverage: float) -> int:
    """The place of the score that a coverage reaches, from 1, among those of so many images."""
    return max(1, math.ceil((images + 1) * coverage - 1e-9))


def sets(log_probs: Tensor, reach: float, part: Tensor | None = None) -> Tensor:
    """Return which classes are in the set of each image, (images, classes) of booleans; `reach` is the `quantile`.

    Without `part` the likeliest class is in every set. With it, sets may be empty, which makes their coverage exact.

    >>> sets(torch.tensor([[0.2, 0.5, 0.3]]).log(), 0.6)
    tensor([[False,  True,  True]])
    """
    return class_scores(log_probs, part) <= reach + 1e-12
