"""Weights shared by all of a space: one path at a time; training; estimating with cached predictions."""

from nesbs.supernet.estimate import Estimator, content_order
from nesbs.supernet.train import (
    Supernet,
    SupernetSettings,
    build_supernet,
    count_updates,
    design_supernet,
    draw_paths,
    train_supernet,
)

__all__ = [
    "Estimator",
    "Supernet",
    "SupernetSettings",
    "build_supernet",
    "content_order",
    "count_updates",
    "design_supernet",
    "draw_paths",
    "train_supernet",
]
