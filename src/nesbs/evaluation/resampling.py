"""How far measures may be off because the test images are a sample: bootstrap intervals over images."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nesbs import rng

LEVEL = 0.95
RESAMPLES = 1000
AT_ONCE = 4_000_000  # numbers drawn at a time


def bootstrap(values: Tensor, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0) -> Tensor:
    """Percentile intervals of the means of values (rows, images), as (rows, 2); all rows see the same resamples.

    >>> low, high = bootstrap(torch.tensor([[0.0, 1.0] * 50]))[0].tolist()
    >>> 0.38 < low < 0.42, 0.58 < high < 0.62
    (True, True)
    """
    values = values.double().cpu()
    images = values.shape[1]
    random = rng.generator(seed, "bootstrap")
    means = []
    for start in range(0, resamples, step := max(1, AT_ONCE // images)):
        drawn = torch.randint(images, (min(step, resamples - start), images), generator=random)
        counts = torch.zeros(drawn.shape, dtype=torch.float64).scatter_add_(1, drawn, torch.ones_like(drawn).double())
        means.append(values @ counts.T / images)
    edges = torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)
    return torch.cat(means, 1).quantile(edges, dim=1).T


def intervals(log_probs: Tensor, labels: Tensor) -> dict[str, Any]:
    """Intervals of error and NLL of an ensemble and its members, and of the ensemble's gain over its best member.

    Takes log-probabilities (1 + members, images, classes), the ensemble first. The best member is the one that is best
    on all test images, by each measure on its own; the gain is its value less the ensemble's on the same images, so
    that what is hard for both does not widen the interval.

    >>> sure, unsure = torch.tensor([[0.9, 0.1]] * 8).log(), torch.tensor([[0.6, 0.4]] * 8).log()
    >>> found = intervals(torch.stack([sure, unsure, unsure]), torch.zeros(8, dtype=torch.long))
    >>> found["best"]["nll"]["member"], round(found["best"]["nll"]["low"], 4), round(found["best"]["nll"]["high"], 4)
    (1, 0.4055, 0.4055)
    """
    label = labels.expand(log_probs.shape[:-1])[..., None]
    of_images = {
        "error": (log_probs.argmax(-1) != labels).double(),
        "nll": -log_probs.double().gather(-1, label)[..., 0],
    }
    own: dict[str, list[list[float]]] = {}
    best: dict[str, dict[str, float]] = {}
    for measure, values in of_images.items():
        member = int(values[1:].mean(-1).argmin())
        gain = values[1 + member] - values[0]
        *own[measure], (low, high) = bootstrap(torch.cat([values, gain[None]])).tolist()
        best[measure] = {"member": member + 1, "gain": float(gain.mean()), "low": low, "high": high}
    rows = [dict(zip(own, pair, strict=True)) for pair in zip(*own.values(), strict=True)]
    return {"level": LEVEL, "resamples": RESAMPLES, "ensemble": rows[0], "members": rows[1:], "best": best}
