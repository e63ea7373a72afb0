"""Timing two ways of the same computation side by side."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch


def seconds(work: Callable[[], object], repeats: int) -> list[float]:
    """How long `work` takes, `repeats` times, after one run that does not count."""
    work()
    taken = []
    for _ in range(repeats):
        _wait()
        started = time.perf_counter()
        work()
        _wait()
        taken.append(time.perf_counter() - started)
    return taken


def compare(
    name: str, ours: Callable[[], object], reference: Callable[[], object], *, repeats: int = 5
) -> dict[str, Any]:
    """Median seconds of both, their spread, and how many times faster ours is."""
    return compared(name, seconds(ours, repeats), seconds(reference, repeats))


def step_seconds(steps: Iterator[None], *, block: int, repeats: int, warm: int = 5) -> list[float]:
    """Seconds a step of a training, from `repeats` blocks of steps, after some that do not count."""
    for _ in range(warm):
        next(steps)
    taken = []
    for _ in range(repeats):
        _wait()
        started = time.perf_counter()
        for _ in range(block):
            next(steps)
        _wait()
        taken.append((time.perf_counter() - started) / block)
    return taken


def compared(name: str, mine: list[float], theirs: list[float]) -> dict[str, Any]:
    """Median seconds of both, their spread, and how many times faster ours is."""
    return {
        "name": name,
        "seconds": statistics.median(mine),
        "spread": max(mine) - min(mine),
        "reference_seconds": statistics.median(theirs),
        "reference_spread": max(theirs) - min(theirs),
        "ratio": statistics.median(theirs) / statistics.median(mine),
        "repeats": len(mine),
    }


def _wait() -> None:
    """Until a GPU has done what it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
    }
