"""The page of a run: tables, figures and one HTML file, made from JSON records and never from checkpoints.

Also an architecture's cells on their own: as an SVG file (`draw_cells`) and as text (`cells_as_text`).
"""

from nesbs.report.documents import cells_as_text, draw_cells
from nesbs.report.page import Records, load_records, render, write_report

__all__ = ["Records", "cells_as_text", "draw_cells", "load_records", "render", "write_report"]
