"""What a student keeps of the gain that its teacher has over the same network trained on labels."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nesbs import metrics
from nesbs.evaluation.comparing import Difference, between, resampled


@dataclass(frozen=True)
class Kept:
    """The teacher's gain by one measure, and the share of it that the student has, with intervals over the images.

    There is no share where the interval of the gain does not exclude zero: a share of nothing says nothing.
    """

    gain: Difference
    share: Difference | None


def kept_gain(log_probs: Tensor, labels: Tensor, *, bins: int = metrics.BINS) -> dict[str, Kept]:
    """Return what the student keeps by error, NLL and ECE.

    Takes log-probabilities (3, images, classes): of the network trained on labels, of the teacher, of the student. The
    gain is the first's measure less the teacher's, the share is the first's less the student's, divided by the gain.
    All are taken on the same resamples of the images.

    >>> rows = torch.tensor([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]]).log()
    >>> kept = kept_gain(rows[:, None].expand(3, 9, 2), torch.zeros(9, dtype=torch.long))["nll"]
    >>> round(kept.gain.mean, 4), round(kept.share.mean, 4)
    (1.3863, 0.5)
    """
    right = log_probs.argmax(-1) == labels
    of_images = {
        "error": (~right).double()[..., None],
        "nll": -log_probs.double().gather(-1, labels.expand(right.shape)[..., None]),
        "ece": metrics.calibration_gaps(log_probs, labels, bins),
    }
    widths = [values.shape[-1] for values in of_images.values()]
    values = torch.cat(list(of_images.values()), -1).cpu().numpy()
    means, drawn = values.mean(1)[:, None], _resampled(values)
    parts = zip(*(np.split(each, np.cumsum(widths)[:-1], axis=-1) for each in (means, drawn)), strict=True)
    return {measure: _kept(*part) for measure, part in zip(of_images, parts, strict=True)}


def _resampled(values: np.ndarray) -> np.ndarray:
    """Means of values (3, images, columns) under the same resamples of the images, (3, resamples, columns)."""
    networks, images, columns = values.shape
    drawn = resampled(values.transpose(1, 0, 2).reshape(images, networks * columns))
    return drawn.reshape(len(drawn), networks, columns).transpose(1, 0, 2)


def _kept(means: np.ndarray, drawn: np.ndarray) -> Kept:
    """From means (3, 1, columns), and those under resamples; the measure is the sum of their sizes over the columns."""
    own, under_resamples = (np.abs(each).sum(-1) for each in (means, drawn))  # (3, 1) and (3, resamples)
    [gain] = between(own[0] - own[1], (under_resamples[0] - under_resamples[1])[:, None])
    if gain.verdict != "higher":
        return Kept(gain, None)
    # At most 2.5 % of the resamples have no gain, so no share either.
    labels, teacher, student = under_resamples[:, under_resamples[0] > under_resamples[1]]
    shares = (labels - student) / (labels - teacher)
    [share] = between((own[0] - own[2]) / (own[0] - own[1]), shares[:, None])
    return Kept(gain, share)
