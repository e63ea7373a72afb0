"""The page of a comparison folder (`nesbs compare`): methods over seeds, and search-efficiency curves."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nesbs import files
from nesbs.records.recipe import parse_yaml
from nesbs.report import diagrams, words
from nesbs.report.comparison import IMAGES, comparison_notes, comparison_table, images_table
from nesbs.report.curves import curves_notes, curves_tables, draw_curves
from nesbs.report.glossary import glossary
from nesbs.report.reading import Record, mapping, sequence
from nesbs.report.recipe import changes
from nesbs.report.templates import rendered

TERMS = {"NLL": "NLL", "ECE": "ECE", "ATE %": "ATE", "PPD %": "PPD"}
WORDS = (*TERMS.values(), "95 % interval", "Supernet")
TEXT = ("method", "winner")


@dataclass(frozen=True)
class ComparisonRecords:
    """What a comparison folder says about itself; None for a file that is not there."""

    recipe: Mapping[str, Any] | None = None
    comparison: Mapping[str, Any] | None = None
    curves: Mapping[str, Any] | None = None
    seeds: tuple[str, ...] = ()  # the run folders inside


def is_comparison(folder: Path) -> bool:
    """Whether `nesbs compare` made the folder, or began to."""
    if any((folder / f"{name}.json").is_file() for name in ("comparison", "curves")):
        return True
    begun = (folder / "recipe.yaml").is_file() and not (folder / "record.json").exists()
    return begun and bool(_seeds(folder))


def load_comparison(folder: Path) -> ComparisonRecords:
    """Read the records of a comparison folder; a broken file is a `NesbsError`, a missing one is not."""
    recipe = folder / "recipe.yaml"
    return ComparisonRecords(
        recipe=parse_yaml(files.read_text(recipe), str(recipe)) if recipe.is_file() else None,
        comparison=_read(folder / "comparison.json"),
        curves=_read(folder / "curves.json"),
        seeds=_seeds(folder),
    )


def write_comparison_page(folder: Path) -> Path:
    """Write `report.html` into a comparison folder from the records there, and return its path."""
    page = folder / "report.html"
    files.write_text(page, render_comparison_page(load_comparison(folder)))
    return page


def render_comparison_page(contest: ComparisonRecords) -> str:
    """The page as text; the same records give the same bytes."""
    record, curves = contest.comparison or {}, contest.curves or {}
    known = record or curves
    table, images = comparison_table(record), images_table(record)
    values = {
        "names": [str(known[key]) for key in ("data", "space") if known.get(key)],
        "seeds": [str(seed) for seed in sequence(known.get("seeds"))],
        "begun": contest.seeds,
        "verdicts": _verdicts(record),
        "reference": str(known.get("reference")),
        "heads": [(name, TERMS.get(name), name in TEXT) for name in table.headings],
        "rows": table.rows,
        "notes": comparison_notes(record) if record else [],
        "images": [images.headings, *images.rows] if images else [],
        "images_note": IMAGES,
        "charts": [
            ("Test error", _chart(record, "error", "test error in %", 100, 2)),
            ("NLL", _chart(record, "nll", "NLL in nats", 1, 3)),
        ]
        if record
        else [],
        "curves": {
            "picture": base64.b64encode(draw_curves(curves).encode()).decode("ascii"),
            "tables": [[table.headings, *table.rows] for table in curves_tables(curves)],
            "notes": curves_notes(curves),
        }
        if curves
        else None,
        "changes": changes(contest.recipe or {}),
        "glossary": glossary(mapping((contest.recipe or {}).get("evaluation")).get("bins", 15), WORDS),
    }
    return rendered("comparison_page.html", values)


def _verdicts(record: Record) -> dict[str, list[str]]:
    """The methods whose error is above and below the reference's, and those it cannot be told from."""
    found: dict[str, list[str]] = {"higher": [], "lower": [], "open": []}
    for name, entry in mapping(record.get("methods")).items():
        if name != record.get("reference"):
            verdict = mapping(mapping(mapping(entry).get("difference")).get("error")).get("verdict")
            found[verdict if verdict in ("higher", "lower") else "open"].append(str(name))
    return found


def _chart(record: Record, measure: str, axis: str, factor: float, places: int) -> Any:
    """Every method: a ring for each seed, the mean ± standard error as a line."""
    rows: list[tuple[str, Sequence[float], tuple[float, float] | None]] = []
    for name, entry in mapping(record.get("methods")).items():
        seeds = [mapping(mapping(one).get("scores")).get(measure) for one in sequence(mapping(entry).get("seeds"))]
        values = [factor * value for value in seeds if words.is_number(value)]
        mean = mapping(mapping(mapping(entry).get("mean")).get(measure))
        spread = mean.get("standard_error")
        if values:
            middle = math.fsum(values) / len(values)
            reach = (middle - factor * spread, middle + factor * spread) if words.is_number(spread) else None
            rows.append((str(name), values, reach))
    if not rows:
        return None
    said = ", ".join(f"{name} {words.decimal(sum(values) / len(values), places)}" for name, values, _ in rows)
    return diagrams.forest(f"{axis} by method: {said}", axis, rows, places)


def _read(path: Path) -> Mapping[str, Any] | None:
    return files.read_mapping(path) if path.is_file() else None


def _seeds(folder: Path) -> tuple[str, ...]:
    """The run folders inside, by the number of their seed."""
    found = [entry.name for entry in folder.glob("seed-*") if entry.is_dir()]
    return tuple(sorted(found, key=lambda name: (len(name), name)))
