"""How δ was chosen: every judged ensemble over δ, and the best loss so far where δ was proposed one by one."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from markupsafe import Markup

from nesbs.ensemble import SearchSettings
from nesbs.records.run import StageRecord
from nesbs.report import charts, formats

Point = tuple[float, float, bool]  # δ and loss of a judged ensemble, whether it was chosen
Trace = list[tuple[float, float | None]]  # (δ, lowest loss among its ensembles), in the order tried


def choice_of_delta(points: list[Point], search: SearchSettings, stage: StageRecord) -> dict[str, Any] | None:
    """Charts and numbers of the judged ensembles; None where no two δ were compared and none was tuned."""
    trace = _trace(points, stage)
    compared = len({delta for delta, _, _ in points}) > 1
    tuned = search.tune == "bayesian" and bool(trace)
    if not compared and not tuned:
        return None
    return {
        "scatter": _scatter(points) if compared else None,
        "marked": any(chosen for _, _, chosen in points),
        "tuned": _tuned(trace, search.trials) if tuned else None,
    }


def _trace(points: list[Point], stage: StageRecord) -> Trace:
    """The trials as recorded; else from the judged ensembles, each δ where it first appears."""
    recorded: Trace = [(pair[0], pair[1]) for pair in stage.delta_trace or () if len(pair) == 2 and pair[0] is not None]
    return recorded or list(_lowest(points).items())


def _lowest(points: list[Point]) -> dict[float, float]:
    """The lowest loss of each δ, in order of first appearance."""
    lowest: dict[float, float] = {}
    for delta, loss, _ in points:
        lowest[delta] = min(loss, lowest.get(delta, loss))
    return lowest


def _scatter(points: list[Point]) -> Markup:
    """Loss over δ: a ring an ensemble, a disc for the lowest of each δ, a star for the chosen one."""
    lowest = _lowest(points)
    star = [(delta, loss) for delta, loss, chosen in points if chosen]
    discs = [pair for pair in lowest.items() if pair not in star]
    rings = [(delta, loss) for delta, loss, chosen in points if not chosen and loss > lowest[delta]]
    text = ", ".join(
        f"{formats.decimal(loss, 4)} at δ = {formats.short(delta, 4)}" for delta, loss in sorted(discs + star)
    )
    return charts.scatter(
        f"Estimated loss of {len(points)} ensembles by δ; marked are {text}",
        "δ",
        "estimated loss in nats",
        [("an ensemble", "ring", rings), ("lowest of its δ", "disc", discs), ("chosen", "star", star)],
    )


def _tuned(trace: Trace, trials: int) -> dict[str, Any]:
    """How the best loss fell from trial to trial: its chart, and each fall as (number of the trial, δ, loss)."""
    judged = sum(1 for _, loss in trace if loss is not None)
    best = list(accumulate((loss for _, loss in trace), _lower))
    falls = [
        (number, delta, loss)
        for number, ((delta, loss), before) in enumerate(zip(trace, [None, *best], strict=False), start=1)
        if loss is not None and (before is None or loss < before)
    ]
    text = ", ".join(f"{formats.decimal(loss, 4)} at number {number}" for number, _, loss in falls)
    series = [("best so far", best)]
    return {
        "tried": judged,
        "asked": trials if trials > judged else None,
        "falls": falls,
        "chart": charts.lines(f"Best loss so far: {text}", "δ in the order tried", "best loss so far in nats", series)
        if len(trace) > 1 and falls
        else None,
    }


def _lower(first: float | None, second: float | None) -> float | None:
    """The lower of two losses, of which any may be missing."""
    return min((loss for loss in (first, second) if loss is not None), default=None)
