"""Compiling many kernels side by side, before the first of them runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import torch
from torch import Tensor


def compile_ahead(work: Callable[[], object]) -> None:
    """Compile all kernels that `work` launches, in threads: Triton would compile each when it is first launched.

    For that the work is done once without the kernels, so what it writes is nonsense that the caller must put right.
    """
    from triton.runtime.jit import KernelInterface

    from nesbs.kernels import edge_programs, pair_programs

    texts = [*vars(edge_programs).values(), *vars(pair_programs).values()]
    programs = [program for program in texts if isinstance(program, KernelInterface)]
    launches: dict[Hashable, Callable[[], object]] = {}

    def note(program: Any, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> None:
        like = [one.dtype if isinstance(one, Tensor) and one.data_ptr() % 16 == 0 else one for one in arguments]
        fixed = [parameter.do_not_specialize for parameter in getattr(program, "params", [])[: len(like)]]
        key = (program, *map(_kind, like, fixed or [False] * len(like)), *sorted(named.items()))
        launches.setdefault(key, partial(program.warmup, *like, grid=grid, **named))

    for program in programs:
        program.run = partial(note, program)
    try:
        work()
    finally:
        for program in programs:
            del program.run
    begin = partial(torch.cuda.set_device, torch.cuda.current_device()) if torch.cuda.is_available() else None
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1), initializer=begin) as pool:
        for launch in launches.values():
            pool.submit(launch)  # one that cannot be compiled says so when it is launched


def _kind(argument: Any, fixed: bool) -> Any:
    """What Triton makes another version of a kernel for; of most numbers, whether they are 1 and whether 16 divides."""
    if isinstance(argument, int):
        return int if fixed else (int, argument == 1, argument % 16 == 0)
    return argument if isinstance(argument, torch.dtype) else type(argument)
