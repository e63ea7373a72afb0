"""How δ was chosen: every judged ensemble over δ, and the best loss so far where δ was proposed one by one."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from nesbs.report import charts, words
from nesbs.report.reading import Record, sequence

Trace = list[tuple[float, float | None]]  # (δ, lowest loss among its ensembles), in the order tried


def choice_of_delta(rows: list[dict[str, Any]], search: Record, stage: Record) -> dict[str, Any] | None:
    """Charts and numbers for the rows of judged ensembles; None where no two δ were compared and none was tuned."""
    points = [
        (row["delta"], row["loss"], row["chosen"])
        for row in rows
        if words.is_number(row["delta"]) and words.is_number(row["loss"])
    ]
    bayesian = search.get("tune") == "bayesian"
    trace = _trace(points, stage.get("delta_trace"))
    compared = len({delta for delta, _, _ in points}) > 1
    if not compared and not (bayesian and trace):
        return None
    return {
        "scatter": _scatter(points) if compared else None,
        "marked": any(chosen for _, _, chosen in points),
        "tuned": _tuned(trace, search.get("trials")) if bayesian and trace else None,
    }


def _trace(points: list[tuple[float, float, bool]], given: Any) -> Trace:
    """The trials as recorded; else from the judged ensembles, each δ where it first appears."""
    recorded: Trace = []
    for pair in map(sequence, sequence(given)):
        if len(pair) == 2 and words.is_number(pair[0]):
            recorded.append((pair[0], pair[1] if words.is_number(pair[1]) else None))
    return recorded or list(_lowest(points).items())


def _lowest(points: list[tuple[float, float, bool]]) -> dict[float, float]:
    """The lowest loss of each δ, in order of first appearance."""
    lowest: dict[float, float] = {}
    for delta, loss, _ in points:
        lowest[delta] = min(loss, lowest.get(delta, loss))
    return lowest


def _scatter(points: list[tuple[float, float, bool]]) -> Any:
    """Loss over δ: a ring an ensemble, a disc for the lowest of each δ, a star for the chosen one."""
    lowest = _lowest(points)
    star = [(delta, loss) for delta, loss, chosen in points if chosen]
    discs = [pair for pair in lowest.items() if pair not in star]
    rings = [(delta, loss) for delta, loss, chosen in points if not chosen and loss > lowest[delta]]
    said = ", ".join(f"{words.decimal(loss, 4)} at δ = {words.short(delta, 4)}" for delta, loss in sorted(discs + star))
    return charts.scatter(
        f"Estimated loss of {len(points)} ensembles by δ; marked are {said}",
        "δ",
        "estimated loss in nats",
        [("an ensemble", "ring", rings), ("lowest of its δ", "disc", discs), ("chosen", "star", star)],
    )


def _tuned(trace: Trace, trials: Any) -> dict[str, Any]:
    """How the best loss fell from trial to trial: its chart, and each fall as (number of the trial, δ, loss)."""
    judged = sum(1 for _, loss in trace if loss is not None)
    best = list(accumulate((loss for _, loss in trace), _lower))
    falls = [
        (number, delta, loss)
        for number, ((delta, loss), before) in enumerate(zip(trace, [None, *best], strict=False), start=1)
        if loss is not None and (before is None or loss < before)
    ]
    said = ", ".join(f"{words.decimal(loss, 4)} at number {number}" for number, _, loss in falls)
    series = [("best so far", [float("nan") if loss is None else loss for loss in best])]
    return {
        "tried": judged,
        "asked": trials if words.is_number(trials) and trials > judged else None,
        "falls": falls,
        "chart": charts.lines(f"Best loss so far: {said}", "δ in the order tried", "best loss so far in nats", series)
        if len(trace) > 1 and falls
        else None,
    }


def _lower(first: float | None, second: float | None) -> float | None:
    """The lower of two losses, of which any may be missing."""
    known = [loss for loss in (first, second) if loss is not None]
    return min(known, default=None)
