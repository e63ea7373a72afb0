"""Several runs side by side, from their records: one page with what differs, errors with intervals, cells."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.parse import quote

from nesbs import files
from nesbs.evaluation import paired, summarise
from nesbs.records.recipe import flatten
from nesbs.report import cells, diagrams, words
from nesbs.report.glossary import glossary
from nesbs.report.reading import Record, mapping, sequence
from nesbs.report.recipe import differing
from nesbs.report.run_page import Records, load_records
from nesbs.report.scores import best_member, gain_over_best, interval_of
from nesbs.report.selection import chosen_cells, used_operations
from nesbs.report.templates import rendered

APART = ("seed", "threads")  # settings in which repetitions of one experiment differ
WORDS = ("NLL", "ECE", "ATE", "PPD", "δ", "95 % interval", "Entropy", "Posterior")
COLUMNS = (("error", "Test error"), ("nll", "NLL"))


def write_side_by_side(folders: Sequence[Path], page: Path) -> Path:
    """Write one page of several run folders; each is linked to its own `report.html`, relative to the page."""
    runs = [(str(folder), load_records(folder)) for folder in folders]
    links = {str(folder): quote(_relative(folder / "report.html", page.parent)) for folder in folders}
    files.write_text(page, render_side_by_side(runs, links))
    return page


def render_side_by_side(runs: Sequence[tuple[str, Records]], links: Mapping[str, str] | None = None) -> str:
    """The page as text; runs are (name, records), and the same ones give the same bytes."""
    rows = [_row(name, records) for name, records in runs]
    drawn = [_cells(name, records) for name, records in runs]
    spaces = [(_space(records), records.selection or {}) for _, records in runs]
    operations = dict.fromkeys(operation for space, chosen in spaces for operation in used_operations(space, chosen))
    values = {
        "rows": rows,
        "links": dict(links or {}),
        "charts": [chart for measure, name in COLUMNS if (chart := _chart(rows, measure, name)) is not None],
        "groups": _groups(runs, rows),
        "differing": differing([records.recipe or {} for _, records in runs]),
        "names": [name for name, _ in runs],
        "members": drawn,
        "legend": cells.legend(operations),
        "dead_sample": cells.dead_sample(),
        "glossary": glossary(only=WORDS),
    }
    return rendered("side_by_side.html", values)


def _row(name: str, records: Records) -> dict[str, Any]:
    """One run's line of the table; None where something is not there."""
    metrics, record = records.metrics or {}, records.record or {}
    ensemble, selection = mapping(metrics.get("ensemble")), records.selection or {}
    stages = [mapping(stage).get("seconds") for stage in mapping(record.get("stages")).values()]
    return {
        "name": name,
        "data": metrics.get("data") or mapping(record.get("data")).get("name"),
        "sampler": selection.get("sampler"),
        "seed": (records.recipe or {}).get("seed"),
        "size": len(sequence(ensemble.get("members"))) or None,
        **{key: ensemble.get(key) for key in ("error", "nll", "ece", "member_error", "disagreement")},
        "intervals": {measure: interval_of(metrics, "Ensemble", measure) for measure, _ in COLUMNS},
        "best": best_member(ensemble),
        "gain": mapping((gain_over_best(ensemble) or {}).get("error")),
        "uniform": mapping(metrics.get("uniform")).get("error"),
        "entropy": (records.posterior or {}).get("entropy"),
        "delta": selection.get("delta"),
        "seconds": sum(known) if (known := [second for second in stages if words.is_number(second)]) else None,
    }


def _chart(rows: Sequence[Record], measure: str, name: str) -> tuple[str, Any] | None:
    """A measure of every run that has it, with its interval over the test images."""
    factor, places, unit = (100, 2, "%") if measure == "error" else (1, 3, "nats")
    shown: list[tuple[str, list[float], tuple[float, float] | None]] = []
    for row in rows:
        if words.is_number(row[measure]):
            reach = row["intervals"][measure]
            ends = (factor * reach[0], factor * reach[1]) if reach else None
            shown.append((_short(row["name"]), [factor * row[measure]], ends))
    if not shown:
        return None
    said = ", ".join(f"{label} {words.decimal(value[0], places)}" for label, value, _ in shown)
    axis = f"{name.lower() if measure == 'error' else name} in {unit}"
    return name, diagrams.forest(f"{name} in {unit} of the ensembles: {said}", axis, shown, places)


def _groups(runs: Sequence[tuple[str, Records]], rows: Sequence[Record]) -> list[dict[str, Any]]:
    """Runs that differ in their seed alone: means with standard errors, and the gain with its interval over seeds."""
    alike: dict[str, list[Record]] = {}
    for (_, records), row in zip(runs, rows, strict=True):
        if records.recipe and words.is_number(row["error"]) and words.is_number(row["best"]["error"]):
            kept = {key: value for key, value in flatten(dict(records.recipe)).items() if key not in APART}
            alike.setdefault(json.dumps(kept, sort_keys=True, default=str), []).append(row)
    groups = []
    for members in alike.values():
        if len({str(row["seed"]) for row in members}) < 2:
            continue
        own, best = ([row["error"] for row in members], [row["best"]["error"] for row in members])
        losses = [row["nll"] for row in members if words.is_number(row["nll"])]
        groups.append(
            {
                "names": [row["name"] for row in members],
                "seeds": [row["seed"] for row in members],
                "error": summarise(own),
                "nll": summarise(losses) if len(losses) == len(members) else None,
                "best": fmean(best),
                "gain": paired(best, own),
            }
        )
    return groups


def _cells(name: str, records: Records) -> dict[str, Any]:
    return {"name": name, "members": chosen_cells(_space(records), records.selection or {})}


def _space(records: Records) -> str:
    return str(mapping((records.recipe or {}).get("space")).get("name") or (records.posterior or {}).get("space") or "")


def _short(name: str) -> str:
    """The end of a path: what tells runs apart."""
    return name if len(name) <= 17 else "…" + name[-16:]


def _relative(path: Path, start: Path) -> str:
    """A path as seen from a folder."""
    return Path(os.path.relpath(path.resolve(), start.resolve())).as_posix()
