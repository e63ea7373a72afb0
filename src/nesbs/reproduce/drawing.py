"""From a record and the paper's figures to tables and pictures: pure, so that the same record gives the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nesbs import files
from nesbs.records import ExperimentRecord
from nesbs.reproduce.draw_curves import curves_tables, draw_curves
from nesbs.reproduce.draw_pictures import (
    discrepancy_tables,
    draw_discrepancy,
    draw_gaussians,
    draw_tradeoff,
    gaussians_tables,
    tradeoff_tables,
)
from nesbs.reproduce.draw_tables import (
    attacks_tables,
    draw_quality,
    draw_tables,
    methods_tables,
    posteriors_tables,
    quality_tables,
)
from nesbs.reproduce.exhibit import Exhibit
from nesbs.reproduce.spec import Experiment, paper_figures
from nesbs.reproduce.tables import PaperTable, as_csv, as_latex, as_markdown

TABLES: dict[str, Callable[[Exhibit], list[PaperTable]]] = {
    "methods": methods_tables,
    "attacks": attacks_tables,
    "quality": quality_tables,
    "posteriors": posteriors_tables,
    "discrepancy": discrepancy_tables,
    "tradeoff": tradeoff_tables,
    "curves": curves_tables,
    "gaussians": gaussians_tables,
}


FIGURES: dict[str, Callable[[Exhibit], tuple[str, bytes]]] = {
    "discrepancy": draw_discrepancy,
    "tradeoff": draw_tradeoff,
    "curves": draw_curves,
    "gaussians": draw_gaussians,
}


def tables_of(experiment: Experiment, record: ExperimentRecord) -> list[PaperTable]:
    """Make the tables of an experiment; what its record lacks is a dash."""
    return TABLES[experiment.kind](Exhibit(experiment, record, paper_figures(experiment.name)))


def picture_of(experiment: Experiment, record: ExperimentRecord) -> tuple[str, bytes]:
    """Draw the figure of an experiment as SVG and as PNG."""
    exhibit = Exhibit(experiment, record, paper_figures(experiment.name))
    if experiment.kind in FIGURES:
        return FIGURES[experiment.kind](exhibit)
    tables = TABLES[experiment.kind](exhibit)
    return draw_quality(tables) if experiment.kind == "quality" else draw_tables(exhibit.title(), tables)


def write(folder: Path, experiment: Experiment, record: ExperimentRecord) -> tuple[str, list[Path]]:
    """Write NAME.md, .tex, .csv, .svg and .png; return the Markdown, and all paths."""
    tables = tables_of(experiment, record)
    svg, png = picture_of(experiment, record)
    texts = {"md": as_markdown(tables), "tex": as_latex(tables), "csv": as_csv(tables), "svg": svg}
    for ending, text in texts.items():
        files.write_text(folder / f"{experiment.name}.{ending}", text)
    files.write_bytes(folder / f"{experiment.name}.png", png)
    return texts["md"], [folder / f"{experiment.name}.{ending}" for ending in (*texts, "png")]
