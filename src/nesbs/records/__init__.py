"""What is left behind, as typed frozen values that round-trip to text; the only place that reads and writes it."""

from nesbs.records.recipe import Recipe

__all__ = ["Recipe"]
