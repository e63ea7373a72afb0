"""How the members differ: accuracies, and a map of predictions."""

from __future__ import annotations

from markupsafe import Markup

from nesbs.records import MetricsRecord, PredictionsRecord
from nesbs.report import diagrams


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


def prediction_map(predictions: PredictionsRecord | None) -> tuple[Markup | None, int]:
    """The map of the predictions, None where it is missing, and how many images it shows."""
    points = [
        [(pair[0], pair[1]) for pair in member if len(pair) == 2 and pair[0] is not None and pair[1] is not None]
        for member in (predictions.map.points if predictions and predictions.map else None) or ()
    ]
    images = len(points[0]) if points else 0
    if not images or any(len(member) != images for member in points):
        return None, 0
    return diagrams.prediction_map(
        f"t-SNE of the predictions of {len(points)} members for {images} images", points
    ), images
