"""Compiling many kernels side by side, before the first of them runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Launch:
    """A kernel's launch: its program, and what it is given, of aligned tensors the numbers' type alone."""

    program: Any
    arguments: list[Any]
    named: dict[str, Any]
    grid: Any


def launches_of(work: Callable[[], object]) -> list[Launch]:
    """Launches of kernels that differ so much that Triton compiles each by itself, in the order of `work`.

    For that the work is done once without the kernels, so what it writes is nonsense that the caller must put right.
    """
    from triton.runtime.jit import KernelInterface

    from nesbs.kernels import depthwise_programs, edge_programs, pair_programs

    rooms = (depthwise_programs, edge_programs, pair_programs)
    texts = [text for room in rooms for text in vars(room).values()]
    programs = [program for program in texts if isinstance(program, KernelInterface)]
    found: dict[Hashable, Launch] = {}

    def note(program: Any, *arguments: Any, grid: Any, warmup: bool, **named: Any) -> None:
        plain = [one.detach() if isinstance(one, Tensor) else one for one in arguments]  # without what made them
        like = [one.dtype if isinstance(one, Tensor) and one.data_ptr() % 16 == 0 else one for one in plain]
        fixed = [parameter.do_not_specialize for parameter in getattr(program, "params", [])[: len(like)]]
        key = (program, *map(_kind, like, fixed or [False] * len(like)), *sorted(named.items()))
        found.setdefault(key, Launch(program, like, named, grid))

    for program in programs:
        program.run = partial(note, program)
    try:
        work()
    finally:
        for program in programs:
            del program.run
    return list(found.values())


def compile_ahead(work: Callable[[], object]) -> None:
    """Compile all kernels that `work` launches, in threads: Triton would compile each when it is first launched.

    What the work writes is nonsense that the caller must put right.
    """
    launches = launches_of(work)
    begin = partial(torch.cuda.set_device, torch.cuda.current_device()) if torch.cuda.is_available() else None
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1), initializer=begin) as pool:
        for one in launches:  # one that cannot be compiled says so when it is launched
            pool.submit(one.program.warmup, *one.arguments, grid=one.grid, **one.named)


def _kind(argument: Any, fixed: bool) -> Any:
    """What Triton makes another version of a kernel for; of most numbers, whether they are 1 and whether 16 divides."""
    if isinstance(argument, int):
        return int if fixed else (int, argument == 1, argument % 16 == 0)
    if isinstance(argument, Tensor):
        return argument.dtype, "not aligned"
    return argument if isinstance(argument, torch.dtype) else type(argument)
