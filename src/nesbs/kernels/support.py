"""Where the kernels can run, and how."""

from __future__ import annotations

import functools
import importlib.util

import torch

INTERPRETED = False  # set by tests, which run the kernels on a CPU in Triton's interpreter


@functools.cache
def _triton() -> bool:
    return importlib.util.find_spec("triton") is not None


def usable(device: torch.device) -> bool:
    """Whether the kernels run on a device: a GPU of 2020 or later, with Triton (torch brings it on Linux)."""
    if device.type == "cpu":
        return INTERPRETED
    return device.type == "cuda" and _triton() and torch.cuda.get_device_capability(device) >= (8, 0)


def power_of_two(number: int) -> bool:
    """Whether a kernel can have so many channels."""
    return number & (number - 1) == 0


def precision() -> str:
    """How products of float32 are made: rounded to TF32 unless torch is told not to (`torch.backends.cudnn`).

    Else of three products in TF32, which lose no more than float32 does and take half its time.
    """
    return "tf32" if torch.backends.cudnn.allow_tf32 else "tf32x3"
