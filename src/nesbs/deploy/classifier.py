"""A trained ensemble that takes images as people have them and answers in class names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from numbers import Real

import numpy as np
import torch
from torch import Tensor

from nesbs import metrics
from nesbs.data.conversion import ArrayView
from nesbs.data.images import View
from nesbs.deploy.caution import caution_for
from nesbs.deploy.inputs import ImageInput, listed
from nesbs.ensemble import Ensemble
from nesbs.errors import NesbsError, expect
from nesbs.evaluation.calibration import scale
from nesbs.records.held_out_answers import HeldOutAnswers

BATCH_SIZE = 100  # images that are read and predicted at once
Images = ImageInput | Sequence[ImageInput]


@dataclass(frozen=True, eq=False)
class Explanation:
    """How unsure the ensemble is of each image, and why; each (images,).

    `entropy` is that of the answer `predict_proba` gives, in nats: 0 where it is certain, log of the number of classes
    where every class is as probable. `disagreement` is the share of pairs of members whose labels differ.
    `mutual_information`, in nats, is the part of the unsureness that comes from the members' differences and not from
    each of them being unsure: high for images unlike those they were trained on.
    """

    entropy: Tensor
    disagreement: Tensor
    mutual_information: Tensor


@dataclass(frozen=True, eq=False)
class Classifier:
    """An ensemble with what it needs to take any image: `nesbs.load` makes one from a run.

    Images are paths, Pillow images, uint8 arrays (height, width[, channels]) or uint8 tensors ([channels,] height,
    width), of any size: one of them, a list, or an array or tensor with the images as its first axis. Each is turned,
    cut, resized and converted as the training images were. Answers always have an axis of images, also for one.

    `temperature` scales the ensemble's answer, not the members'.

    >>> from nesbs.spaces import toy_edges
    >>> networks = [toy_edges().network(one, classes=2, in_channels=1, cells=1) for one in list(toy_edges())[-3:]]
    >>> classifier = Classifier(Ensemble(networks).eval(), ArrayView("L", (28, 28)), ("cat", "dog"))
    >>> grey, colour = np.zeros((40, 30), dtype=np.uint8), torch.zeros(5, 3, 64, 64, dtype=torch.uint8)
    >>> classifier.predict(grey)[0] in ("cat", "dog")
    True
    >>> classifier.predict_proba(colour).shape, classifier.members(colour).shape
    (torch.Size([5, 2]), torch.Size([3, 5, 2]))
    >>> classifier.explain([grey, grey]).mutual_information.shape
    torch.Size([2])
    """

    ensemble: Ensemble
    view: View | ArrayView
    class_names: tuple[str, ...]
    temperature: float = 1.0
    held_out: HeldOutAnswers | None = None  # what thresholds and sets are fitted to

    def predict(self, images: Images) -> list[str]:
        """Return the name of the most probable class of each image."""
        return [self.class_names[place] for place in self.predict_proba(images).argmax(-1).tolist()]

    def predict_proba(self, images: Images) -> Tensor:
        """Return the probability of every class, (images, classes), at the temperature that was measured."""
        return self.combined(self.logits(images)).exp()

    def members(self, images: Images) -> Tensor:
        """Return the probabilities of each member, (members, images, classes), without temperature."""
        return self.logits(images).softmax(-1)

    def sets(self, images: Images, *, coverage: float) -> list[tuple[str, ...]]:
        """Return the classes of each image that hold the right one with a wanted probability, the likeliest first.

        Fitted to the run's held-out images; too few of them for the wanted coverage are an error.
        """
        expect(coverage, Real, "coverage must be a number between 0 and 1")
        caution = caution_for(self.held_out, coverage=coverage)
        inside = caution.sets(self.ensemble.combined(self.logits(images)))
        return [tuple(self.class_names[place] for place in places or ()) for places in inside]

    def sure(self, images: Images, *, error: float) -> list[bool]:
        """Return whether to answer each image, so that the error among answered images is about `error` or less."""
        expect(error, Real, "error must be a number between 0 and 1")
        return caution_for(self.held_out, error=error).answered(self.ensemble.combined(self.logits(images)))

    def explain(self, images: Images) -> Explanation:
        """Return how unsure the ensemble is of each image, and whether because its members differ."""
        return self.explained(self.logits(images))

    @torch.no_grad()
    def logits(self, images: Images) -> Tensor:
        """Return the logits of each member, (members, images, classes), in float64."""
        readers = iter(listed(images))
        answers = []
        while batch := list(islice(readers, BATCH_SIZE)):
            answers.append(self.logits_of(np.stack([read(self.view) for read in batch])))
        return torch.cat(answers, 1)

    @torch.no_grad()
    def logits_of(self, pixels: np.ndarray) -> Tensor:
        """Return the logits of each member for images as `view` makes them, (images, channels, height, width) bytes."""
        device = next(self.ensemble.parameters()).device
        logits: Tensor = self.ensemble(torch.from_numpy(pixels).to(device).float().div_(255)).double().cpu()
        if not bool(logits.isfinite().all()):
            raise NesbsError("the predictions are not numbers: a member's weights are broken, train it again")
        return logits

    def combined(self, logits: Tensor) -> Tensor:
        """Return the ensemble's log-probabilities (images, classes) from logits (members, images, classes)."""
        return scale(self.ensemble.combined(logits), self.temperature)

    def explained(self, logits: Tensor) -> Explanation:
        """Return the `Explanation` of logits (members, images, classes)."""
        log_probs = logits.log_softmax(-1)
        return Explanation(
            entropy=metrics.entropy(self.combined(logits)),
            disagreement=metrics.image_disagreement(log_probs),
            mutual_information=metrics.mutual_information(log_probs),
        )
