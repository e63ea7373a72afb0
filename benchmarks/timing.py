"""Timing two ways of the same computation side by side."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch


def seconds(work: Callable[[], object], repeats: int) -> list[float]:
    """How long `work` takes, `repeats` times, after one run that does not count."""
    work()
    taken = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
    return taken


def compare(
    name: str, ours: Callable[[], object], reference: Callable[[], object], *, repeats: int = 5
) -> dict[str, Any]:
    """Median seconds of both, their spread, and how many times faster ours is."""
    mine, theirs = seconds(ours, repeats), seconds(reference, repeats)
    return {
        "name": name,
        "seconds": statistics.median(mine),
        "spread": max(mine) - min(mine),
        "reference_seconds": statistics.median(theirs),
        "reference_spread": max(theirs) - min(theirs),
        "ratio": statistics.median(theirs) / statistics.median(mine),
        "repeats": repeats,
    }


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }
