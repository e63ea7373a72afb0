"""A training step: what a GPU is given against a plain eager step in float32, on the same images in the same way."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from benchmarks.timing import compared, kernels, step_seconds
from nesbs.data import Split
from nesbs.data.split import make_split
from nesbs.ensemble import MemberSettings, build_member, joint_step, member_training
from nesbs.records.step_times import StepRecord
from nesbs.runs.step_times import STANDS_IN
from nesbs.spaces import Architecture, Space, convolution, darts, nasbench201, zoo
from nesbs.supernet import SupernetSettings, build_supernet, draw_groups
from nesbs.supernet.fused_network import EDGE_CODES, choices
from nesbs.supernet.train import supernet_training
from nesbs.training import Training

BANDWIDTH = 4.8e12  # bytes a second of an H200's memory
CONVOLUTION_CODES = (EDGE_CODES["nor_conv_1x1"], EDGE_CODES["nor_conv_3x3"])
TIMES: dict[str, Any] = {"block": 20, "repeats": 3}
SMALL: dict[str, Any] = {"cells": 3, "channels": 4, "batch_size": 16, "block": 1, "repeats": 1}
SIZE = "1 cell, 8 channels, batch 64"  # of the networks of `nesbs demo`
DEMO: dict[str, Any] = {"cells": 1, "channels": 8, "batch_size": 64, "block": 5, "repeats": 3}


def step_of(
    kind: str, space: Space, split: Split, settings: MemberSettings | SupernetSettings, images: int
) -> dict[str, Any]:
    """What a step is, so that `nesbs cost` can tell how long another one takes."""
    own = {name: value for name in ("auxiliary", "partial", "paths") if (value := getattr(settings, name, None))}
    step = StepRecord(
        kind=kind,
        space=space.name,
        images=images,
        image=(split.channels, *split.size),
        classes=split.classes,
        cells=settings.cells,
        channels=settings.channels,
        precision="bfloat16" if settings.lower_precision(split.device) else "float32",
        **{**own, "auxiliary": bool(own.get("auxiliary"))},
    )
    return {"step": step.to_json()}


def random_images(count: int, device: str) -> Split:
    """Images of CIFAR's shape; what is in them does not change the time a step takes."""
    random = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (count, 3, 32, 32), generator=random, dtype=torch.uint8)
    names = tuple(str(label) for label in range(10))
    return make_split(images, torch.arange(count) % 10, names, source="random images").to(device)


def member_steps(space: Space, architectures: Sequence[Architecture], split: Split, **settings: object) -> Training:
    """A step of each member: in one where our kernels fit them all, else one after the other."""
    chosen = MemberSettings.of({"epochs": 1000, **settings})
    members = [build_member(space, one, split, chosen, seed=0, name=i) for i, one in enumerate(architectures)]
    joint = joint_step(members, split, chosen)
    trainings = [member_training(one, split, chosen, seed=0, name=i, criterion=joint) for i, one in enumerate(members)]
    while True:
        for steps in trainings:
            next(steps)
        if joint is not None:
            joint.run()
        yield


@contextlib.contextmanager
def torchs_gradients() -> Iterator[None]:
    """Convolutions have torch's own gradients on a CPU too."""
    ours, convolution.SLOW_GRADIENTS = convolution.SLOW_GRADIENTS, False
    try:
        yield
    finally:
        convolution.SLOW_GRADIENTS = ours


def by_bytes(space: Space, architectures: Sequence[Architecture], batch_size: int) -> float:
    """Seconds that our kernels would take for cells of members if each state were read and written once a kernel.

    States are numbers of two bytes; five cells a stage, 16 channels at first, images of 32×32.
    """
    moved = 0.0
    for architecture in architectures:
        live = [EDGE_CODES[operation] for _, _, _, operation in choices(space, architecture)]
        convolutions = sum(code in CONVOLUTION_CODES for code in live)
        # A convolution takes nine (convolve, reduce and weigh two each, undo three), an edge two, a cell eleven more.
        states = 9 * convolutions + 2 * len(live) + 11
        moved += sum(5 * batch_size * 32 * 32 * 16 * 2 / 2**stage * states for stage in range(3))
    return moved / BANDWIDTH


def member(
    name: str,
    space: Space,
    architectures: Sequence[Architecture],
    split: Split,
    *,
    block: int,
    repeats: int,
    **settings: object,
) -> dict[str, Any]:
    """A step of members as they are trained, against the same steps eager and in float32."""
    started, mine = time.perf_counter(), member_steps(space, architectures, split, compile=True, **settings)
    next(mine)
    prepared = time.perf_counter() - started
    ours, busy = step_seconds(mine, block=block, repeats=repeats), kernels(mine)
    eager = {"capture": False, "compile": False, "precision": "float32"}
    with torchs_gradients():
        slow = member_steps(space, architectures, split, **settings, **eager)
        plain = step_seconds(slow, block=block, repeats=repeats)
    chosen = MemberSettings.of(settings)
    one = len(architectures) == 1 and chosen.kernels == "auto"  # as members are trained by default
    timed = step_of("member", space, split, chosen, chosen.batch_size) if one else {}
    return {**compared(name, ours, plain), "prepare_seconds": prepared, **busy, **timed}


def supernet(name: str, space: Space, split: Split, *, block: int, repeats: int, **settings: object) -> dict[str, Any]:
    """The supernet's captured step against the plain one."""

    def chosen_settings(**more: object) -> SupernetSettings:
        return SupernetSettings.of({"epochs": 1000, "skip_dead": True, **settings, **more})

    def steps(**more: object) -> Training:
        chosen = chosen_settings(**more)
        built = build_supernet(space, split, chosen, seed=0)
        length = max(1, len(split) // chosen.batch_size)
        groups = draw_groups(space, length, seed=0, epoch=0, skip_dead=True, paths=chosen.paths)
        return supernet_training(built, split, chosen, [groups] * chosen.epochs, seed=0)

    started, mine = time.perf_counter(), steps()
    next(mine)
    prepared = time.perf_counter() - started
    ours, busy = step_seconds(mine, block=block, repeats=repeats), kernels(mine)
    with torchs_gradients():
        plain = step_seconds(steps(record=False, precision="float32"), block=block, repeats=repeats)
    chosen = chosen_settings()
    timed = step_of("supernet", space, split, chosen, chosen.batch_size)
    return {**compared(f"supernet, {name}", ours, plain), "prepare_seconds": prepared, **busy, **timed}


def supernets(*, toy: bool, device: str) -> Iterator[dict[str, Any]]:
    """The paper's settings on a GPU, a small network on a CPU."""
    if toy or device == "cpu":
        yield supernet(
            f"NAS-Bench-201, {'small' if toy else SIZE}",
            nasbench201(),
            random_images(64 if toy else 640, "cpu"),
            **(SMALL if toy else DEMO),
        )
        return
    split = random_images(25_600, device)
    paper: dict[str, Any] = {"cells": 8, "channels": 16, "partial": 2, "batch_size": 128}
    edges: dict[str, Any] = {"channels": 16, "batch_size": 128}
    yield supernet("DARTS, 8 cells, 16 channels, K=2, batch 128", darts(), split, **TIMES, **paper)
    for cells, paths, precision in (
        *((1, "one", "float32"), (1, "one", "bfloat16"), (5, "one", "float32"), (5, "one", "bfloat16")),
        (1, "fair", "bfloat16"),
    ):
        more: dict[str, Any] = {**edges, "cells": cells, "paths": paths, "precision": precision}
        yield supernet(f"NAS-Bench-201, N={cells}, {paths}, {precision}", nasbench201(), split, **TIMES, **more)
    more = {**edges, "cells": 5, "partial": 2, "precision": "float32"}
    yield supernet("NAS-Bench-201, N=5, K=2, one, float32", nasbench201(), split, **TIMES, **more)


def three_members(space: Space) -> list[Architecture]:
    """Different ones of NAS-Bench-201: of five 3×3 convolutions, of six, and one at random."""
    six = "+".join("|" + "".join(f"nor_conv_3x3~{source}|" for source in range(node)) for node in (1, 2, 3))
    drawn = space.sample(1, generator=torch.Generator().manual_seed(1))
    return [space.parse(STANDS_IN["nasbench201"]), space.parse(six), *drawn]


def members(*, toy: bool, device: str) -> Iterator[dict[str, Any]]:
    """Members of the benchmark's and the paper's size on a GPU, a small one on a CPU."""
    space, deep = nasbench201(), nasbench201().parse(STANDS_IN["nasbench201"])
    if toy or device == "cpu":
        few = random_images(64 if toy else 640, "cpu")
        yield member(
            f"member, NAS-Bench-201, {'small' if toy else SIZE}", space, [deep], few, **(SMALL if toy else DEMO)
        )
        if not toy:
            small: dict[str, Any] = {**DEMO, "cells": 3}
            yield member(
                "member, DARTS, 3 cells, 8 channels, batch 64", darts(), [zoo[STANDS_IN["darts"]]], few, **small
            )
        return
    split = random_images(25_600, device)
    for name, group in (("member", [deep]), ("3 different members in one step", three_members(space))):
        row = member(f"{name}, NAS-Bench-201, batch 256", space, group, split, **TIMES, batch_size=256)
        yield {**row, "cells_by_bytes_seconds": by_bytes(space, group, 256)}
    full: dict[str, Any] = {"auxiliary": 0.4, "drop_path": 0.2, "cutout": 16, "batch_size": 96}
    compiled: dict[str, Any] = {**TIMES, "batch_size": 256, "kernels": "plain"}
    yield member("member, NAS-Bench-201, batch 256, torch.compile", space, [deep], split, **compiled)
    for name, way in (("", "auto"), (", torch.compile", "plain")):
        chosen: dict[str, Any] = {**TIMES, **full, "kernels": way}
        size = f"20 cells, 36 channels, batch 96{name}"
        yield member(f"member, DARTS, {size}", darts(), [zoo[STANDS_IN["darts"]]], split, **chosen)


def small(*, toy: bool, device: str) -> Iterator[dict[str, Any]]:
    """Networks of `nesbs reproduce --scale hour`, too small to keep a GPU busy, so multiply-adds say too little."""
    if toy or device == "cpu":
        return
    split = random_images(25_600, device)
    member_size: dict[str, Any] = {"cells": 6, "channels": 16, "batch_size": 256}
    yield member(
        "member, DARTS, 6 cells, 16 channels, batch 256",
        darts(),
        [zoo[STANDS_IN["darts"]]],
        split,
        **TIMES,
        **member_size,
    )
    size: dict[str, Any] = {"cells": 3, "channels": 16, "partial": 2, "batch_size": 128}
    yield supernet("DARTS, 3 cells, 16 channels, K=2, batch 128", darts(), split, **TIMES, **size)
