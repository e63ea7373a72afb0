"""Search efficiency as tables in Markdown and one figure, from the record alone (paper, Figs. 5 to 7)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nesbs import files
from nesbs.report import words
from nesbs.report.comparison import markdown_table
from nesbs.report.reading import Record, mapping, sequence

MARKS = "osD^vPX"


def write_curves(folder: Path, record: Record) -> tuple[str, Path]:
    """Write `curves.md` and `curves.svg`; the tables and the figure's path."""
    tables, figure = curves_as_markdown(record), folder / "curves.svg"
    files.write_text(folder / "curves.md", tables + "\n")
    files.write_text(figure, draw_curves(record))
    return tables, figure


def curves_as_markdown(record: Record) -> str:
    """A table for each size of ensembles: methods down, budgets across; and one for single values of δ."""
    return "\n\n".join([*map(markdown_table, curves_tables(record)), curves_notes(record)])


def curves_tables(record: Record) -> list[list[list[str]]]:
    """The cells of the tables, the first row of each the headings."""
    tables = []
    for name, key, across in (("budget", "budget", _plain(record)), ("δ", "delta", _single(record))):
        for size in sorted({point["size"] for point in across}):
            here = [point for point in across if point["size"] == size]
            values = sorted({point[key] for point in here})
            rows = [[f"n = {size}, {name}", *(words.short(value) for value in values)]]
            for label, line in _lines(here):
                at = {point[key]: point for point in line}
                rows.append([label, *(_said(at.get(value)) for value in values)])
            tables.append(rows)
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
    costs = [mapping(cost) for cost in sequence(record.get("seconds"))]
    said = []
    for name in ("supernet", "posterior", "points"):
        known = [cost[name] for cost in costs if words.is_number(cost.get(name))]
        if known:
            times = f"{len(known)} × " if len(known) > 1 else ""
            said.append(f"{name} {times}{words.decimal(sum(known) / len(known), 1)} s")
    if not said:
        return ""
    one = " All seeds draw from the supernet and posterior of the first." if record.get("one_supernet") else ""
    return f"\nMeasured on this device: {', '.join(said)} (points: all of a seed's).{one}"


def draw_curves(record: Record) -> str:
    """The figure as SVG: a panel for each size of ensembles, error against budget; below, error against δ."""
    import matplotlib
    from matplotlib.figure import Figure

    panels = [
        (size, key, label, [point for point in part if point["size"] == size])
        for key, label, part in (
            ("budget", "architectures judged", _plain(record)),
            ("delta", "δ", _single(record)),
        )
        for size in sorted({point["size"] for point in part})
    ]
    across = max(1, len({size for size, *_ in panels}))
    down = max(1, -(-len(panels) // across))
    with matplotlib.rc_context({"svg.hashsalt": "nesbs", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(3.6 * across + 1.6, 3.0 * down), layout="constrained")
        grid = figure.subplots(down, across, squeeze=False).ravel()
        for axes, (size, key, label, here) in zip(grid, panels, strict=False):
            for number, (name, line) in enumerate(_lines(here)):
                known = [point for point in line if mapping(point["mean"]).get("error")]
                means = [mapping(point["mean"]["error"]) for point in known]
                axes.errorbar(
                    [point[key] for point in known],
                    [100 * mean["mean"] for mean in means],
                    yerr=[100 * (mean.get("standard_error") or 0.0) for mean in means],
                    label=name,
                    color=f"C{number}",
                    marker=MARKS[number % len(MARKS)],
                    ms=4,
                    lw=1.2,
                    capsize=2,
                    ls="--" if name == "single-best" else "-",
                )
            axes.set_title(f"n = {size}")
            axes.set_xlabel(label)
            axes.set_ylabel("test error %")
            axes.grid(lw=0.4)
        for axes in grid[across - 1 : len(panels) : across]:  # beside the last panel of each row
            axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.02, 0.5))
        for axes in grid[len(panels) :]:
            axes.remove()
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def _plain(record: Record) -> list[dict[str, Any]]:
    return [dict(point) for point in map(mapping, sequence(record.get("points"))) if point.get("delta") is None]


def _single(record: Record) -> list[dict[str, Any]]:
    return [dict(point) for point in map(mapping, sequence(record.get("points"))) if point.get("delta") is not None]


def _lines(points: Sequence[dict[str, Any]]) -> list[tuple[str, list[dict[str, Any]]]]:
    """The points of each method and τ, under a name that says τ where there are several."""
    several = len({point["temperature"] for point in points} - {None}) > 1
    lines: dict[str, list[dict[str, Any]]] = {}
    for point in points:
        known = several and point["temperature"] is not None
        name = f"{point['method']}, τ = {words.short(point['temperature'])}" if known else point["method"]
        lines.setdefault(name, []).append(point)
    return list(lines.items())


def _said(point: dict[str, Any] | None) -> str:
    error = mapping(mapping((point or {}).get("mean")).get("error"))
    if point is None or not error:
        return words.NOTHING
    spread = error.get("standard_error")
    said = words.decimal(100 * error["mean"], 2) + ("" if spread is None else f" ± {words.decimal(100 * spread, 2)}")
    verdict = mapping(point.get("difference")).get("verdict")
    return said + {"lower": " ↓", "higher": " ↑"}.get(str(verdict), "")
