"""How the members differ: accuracies, disagreement, a map of predictions, the images they disagree on."""

from __future__ import annotations

import re
from typing import Any

from nesbs.report import diagrams, words
from nesbs.report.reading import Record, mapping, sequence

BASE64 = re.compile(r"[A-Za-z0-9+/]+=*")


def disagreement(metrics: Record) -> dict[str, Any] | None:
    """The share of test images on which each two members' labels differ."""
    ensemble = mapping(metrics.get("ensemble"))
    matrix = [sequence(row) for row in sequence(ensemble.get("disagreement_matrix"))]
    if not matrix:
        return None
    largest = max((value for row in matrix for value in row if words.is_number(value)), default=0) or 1
    shaded = [[(value, value / largest if words.is_number(value) else None) for value in row] for row in matrix]
    return {"rows": shaded, "mean": ensemble.get("disagreement")}


def accuracies(metrics: Record) -> Any:
    """A histogram of the members' accuracies, those of the uniform-random ensemble beside them."""
    groups = []
    for key, name, filled in (("ensemble", "member", True), ("uniform", "uniform-random member", False)):
        errors = [mapping(member).get("error") for member in sequence(mapping(metrics.get(key)).get("members"))]
        known = [100 * (1 - error) for error in errors if words.is_number(error)]
        if known:
            groups.append((name, filled, known))
    if not groups:
        return None
    error = mapping(metrics.get("ensemble")).get("error")
    line = 100 * (1 - error) if words.is_number(error) else None
    said = "; ".join(f"{name}s {', '.join(f'{value:.2f} %' for value in values)}" for name, _, values in groups)
    title = f"Accuracy of {said}" + (f"; the ensemble {line:.2f} %" if line is not None else "")
    return diagrams.histogram(title, "test accuracy in %", groups, line)


def prediction_map(predictions: Record) -> dict[str, Any]:
    """The map, and what to say where there is none."""
    block = predictions.get("map")
    points = [
        [(pair[0], pair[1]) for pair in map(sequence, sequence(member)) if len(pair) == 2 and _numbers(pair)]
        for member in sequence(mapping(block).get("points"))
    ]
    images = len(points[0]) if points else 0
    if images and all(len(member) == images for member in points):
        title = f"t-SNE of the predictions of {len(points)} members for {images} images"
        return {"chart": diagrams.prediction_map(title, points), "images": images, "why": None}
    return {"chart": None, "images": 0, "why": None if not predictions else "sklearn" if block is None else "unasked"}


def disagreed(predictions: Record) -> list[dict[str, Any]]:
    """The images that members disagree on most, each with its picture and everybody's answer."""
    shown = []
    for entry in map(mapping, sequence(predictions.get("disagreed"))):
        picture, label = str(entry.get("picture", "")), str(entry.get("label"))
        if not BASE64.fullmatch(picture):
            continue
        members = [mapping(member) for member in sequence(entry.get("members"))]
        rows = [("Ensemble", mapping(entry.get("ensemble")))]
        rows += [(f"Member {number}", member) for number, member in enumerate(members, start=1)]
        shown.append(
            {
                "place": entry.get("place"),
                "label": label,
                "picture": picture,
                "answers": [
                    {
                        "name": name,
                        "answer": str(row.get("answer")),
                        "probability": row.get("probability"),
                        "right": str(row.get("answer")) == label,
                    }
                    for name, row in rows
                ],
            }
        )
    return shown


def _numbers(values: list[Any]) -> bool:
    return all(map(words.is_number, values))
