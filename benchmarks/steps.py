"""A training step: what a GPU is given against a plain eager step in float32, on the same images in the same way."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.timing import compared, kernels, step_seconds
from nesbs.data import Split
from nesbs.data.split import make_split
from nesbs.ensemble import MemberSettings, build_member, member_training
from nesbs.spaces import Architecture, Space, darts, nasbench201, zoo
from nesbs.supernet import SupernetSettings, build_supernet, draw_groups
from nesbs.supernet.train import supernet_training
from nesbs.training import Training, side_by_side

CONVOLUTIONS = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|"


def random_images(count: int, device: str) -> Split:
    """Images of CIFAR's shape; what is in them does not change the time a step takes."""
    random = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (count, 3, 32, 32), generator=random, dtype=torch.uint8)
    names = tuple(str(label) for label in range(10))
    return make_split(images, torch.arange(count) % 10, names, source="random images").to(device)


def member(
    name: str, space: Space, architecture: Architecture, split: Split, *, block: int, repeats: int, **settings: object
) -> dict[str, Any]:
    """A member's step as it is trained, against the same step eager and in float32."""

    def steps(**more: object) -> Training:
        chosen = MemberSettings.of({"epochs": 1000, **settings, **more})
        built = build_member(space, architecture, split, chosen, seed=0, name=0)
        return member_training(built, split, chosen, seed=0, name=0)

    started, mine = time.perf_counter(), steps(compile=True)
    next(mine)
    prepared = time.perf_counter() - started
    ours, busy = step_seconds(mine, block=block, repeats=repeats), kernels(mine)
    plain = step_seconds(steps(capture=False, compile=False, precision="float32"), block=block, repeats=repeats)
    return {**compared(f"member, {name}", ours, plain), "prepare_seconds": prepared, **busy}


def together(
    name: str,
    space: Space,
    architecture: Architecture,
    split: Split,
    *,
    count: int = 3,
    repeats: int,
    **settings: object,
) -> dict[str, Any]:
    """Several members side by side against one after the other: an epoch of each."""
    chosen = MemberSettings.of({"epochs": 1, "compile": True, **settings})

    def train(group: int) -> float:
        members = [build_member(space, architecture, split, chosen, seed=0, name=i) for i in range(count)]
        trainings = [member_training(built, split, chosen, seed=0, name=i) for i, built in enumerate(members)]
        for steps in trainings:
            next(steps)  # captured before the clock starts
        started = time.perf_counter()
        for start in range(0, count, group):
            side_by_side(trainings[start : start + group])
        return time.perf_counter() - started

    return compared(
        f"{count} members, {name}", [train(count) for _ in range(repeats)], [train(1) for _ in range(repeats)]
    )


def supernet(name: str, space: Space, split: Split, *, block: int, repeats: int, **settings: object) -> dict[str, Any]:
    """The supernet's captured step against the plain one."""

    def steps(**more: object) -> Training:
        chosen = SupernetSettings.of({"epochs": 1000, "skip_dead": True, **settings, **more})
        built = build_supernet(space, split, chosen, seed=0)
        length = max(1, len(split) // chosen.batch_size)
        groups = draw_groups(space, length, seed=0, epoch=0, skip_dead=True, paths=chosen.paths)
        return supernet_training(built, split, chosen, [groups] * chosen.epochs, seed=0)

    started, mine = time.perf_counter(), steps()
    next(mine)
    prepared = time.perf_counter() - started
    ours, busy = step_seconds(mine, block=block, repeats=repeats), kernels(mine)
    plain = step_seconds(steps(record=False, precision="float32"), block=block, repeats=repeats)
    return {**compared(f"supernet, {name}", ours, plain), "prepare_seconds": prepared, **busy}


def measure(*, toy: bool, device: str) -> Iterator[dict[str, Any]]:
    """All of them: the paper's settings on a GPU, small networks on a CPU."""
    deep = nasbench201().parse(CONVOLUTIONS)
    if toy or device == "cpu":
        few = random_images(64, "cpu")
        small: dict[str, Any] = {"cells": 3, "channels": 4, "batch_size": 16, "block": 1, "repeats": 1}
        yield member("NAS-Bench-201, small", nasbench201(), deep, few, **small)
        yield supernet("NAS-Bench-201, small", nasbench201(), few, **small)
        return
    split = random_images(25_600, device)
    times: dict[str, Any] = {"block": 20, "repeats": 3}
    paper: dict[str, Any] = {"cells": 8, "channels": 16, "partial": 2, "batch_size": 128}
    full: dict[str, Any] = {"auxiliary": 0.4, "drop_path": 0.2, "cutout": 16, "batch_size": 96}
    edges: dict[str, Any] = {"channels": 16, "batch_size": 128}
    yield supernet("DARTS, 8 cells, 16 channels, K=2, batch 128", darts(), split, **times, **paper)
    for cells, paths, precision in (
        *((1, "one", "float32"), (1, "one", "bfloat16"), (5, "one", "float32"), (5, "one", "bfloat16")),
        (1, "fair", "bfloat16"),
    ):
        more: dict[str, Any] = {**edges, "cells": cells, "paths": paths, "precision": precision}
        yield supernet(f"NAS-Bench-201, N={cells}, {paths}, {precision}", nasbench201(), split, **times, **more)
    yield member("NAS-Bench-201, batch 256", nasbench201(), deep, split, **times, batch_size=256)
    yield together("NAS-Bench-201, batch 256", nasbench201(), deep, split, repeats=2, batch_size=256)
    yield member("DARTS, 20 cells, 36 channels, batch 96", darts(), zoo["darts-v2"], split, **times, **full)
