"""Rivals of the method, each in a file of its own that reads like its paper."""

from nesbs.rivals.best_response import Discrepancy, best_response, discrepancy

__all__ = ["Discrepancy", "best_response", "discrepancy"]
