"""Weights shared by all of a space: one path at a time; training; estimating with cached predictions."""

from nesbs.supernet.draw_paths import count_updates, draw_groups, draw_paths, fair_group
from nesbs.supernet.estimate import Estimator, content_order, predictor
from nesbs.supernet.fused_network import fits
from nesbs.supernet.fused_step import FusedStep
from nesbs.supernet.train import Supernet, SupernetSettings, build_supernet, design_supernet, train_supernet
from nesbs.supernet.untrained import Untrained
