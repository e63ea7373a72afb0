"""From a record and the paper's figures to tables and pictures: pure, so that the same record gives the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nesbs import files
from nesbs.report.reading import Record
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
from nesbs.reproduce.facts import title
from nesbs.reproduce.spec import Experiment, paper_figures
from nesbs.reproduce.tables import PaperTable, as_csv, as_latex, as_markdown

TABLES: dict[str, Callable[[Experiment, Record, Record], list[PaperTable]]] = {
    "methods": methods_tables,
    "attacks": attacks_tables,
    "quality": quality_tables,
    "posteriors": posteriors_tables,
    "discrepancy": discrepancy_tables,
    "tradeoff": tradeoff_tables,
    "curves": curves_tables,
    "gaussians": gaussians_tables,
}


def tables_of(experiment: Experiment, record: Record) -> list[PaperTable]:
    """The tables of an experiment; what its record lacks is a dash."""
    return TABLES[experiment.kind](experiment, record, paper_figures(experiment.name))


def write(folder: Path, experiment: Experiment, record: Record) -> tuple[str, list[Path]]:
    """Write NAME.md, .tex, .csv, .svg and .png; the Markdown, and all paths."""
    tables = tables_of(experiment, record)
    svg, png = picture_of(experiment, record)
    texts = {"md": as_markdown(tables), "tex": as_latex(tables), "csv": as_csv(tables), "svg": svg}
    for ending, text in texts.items():
        files.write_text(folder / f"{experiment.name}.{ending}", text)
    files.write_bytes(folder / f"{experiment.name}.png", png)
    return texts["md"], [folder / f"{experiment.name}.{ending}" for ending in (*texts, "png")]


def picture_of(experiment: Experiment, record: Record) -> tuple[str, bytes]:
    """The figure of an experiment as SVG and as PNG."""
    paper, tables = paper_figures(experiment.name), tables_of(experiment, record)
    match experiment.kind:
        case "gaussians":
            return draw_gaussians(experiment, record)
        case "tradeoff":
            return draw_tradeoff(experiment, record, paper)
        case "discrepancy":
            return draw_discrepancy(experiment, record)
        case "curves":
            return draw_curves(experiment, record)
        case "quality":
            return draw_quality(tables)
        case _:
            return draw_tables(title(experiment, record), tables)
