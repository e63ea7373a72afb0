"""What was measured on the test images: the headline, the table of measures, bars of the errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from nesbs.records import MetricsRecord
from nesbs.records.metrics import EnsembleMetrics, GainInterval, Intervals, NetworkMetrics, Reach
from nesbs.report import charts, formats

MARKED = ("error", "nll", "brier", "ece")  # whose lowest values are marked
HELD_OUT = "held-out training images"


@dataclass(frozen=True)
class ScoreRow:
    """A network of the table of measures."""

    name: str
    measures: NetworkMetrics
    parameters: float | None = None
    reach: Reach | None = None  # its intervals over the test images
    whole: bool = False  # an ensemble, not a single network
    hindsight: bool = False  # no network, but the best of several by each measure


def measured_images(metrics: MetricsRecord) -> str:
    """What the images of the measures are: the test images, unless the recipe asks for others.

    >>> measured_images(MetricsRecord(measured_on="search_valid"))
    'held-out training images'
    """
    return HELD_OUT if metrics.measured_on == "search_valid" else "test images"


def headline(metrics: MetricsRecord) -> dict[str, Any] | None:
    """The ensemble's error and NLL beside those of its rivals, and the noise of a finite test set."""
    ensemble, images = metrics.ensemble, metrics.test_images
    if ensemble is None or ensemble.error is None:
        return None
    variance = max(ensemble.error * (1 - ensemble.error), 0)
    return {
        "size": len(ensemble.members or ()),
        "error": ensemble.error,
        "nll": ensemble.nll,
        "best": ensemble.best_member,
        "uniform": metrics.uniform if metrics.uniform and metrics.uniform.error is not None else None,
        "images": images,
        "kind": measured_images(metrics),
        "standard_error": math.sqrt(variance / images) if images else None,
        "gain": gain_interval(ensemble, "error"),
        "nll_gain": gain_interval(ensemble, "nll"),
        "resamples": ensemble.intervals.resamples if ensemble.intervals else None,
    }


def gain_interval(ensemble: EnsembleMetrics, measure: str) -> GainInterval | None:
    """By how much the ensemble is better than its best member, with the interval over the test images.

    None where it was not recorded, and of one network.
    """
    best = (ensemble.intervals.best if ensemble.intervals else None) or {}
    gain = best.get(measure)
    return gain if gain and gain.verdict and len(ensemble.members or ()) > 1 else None


def score_rows(metrics: MetricsRecord) -> list[ScoreRow]:
    """The table of measures: ensemble, best member, every member, uniform ensemble."""
    rows = []
    if ensemble := metrics.ensemble:
        sizes, intervals = ensemble.parameters or (), ensemble.intervals or Intervals()
        reaches = intervals.members or ()
        rows = [
            ScoreRow("Ensemble", ensemble, ensemble.total_parameters, intervals.ensemble, whole=True),
            ScoreRow("Best member by each measure", ensemble.best_member, hindsight=True),
            *(
                ScoreRow(
                    f"Member {index + 1}",
                    member,
                    sizes[index] if index < len(sizes) else None,
                    reaches[index] if index < len(reaches) else None,
                )
                for index, member in enumerate(ensemble.members or ())
            ),
        ]
    if uniform := metrics.uniform:
        reach = (uniform.intervals or Intervals()).ensemble
        rows.append(ScoreRow("Uniform-random ensemble", uniform, uniform.total_parameters, reach, whole=True))
    return rows


def lowest_values(rows: Sequence[ScoreRow]) -> dict[str, float | None]:
    """The lowest value of each marked measure; the best member, chosen in hindsight, does not count."""
    columns = {name: [getattr(row.measures, name) for row in rows if not row.hindsight] for name in MARKED}
    return {name: min((v for v in values if v is not None), default=None) for name, values in columns.items()}


def gains(ensemble: EnsembleMetrics | None) -> list[tuple[str, NetworkMetrics]]:
    """How far the ensemble is below its best and its mean member, measure by measure; positive is better."""
    if ensemble is None:
        return []
    named = (
        ("over the best member by each measure", ensemble.gain_over_best),
        ("over the mean member", ensemble.gain_over_mean),
    )
    return [(name, gain) for name, gain in named if gain]


def error_bars(rows: Sequence[ScoreRow]) -> Markup | None:
    """A bar for the test error of the ensemble, each member and the uniform ensemble."""
    short = {"Uniform-random ensemble": "Uniform ensemble"}
    bars: list[tuple[str, float, bool]] = []
    reaches: list[tuple[float, float] | None] = []
    texts = []
    for row in rows:
        if row.hindsight or row.measures.error is None:
            continue
        name, ends = short.get(row.name, row.name), row.reach.ends("error") if row.reach else None
        bars.append((name, row.measures.error, row.whole))
        reaches.append(ends)
        interval = f" ({formats.percent(ends[0])} to {formats.percent(ends[1])})" if ends else ""
        texts.append(f"{name} {formats.percent(row.measures.error)}{interval}")
    axis = "test error in %, with 95 % intervals" if any(reaches) else "test error in %"
    return charts.bars(f"Test error: {', '.join(texts)}", axis, bars, reaches=reaches) if bars else None
