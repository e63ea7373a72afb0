"""What was measured beside the scores: calibration, people's labels, unseen data, corrupted images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

from markupsafe import Markup

from nesbs.records import MetricsRecord
from nesbs.records.kinds import Columns
from nesbs.records.metrics import Calibrated, Corrupted, EnsembleMetrics, NetworkMetrics, ReliabilityBins
from nesbs.report import charts, diagrams, formats

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


def networks(metrics: MetricsRecord, measure: str) -> list[tuple[str, bool, Any]]:
    """The networks of which a measure was taken: (name, whether it is an ensemble, its record)."""
    rows: list[tuple[str, bool, Any]] = []
    if own := getattr(metrics.ensemble, measure, None):
        rows.append(("Ensemble", True, own.ensemble))
        rows += [(f"Member {index}", False, member) for index, member in enumerate(own.members or (), start=1)]
    if uniform := getattr(metrics.uniform, measure, None):
        rows.append(("Uniform-random ensemble", True, uniform.ensemble))
    return rows


def not_asked(ensemble: EnsembleMetrics | None) -> list[tuple[str, str]]:
    """The measures that were not asked for: (what, command that makes it)."""
    return [option for name, option in OPTIONS.items() if ensemble and not getattr(ensemble, name)]


def calibration(metrics: MetricsRecord) -> dict[str, Any] | None:
    """Temperatures, and what they change."""
    scaling = metrics.ensemble.temperature if metrics.ensemble else None
    if scaling is None:
        return None
    return {
        "held_out": scaling.fitted_on == "search_valid",
        "images": scaling.images,
        "rows": [(name, whole, row or Calibrated()) for name, whole, row in networks(metrics, "temperature")],
        "diagram": reliability_diagram(scaling.reliability or {}),
        "bins": _bins(scaling.reliability or {}),
    }


def reliability_diagram(reliability: dict[str, ReliabilityBins]) -> Markup | None:
    """Accuracy over confidence before and after temperature scaling; None where it was not recorded."""
    series = []
    for when in ("before", "after"):
        points = [
            (confidence, accuracy, images)
            for images, confidence, accuracy in reliability.get(when, ReliabilityBins()).rows
            if confidence is not None and accuracy is not None and images is not None
        ]
        if points:
            series.append((f"{when} scaling", points))
    if not series:
        return None
    text = "; ".join(
        f"{name}: "
        + ", ".join(f"{100 * accuracy:.0f} % right at {100 * confidence:.0f} %" for confidence, accuracy, _ in points)
        for name, points in series
    )
    return diagrams.reliability(f"Reliability of the ensemble, {text}", series)


def _bins(reliability: dict[str, ReliabilityBins]) -> list[list[float | None]]:
    """The diagram's numbers, a row a bin that holds anything: images, confidence, accuracy before, then after."""
    before, after = (reliability.get(when, ReliabilityBins()).rows for when in ("before", "after"))
    return [[*one, *two] for one, two in zip(before, after, strict=False) if one[0] or two[0]]


def human(metrics: MetricsRecord) -> dict[str, Any] | None:
    """Distances to people's labels."""
    agreement = metrics.ensemble.human if metrics.ensemble else None
    if agreement is None:
        return None
    return {
        "file": agreement.file,
        "people": agreement.people or {},
        "rows": [(name, whole, row or {}) for name, whole, row in networks(metrics, "human")],
    }


def unseen(metrics: MetricsRecord) -> dict[str, Any] | None:
    """AUROC and FPR by each score, for every network."""
    detection = metrics.ensemble.unseen if metrics.ensemble else None
    if detection is None:
        return None
    rows = [(name, whole, row or {}) for name, whole, row in networks(metrics, "unseen")]
    scores = {key: name for key, name in SCORES.items() if any(key in row for _, _, row in rows)}
    return {
        "data": detection.data,
        "images": detection.images,
        "seen_images": detection.seen_images,
        "scores": list(scores.values()),
        "rows": [(name, whole, [row.get(key) or {} for key in scores]) for name, whole, row in rows],
    }


def corruptions(metrics: MetricsRecord) -> dict[str, Any] | None:
    """Errors and calibration by severity, a chart of the errors, and every corruption."""
    measured = metrics.ensemble.corruptions if metrics.ensemble else None
    if measured is None or measured.ensemble is None:
        return None
    severities = measured.severities or ()
    tables: list[dict[str, Any]] = [
        {"name": name, "share": measure == "error", "rows": _by_severity(metrics, measure)}
        for measure, name in (("error", "Error"), ("nll", "NLL"), ("ece", "ECE"))
    ]
    shares = [(row["name"].lower(), row["values"]) for row in tables[0]["rows"]]
    text = "; ".join(f"{name} " + ", ".join(map(formats.percent, values)) for name, values in shares)
    series = [(name, [None if v is None else 100 * v for v in values]) for name, values in shares]
    # The chart counts its steps from 1.
    whole = len(severities) > 1 and severities == tuple(range(1, len(severities) + 1))
    by_corruption = measured.ensemble.by_corruption or {}
    return {
        "severities": severities,
        "skipped": measured.skipped or (),
        "count": len(by_corruption),
        "tables": tables,
        "chart": charts.lines(f"Mean error by severity: {text}", "severity", "test error in %", series)
        if whole
        else None,
        "rows": [_corruption_row(name, row or {}, measured.members or ()) for name, row in by_corruption.items()],
    }


def _by_severity(metrics: MetricsRecord, measure: str) -> list[dict[str, Any]]:
    """A measure on clean images, at every severity and on average: ensemble, best and mean member, uniform ensemble."""

    def values(clean: NetworkMetrics, corrupted: Corrupted) -> list[float | None]:
        by_severity = (corrupted.by_severity or {}).get(measure) or ()
        return [getattr(clean, measure), *by_severity, (corrupted.mean or {}).get(measure)]

    def of_ensemble(entry: EnsembleMetrics | None) -> list[float | None]:
        own = entry.corruptions.ensemble if entry and entry.corruptions else None
        return values(entry, own) if entry and own else []

    entry = metrics.ensemble
    blocks = (entry.corruptions.members if entry and entry.corruptions else None) or ()
    members = [values(*pair) for pair in zip((entry and entry.members) or (), blocks, strict=False)]
    columns = list(zip(*members, strict=False))
    rows = [
        ("Ensemble", True, of_ensemble(entry)),
        ("Best member", False, [_of_numbers(min, column) for column in columns]),
        ("Mean member", False, [_of_numbers(fmean, column) for column in columns]),
        ("Uniform-random ensemble", True, of_ensemble(metrics.uniform)),
    ]
    return [
        {"name": name, "whole": whole, "clean": shown[0], "values": shown[1:-1], "mean": shown[-1]}
        for name, whole, shown in rows
        if shown
    ]


def _corruption_row(name: str, row: Columns, members: Sequence[Corrupted]) -> dict[str, Any]:
    """One corruption: the ensemble's errors by severity, and the means of ensemble and members."""
    means = [_of_numbers(fmean, member.errors(name)) for member in members]
    return {
        "name": name,
        "errors": list(row.get("error") or ()),
        "mean": _of_numbers(fmean, row.get("error") or ()),
        "best": _of_numbers(min, means),
        "members": _of_numbers(fmean, means),
        "ece": _of_numbers(fmean, row.get("ece") or ()),
    }


def _of_numbers(summary: Callable[[list[float]], float], values: Iterable[float | None]) -> float | None:
    """The summary of the values that are there, None where there are none."""
    numbers = [value for value in values if value is not None]
    return summary(numbers) if numbers else None
