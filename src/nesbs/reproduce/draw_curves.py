"""Figures 5, 6 and 7 from their records: tables of errors, and panels of curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nesbs.report import words
from nesbs.report.reading import Record, mapping, sequence
from nesbs.reproduce import canvas, facts
from nesbs.reproduce.spec import Experiment
from nesbs.reproduce.tables import Cell, Heading, Number, Table

SPREAD = "Test error % with the supernet's weights, mean ± standard error over seeds."
Point = dict[str, Any]


def curves_tables(experiment: Experiment, record: Record, paper: Record) -> list[Table]:
    """A table for each panel: methods down, budgets (or values of δ) across."""
    points = _points(record)
    key, said = _across(points)
    on = facts.data_name(record, "CIFAR-10")
    tables = []
    notes = facts.notes(experiment, record, paper, spread=SPREAD)
    for panel, here in _panels(points):
        values = sorted({point[key] for point in here})
        headings = tuple(Heading(f"test error %, {said(value)}", "", on, "") for value in values)
        rows = []
        for label, line in _lines(experiment, here):
            at = {point[key]: point for point in line}
            rows.append((label, tuple(Cell(_error(at.get(value))) for value in values)))
        tables.append(Table(f"{facts.title(experiment, record)}; {panel}", "method", headings, tuple(rows), notes))
    if not tables:  # nothing was finished yet
        tables = [Table(facts.title(experiment, record), "method", (Heading("test error", "%", on, ""),), (), notes)]
    return tables


def draw_curves(experiment: Experiment, record: Record) -> tuple[str, bytes]:
    """A panel for each size of ensembles or each τ; the error's axis is logarithmic, as the paper's."""
    points = _points(record)
    key, _ = _across(points)
    panels = _panels(points)
    with canvas.styled() as new:
        figure = new(max(3.0 * len(panels), 4.5) + 0.6, 3.9)
        grid = figure.subplots(1, max(1, len(panels)), sharex=True, sharey=True, squeeze=False)[0]
        for axes, (panel, here) in zip(grid, panels, strict=False):
            lines = _lines(experiment, here)
            reach = max(point[key] for point in here) - min(point[key] for point in here)
            for number, (label, line) in enumerate(lines):
                aside = 0.012 * reach * (number - (len(lines) - 1) / 2)  # so that bars do not hide each other
                _line(axes, key, label, line, number, aside=aside, dashed="single best" in label)
            if key == "delta":
                _best_delta(axes, here)
            axes.set_title(panel)
            axes.set_xlabel("δ" if key == "delta" else "architectures judged")
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(_plain)
            axes.yaxis.set_minor_formatter(_plain)
            axes.grid(which="both", lw=0.3)
            axes.set_xticks(sorted({point[key] for point in here}))
        grid[0].set_ylabel(f"test error %, {facts.data_name(record, 'CIFAR-10')} (log scale)")
        canvas.legend_below(figure, grid[0])
        seeds = len(sequence(facts.part(record, "CIFAR-10").get("seeds")))
        more = f"bars: standard error over {seeds} seeds"
        figure.suptitle(facts.two_lines(facts.title(experiment, record), more), fontsize=9)
        return canvas.saved(figure)


def _line(axes: Any, key: str, label: str, line: Sequence[Point], number: int, *, aside: float, dashed: bool) -> None:
    known = [(point[key], _error(point)) for point in line]
    values = [(x, error) for x, error in known if error is not None]
    style = canvas.look(number)
    if dashed:
        style = {**style, "ls": ":", "color": "0.35"}
    axes.errorbar(
        [x + aside for x, _ in values],
        [error.value for _, error in values],
        yerr=[error.spread or 0.0 for _, error in values],
        label=label,
        ms=4,
        lw=1.3,
        capsize=2,
        **style,
    )


def _best_delta(axes: Any, here: Sequence[Point]) -> None:
    """Mark δ*, the δ of the lowest mean error."""
    known = [(error.value, point["delta"]) for point in here if (error := _error(point)) is not None]
    if known:
        lowest, delta = min(known)
        axes.plot(delta, lowest, marker="*", ms=14, mfc="none", mec="black", ls="none", label="δ*, the lowest of ours")


def _plain(value: float, _: int) -> str:
    return f"{value:g}"


def _points(record: Record) -> list[Point]:
    """The points that a figure shows: those of single δ where there are any, else those over budgets."""
    points = [dict(point) for point in map(mapping, sequence(facts.part(record, "CIFAR-10").get("points")))]
    single = [point for point in points if point.get("delta") is not None]
    return single or points


def _across(points: Sequence[Point]) -> tuple[str, Callable[[float], str]]:
    """What the axis shows: its key in a point, and how one of its values is said."""
    if any(point.get("delta") is not None for point in points):
        return "delta", lambda value: f"δ = {words.short(value)}"
    return "budget", lambda value: f"{words.short(value)} judged"


def _panels(points: Sequence[Point]) -> list[tuple[str, list[Point]]]:
    """The points of each panel: by τ where there are several, else by size; what has no τ is in every panel."""
    temperatures = sorted({point["temperature"] for point in points} - {None})
    sizes = sorted({point["size"] for point in points})
    if len(temperatures) > 1:
        [size] = sizes[:1]
        chosen: list[tuple[str, Callable[[Point], bool]]] = [
            (f"τ = {words.short(t)}, n = {size}", lambda point, t=t: point["temperature"] in (t, None))  # type: ignore[misc]
            for t in temperatures
        ]
    else:
        chosen = [(f"n = {size}", lambda point, size=size: point["size"] == size) for size in sizes]  # type: ignore[misc]
    return [(name, [point for point in points if belongs(point)]) for name, belongs in chosen]


def _lines(experiment: Experiment, points: Sequence[Point]) -> list[tuple[str, list[Point]]]:
    """The points of each method, under the paper's name for it."""
    found = []
    for label, method in experiment.rows.items():
        line = [point for point in points if point["method"] == method]
        if line:
            found.append((label, line))
    return found


def _error(point: Point | None) -> Number | None:
    error = mapping(mapping((point or {}).get("mean")).get("error"))
    if not words.is_number(error.get("mean")):
        return None
    spread = error.get("standard_error")
    return Number(100 * error["mean"], spread=100 * spread if words.is_number(spread) else None)
