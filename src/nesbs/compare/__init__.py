"""Methods compared: what each chooses, predicts and costs; over seeds, and as curves over budgets."""

from nesbs.compare.curves import CurveGrid, curves
from nesbs.compare.method import Method
from nesbs.compare.methods import METHODS
from nesbs.compare.over_seeds import compare
from nesbs.compare.pool_search import Candidates, PoolSearch
