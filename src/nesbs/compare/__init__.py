"""Methods held against each other: what each chooses, predicts and costs; over seeds, and as curves over budgets."""

from nesbs.compare.curves import curves
from nesbs.compare.over_seeds import compare

__all__ = ["compare", "curves"]
