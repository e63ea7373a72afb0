"""Scoring many ensembles of cached predictions: one matrix product against a loop over ensembles."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.timing import compare
from nesbs import metrics
from nesbs.ensemble import ensemble_losses


def measure(*, ensembles: int = 10_000, candidates: int = 50, images: int = 10_000, repeats: int = 3) -> dict[str, Any]:
    """`ensembles` of five from `candidates` candidates on `images` images of 10 classes."""
    random = torch.Generator().manual_seed(0)
    log_probs = torch.randn(candidates, images, 10, generator=random).log_softmax(-1)
    labels = torch.randint(10, (images,), generator=random)
    members = torch.randint(candidates, (ensembles, 5), generator=random)
    looped = min(ensembles, 100)  # the loop is timed on a part and scaled up

    def loop() -> list[float]:
        return [float(metrics.nll(metrics.average(log_probs[row]), labels)) for row in members[:looped]]

    result = compare(
        f"score {ensembles:,} ensembles of 5 ({candidates} candidates, {images:,} images)",
        lambda: ensemble_losses(log_probs, labels, members),
        loop,
        repeats=repeats,
    )
    for key in ("reference_seconds", "reference_spread", "ratio"):
        result[key] *= ensembles / looped
    return result
