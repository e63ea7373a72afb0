"""Predictions to look at (`predictions.json`): images that members disagree on, and a map of predictions."""

import torch
from torch import Tensor

from nesbs import metrics
from nesbs.attacks.pictures import png
from nesbs.data import Split
from nesbs.ensemble import Ensemble
from nesbs.evaluation import has_tsne, tsne
from nesbs.records.predictions import Answer, DisagreedImage, PredictionMap, PredictionsRecord
from nesbs.runs.measures import Material

LARGEST = 64  # pixels a side of a picture
FEWEST = 12  # points from which on a map is drawn


def show(ensemble: Ensemble, material: Material) -> PredictionsRecord:
    """Predictions of an ensemble to look at: as many images of each kind as the settings say."""
    settings, split = material.settings, material.split
    logits, combined = material.predictions(ensemble, split)
    log_probs = logits.log_softmax(-1)
    return PredictionsRecord(
        disagreed=disagreed(log_probs, combined, split, settings.shown),
        map=prediction_map(log_probs, settings.map),
    )


def to_show(earlier: PredictionsRecord | None) -> bool:
    """Whether `predictions.json` has to be made: it is not there, or it lacks a map that could be made now.

    >>> to_show(None), to_show(PredictionsRecord(map=PredictionMap(places=[], points=[])))
    (True, False)
    """
    return earlier is None or (earlier.map is None and has_tsne())


def disagreed(log_probs: Tensor, combined: Tensor, split: Split, count: int) -> list[DisagreedImage]:
    """The `count` images that most pairs of members label differently; of equals, those of more mutual information.

    Takes the members' log-probabilities (members, images, classes) and the ensemble's (images, classes). Images on
    which all agree are left out.
    """
    differ = metrics.image_disagreement(log_probs)
    order = torch.argsort(differ + 1e-3 * metrics.mutual_information(log_probs), descending=True, stable=True)
    return [
        DisagreedImage(
            place=place,
            label=split.class_names[int(split.labels[place])],
            differ=float(differ[place]),
            ensemble=_answer(combined[place], split),
            members=[_answer(row[place], split) for row in log_probs],
            picture=_picture(split, place),
        )
        for place in order[:count].tolist()
        if differ[place] > 0
    ]


def prediction_map(log_probs: Tensor, count: int) -> PredictionMap | None:
    """A t-SNE map of members' predicted probabilities (members, images, classes) for `count` images, evenly taken.

    Each member's answer to each image is a point, (members, images, 2); there are none where there would be too few.
    None where scikit-learn is missing.
    """
    members, images = log_probs.shape[:2]
    places = torch.linspace(0, images - 1, min(count, images)).round().long().unique()
    if members < 2 or members * len(places) < FEWEST:
        return PredictionMap(places=[], points=[])
    if not has_tsne():
        return None
    points, perplexity = tsne(log_probs[:, places.to(log_probs.device)].double().exp().flatten(0, 1))
    rows = [[round(value, 2) for value in point] for point in points]
    return PredictionMap(
        places=places.tolist(),
        perplexity=round(perplexity, 2),
        points=[rows[first : first + len(places)] for first in range(0, len(rows), len(places))],
    )


def _answer(log_probs: Tensor, split: Split) -> Answer:
    """The most probable class with its probability."""
    value, answer = log_probs.max(-1)
    return Answer(answer=split.class_names[int(answer)], probability=round(float(value.exp()), 4))


def _picture(split: Split, place: int) -> str:
    """An image as a PNG file in base64, made smaller where it is large."""
    image = split.bytes(torch.tensor([place], device=split.device)).float() / 255
    shrink = LARGEST / max(image.shape[-2:])
    if shrink < 1:
        size = [max(1, round(side * shrink)) for side in image.shape[-2:]]
        image = torch.nn.functional.interpolate(image, size, mode="bilinear", antialias=True).clamp(0, 1)
    return png(image[0])
