"""How the members differ: accuracies, disagreement, a map of predictions, the images they disagree on."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from nesbs.records import MetricsRecord, PredictionsRecord
from nesbs.records.metrics import EnsembleMetrics
from nesbs.records.predictions import Answer
from nesbs.report import diagrams
from nesbs.report.templates import is_base64


def disagreement(ensemble: EnsembleMetrics | None) -> dict[str, Any] | None:
    """The share of test images on which each two members' labels differ, each with its shade."""
    matrix = (ensemble.disagreement_matrix if ensemble else None) or ()
    if not ensemble or not matrix:
        return None
    largest = max((value for row in matrix for value in row if value is not None), default=0) or 1
    shaded = [[(value, None if value is None else value / largest) for value in row] for row in matrix]
    return {"rows": shaded, "mean": ensemble.disagreement}


def accuracies(metrics: MetricsRecord) -> Markup | None:
    """A histogram of the members' accuracies, those of the uniform-random ensemble beside them."""
    groups = []
    for entry, name, filled in ((metrics.ensemble, "member", True), (metrics.uniform, "uniform-random member", False)):
        errors = [member.error for member in (entry.members if entry else None) or ()]
        values = [100 * (1 - error) for error in errors if error is not None]
        if values:
            groups.append((name, filled, values))
    if not groups:
        return None
    error = metrics.ensemble.error if metrics.ensemble else None
    line = None if error is None else 100 * (1 - error)
    text = "; ".join(f"{name}s {', '.join(f'{value:.2f} %' for value in values)}" for name, _, values in groups)
    title = f"Accuracy of {text}" + (f"; the ensemble {line:.2f} %" if line is not None else "")
    return diagrams.histogram(title, "test accuracy in %", groups, line)


def prediction_map(predictions: PredictionsRecord | None) -> dict[str, Any]:
    """The map of the predictions, or the reason why it is missing."""
    if predictions is None:
        return {"chart": None, "images": 0, "why": None}
    points = [
        [(pair[0], pair[1]) for pair in member if len(pair) == 2 and pair[0] is not None and pair[1] is not None]
        for member in (predictions.map.points if predictions.map else None) or ()
    ]
    images = len(points[0]) if points else 0
    if images and all(len(member) == images for member in points):
        title = f"t-SNE of the predictions of {len(points)} members for {images} images"
        return {"chart": diagrams.prediction_map(title, points), "images": images, "why": None}
    return {"chart": None, "images": 0, "why": "sklearn" if predictions.map is None else "unasked"}


def disagreed(predictions: PredictionsRecord | None) -> list[dict[str, Any]]:
    """The images that members disagree on most, each with its picture and everybody's answer."""
    shown = []
    for image in (predictions.disagreed if predictions else None) or ():
        if not is_base64(image.picture):
            continue
        rows = [("Ensemble", image.ensemble or Answer())]
        rows += [(f"Member {number}", member) for number, member in enumerate(image.members or (), start=1)]
        answers = [(name, row, row.answer == image.label) for name, row in rows]
        shown.append({"place": image.place, "label": image.label, "picture": image.picture, "answers": answers})
    return shown
