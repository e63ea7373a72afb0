"""Figures 5, 6 and 7 from their records: tables of errors, and panels of curves."""

from __future__ import annotations

from typing import Any

from nesbs.report import canvas, words
from nesbs.report.curves import Panel, error_of
from nesbs.report.reading import Record, mapping, sequence
from nesbs.reproduce import facts
from nesbs.reproduce.spec import Experiment
from nesbs.reproduce.tables import Cell, Heading, PaperTable

SPREAD = "Test error % with the supernet's weights, mean ± standard error over seeds."


def curves_tables(experiment: Experiment, record: Record, paper: Record) -> list[PaperTable]:
    """A table for each panel: methods down, budgets (or values of δ) across."""
    on, title = facts.data_name(record, "CIFAR-10"), facts.title(experiment, record)
    notes = facts.notes(experiment, record, paper, spread=SPREAD)
    tables = []
    for panel in _panels(experiment, record):
        said = "δ = {}" if panel.across == "delta" else "{} judged"
        names = [f"test error %, {said.format(words.short(value))}" for value in panel.values()]
        headings = tuple(Heading(name, "", on, "") for name in names)
        rows = tuple((label, tuple(cells)) for label, cells in panel.rows(lambda point: Cell(error_of(point))))
        tables.append(PaperTable(f"{title}; {panel.title}", "method", headings, rows, notes))
    if not tables:  # nothing was finished yet
        tables = [PaperTable(title, "method", (Heading("test error", "%", on, ""),), (), notes)]
    return tables


def draw_curves(experiment: Experiment, record: Record) -> tuple[str, bytes]:
    """A panel for each size of ensembles or each τ; the error's axis is logarithmic, as the paper's."""
    panels = _panels(experiment, record)
    with canvas.styled() as new:
        figure = new(max(3.0 * len(panels), 4.5) + 0.6, 3.9)
        grid = figure.subplots(1, max(1, len(panels)), sharex=True, sharey=True, squeeze=False)[0]
        for axes, panel in zip(grid, panels, strict=False):
            values = panel.values()
            panel.draw(axes, _style, apart=0.012 * (values[-1] - values[0]))
            if panel.across == "delta":
                _best_delta(axes, panel)
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(_plain)
            axes.yaxis.set_minor_formatter(_plain)
            axes.grid(which="both", lw=0.3)
            axes.set_xticks(values)
        grid[0].set_ylabel(f"test error %, {facts.data_name(record, 'CIFAR-10')} (log scale)")
        canvas.legend_below(figure, grid[0])
        seeds = len(sequence(facts.part(record, "CIFAR-10").get("seeds")))
        more = f"bars: standard error over {seeds} seeds"
        figure.suptitle(facts.two_lines(facts.title(experiment, record), more), fontsize=9)
        return canvas.saved(figure)


def _style(number: int, label: str) -> dict[str, Any]:
    style = {**canvas.look(number), "lw": 1.3}
    return {**style, "ls": ":", "color": "0.35"} if "single best" in label else style


def _best_delta(axes: Any, panel: Panel) -> None:
    """Mark δ*, the δ of the lowest mean error."""
    points = [point for line in panel.lines.values() for point in line]
    errors = [(error.value, point["delta"]) for point in points if (error := error_of(point)) is not None]
    if errors:
        lowest, delta = min(errors)
        axes.plot(delta, lowest, marker="*", ms=14, mfc="none", mec="black", ls="none", label="δ*, the lowest of ours")


def _plain(value: float, _: int) -> str:
    return f"{value:g}"


def _panels(experiment: Experiment, record: Record) -> list[Panel]:
    """By τ where there are several, else by size; over δ where single values were set, else over budgets.

    What has no τ is in every panel; lines have the paper's names.
    """
    points = [mapping(point) for point in sequence(facts.part(record, "CIFAR-10").get("points"))]
    single = [point for point in points if point.get("delta") is not None]
    points, across = single or points, "delta" if single else "budget"
    temperatures = sorted({point["temperature"] for point in points} - {None})
    sizes = sorted({point["size"] for point in points})
    if len(temperatures) > 1:
        parts = {
            f"τ = {words.short(t)}, n = {sizes[0]}": [p for p in points if p["temperature"] in (t, None)]
            for t in temperatures
        }
    else:
        parts = {f"n = {size}": [point for point in points if point["size"] == size] for size in sizes}
    return [
        Panel(
            title,
            across,
            {
                label: line
                for label, method in experiment.rows.items()
                if (line := [point for point in part if point["method"] == method])
            },
        )
        for title, part in parts.items()
    ]
