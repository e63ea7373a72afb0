"""How far measures may be off because the test images are a sample: bootstrap intervals over images."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nesbs.evaluation.comparing import LEVEL, RESAMPLES, Difference, over_images


def intervals(log_probs: Tensor, labels: Tensor) -> dict[str, Any]:
    """Return intervals of an ensemble's and its members' error and NLL, and of its gain over its best member.

    Takes log-probabilities (1 + members, images, classes), the ensemble first. The best member is the one that is best
    on all test images, by each measure on its own; the gain is its value less the ensemble's on the same images, so
    that what is hard for both does not widen the interval.

    >>> sure, unsure = torch.tensor([[0.9, 0.1]] * 8).log(), torch.tensor([[0.6, 0.4]] * 8).log()
    >>> best = intervals(torch.stack([sure, unsure, unsure]), torch.zeros(8, dtype=torch.long))["best"]["nll"]
    >>> best["member"], round(best["low"], 4), round(best["high"], 4)
    (1, 0.4055, 0.4055)
    """
    label = labels.expand(log_probs.shape[:-1])[..., None]
    of_images = {
        "error": (log_probs.argmax(-1) != labels).double(),
        "nll": -log_probs.double().gather(-1, label)[..., 0],
    }
    own: dict[str, list[Difference]] = {}
    best: dict[str, dict[str, Any]] = {}
    for measure, values in of_images.items():
        member = int(values[1:].mean(-1).argmin())
        columns = torch.cat([values, (values[1 + member] - values[0])[None]]).T.cpu().numpy()
        *own[measure], gain = over_images(columns)
        best[measure] = {"member": member + 1, "gain": gain.mean, "low": gain.low, "high": gain.high}
    networks = range(len(log_probs))
    rows = [{measure: [values[k].low, values[k].high] for measure, values in own.items()} for k in networks]
    return {"level": LEVEL, "resamples": RESAMPLES, "ensemble": rows[0], "members": rows[1:], "best": best}
