"""Figures 5, 6 and 7 from their records: tables of errors, and panels of curves."""

from typing import Any

from nesbs.report import canvas, formats
from nesbs.report.curves import Across, Panel, value_of
from nesbs.reproduce.exhibit import Cell, Exhibit, Heading, PaperTable, titled

SPREAD = "Test error % with the supernet's weights, mean ± standard error over seeds."


def curves_tables(exhibit: Exhibit) -> list[PaperTable]:
    """Make a table for each panel: methods down, budgets (or values of δ) across."""
    on, title = exhibit.data_name(), exhibit.title()
    tables = []
    for panel in _panels(exhibit):
        text = "δ = {}" if panel.across == "delta" else "{} judged"
        headings = [Heading(text.format(formats.short(value)), "", on, "") for value in panel.values()]
        rows = panel.rows(lambda point: Cell(value_of(point)))
        tables.append(
            exhibit.table(
                f"test error %, {panel.title}", headings, rows, spread=SPREAD, title=f"{title}; {panel.title}"
            )
        )
    # Nothing may be finished yet.
    return tables or [exhibit.table("method", [Heading("test error", "%", on, "")], [], spread=SPREAD)]


def draw_curves(exhibit: Exhibit) -> tuple[str, bytes]:
    """Draw a panel for each size of ensembles or each τ; the error's axis is logarithmic, as the paper's."""
    panels = _panels(exhibit)
    with canvas.styled() as new:
        figure = new(max(3.0 * len(panels), 4.5) + 0.6, 3.9)
        grid = figure.subplots(1, max(1, len(panels)), sharex=True, sharey=True, squeeze=False)[0]
        for axes, panel in zip(grid, panels, strict=False):
            values = panel.values()
            panel.draw(axes, _style, apart=0.012 * (values[-1] - values[0]))
            if panel.across == "delta":
                _best_delta(axes, panel)
            axes.set_yscale("log")
            for write in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
                write(lambda value, _: f"{value:g}")
            axes.grid(which="both", lw=0.3)
            axes.set_xticks(values)
        grid[0].set_ylabel(f"test error %, {exhibit.data_name()} (log scale)")
        canvas.legend_below(figure, grid[0])
        return titled(figure, exhibit.title(), f"bars: standard error over {len(exhibit.part.seeds or ())} seeds")


def _style(number: int, label: str) -> dict[str, Any]:
    style = {**canvas.line_style(number), "lw": 1.3}
    return {**style, "ls": ":", "color": "0.35"} if "single best" in label else style


def _best_delta(axes: Any, panel: Panel) -> None:
    """Mark δ*, the δ of the lowest mean error."""
    points = [point for line in panel.lines.values() for point in line]
    errors = [(error.value, point.delta) for point in points if point.delta is not None and (error := value_of(point))]
    if errors:
        lowest, delta = min(errors)
        axes.plot(delta, lowest, marker="*", ms=14, mfc="none", mec="black", ls="none", label="δ*, the lowest of ours")


def _panels(exhibit: Exhibit) -> list[Panel]:
    """Sort the points into panels: by τ where there are several, else by size.

    Panels go over δ where single values were set, else over budgets; what has no τ is in every panel. Lines have the
    paper's names.
    """
    points = exhibit.part.points or ()
    single = [point for point in points if point.delta is not None]
    across: Across = "delta" if single else "budget"
    shown = single or points
    temperatures = sorted({point.temperature for point in shown if point.temperature is not None})
    sizes = sorted({point.size for point in shown if point.size is not None})
    if len(temperatures) > 1:
        parts = {
            f"τ = {formats.short(each)}, n = {sizes[0]}": [p for p in shown if p.temperature in (each, None)]
            for each in temperatures
        }
    else:
        parts = {f"n = {size}": [point for point in shown if point.size == size] for size in sizes}
    panels = []
    for title, part in parts.items():
        lines = {label: [p for p in part if p.method == method] for label, method in exhibit.experiment.rows.items()}
        panels.append(Panel(title, across, "error", {label: line for label, line in lines.items() if line}))
    return [panel for panel in panels if panel.values()]
