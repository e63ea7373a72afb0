"""The page of a comparison folder (`nesbs compare`, `nesbs curves`): methods over seeds, and budget curves."""

import base64
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from nesbs import files
from nesbs.records import ComparisonRecord, ComparisonRecords
from nesbs.report import charts, diagrams, formats
from nesbs.report.comparison import comparison_notes, comparison_table, images_table
from nesbs.report.curves import curves_notes, curves_tables, draw_curves
from nesbs.report.templates import rendered

TERMS = {"NLL": "NLL", "ECE": "ECE", "ATE %": "ATE", "PPD %": "PPD"}
TEXT = ("method", "winner")
SEEDS = "Rings are seeds, discs means, lines ± one standard error."
FRONT = "Means over seeds, of all networks that predict. Discs with names: no other method is no larger and no worse."


def write_comparison_page(folder: Path, curves_svg: str | None = None) -> Path:
    """Write `report.html` into a comparison folder from the records there, and return its path.

    `curves_svg` is the figure of the curves where it has just been drawn.
    """
    page = folder / "report.html"
    files.write_text(page, render_comparison_page(ComparisonRecords.read(folder), curves_svg))
    return page


def render_comparison_page(records: ComparisonRecords, curves_svg: str | None = None) -> str:
    """The page as text; the same records give the same bytes."""
    recipe, comparison, curves = records.recipe, records.comparison, records.curves
    about = comparison or curves
    values = {
        "names": [name for name in (about.data, about.space) if name] if about else [],
        "seeds": [str(seed) for seed in (about and about.seeds) or ()],
        "begun": records.seeds,
        "reference": (about and about.reference) or "",
        **_compared(comparison),
        "curves": {
            "picture": base64.b64encode((curves_svg or draw_curves(curves)).encode()).decode("ascii"),
            "tables": curves_tables(curves),
            "notes": curves_notes(curves),
        }
        if curves
        else None,
        "recipe": recipe,
        "about": about,
        "explained": (*TERMS.values(), "95 % interval", "Supernet"),
    }
    return rendered("comparison_page.html", values)


def _compared(comparison: ComparisonRecord | None) -> dict[str, Any]:
    """The table of the methods, what it says, and its charts."""
    if comparison is None:
        return {"rows": []}
    table, images = comparison_table(comparison), images_table(comparison)
    return {
        "verdicts": _verdicts(comparison),
        "heads": [(name, TERMS.get(name), name in TEXT) for name in table.headings],
        "rows": table.rows,
        "notes": comparison_notes(comparison),
        "images": images,
        "charts": [
            ("Test error", _chart(comparison, "error", "test error in %", 100, 2), SEEDS),
            ("NLL", _chart(comparison, "nll", "NLL in nats", 1, 3), SEEDS),
            *(
                (f"Error against {name}", error_against_cost(comparison, size, name), FRONT)
                for size, name in (("multiply_adds", "multiply-adds"), ("parameters", "parameters"))
            ),
        ],
    }


def _verdicts(comparison: ComparisonRecord) -> dict[str, list[str]]:
    """The methods whose error is above and below the reference's, and those it cannot be told from."""
    verdicts: dict[str, list[str]] = {"higher": [], "lower": [], "open": []}
    for name, entry in (comparison.methods or {}).items():
        if name != comparison.reference:
            difference = (entry.difference or {}).get("error")
            verdict = difference.verdict if difference else None
            verdicts[verdict if verdict in ("higher", "lower") else "open"].append(name)
    return verdicts


def error_against_cost(comparison: ComparisonRecord, size: str, name: str) -> Markup | None:
    """Every method's mean test error against the size of what predicts, in millions; None where it is not known.

    Discs are the methods that no other beats in both (the Pareto front), with their names; the others are rings.
    """
    points: dict[str, tuple[float, float]] = {}
    for method, entry in (comparison.methods or {}).items():
        cost, error = (entry.cost or {}).get(size), (entry.mean or {}).get("error")
        if cost is not None and error is not None and cost.mean is not None and error.mean is not None:
            points[method] = cost.mean / 1e6, 100 * error.mean
    if not points:
        return None
    front = pareto_front(points)
    others = [point for method, point in points.items() if method not in front]
    text = ", ".join(f"{method} {cost:.2f} million, {error:.2f} %" for method, (cost, error) in points.items())
    groups = [("beaten in both", "ring", others), ("not beaten in both", "disc", [points[method] for method in front])]
    labels = {method: points[method] for method in front}
    title = f"test error against millions of {name}: {text}"
    return charts.scatter(title, f"millions of {name}", "test error in %", groups, labels=labels)


def pareto_front(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Name the points (cost, error) that no other is below in one and no higher in the other, the cheapest first.

    >>> pareto_front({"a": (1.0, 9.0), "b": (2.0, 5.0), "c": (3.0, 6.0), "d": (4.0, 5.0)})
    ['a', 'b']
    """
    front = [
        name
        for name, (cost, error) in points.items()
        if not any(other != (cost, error) and other[0] <= cost and other[1] <= error for other in points.values())
    ]
    return sorted(front, key=lambda name: points[name])


def _chart(comparison: ComparisonRecord, measure: str, axis: str, factor: float, places: int) -> Markup | None:
    """Every method: a ring for each seed, the mean ± standard error as a line."""
    rows: list[tuple[str, Sequence[float], tuple[float, float] | None]] = []
    for name, entry in (comparison.methods or {}).items():
        values = [factor * value for value in entry.values(measure)]
        summary = (entry.mean or {}).get(measure)
        spread = summary.standard_error if summary else None
        if values:
            middle = math.fsum(values) / len(values)
            reach = None if spread is None else (middle - factor * spread, middle + factor * spread)
            rows.append((name, values, reach))
    if not rows:
        return None
    text = ", ".join(f"{name} {formats.decimal(sum(values) / len(values), places)}" for name, values, _ in rows)
    return diagrams.forest(f"{axis} by method: {text}", axis, rows, places)
