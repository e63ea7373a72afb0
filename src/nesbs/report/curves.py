"""Budget curves as tables in Markdown and one figure, from the record alone (paper, Figs. 5 to 7)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nesbs import files
from nesbs.report import canvas, words
from nesbs.report.reading import Record, mapping, sequence
from nesbs.report.table import Number, Table, figure

ACROSS = {"budget": "architectures judged", "delta": "δ"}  # what the horizontal axis shows


@dataclass(frozen=True)
class Panel:
    """Lines of points in one pair of axes: error against the budget or against δ."""

    title: str
    across: str  # a key of ACROSS
    lines: Mapping[str, Sequence[Mapping[str, Any]]]  # by the name in the legend

    def values(self) -> list[float]:
        """Every value on the horizontal axis, in order."""
        return sorted({point[self.across] for line in self.lines.values() for point in line})

    def rows(self, cell: Callable[[Mapping[str, Any] | None], Any]) -> list[tuple[str, list[Any]]]:
        """A row for each line: its name, and what `cell` makes of its point (None: there is none) at each value."""
        rows = []
        for label, line in self.lines.items():
            at = {point[self.across]: point for point in line}
            rows.append((label, [cell(at.get(value)) for value in self.values()]))
        return rows

    def draw(self, axes: Any, style: Callable[[int, str], dict[str, Any]], *, apart: float = 0.0) -> None:
        """Draw every line with its error bars; `apart` shifts them sideways, so that bars do not hide each other."""
        for number, (label, line) in enumerate(self.lines.items()):
            shift = apart * (number - (len(self.lines) - 1) / 2)
            points = [(point[self.across] + shift, error) for point in line if (error := error_of(point)) is not None]
            axes.errorbar(
                [x for x, _ in points],
                [error.value for _, error in points],
                yerr=[error.spread or 0.0 for _, error in points],
                label=label,
                ms=4,
                capsize=2,
                **style(number, label),
            )
        axes.set_title(self.title)
        axes.set_xlabel(ACROSS[self.across])


def error_of(point: Mapping[str, Any] | None) -> Number | None:
    """A point's test error in per cent, mean and standard error over seeds; None where no ensemble was found."""
    error = mapping(mapping((point or {}).get("mean")).get("error"))
    if not words.is_number(error.get("mean")):
        return None
    spread = error.get("standard_error")
    return Number(100 * error["mean"], spread=100 * spread if words.is_number(spread) else None)


def write_curves(folder: Path, record: Record) -> tuple[str, Path]:
    """Write `curves.md` and `curves.svg`; the tables and the figure's path."""
    tables, picture = curves_as_markdown(record), folder / "curves.svg"
    files.write_text(folder / "curves.md", tables + "\n")
    files.write_text(picture, draw_curves(record))
    return tables, picture


def curves_as_markdown(record: Record) -> str:
    """A table for each size of ensembles: methods down, budgets across; and one for single values of δ."""
    return "\n\n".join([*(table.as_markdown() for table in curves_tables(record)), curves_notes(record)])


def curves_tables(record: Record) -> list[Table]:
    """The tables; what their figures are is in `curves_notes`."""
    tables = []
    for panel in _panels(record):
        corner = f"{panel.title}, {'δ' if panel.across == 'delta' else panel.across}"
        rows = [[label, *cells] for label, cells in panel.rows(_cell)]
        tables.append(Table([corner, *map(words.short, panel.values())], rows))
    return tables


def curves_notes(record: Record) -> str:
    """What the tables' figures are."""
    seeds = ", ".join(str(seed) for seed in sequence(record.get("seeds")))
    return (
        f"{record.get('data')}, space {record.get('space')}, seeds {seeds}, {record.get('device')}. Test error % with "
        "the supernet's weights, mean ± standard error over seeds.\n"
        f"↓ or ↑: below or above {record.get('reference')} at the same size and budget, where the paired 95 % t "
        "interval excludes zero (at the recipe's τ where a method has none).\n"
        + (
            f"{record.get('reference')} chooses the best round, or greedily from all it drew (search.method=forward).\n"
            if record.get("search") == "forward"
            else ""
        )
        + "single-best: of as many uniform draws, by validation loss; the paper's line is the lowest test error in the "
        "whole space.\n"
        f"{words.NOTHING}: the budget holds no ensemble, or none without duplicates was drawn (search.duplicates)."
        + _costs(record)
    )


def _costs(record: Record) -> str:
    """What it took, measured; nothing where a record does not say."""
    seconds = [mapping(entry) for entry in sequence(record.get("seconds"))]
    costs = []
    for name in ("supernet", "posterior", "points"):
        values = [entry[name] for entry in seconds if words.is_number(entry.get(name))]
        if values:
            times = f"{len(values)} × " if len(values) > 1 else ""
            costs.append(f"{name} {times}{words.decimal(sum(values) / len(values), 1)} s")
    if not costs:
        return ""
    one = " All seeds draw from the supernet and posterior of the first." if record.get("one_supernet") else ""
    return f"\nMeasured on this device: {', '.join(costs)} (points: all of a seed's).{one}"


def draw_curves(record: Record) -> str:
    """The figure as SVG: a panel for each size of ensembles, error against budget; below, error against δ."""
    panels = _panels(record)
    across = max(1, len({panel.title for panel in panels}))
    down = max(1, -(-len(panels) // across))
    with canvas.styled(axes_titlesize="large") as new:
        drawing = new(3.6 * across + 1.6, 3.0 * down)
        grid = drawing.subplots(down, across, squeeze=False).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            panel.draw(axes, _style)
            axes.set_ylabel("test error %")
            axes.grid(lw=0.4)
        for axes in grid[across - 1 : len(panels) : across]:  # beside the last panel of each row
            axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
        for axes in grid[len(panels) :]:
            axes.remove()
        return canvas.as_svg(drawing)


def _style(number: int, label: str) -> dict[str, Any]:
    marker = canvas.MARKS[number % len(canvas.MARKS)]
    return {"color": f"C{number}", "marker": marker, "lw": 1.2, "ls": "--" if label == "single-best" else "-"}


def _panels(record: Record) -> list[Panel]:
    """A panel for each size of ensembles over budgets, then one for each over δ."""
    points = [mapping(point) for point in sequence(record.get("points"))]
    over_budgets = [point for point in points if point.get("delta") is None]
    over_deltas = [point for point in points if point.get("delta") is not None]
    return [
        Panel(f"n = {size}", across, _lines([point for point in part if point["size"] == size]))
        for across, part in (("budget", over_budgets), ("delta", over_deltas))
        for size in sorted({point["size"] for point in part})
    ]


def _lines(points: Sequence[Record]) -> dict[str, list[Record]]:
    """The points of each method and τ, under a name that says τ where there are several."""
    several = len({point["temperature"] for point in points} - {None}) > 1
    lines: dict[str, list[Record]] = {}
    for point in points:
        with_temperature = several and point["temperature"] is not None
        name = f"{point['method']}, τ = {words.short(point['temperature'])}" if with_temperature else point["method"]
        lines.setdefault(name, []).append(point)
    return lines


def _cell(point: Record | None) -> str:
    error = error_of(point)
    if point is None or error is None:
        return words.NOTHING
    verdict = mapping(point.get("difference")).get("verdict")
    return figure(error, 2) + {"lower": " ↓", "higher": " ↑"}.get(str(verdict), "")
