"""The page of a run: tables, figures and one HTML file, made from JSON records and never from checkpoints."""

from nesbs.report.page import Records, load_records, render, write_report

__all__ = ["Records", "load_records", "render", "write_report"]
