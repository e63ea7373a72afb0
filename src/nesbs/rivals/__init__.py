"""Rivals of the method, each in a file of its own that reads like its paper."""

from nesbs.rivals.best_response import Discrepancy, LearnedTogether, best_response, discrepancy, snas
from nesbs.rivals.darts import darts
from nesbs.rivals.deep import deep
from nesbs.rivals.enas import enas
from nesbs.rivals.gdas import gdas
from nesbs.rivals.mc_droppath import mc_droppath
from nesbs.rivals.nes_re import best_of_births, evolve, mutate, nes_re
from nesbs.rivals.nes_rs import nes_rs, single_best
from nesbs.rivals.pools import likeliest_allowed, uniform_draws, uniform_pool
from nesbs.rivals.request import SearchRequest, SearchResult
from nesbs.rivals.rsps import rsps
from nesbs.rivals.setn import setn
from nesbs.rivals.settings import RivalSettings
from nesbs.rivals.snapshot import snapshot
from nesbs.rivals.urs import urs
