"""Figures 5, 6 and 7 from their records: tables of errors, and panels of curves."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from nesbs.evaluation import paired, summarise
from nesbs.evaluation.comparing import FEWEST
from nesbs.records.curves import PointOutcome
from nesbs.report import canvas, formats
from nesbs.report.curves import Across, Panel, value_of
from nesbs.report.table import Quantity
from nesbs.reproduce.exhibit import OURS, PAIRED, Cell, Exhibit, Heading, PaperTable, titled, told_apart

SPREAD = "Test error % with the supernet's weights, mean ± standard error over seeds."


def curves_tables(exhibit: Exhibit) -> list[PaperTable]:
    """Make a table for each panel: methods down, budgets (or values of δ) across."""
    on, title, panels = exhibit.data_name(), exhibit.title(), _panels(exhibit)
    tables = []
    for panel in panels:
        text = "δ = {}" if panel.across == "delta" else "{} judged"
        headings = [Heading(text.format(formats.short(value)), "", on, "") for value in panel.values()]
        rows = panel.rows(lambda point: Cell(value_of(point)))
        tables.append(
            exhibit.table(
                f"test error %, {panel.title}", headings, rows, spread=SPREAD, title=f"{title}; {panel.title}"
            )
        )
    # Nothing may be finished yet.
    tables = tables or [exhibit.table("method", [Heading("test error", "%", on, "")], [], spread=SPREAD)]
    return [*tables, *_differences(exhibit, panels), *_best_deltas(exhibit, panels)]


def _differences(exhibit: Exhibit, panels: Sequence[Panel]) -> list[PaperTable]:
    """Make a table of how far the others are above NESBS (SVGD-RD), of what was run under three seeds or more."""
    budgets = sorted({value for panel in panels if panel.across == "budget" for value in panel.values()})

    def seeds(panel: Panel, label: str, budget: float) -> Sequence[PointOutcome]:
        point = panel.points(label).get(budget) if label in panel.lines else None
        return (point and point.seeds) or ()

    rows = []
    for panel in panels:
        for label in (each for each in panel.lines if each != OURS):
            above = [told_apart(seeds(panel, label, one), seeds(panel, OURS, one), "error") for one in budgets]
            rows.append((f"{label}, {panel.title}", list(map(Cell, above))))
    headings = [Heading(f"Δ at {formats.short(one)} judged", "points", exhibit.data_name(), "") for one in budgets]
    return exhibit.differences("test error", headings, rows)


def _best_deltas(exhibit: Exhibit, panels: Sequence[Panel]) -> list[PaperTable]:
    """Make a table of δ*, the δ of the lowest error: under each τ, and how far it is above that under the last one."""
    found = {panel.title: _lowest(panel) for panel in panels if panel.across == "delta"}
    last = list(found)[-1] if found else ""
    headings = tuple(Heading(name, "", exhibit.data_name(), "") for name in ("δ*", f"δ* less that at {last}"))
    rows = []
    for title, deltas in found.items():
        seeds = sorted(deltas.keys() & found[last].keys())
        if len(seeds) < FEWEST:
            return []
        own = [deltas[seed] for seed in seeds]
        each, apart = summarise(own), paired(own, [found[last][seed] for seed in seeds])
        above = None if title == last else Quantity(apart.mean, low=apart.low, high=apart.high)
        rows.append((title, (Cell(Quantity(each.mean, each.standard_error)), Cell(above))))
    title = f"{exhibit.experiment.name}: the δ of the lowest error"
    notes = (
        "δ*: that of the lowest error under a seed, or the mean of those that tie; mean ± standard error over seeds.",
        f"Differences: {PAIRED}",
    )
    return [PaperTable(title, "posterior, size", headings, tuple(rows), notes)] if len(rows) > 1 else []


def _lowest(panel: Panel) -> dict[int, float]:
    """The δ of the lowest error of NESBS, by seed; of several that tie, their mean."""
    tried: dict[int, list[tuple[float, float]]] = {}
    for delta, point in panel.points(OURS).items():
        for one in point.seeds or ():
            if one.seed is not None and one.error is not None:
                tried.setdefault(one.seed, []).append((one.error, delta))
    return {seed: fmean(delta for error, delta in some if error == min(some)[0]) for seed, some in tried.items()}


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
