"""What was measured on the test images: the headline, the table of measures, bars."""

from __future__ import annotations

import math
from typing import Any

from nesbs.report import charts, words
from nesbs.report.reading import Record, mapping, sequence

MARKED = ("error", "nll", "brier", "ece")  # whose lowest are marked
MEASURES = (*MARKED, "top5_error")


def best_member(ensemble: Record) -> dict[str, float | None]:
    """The lowest value among the members for each measure on its own."""
    members = [mapping(member) for member in sequence(ensemble.get("members"))]
    known = {name: [m[name] for m in members if words.is_number(m.get(name))] for name in MEASURES}
    return {name: min(values, default=None) for name, values in known.items()}


def measured_images(metrics: Record) -> str:
    """What the images of the measures are: the test images, unless a recipe asks for others.

    >>> measured_images({"measured_on": "search_valid"})
    'held-out training images'
    """
    return "held-out training images" if metrics.get("measured_on") == "search_valid" else "test images"


def headline(metrics: Record) -> dict[str, Any] | None:
    """The ensemble's error and NLL beside those of its rivals, and the noise of a finite test set."""
    ensemble = mapping(metrics.get("ensemble"))
    error, images = ensemble.get("error"), metrics.get("test_images")
    if not words.is_number(error):
        return None
    uniform = mapping(metrics.get("uniform"))
    noise = math.sqrt(max(error * (1 - error), 0) / images) if words.is_number(images) and images > 0 else None
    return {
        "size": len(sequence(ensemble.get("members"))),
        "error": error,
        "nll": ensemble.get("nll"),
        "best": best_member(ensemble),
        "uniform": uniform if words.is_number(uniform.get("error")) else None,
        "images": images,
        "kind": measured_images(metrics),
        "standard_error": noise,
        "gain": gain_over_best(ensemble),
    }


def gain_over_best(ensemble: Record) -> dict[str, Any] | None:
    """By how much the ensemble is better than its best member, with intervals over the test images.

    None where they were not recorded; a measure without numbers is left out.
    """
    block = mapping(ensemble.get("intervals"))
    found = {}
    for measure in ("error", "nll"):
        entry = mapping(mapping(block.get("best")).get(measure))
        low, high = entry.get("low"), entry.get("high")
        if words.is_number(entry.get("gain")) and words.is_number(low) and words.is_number(high):
            verdict = "better" if low > 0 else "worse" if high < 0 else "open"
            found[measure] = {**entry, "verdict": verdict}
    if "error" not in found or len(sequence(ensemble.get("members"))) < 2:
        return None
    return {"level": block.get("level"), "resamples": block.get("resamples"), "nll": None, **found}


def interval_of(metrics: Record, name: str, measure: str = "error") -> tuple[float, float] | None:
    """The recorded interval of a network of the table of measures; None where there is none.

    >>> interval_of({"ensemble": {"intervals": {"members": [{"error": [0.1, 0.2]}]}}}, "Member 1")
    (0.1, 0.2)
    """
    key = "uniform" if name.startswith("Uniform") else "ensemble"
    block = mapping(mapping(metrics.get(key)).get("intervals"))
    rows = {"Ensemble": block.get("ensemble"), "Uniform-random ensemble": block.get("ensemble")}
    rows |= {f"Member {place}": row for place, row in enumerate(sequence(block.get("members")), start=1)}
    pair = sequence(mapping(rows.get(name)).get(measure))
    return (pair[0], pair[1]) if len(pair) == 2 and all(map(words.is_number, pair)) else None


def score_rows(metrics: Record) -> list[dict[str, Any]]:
    """The table of measures: ensemble, best member, every member, uniform ensemble; the lowest are marked."""
    rows: list[dict[str, Any]] = []
    for key, name in (("ensemble", "Ensemble"), ("uniform", "Uniform-random ensemble")):
        ensemble = mapping(metrics.get(key))
        if not ensemble:
            continue
        sizes = sequence(ensemble.get("parameters"))
        whole = sum(sizes) if sizes and all(map(words.is_number, sizes)) else None
        shown = {measure: ensemble.get(measure) for measure in (*MEASURES, "member_error", "disagreement")}
        rows.append({"name": name, "whole": True, "parameters": whole, **shown})
        if key == "uniform":
            continue
        rows.append({"name": "Best member by each measure", "hindsight": True, **best_member(ensemble)})
        for index, member in enumerate(sequence(ensemble.get("members"))):
            size = sizes[index] if index < len(sizes) else None
            measured = {measure: mapping(member).get(measure) for measure in MEASURES}
            rows.append({"name": f"Member {index + 1}", "parameters": size, **measured})
    real = [row for row in rows if not row.get("hindsight")]
    for measure in MARKED:
        known = [row for row in real if words.is_number(row[measure])]
        lowest = min((row[measure] for row in known), default=None)
        for row in known:
            if row[measure] == lowest:
                row.setdefault("lowest", set()).add(measure)
    return rows


def gains(metrics: Record) -> list[dict[str, Any]]:
    """How far the ensemble is below its best and its mean member, measure by measure; positive is better."""
    ensemble = mapping(metrics.get("ensemble"))
    found = [
        (name, mapping(ensemble.get(key)))
        for key, name in (
            ("gain_over_best", "over the best member by each measure"),
            ("gain_over_mean", "over the mean member"),
        )
    ]
    return [{"name": name, **{measure: gain.get(measure) for measure in MEASURES}} for name, gain in found if gain]


def error_bars(metrics: Record) -> Any:
    """A bar for the test error of the ensemble, each member and the uniform ensemble."""
    short = {"Uniform-random ensemble": "Uniform ensemble"}
    shown = [row for row in score_rows(metrics) if not row.get("hindsight") and words.is_number(row["error"])]
    rows = [(short.get(row["name"], row["name"]), row["error"], "whole" in row) for row in shown]
    reaches = [interval_of(metrics, row["name"]) for row in shown]
    said = ", ".join(
        f"{name} {words.percent(error)}"
        + (f" ({words.percent(reach[0])} to {words.percent(reach[1])})" if reach else "")
        for (name, error, _), reach in zip(rows, reaches, strict=True)
    )
    axis = "test error in %, with 95 % intervals" if any(reaches) else "test error in %"
    return charts.bars(f"Test error: {said}", axis, rows, reaches=reaches) if rows else None
