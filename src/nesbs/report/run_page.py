"""Load a run's records, render the page, write it beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nesbs import files
from nesbs.errors import NesbsError
from nesbs.records.recipe import parse_yaml
from nesbs.report.run_sections import context
from nesbs.report.templates import rendered


@dataclass(frozen=True)
class Records:
    """What a run folder says about itself; None for a file that is not there."""

    recipe: Mapping[str, Any] | None = None
    record: Mapping[str, Any] | None = None
    posterior: Mapping[str, Any] | None = None
    selection: Mapping[str, Any] | None = None
    metrics: Mapping[str, Any] | None = None
    quality: Mapping[str, Any] | None = None
    attacks: Mapping[str, Any] | None = None
    predictions: Mapping[str, Any] | None = None


def load_records(folder: Path) -> Records:
    """Read the records of a run folder; a broken file is a `NesbsError`, a missing one is not."""
    recipe = folder / "recipe.yaml"
    records = Records(
        parse_yaml(files.read_text(recipe), str(recipe)) if recipe.is_file() else None,
        *(
            _read(folder / f"{name}.json")
            for name in ("record", "posterior", "selection", "metrics", "quality", "attacks", "predictions")
        ),
    )
    if records == Records():
        raise NesbsError(f"{folder} is not a run: `nesbs search RECIPE --out {folder}` makes one")
    return records


def render(records: Records) -> str:
    """The page as text; the same records give the same bytes."""
    shown = context(
        records.recipe or {},
        records.record or {},
        records.posterior or {},
        records.selection or {},
        records.metrics or {},
        records.quality or {},
        records.attacks or {},
        records.predictions or {},
    )
    return rendered("run_page.html", shown)


def write_report(folder: Path) -> Path:
    """Write `report.html` into a run folder from the records there, and return its path."""
    page = folder / "report.html"
    files.write_text(page, render(load_records(folder)))
    return page


def _read(path: Path) -> Mapping[str, Any] | None:
    """A JSON record, or None where the file is missing."""
    return files.read_mapping(path) if path.is_file() else None
