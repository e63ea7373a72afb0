"""Several runs side by side, from their records: one page with what differs, errors with intervals, cells."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from nesbs import files
from nesbs.evaluation import paired, summarise
from nesbs.records import RunRecords
from nesbs.records.metrics import EnsembleMetrics
from nesbs.report import cells, diagrams, formats
from nesbs.report.recipe import differing
from nesbs.report.scores import gain_interval
from nesbs.report.selection import chosen_cells, used_operations
from nesbs.report.templates import rendered

TERMS = ("NLL", "ECE", "ATE", "PPD", "δ", "95 % interval", "Entropy", "Posterior")
COLUMNS = (("error", "Test error"), ("nll", "NLL"))


def write_side_by_side(folders: Sequence[Path], page: Path) -> Path:
    """Write one page of several run folders; each is linked to its own `report.html`, relative to the page."""
    runs = [(str(folder), RunRecords.read(folder)) for folder in folders]
    here = page.parent.resolve()
    paths = {str(folder): os.path.relpath((folder / "report.html").resolve(), here) for folder in folders}
    links = {name: quote(Path(path).as_posix()) for name, path in paths.items()}
    files.write_text(page, render_side_by_side(runs, links))
    return page


def render_side_by_side(runs: Sequence[tuple[str, RunRecords]], links: Mapping[str, str] | None = None) -> str:
    """The page as text; runs are (name, records), and the same ones give the same bytes."""
    rows = [_row(name, run) for name, run in runs]
    operations = dict.fromkeys(one for _, run in runs for one in used_operations(run.space, run.chosen))
    values = {
        "rows": rows,
        "links": dict(links or {}),
        "charts": [chart for measure, name in COLUMNS if (chart := _chart(rows, measure, name)) is not None],
        "groups": _groups(runs, rows),
        "differing": differing([run.recipe for _, run in runs]),
        "names": [name for name, _ in runs],
        "members": [(name, chosen_cells(run.space, run.chosen)) for name, run in runs],
        "legend": cells.legend(operations),
        "dead_sample": cells.dead_sample(),
        "explained": TERMS,
    }
    return rendered("side_by_side.html", values)


def _row(name: str, run: RunRecords) -> dict[str, Any]:
    """One run's line of the table; None where something is not there."""
    measures = (run.metrics and run.metrics.ensemble) or EnsembleMetrics()
    stages = (run.record and run.record.stages) or {}
    seconds = [stage.seconds - (stage.beside or 0.0) for stage in stages.values() if stage.seconds is not None]
    return {
        "name": name,
        "data": run.data,
        "sampler": run.selection.sampler if run.selection else None,
        "seed": run.recipe.seed if run.recipe else None,
        "size": len(measures.members or ()) or None,
        "measures": measures,
        "best_error": measures.best_member.error,
        "gain": gain_interval(measures, "error"),
        "uniform": run.metrics.uniform.error if run.metrics and run.metrics.uniform else None,
        "entropy": run.posterior.entropy if run.posterior else None,
        "delta": run.selection.delta if run.selection else None,
        "seconds": sum(seconds) if seconds else None,
    }


def _chart(rows: Sequence[dict[str, Any]], measure: str, name: str) -> tuple[str, Markup] | None:
    """A measure of every run that has it, with its interval over the test images."""
    factor, places, unit = (100, 2, "%") if measure == "error" else (1, 3, "nats")
    shown: list[tuple[str, list[float], tuple[float, float] | None]] = []
    for row in rows:
        value, intervals = getattr(row["measures"], measure), row["measures"].intervals
        if value is not None:
            ends = intervals.ensemble.ends(measure) if intervals and intervals.ensemble else None
            reach = (factor * ends[0], factor * ends[1]) if ends else None
            name_or_end = row["name"] if len(row["name"]) <= 17 else "…" + row["name"][-16:]  # ends tell paths apart
            shown.append((name_or_end, [factor * value], reach))
    if not shown:
        return None
    text = ", ".join(f"{label} {formats.decimal(value[0], places)}" for label, value, _ in shown)
    axis = f"{name.lower() if measure == 'error' else name} in {unit}"
    return name, diagrams.forest(f"{name} in {unit} of the ensembles: {text}", axis, shown, places)


def _groups(runs: Sequence[tuple[str, RunRecords]], rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Runs that differ in their seed alone: means with standard errors, and the gain with its interval over seeds."""
    alike: dict[str, list[dict[str, Any]]] = {}
    for (_, run), row in zip(runs, rows, strict=True):
        if run.recipe and row["measures"].error is not None and row["best_error"] is not None:
            without_seed = run.recipe.model_copy(update={"seed": 0, "threads": None})
            alike.setdefault(without_seed.to_yaml(), []).append(row)
    groups = []
    for members in alike.values():
        seeds = [row["seed"] for row in members]
        if len(set(seeds)) < 2:
            continue
        own, best = [row["measures"].error for row in members], [row["best_error"] for row in members]
        losses = [row["measures"].nll for row in members]
        groups.append(
            {
                "names": [row["name"] for row in members],
                "seeds": seeds,
                "error": summarise(own),
                "nll": None if None in losses else summarise(losses),
                "best": fmean(best),
                "gain": paired(best, own),
            }
        )
    return groups
