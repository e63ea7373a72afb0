"""From a record and the paper's figures to tables and pictures: pure, so that the same record gives the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
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
from nesbs.reproduce.spec import Experiment, paper_figures
from nesbs.reproduce.tables import Table, as_csv, as_latex, as_markdown

TABLES: dict[str, Callable[[Experiment, Record, Record], list[Table]]] = {
    "methods": methods_tables,
    "attacks": attacks_tables,
    "quality": quality_tables,
    "posteriors": posteriors_tables,
    "discrepancy": discrepancy_tables,
    "tradeoff": tradeoff_tables,
    "curves": curves_tables,
    "gaussians": gaussians_tables,
}


@dataclass(frozen=True)
class Drawn:
    """What is made from a record."""

    tables: list[Table]
    markdown: str
    latex: str
    csv: str
    svg: str
    png: bytes


def draw(experiment: Experiment, record: Record) -> Drawn:
    """The tables and the figure of an experiment; what its record lacks is a dash."""
    paper = paper_figures(experiment.name)
    tables = TABLES[experiment.kind](experiment, record, paper)
    svg, png = _picture(experiment, record, paper, tables)
    return Drawn(tables, as_markdown(tables), as_latex(tables), as_csv(tables), svg, png)


def write(folder: Path, name: str, drawn: Drawn) -> list[Path]:
    """Write NAME.md, .tex, .csv, .svg and .png; their paths."""
    texts = {"md": drawn.markdown, "tex": drawn.latex, "csv": drawn.csv, "svg": drawn.svg}
    for ending, text in texts.items():
        files.write_text(folder / f"{name}.{ending}", text)
    files.write_bytes(folder / f"{name}.png", drawn.png)
    return [folder / f"{name}.{ending}" for ending in (*texts, "png")]


def _picture(experiment: Experiment, record: Record, paper: Record, tables: list[Table]) -> tuple[str, bytes]:
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
            return draw_tables(tables)
