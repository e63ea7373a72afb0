"""How many threads compute on a CPU."""

import ctypes
import functools
import platform

import torch


def use_threads(count: int) -> None:
    """Compute with so many threads from here on, in the thread of the program that calls it.

    On an Arm processor torch convolves by the Arm Compute Library, which takes every core whatever torch was told. One
    thread can be had all the same: OpenMP, by which it computes, then begins no parallel part.

    >>> use_threads(1)
    >>> torch.get_num_threads()
    1
    """
    torch.set_num_threads(count)
    openmp = _openmp_of_arm()
    if openmp is not None:
        openmp.omp_set_max_active_levels(0 if count == 1 else 1)


@functools.cache
def _openmp_of_arm() -> ctypes.CDLL | None:
    """The OpenMP that torch has loaded, on an Arm processor under Linux."""
    if platform.machine() != "aarch64":
        return None
    try:
        return ctypes.CDLL("libgomp.so.1")
    except OSError:
        return None
