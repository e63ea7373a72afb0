"""From a record and the paper's figures to tables and pictures: pure, so that the same record gives the same bytes."""

from collections.abc import Callable
from pathlib import Path

from nesbs import files
from nesbs.records import ExperimentRecord
from nesbs.reproduce import draw_curves, draw_pictures, draw_tables
from nesbs.reproduce.exhibit import Exhibit, PaperTable, as_csv, as_latex, as_markdown
from nesbs.reproduce.spec import Experiment, paper_figures

TABLES: dict[str, Callable[[Exhibit], list[PaperTable]]] = {
    "methods": draw_tables.methods_tables,
    "attacks": draw_tables.attacks_tables,
    "quality": draw_tables.quality_tables,
    "posteriors": draw_tables.posteriors_tables,
    "discrepancy": draw_pictures.discrepancy_tables,
    "tradeoff": draw_pictures.tradeoff_tables,
    "curves": draw_curves.curves_tables,
    "gaussians": draw_pictures.gaussians_tables,
}
FIGURES: dict[str, Callable[[Exhibit], tuple[str, bytes]]] = {
    "discrepancy": draw_pictures.draw_discrepancy,
    "tradeoff": draw_pictures.draw_tradeoff,
    "curves": draw_curves.draw_curves,
    "gaussians": draw_pictures.draw_gaussians,
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
    if experiment.kind == "quality":
        return draw_tables.draw_quality(tables)
    return draw_tables.draw_tables(exhibit.title(), tables)


def write(folder: Path, experiment: Experiment, record: ExperimentRecord) -> tuple[str, list[Path]]:
    """Write NAME.md, .tex, .csv, .svg and .png; return the Markdown, and all paths."""
    tables = tables_of(experiment, record)
    svg, png = picture_of(experiment, record)
    texts = {"md": as_markdown(tables), "tex": as_latex(tables), "csv": as_csv(tables), "svg": svg}
    for ending, text in texts.items():
        files.write_text(folder / f"{experiment.name}.{ending}", text)
    files.write_bytes(folder / f"{experiment.name}.png", png)
    return texts["md"], [folder / f"{experiment.name}.{ending}" for ending in (*texts, "png")]
