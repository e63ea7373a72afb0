"""Whether one method beats another: means with standard errors, and paired differences over seeds.

Seeds are paired, since one seed gives every method the same data, splits and supernet; the interval is Student's.
With three seeds a bootstrap over seeds would declare a winner far too often. Test images are many, so theirs is a
bootstrap: how far the figures would move on other images.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any, Literal

import numpy as np
import scipy  # its parts are loaded when they are first used
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from nesbs.errors import NesbsError

LEVEL = 0.95  # of intervals
RESAMPLES = 1000  # of a bootstrap
FEWEST = 3  # seeds from which on a difference is judged


@dataclass(frozen=True)
class Summary:
    """A mean over seeds with its standard error; None where there is one seed."""

    mean: float
    standard_error: float | None


@dataclass(frozen=True)
class Difference:
    """A method less the reference, paired: the mean and its interval, None with fewer than three seeds."""

    mean: float
    low: float | None
    high: float | None

    @property
    def verdict(self) -> Literal["lower", "higher", None]:
        """Which side of the reference the method is on where the interval excludes zero; else None."""
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return None
        return "lower" if self.high < 0 else "higher"

    def to_json(self) -> dict[str, Any]:
        """Return plain data, the verdict included."""
        return {**asdict(self), "verdict": self.verdict}


def summarise(values: Sequence[float]) -> Summary:
    """Return mean and standard error over seeds.

    >>> summarise([1.0, 2.0, 3.0])
    Summary(mean=2.0, standard_error=0.5773502691896258)
    """
    if not values:
        raise NesbsError("there is nothing to summarise")
    return Summary(fmean(values), None if len(values) < 2 else stdev(values) / math.sqrt(len(values)))


def over_images(values: ArrayLike) -> list[Difference]:
    """Return the mean of each column of (images, columns) with its percentile bootstrap interval over the images.

    For a paired difference give the differences image by image.

    >>> over_images([[0.0], [1.0]] * 50)
    [Difference(mean=0.5, low=0.4, high=0.6)]
    """
    table = np.asarray(values, dtype=np.float64)
    return between(table.mean(0), resampled(table))


def resampled(table: np.ndarray) -> np.ndarray:
    """Return the means of each column of (images, columns) under resamples of the images, (resamples, columns).

    The same images are drawn every time, also for another table.
    """
    if table.ndim != 2 or not table.size:
        raise NesbsError(f"a bootstrap needs a row for every image, found shape {table.shape}")
    random, images = np.random.default_rng(0), len(table)
    drawn = (np.bincount(random.integers(images, size=images), minlength=images) for _ in range(RESAMPLES))
    means: np.ndarray = np.stack([times @ table for times in drawn]) / images
    return means


def between(values: ArrayLike, under_resamples: np.ndarray) -> list[Difference]:
    """Return values (columns,) with the percentile interval of theirs under resamples, (resamples, columns)."""
    low, high = np.quantile(under_resamples, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    return [Difference(*map(float, column)) for column in zip(np.asarray(values), low, high, strict=True)]


def paired(values: Sequence[float], reference: Sequence[float]) -> Difference:
    """Return the mean difference of two methods over the same seeds with its t interval.

    >>> difference = paired([1.0, 2.0, 4.0], [0.0, 0.0, 0.0])
    >>> [round(value, 3) for value in (difference.mean, difference.low, difference.high)]
    [2.333, -1.461, 6.128]
    """
    if len(values) != len(reference):
        raise NesbsError(f"paired differences need the same seeds, found {len(values)} and {len(reference)}")
    differences = [mine - theirs for mine, theirs in zip(values, reference, strict=True)]
    summary = summarise(differences)
    if len(differences) < FEWEST or summary.standard_error is None:
        return Difference(summary.mean, None, None)
    reach = float(scipy.stats.t.ppf((1 + LEVEL) / 2, len(differences) - 1)) * summary.standard_error
    return Difference(summary.mean, summary.mean - reach, summary.mean + reach)


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
