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


def kernels(steps: Iterator[None], *, count: int = 10, most: int = 8) -> dict[str, Any]:
    """What a step of a training does on a GPU: kernels, their seconds in all, and those that take most of them."""
    if not torch.cuda.is_available():
        return {}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(count):
            next(steps)
        torch.cuda.synchronize()
    found = sorted(profile.key_averages(), key=lambda event: -event.self_device_time_total)
    return {
        "kernels": sum(event.count for event in found) / count,
        "kernel_seconds": sum(event.self_device_time_total for event in found) / count / 1e6,
        "longest": {event.key[:80]: event.self_device_time_total / count / 1e6 for event in found[:most]},
    }


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
