"""Estimating architectures: many through the supernet at once against one after the other, eager, in float32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.steps import random_images, step_of
from benchmarks.timing import compare
from nesbs.data import Split
from nesbs.spaces import Space, darts, nasbench201
from nesbs.supernet import Estimator, SupernetSettings, build_supernet


def estimated(
    name: str, space: Space, split: Split, *, architectures: int, plain: int, repeats: int, **settings: object
) -> dict[str, Any]:
    """Seconds an architecture on the images of a split; the plain way is timed on `plain` of them."""
    chosen = SupernetSettings.of(settings)
    supernet = build_supernet(space, split, chosen, seed=0).eval()
    drawn = space.sample(architectures, generator=torch.Generator().manual_seed(0))
    estimator = Estimator(supernet, split, batch_size=250)
    parts = torch.arange(len(split), device=split.device).split(250)

    def ours() -> None:
        estimator.forget()
        estimator.prepare(drawn)

    @torch.no_grad()
    def one_by_one() -> None:
        for architecture in drawn[:plain]:
            torch.cat([supernet(split.pixels(part), architecture) for part in parts])

    result = compare(f"estimate, {name}", ours, one_by_one, repeats=repeats)
    for key in ("seconds", "spread"):
        result[key] /= architectures
    for key in ("reference_seconds", "reference_spread"):
        result[key] /= plain
    result["ratio"] = result["reference_seconds"] / result["seconds"]
    return {**result, **step_of("estimate", space, split, chosen, len(split))}


def measure(*, toy: bool, device: str) -> Iterator[dict[str, Any]]:
    """On 10,000 images and a GPU, or a few on a CPU."""
    if toy or device == "cpu":
        few = {"architectures": 4, "plain": 2, "repeats": 1, "cells": 1, "channels": 4 if toy else 8}
        name, images = ("small", 64) if toy else ("N=1, 8 channels, 1,000 images", 1000)
        yield estimated(f"NAS-Bench-201, {name}", nasbench201(), random_images(images, "cpu"), **few)
        return
    split = random_images(10_000, device)
    sizes: dict[str, Any] = {"architectures": 128, "plain": 3, "repeats": 2, "channels": 16}
    for name, space, precision, more in (
        ("DARTS", darts(), "bfloat16", {"cells": 8, "partial": 2}),
        ("NAS-Bench-201, N=1", nasbench201(), "float32", {"cells": 1}),
        ("NAS-Bench-201, N=1", nasbench201(), "bfloat16", {"cells": 1}),
        ("NAS-Bench-201, N=5", nasbench201(), "float32", {"cells": 5}),
        ("NAS-Bench-201, N=5", nasbench201(), "bfloat16", {"cells": 5}),
    ):
        yield estimated(f"{name}, 10,000 images, {precision}", space, split, **sizes, **more, precision=precision)
