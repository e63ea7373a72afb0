"""Budget curves as tables in Markdown and one figure, from the record alone (paper, Figs. 5 to 7)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar

from nesbs import files
from nesbs.records.curves import CurvesRecord, PointRecord
from nesbs.report import canvas, formats
from nesbs.report.comparison import PAPER_ROWS, added_note, mean_of
from nesbs.report.table import Quantity, Table, draw_quantities, shown

T = TypeVar("T")
Across = Literal["budget", "delta"]  # what the horizontal axis shows
Measure = Literal["error", "accuracy"]  # what the vertical axis shows: by the supernet's weights, or by a table
AXES: dict[Measure, str] = {"error": "test error %", "accuracy": "members' accuracy %, by the table"}


@dataclass(frozen=True)
class Panel:
    """Lines of points in one pair of axes: a measure against the budget or against δ."""

    title: str
    across: Across
    measure: Measure
    lines: Mapping[str, Sequence[PointRecord]]  # by the name in the legend

    def points(self, label: str) -> dict[float, PointRecord]:
        """Return the points of a line by their value on the horizontal axis."""
        return {x: point for point in self.lines[label] if (x := getattr(point, self.across)) is not None}

    def values(self) -> list[float]:
        """Return every value on the horizontal axis, in order."""
        return sorted({value for label in self.lines for value in self.points(label)})

    def rows(self, cell: Callable[[PointRecord | None], T]) -> list[tuple[str, list[T]]]:
        """Make a row for each line: its name, and what `cell` makes of its point (or of None) at each value."""
        return [(label, [cell(self.points(label).get(value)) for value in self.values()]) for label in self.lines]

    def draw(self, axes: Any, style: Callable[[int, str], dict[str, Any]], *, apart: float = 0.0) -> None:
        """Draw every line with its error bars; `apart` shifts them sideways, so that bars do not hide each other."""
        for number, label in enumerate(self.lines):
            shift = apart * (number - (len(self.lines) - 1) / 2)
            points = [point for point in self.lines[label] if getattr(point, self.across) is not None]
            places = [getattr(point, self.across) + shift for point in points]
            values = [value_of(point, self.measure) for point in points]
            draw_quantities(axes, places, values, label=label, ms=4, capsize=2, **style(number, label))
        axes.set_title(self.title)
        axes.set_xlabel("δ" if self.across == "delta" else "architectures judged")


def value_of(point: PointRecord | None, measure: Measure = "error") -> Quantity | None:
    """Return a point's error or accuracy in per cent, mean and standard error over seeds; None where there is none."""
    factor = 100 if measure == "error" else 1  # tables have per cent
    return mean_of((point.mean or {}).get(measure), factor) if point is not None else None


def write_curves(folder: Path, record: CurvesRecord) -> tuple[str, Path]:
    """Write `curves.md` and `curves.svg`; return the tables and the figure's path."""
    tables, picture = curves_as_markdown(record), folder / "curves.svg"
    files.write_text(folder / "curves.md", tables + "\n")
    files.write_text(picture, draw_curves(record))
    return tables, picture


def curves_as_markdown(record: CurvesRecord) -> str:
    """Write a table for each size of ensembles: methods down, budgets across; and one for single values of δ."""
    return "\n\n".join([*(table.as_markdown() for table in curves_tables(record)), curves_notes(record)])


def curves_tables(record: CurvesRecord) -> list[Table]:
    """Make the tables; what their figures are is in `curves_notes`."""
    tables = []
    for panel in _panels(record):
        corner = f"{panel.title}, {'δ' if panel.across == 'delta' else panel.across}"
        corner += ", accuracy" if panel.measure == "accuracy" else ""
        rows = [[label, *cells] for label, cells in panel.rows(partial(_cell, panel.measure))]
        tables.append(Table([corner, *map(formats.short, panel.values())], rows))
    return tables


def curves_notes(record: CurvesRecord) -> str:
    """Say what the tables' figures are, and what in them is the paper's."""
    seeds = ", ".join(str(seed) for seed in record.seeds or ())
    rows = [name for name in PAPER_ROWS if any(point.method == name for point in record.points or ())]
    forward = f"{record.reference} chooses the best round, or greedily from all it drew (search.method=forward)."
    lines = [
        f"{record.data}, space {record.space}, seeds {seeds}, {record.device}. Test error % with the supernet's "
        "weights, mean ± standard error over seeds.",
        *added_note(record.added, rows),
        f"↓ or ↑: below or above {record.reference} at the same size and budget, where the paired 95 % t interval "
        "excludes zero (at the recipe's τ where a method has none).",
        *([forward] if record.search == "forward" else []),
        "single-best: of as many uniform draws, by validation loss; the paper's line is the lowest test error in the "
        "whole space.",
        *_table_note(record),
        f"{formats.NOTHING}: the budget holds no ensemble, or none without duplicates was drawn (search.duplicates).",
        *_costs(record),
    ]
    return "\n".join(lines)


def _table_note(record: CurvesRecord) -> list[str]:
    """Say what the accuracies are, where there are any."""
    if record.table is None:
        return []
    share = formats.decimal(100 * (record.held or 0), 0)
    return [
        f"Accuracy: the true one of the members, in per cent, from {record.table}; it holds {share} % of them, and an "
        "ensemble has the mean of those; "
        f"{formats.NOTHING} where it holds none under some seed. ↓ or ↑ as above (at the first τ where a method has "
        "none): more is better here."
    ]


def _costs(record: CurvesRecord) -> list[str]:
    """Say what it took, measured; nothing where a record does not say."""
    costs = []
    for name in ("supernet", "posterior", "points"):
        values = [value for entry in record.seconds or () if (value := getattr(entry, name)) is not None]
        if values:
            times = f"{len(values)} × " if len(values) > 1 else ""
            costs.append(f"{name} {times}{formats.decimal(sum(values) / len(values), 1)} s")
    if not costs:
        return []
    one = " All seeds draw from the supernet and posterior of the first." if record.one_supernet else ""
    return [f"Measured on this device: {', '.join(costs)} (points: all of a seed's).{one}"]


def draw_curves(record: CurvesRecord) -> str:
    """Draw the figure as SVG: a panel for each size of ensembles, error against budget; below, error against δ."""
    panels = _panels(record)
    across = max(1, len({panel.title for panel in panels}))
    down = max(1, -(-len(panels) // across))
    with canvas.styled(axes_titlesize="large") as new:
        figure = new(3.6 * across + 1.6, 3.0 * down)
        grid = figure.subplots(down, across, squeeze=False).ravel()
        for axes, panel in zip(grid, panels, strict=False):
            panel.draw(axes, _style)
            axes.set_ylabel(AXES[panel.measure])
            axes.grid(lw=0.4)
        for axes in grid[across - 1 : len(panels) : across]:  # beside the last panel of each row
            axes.legend(loc="center left", bbox_to_anchor=(1.02, 0.5))
        for axes in grid[len(panels) :]:
            axes.remove()
        return canvas.as_svg(figure)


def _style(number: int, label: str) -> dict[str, Any]:
    marker = canvas.MARKS[number % len(canvas.MARKS)]
    return {"color": f"C{number}", "marker": marker, "lw": 1.2, "ls": "--" if label == "single-best" else "-"}


def _panels(record: CurvesRecord) -> list[Panel]:
    """Make a panel for each size of ensembles over budgets, then one for each over δ."""
    over_budgets = [point for point in record.points or () if point.delta is None]
    over_deltas = [point for point in record.points or () if point.delta is not None]
    parts: dict[Across, list[PointRecord]] = {"budget": over_budgets, "delta": over_deltas}
    measures: tuple[Measure, ...] = ("error",) if record.table is None else ("error", "accuracy")
    return [
        Panel(f"n = {size}", across, measure, _lines([point for point in points if point.size == size]))
        for measure in measures
        for across, points in parts.items()
        for size in sorted({point.size for point in points if point.size is not None})
    ]


def _lines(points: Sequence[PointRecord]) -> dict[str, list[PointRecord]]:
    """Group the points by method and τ, under a name that says τ where there are several."""
    several = len({point.temperature for point in points} - {None}) > 1
    lines: dict[str, list[PointRecord]] = {}
    for point in points:
        temperature = f", τ = {formats.short(point.temperature)}" if several and point.temperature is not None else ""
        lines.setdefault(f"{point.method}{temperature}", []).append(point)
    return lines


def _cell(measure: Measure, point: PointRecord | None) -> str:
    value = value_of(point, measure)
    if point is None or value is None:
        return formats.NOTHING
    difference = point.difference if measure == "error" else point.by_table
    verdict = difference and difference.verdict
    return shown(value, 2) + {"lower": " ↓", "higher": " ↑"}.get(str(verdict), "")
