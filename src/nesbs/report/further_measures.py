"""What was measured beside the scores: calibration, people's labels, unseen data, corrupted images."""

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any

from markupsafe import Markup

from nesbs.records import MetricsRecord
from nesbs.records.kinds import Columns
from nesbs.records.metrics import Abstention, Calibrated, Corrupted, EnsembleMetrics, NetworkMetrics, ReliabilityBins
from nesbs.report import charts, diagrams, formats

SCORES = {
    "max_probability": "maximum probability",
    "entropy": "entropy",
    "mutual_information": "mutual information",
}

NONE_FITS = "no T fits (too few errors, or answers no better than guesses)"


def networks(metrics: MetricsRecord, measure: str) -> list[tuple[str, bool, Any]]:
    """The networks of which a measure was taken: (name, whether it is an ensemble, its record)."""
    empty: Any = Calibrated() if measure == "temperature" else {}
    rows: list[tuple[str, bool, Any]] = []
    if own := getattr(metrics.ensemble, measure, None):
        rows.append(("Ensemble", True, own.ensemble or empty))
        rows += [(f"Member {index}", False, member or empty) for index, member in enumerate(own.members or (), start=1)]
    if uniform := getattr(metrics.uniform, measure, None):
        rows.append(("Uniform-random ensemble", True, uniform.ensemble or empty))
    return rows


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


def reliability_rows(reliability: dict[str, ReliabilityBins]) -> list[list[float | None]]:
    """The diagram's numbers, a row a bin that holds anything: images, confidence, accuracy before, then after."""
    before, after = (reliability.get(when, ReliabilityBins()).rows for when in ("before", "after"))
    return [[*one, *two] for one, two in zip(before, after, strict=False) if one[0] or two[0]]


def risk_curve(abstention: Abstention) -> Markup | None:
    """The error among answered images by the share that is answered; None where it was not recorded."""
    pairs = zip(abstention.coverage or (), abstention.risk or (), strict=False)
    points = [(100 * coverage, 100 * risk) for coverage, risk in pairs if coverage is not None and risk is not None]
    if not points:
        return None
    ends = ", ".join(f"{risk:.1f} % of {coverage:.0f} % answered" for coverage, risk in (points[0], points[-1]))
    title = f"Error by share answered: {ends}"
    return charts.scatter(title, "answered in %", "error among them in %", [("ensemble", "ring", points)])


def unseen_scores(metrics: MetricsRecord) -> dict[str, str]:
    """The scores by which some network tells unseen data: their names by their keys."""
    rows = networks(metrics, "unseen")
    return {key: name for key, name in SCORES.items() if any(key in row for _, _, row in rows)}


def corruptions(metrics: MetricsRecord) -> dict[str, Any] | None:
    """Errors and calibration by severity, a chart of the errors, and every corruption."""
    measured = metrics.ensemble.corruptions if metrics.ensemble else None
    if measured is None or measured.ensemble is None:
        return None
    severities = measured.severities or ()
    tables = {measure: _by_severity(metrics, measure) for measure in ("error", "nll", "ece")}
    shares = [(name.lower(), values[1:-1]) for name, _, values in tables["error"]]
    text = "; ".join(f"{name} " + ", ".join(map(formats.percent, values)) for name, values in shares)
    series = [(name, [None if v is None else 100 * v for v in values]) for name, values in shares]
    # The chart counts its steps from 1.
    drawn = len(severities) > 1 and severities == tuple(range(1, len(severities) + 1))
    by_corruption = measured.ensemble.by_corruption or {}
    title = f"Mean error by severity: {text}"
    return {
        "severities": severities,
        "skipped": measured.skipped or (),
        "tables": tables,
        "chart": charts.lines(title, "severity", "error in %", series) if drawn else None,
        "rows": [_corruption_row(name, row or {}, measured.members or ()) for name, row in by_corruption.items()],
    }


def _by_severity(metrics: MetricsRecord, measure: str) -> list[tuple[str, bool, list[float | None]]]:
    """A measure of ensemble, best and mean member, uniform ensemble: (name, whether it is an ensemble, values).

    The values are those on clean images, at every severity, and the mean over severities.
    """

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
    return [row for row in rows if row[-1]]


def _corruption_row(
    name: str, row: Columns, members: Sequence[Corrupted]
) -> tuple[str, list[float | None], float | None]:
    """One corruption: its name, the ensemble's errors by severity with means of ensemble and members, the mean ECE."""
    errors = row.get("error") or ()
    means = [_of_numbers(fmean, member.errors(name)) for member in members]
    summaries = (_of_numbers(fmean, errors), _of_numbers(min, means), _of_numbers(fmean, means))
    return name, [*errors, *summaries], _of_numbers(fmean, row.get("ece") or ())


def _of_numbers(summary: Callable[[list[float]], float], values: Iterable[float | None]) -> float | None:
    """The summary of the values that are there, None where there are none."""
    numbers = [value for value in values if value is not None]
    return summary(numbers) if numbers else None
