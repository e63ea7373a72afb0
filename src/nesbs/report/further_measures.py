"""What was measured beside the scores: calibration, people's labels, unseen data, corrupted images."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from nesbs.report import charts, diagrams, words
from nesbs.report.reading import Record, mapping, sequence

SCORES = {
    "max_probability": "maximum probability",
    "entropy": "entropy",
    "mutual_information": "mutual information",
}
OPTIONS = {
    "human": ("agreement with people", "nesbs evaluate RUN --human FILE"),
    "unseen": ("unseen data", "nesbs evaluate RUN --unseen NAME"),
    "corruptions": ("corrupted images", "nesbs evaluate RUN --corruptions all"),
}


def networks(metrics: Record, part: str) -> list[tuple[str, bool, Record]]:
    """The networks of a part: (name, whether it is an ensemble, what was measured)."""
    found: list[tuple[str, bool, Record]] = []
    for key, name in (("ensemble", "Ensemble"), ("uniform", "Uniform-random ensemble")):
        block = mapping(mapping(metrics.get(key)).get(part))
        if block:
            found.append((name, True, mapping(block.get("ensemble"))))
        if block and key == "ensemble":
            members = enumerate(sequence(block.get("members")), start=1)
            found += [(f"Member {index}", False, mapping(member)) for index, member in members]
    return found


def not_asked(metrics: Record) -> list[tuple[str, str]]:
    """The parts that nobody asked for: (what, command that makes it)."""
    ensemble = mapping(metrics.get("ensemble"))
    return [said for part, said in OPTIONS.items() if ensemble and not ensemble.get(part)]


def calibration(metrics: Record) -> dict[str, Any] | None:
    """Temperatures, and what they change."""
    block = mapping(mapping(metrics.get("ensemble")).get("temperature"))
    rows = [
        {
            "name": name,
            "whole": whole,
            "temperatures": sequence(row.get("temperatures")),
            "before": mapping(row.get("before")),
            "after": mapping(row.get("after")),
        }
        for name, whole, row in networks(metrics, "temperature")
    ]
    if not block:
        return None
    return {
        "held_out": block.get("fitted_on") == "search_valid",
        "images": block.get("images"),
        "rows": rows,
        "diagram": reliability_diagram(mapping(block.get("reliability"))),
        "bins": _bins(mapping(block.get("reliability"))),
    }


def reliability_diagram(block: Record) -> Any:
    """Accuracy over confidence before and after temperature scaling; None where it was not recorded."""
    series = []
    for when in ("before", "after"):
        points = [
            (confidence, accuracy, images)
            for images, confidence, accuracy in _columns(mapping(block.get(when)))
            if words.is_number(confidence) and words.is_number(accuracy) and words.is_number(images)
        ]
        if points:
            series.append((f"{when} scaling", points))
    if not series:
        return None
    said = "; ".join(
        f"{name}: "
        + ", ".join(f"{100 * accuracy:.0f} % right at {100 * confidence:.0f} %" for confidence, accuracy, _ in points)
        for name, points in series
    )
    return diagrams.reliability(f"Reliability of the ensemble, {said}", series)


def _bins(block: Record) -> list[list[Any]]:
    """The diagram's numbers, a row a bin that holds anything: images, confidence, accuracy before, then after."""
    before, after = (_columns(mapping(block.get(when))) for when in ("before", "after"))
    return [[*first, *second] for first, second in zip(before, after, strict=False) if first[0] or second[0]]


def _columns(block: Record) -> list[tuple[Any, Any, Any]]:
    return list(zip(*(sequence(block.get(key)) for key in ("images", "confidence", "accuracy")), strict=False))


def human(metrics: Record) -> dict[str, Any] | None:
    """Distances to people's labels."""
    block = mapping(mapping(metrics.get("ensemble")).get("human"))
    if not block:
        return None
    people = mapping(block.get("people"))
    return {
        "file": block.get("file"),
        "error": people.get("error"),
        "entropy": people.get("entropy"),
        "rows": [{"name": name, "whole": whole, "row": row} for name, whole, row in networks(metrics, "human")],
    }


def unseen(metrics: Record) -> dict[str, Any] | None:
    """AUROC and FPR by each score, for every network."""
    block = mapping(mapping(metrics.get("ensemble")).get("unseen"))
    if not block:
        return None
    rows = networks(metrics, "unseen")
    scores = {key: name for key, name in SCORES.items() if any(key in row for _, _, row in rows)}
    return {
        "data": block.get("data"),
        "images": block.get("images"),
        "seen_images": block.get("seen_images"),
        "scores": list(scores.values()),
        "rows": [
            {"name": name, "whole": whole, "cells": [mapping(row.get(key)) for key in scores]}
            for name, whole, row in rows
        ],
    }


def corruptions(metrics: Record) -> dict[str, Any] | None:
    """Errors and calibration by severity, a chart of the errors, and every corruption."""
    block = mapping(mapping(metrics.get("ensemble")).get("corruptions"))
    own = mapping(block.get("ensemble"))
    if not own:
        return None
    severities = sequence(block.get("severities"))
    members = [mapping(member) for member in sequence(block.get("members"))]
    tables: list[dict[str, Any]] = [
        {"name": name, "share": measure == "error", "rows": _by_severity(metrics, measure)}
        for measure, name in (("error", "Error"), ("nll", "NLL"), ("ece", "ECE"))
    ]
    shares = [(row["name"].lower(), row["values"]) for row in tables[0]["rows"]]
    said = "; ".join(f"{name} " + ", ".join(map(words.percent, values)) for name, values in shares)
    series = [(name, [100 * v if words.is_number(v) else v for v in values]) for name, values in shares]
    # The chart counts its steps from 1.
    whole = severities == list(range(1, len(severities) + 1)) and len(severities) > 1
    return {
        "severities": severities,
        "skipped": [str(name) for name in sequence(block.get("skipped"))],
        "count": len(mapping(own.get("by_corruption"))),
        "tables": tables,
        "chart": charts.lines(f"Mean error by severity: {said}", "severity", "test error in %", series)
        if whole
        else None,
        "rows": [_one(str(name), mapping(row), members) for name, row in mapping(own.get("by_corruption")).items()],
    }


def _by_severity(metrics: Record, measure: str) -> list[dict[str, Any]]:
    """A measure on clean images, at every severity and on average: ensemble, best and mean member, uniform ensemble."""

    def values(clean: Any, block: Record) -> list[Any]:
        by_severity = sequence(mapping(block.get("by_severity")).get(measure))
        return [mapping(clean).get(measure), *by_severity, mapping(block.get("mean")).get(measure)]

    entry, uniform = mapping(metrics.get("ensemble")), mapping(metrics.get("uniform"))
    blocks = map(mapping, sequence(mapping(entry.get("corruptions")).get("members")))
    members = [values(*pair) for pair in zip(sequence(entry.get("members")), blocks, strict=False)]
    columns = list(zip(*members, strict=False))
    rows = [
        ("Ensemble", True, values(entry, _own(entry)) if _own(entry) else []),
        ("Best member", False, [_known(min, column) for column in columns]),
        ("Mean member", False, [_known(fmean, column) for column in columns]),
        ("Uniform-random ensemble", True, values(uniform, _own(uniform)) if _own(uniform) else []),
    ]
    return [
        {"name": name, "whole": whole, "clean": shown[0], "values": shown[1:-1], "mean": shown[-1]}
        for name, whole, shown in rows
        if shown
    ]


def _own(entry: Record) -> Record:
    """What an ensemble itself was measured at under corruption."""
    return mapping(mapping(entry.get("corruptions")).get("ensemble"))


def _one(name: str, row: Record, members: Sequence[Record]) -> dict[str, Any]:
    """One corruption: the ensemble's errors by severity, and the means of ensemble and members."""
    errors = sequence(row.get("error"))
    own = [sequence(mapping(mapping(member.get("by_corruption")).get(name)).get("error")) for member in members]
    means = [_known(fmean, values) for values in own]
    return {
        "name": name,
        "errors": errors,
        "mean": _known(fmean, errors),
        "best": _known(min, means),
        "members": _known(fmean, means),
        "ece": _known(fmean, sequence(row.get("ece"))),
    }


def _known(summary: Any, values: Sequence[Any]) -> float | None:
    """The summary of the values that are numbers, None where there are none."""
    known = [value for value in values if words.is_number(value)]
    return summary(known) if known else None
