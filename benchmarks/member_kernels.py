"""What a member's step spends on a GPU, kernel by kernel, against the bytes it must move.

`python -m benchmarks.member_kernels --json FILE` needs a GPU and takes at most two minutes: what would take
longer is left out. Kernels are compiled first, in processes side by side. Then members of NAS-Bench-201 (five cells a
stage, 16 channels, batch 256) by our kernels, alone and three in one step, as a path of a supernet, and as they are
trained without; our kernels with other sizes; a DARTS member.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.steps import CONVOLUTIONS, random_images
from benchmarks.timing import machine, step_seconds
from nesbs import files
from nesbs.data import Split
from nesbs.ensemble import MemberSettings, build_member, joint_step, member_training
from nesbs.kernels import edge_cell, edge_programs
from nesbs.spaces import Architecture, Space, darts, nasbench201, zoo
from nesbs.supernet import SupernetSettings, build_supernet
from nesbs.supernet.fused_network import EDGE_CODES, choices
from nesbs.supernet.train import supernet_training
from nesbs.training import Training

BANDWIDTH = 4.8e12  # bytes a second of an H200's memory
BATCH, CHANNELS, CELLS = 256, 16, 5
SIX = "+".join("|" + "".join(f"nor_conv_3x3~{source}|" for source in range(target)) for target in (1, 2, 3))
LIMIT = 120.0  # seconds in all
COMPILERS = 12  # processes


def kernel_list(run: Callable[[], object], *, count: int = 5, most: int = 24) -> dict[str, Any]:
    """Kernels of one run: launches, seconds in all, and of those that take most: seconds and launches."""
    run()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(count):
            run()
        torch.cuda.synchronize()
    totals: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for event in profile.key_averages():
        name = event.key.replace("void ", "").replace("at::native::", "")[:90]
        totals[name][0] += event.self_device_time_total / count
        totals[name][1] += event.count / count
    found = sorted(totals.items(), key=lambda item: -item[1][0])
    return {
        "launches": sum(number for _, (_, number) in found),
        "kernel_us": round(sum(taken for _, (taken, _) in found), 1),
        "kernels": {name: [round(taken, 1), number] for name, (taken, number) in found[:most]},
    }


def least_bytes(space: Space, architectures: Sequence[Architecture]) -> dict[str, float]:
    """Microseconds that our kernels would take if they read and wrote each state once, in bfloat16."""
    moved: dict[str, float] = defaultdict(float)
    for architecture in architectures:
        live = {(target, source): EDGE_CODES[op] for _, target, source, op in choices(space, architecture)}
        convolutions = sum(code in (2, 3) for code in live.values())
        for stage in range(3):
            state = CELLS * BATCH * 32 * 32 * CHANNELS * 2 / 2**stage
            moved["convolve"] += 2 * state * convolutions
            moved["assemble"] += state * (len(live) + 5)
            moved["reduce"] += 2 * state * convolutions
            moved["undo"] += 3 * state * convolutions
            moved["pull"] += state * (len(live) + 6)
            moved["weigh"] += 2 * state * convolutions
    return {name: round(number / BANDWIDTH * 1e6, 1) for name, number in moved.items()}


def timed(name: str, steps: Training, **more: Any) -> dict[str, Any]:
    """Milliseconds of a training's step, and its kernels."""
    started = time.perf_counter()
    next(steps)
    torch.cuda.synchronize()
    prepared = time.perf_counter() - started
    taken = sorted(step_seconds(steps, block=10, repeats=3))
    row = {"name": name, "ms": round(taken[1] * 1e3, 3), "prepare_s": round(prepared, 1), **more}
    return {**row, **kernel_list(lambda: next(steps))}


def member_steps(space: Space, architecture: Architecture, split: Split, **settings: object) -> Training:
    """The training of one member as it is today."""
    chosen = MemberSettings.of({"epochs": 1000, **settings})
    return member_training(
        build_member(space, architecture, split, chosen, seed=0, name=0), split, chosen, seed=0, name=0
    )


def path_steps(group: Sequence[Architecture], split: Split) -> Training:
    """The same architectures as paths of one supernet (where two share an operation, only the time means anything)."""
    chosen = SupernetSettings.of(
        {"epochs": 1000, "cells": CELLS, "channels": CHANNELS, "batch_size": BATCH, "precision": "bfloat16"}
    )
    built = build_supernet(nasbench201(), split, chosen, seed=0)
    length = max(1, len(split) // BATCH)
    return supernet_training(built, split, chosen, [[tuple(group)] * length] * chosen.epochs, seed=0)


def several(trainings: list[Training]) -> Training:
    """Trainings side by side, each in its stream: a step of all of them."""
    streams = [torch.cuda.Stream() for _ in trainings]
    torch.cuda.synchronize()
    while True:
        for steps, stream in zip(trainings, streams, strict=True):
            with torch.cuda.stream(stream):
                next(steps)
        for stream in streams:
            torch.cuda.current_stream().wait_stream(stream)
        yield


def joint_steps(group: Sequence[Architecture], split: Split) -> Training:
    """Members by our kernels, all in one step."""
    chosen = MemberSettings.of({"epochs": 1000, "batch_size": BATCH, "kernels": "ours"})
    members = [build_member(nasbench201(), one, split, chosen, seed=0, name=i) for i, one in enumerate(group)]
    joint = joint_step(members, split, chosen)
    if joint is None:
        raise SystemExit("kernels do not fit")
    trainings = [member_training(one, split, chosen, seed=0, name=i, criterion=joint) for i, one in enumerate(members)]
    while True:
        for steps in trainings:
            next(steps)
        joint.run()
        yield


class Tuned:
    """A kernel that is launched with other options."""

    def __init__(self, kernel: Any, options: dict[str, int]) -> None:
        self._kernel, self._options = kernel, options

    def __getitem__(self, grid: tuple[int, ...]) -> Callable[..., Any]:
        launch = self._kernel[grid]
        return lambda *given, **named: launch(*given, **{**named, **self._options})


def cell_kernels(
    channels: int, paths: int, sizes: dict[str, int], options: dict[str, int], only_compile: bool = False
) -> dict[str, Any]:
    """Microseconds of each kernel in one cell of six 3×3 convolutions; `sizes` are constants of `edge_cell`."""
    side = 32 * CHANNELS // channels
    before = {name: getattr(edge_cell, name) for name in sizes}
    kernels = {name: getattr(edge_programs, name) for name in ("convolve", "pull", "weigh")}
    try:
        for name, number in sizes.items():
            setattr(edge_cell, name, number)
        for name, kernel in kernels.items():
            setattr(edge_programs, name, Tuned(kernel, options))
        torch.manual_seed(0)
        x = torch.randn(paths, BATCH, side, side, channels, device="cuda").bfloat16().requires_grad_()
        weights = torch.randn(paths, 6 * 9 * channels**2, device="cuda").mul_(0.05).requires_grad_()
        affine = torch.ones(6, paths, 2, channels, device="cuda").requires_grad_()
        codes = torch.full((paths, 6), edge_programs.CONV3, dtype=torch.int32, device="cuda")
        slope, running = torch.randn_like(x), torch.zeros_like(affine)

        def run() -> list[Tensor]:
            out = edge_cell.FusedEdgeCell.apply(x, weights, codes, 4, 9 * channels**2, 0, affine, running)
            return [out.detach(), *torch.autograd.grad(out, [x, weights, affine], slope)]

        norms = [round(float(one.float().norm()), 3) for one in run()]  # the same whatever the sizes
        found = {} if only_compile else kernel_list(run, most=8)
    finally:
        for name, number in before.items():
            setattr(edge_cell, name, number)
        for name, kernel in kernels.items():
            setattr(edge_programs, name, kernel)
    return {"name": "cell", "channels": channels, "paths": paths, **sizes, **options, "norms": norms, **found}


TUNING: list[tuple[dict[str, int], dict[str, int]]] = [
    ({}, {}),  # as it is
    ({"INNER": 1}, {}),
    ({"INNER": 128}, {}),
    ({"WEIGH_INNER": 1}, {}),
    ({"WEIGH_INNER": 128}, {}),
    ({"SPLITS": 512, "WEIGH_SPLITS": 256}, {}),
    ({"PIXELS": 256, "BYTES": 2**15}, {}),
    ({}, {"num_stages": 2}),
    ({}, {"num_stages": 4}),
    ({"INNER": 1}, {"num_stages": 4}),
    ({}, {"num_warps": 8}),
]
CELL_SIZES = [(channels, 3, *tuning) for channels in (16, 32, 64) for tuning in TUNING]


def compile_one(number: int) -> None:
    """Compile what a row needs, for all processes: those of a cell, or of whole steps."""
    if number < len(CELL_SIZES):
        with contextlib.suppress(Exception):  # sizes that do not fit are told where they are timed
            cell_kernels(*CELL_SIZES[number], only_compile=True)
    else:
        make = (path_steps, joint_steps)[number - len(CELL_SIZES)]
        next(make([nasbench201().parse(CONVOLUTIONS)], random_images(BATCH, "cuda")))


def compile_all() -> dict[str, Any]:
    """Compile in several processes, which share Triton's cache on disk."""
    started = time.perf_counter()
    with ProcessPoolExecutor(COMPILERS, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(compile_one, reversed(range(len(CELL_SIZES) + 2))))
    return {"name": "compiling", "seconds": round(time.perf_counter() - started, 1)}


def measure() -> Iterator[tuple[float, Callable[[], dict[str, Any]]]]:
    """Everything, the most wanted first: about how many seconds it takes, and the work."""
    space, split = nasbench201(), random_images(25_600, "cuda")
    deep, six = space.parse(CONVOLUTIONS), space.parse(SIX)
    [drawn] = space.sample(1, generator=torch.Generator().manual_seed(1))
    group, named = [deep, six, drawn], {"five 3x3": deep, "six 3x3": six, str(drawn): drawn}
    yield 0, compile_all
    for name, one in named.items():
        least = {"least_us": least_bytes(space, [one])}
        yield 3, partial(timed, f"ours, {name}", joint_steps([one], split), **least)
    three = {"least_us": least_bytes(space, group)}
    yield 3, partial(timed, "ours, three in one step", joint_steps(group, split), **three)
    yield 3, partial(timed, "supernet's kernels, five 3x3", path_steps([deep], split))
    size: dict[str, Any] = {"batch_size": BATCH, "compile": False}
    yield 5, lambda: timed("today, not compiled, five 3x3", member_steps(space, deep, split, **size))
    for sizes in CELL_SIZES:
        yield 1, partial(cell_kernels, *sizes)
    yield (
        8,
        lambda: timed(
            "today, not compiled, three side by side",
            several([member_steps(space, one, split, **size) for one in group]),
        ),
    )
    yield (
        25,
        lambda: timed("today, compiled, five 3x3", member_steps(space, deep, split, batch_size=BATCH, compile=True)),
    )
    full = {"auxiliary": 0.4, "drop_path": 0.2, "cutout": 16, "batch_size": 96, "compile": False}
    yield 12, lambda: timed("today, not compiled, DARTS", member_steps(darts(), zoo["darts-v2"], split, **full))


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.member_kernels", description=__doc__.split("\n\n")[0])
    parser.add_argument("--json", type=Path, required=True, help="write the figures here")
    parser.add_argument("--limit", type=float, default=LIMIT, help="leave out what would end later, in seconds")
    chosen = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a GPU")
    started = time.perf_counter()
    rows: list[dict[str, Any]] = []
    for needed, part in measure():
        if time.perf_counter() - started + needed > chosen.limit:
            continue
        try:
            row = part()
        except Exception as error:  # the other rows are wanted still
            row = {"name": "failed", "error": f"{type(error).__name__}: {error}"[:300]}
        row["at_s"] = round(time.perf_counter() - started, 1)
        rows.append(row)
        print({key: value for key, value in row.items() if key != "kernels"}, flush=True)
        files.write_json(chosen.json, {"machine": machine(), "rows": rows})
    print(f"{len(rows)} rows in {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
