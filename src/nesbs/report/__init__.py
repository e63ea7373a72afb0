"""Pages of a run, of several side by side, of a comparison: one HTML file each, from JSON records, never checkpoints.

Also parts of it on their own: an architecture's cells as an SVG file (`draw_cells`) and as text
(`cells_as_text`), the measures as text (`scores_as_text`).
"""

from nesbs.report.attacks import attacks_as_text
from nesbs.report.cell_export import cells_as_text, draw_cells
from nesbs.report.comparison import comparison_as_markdown, draw_comparison, write_comparison
from nesbs.report.comparison_page import render_comparison_page, write_comparison_page
from nesbs.report.curves import curves_as_markdown, draw_curves, write_curves
from nesbs.report.distilled import distilled_as_text
from nesbs.report.latency import latency_as_text
from nesbs.report.pages import write_reports
from nesbs.report.quality import quality_as_text
from nesbs.report.run_page import render, write_report
from nesbs.report.scores_text import scores_as_text
from nesbs.report.side_by_side import render_side_by_side, write_side_by_side
