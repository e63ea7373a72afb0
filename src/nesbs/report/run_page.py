"""The page of a run, section by section, from its records alone; any of them may be missing."""

from pathlib import Path

from nesbs import files
from nesbs.records import MetricsRecord, Recipe, RunRecord, RunRecords
from nesbs.records.metrics import EnsembleMetrics
from nesbs.report import (
    attacks,
    cells,
    classes,
    distilled,
    latency,
    missing,
    posterior_tables,
    quality,
    scores,
    selection,
    training,
)
from nesbs.report import further_measures as further
from nesbs.report.templates import rendered


def write_report(folder: Path) -> Path:
    """Write `report.html` into a run folder from the records there, and return its path."""
    page = folder / "report.html"
    files.write_text(page, render(RunRecords.read(folder)))
    return page


def render(run: RunRecords) -> str:
    """The page as text; the same records give the same bytes.

    The templates take the records, empty ones where a file is missing, and the modules that prepare their sections.
    """
    metrics = run.metrics or MetricsRecord()
    records = {
        "run": run,
        "recipe": run.recipe or Recipe(),
        "record": run.record or RunRecord(),
        "metrics": metrics,
        "ensemble": metrics.ensemble or EnsembleMetrics(),
    }
    modules = (attacks, cells, classes, distilled, further, latency, missing, posterior_tables, quality, scores)
    named = {module.__name__.rpartition(".")[2]: module for module in (*modules, selection, training)}
    return rendered("run_page.html", {**records, **named})
