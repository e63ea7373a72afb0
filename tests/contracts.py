"""The spaces, samplers and methods that must satisfy their contract; a new one joins the list and earns the tests."""

from nesbs.compare import METHODS
from nesbs.samplers import MonteCarlo, SvgdRd, Uniform
from nesbs.spaces import darts, nasbench201, toy_edges, toy_pairs

SPACES = [toy_edges, toy_pairs, nasbench201, darts]
TOYS = [toy_edges, toy_pairs]  # small enough to enumerate
SAMPLERS = [MonteCarlo(), Uniform(), SvgdRd(delta=0.5, steps=30), SvgdRd(delta=(-0.5, 0.0, 1.0), steps=30)]
METHOD_NAMES = list(METHODS)  # of compare/methods.py, where a new one is added
