"""The page of a run: tables, figures and one HTML file, made from JSON records and never from checkpoints.

Also parts of it on their own: an architecture's cells as an SVG file (`draw_cells`) and as text
(`cells_as_text`), the measures as text (`scores_as_text`).
"""

from nesbs.report.attacks import attacks_as_text
from nesbs.report.comparison import comparison_as_markdown, draw_comparison, write_comparison
from nesbs.report.curves import curves_as_markdown, draw_curves, write_curves
from nesbs.report.documents import cells_as_text, draw_cells
from nesbs.report.page import Records, load_records, render, write_report
from nesbs.report.quality import quality_as_text
from nesbs.report.table import scores_as_text

__all__ = [
    "Records",
    "attacks_as_text",
    "cells_as_text",
    "comparison_as_markdown",
    "curves_as_markdown",
    "draw_cells",
    "draw_comparison",
    "draw_curves",
    "load_records",
    "quality_as_text",
    "render",
    "scores_as_text",
    "write_comparison",
    "write_curves",
    "write_report",
]
