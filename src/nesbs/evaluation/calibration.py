"""Temperature scaling (Guo et al., 2017): one number that softens or sharpens a network's predictions.

It is fitted by the NLL on images the network did not learn from: a held-out split (`calibrate`), or, where the
network learned from every training image, one half of the test images for the other and the other way round
(`cross_calibrate`; Ashukha et al., 2020, call it test-time cross-validation).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import scipy  # its parts are loaded when they are first used
import torch
from torch import Tensor

from nesbs import metrics, rng
from nesbs.errors import NesbsError

COLDEST, HOTTEST = 0.01, 100.0  # where every answer is right, or worse than chance, there is no finite optimum


@dataclass(frozen=True)
class Calibration:
    """The temperatures that were fitted (one, or one for each half) and the measures before and after.

    Measured are the NLL, the Brier score and the ECE: a temperature does not change the error.
    """

    temperatures: tuple[float, ...]
    before: dict[str, float]
    after: dict[str, float]


def scale(log_probs: Tensor, temperature: float) -> Tensor:
    """Return log-probabilities, or logits, (…, classes) at a temperature: above 1 they are softer, below 1 sharper.

    >>> scale(torch.tensor([0.8, 0.2]).log(), 0.5).exp()
    tensor([0.9412, 0.0588])
    """
    return (log_probs / temperature).log_softmax(-1)


def fit_temperature(log_probs: Tensor, labels: Tensor) -> float:
    """Find the temperature with the lowest NLL from logits (images, classes) and labels (images,).

    The NLL is convex in 1/T, so its derivative has one root there. The answer lies between `COLDEST` and `HOTTEST`;
    predictions that no temperature changes have temperature 1.

    >>> round(fit_temperature(torch.tensor([[2.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1])), 6)  # 2/T = log 3
    1.820478
    """
    values = log_probs.double()
    if len(labels) == 0 or not bool(values.isfinite().all()):
        raise NesbsError(f"a temperature is fitted to finite predictions, found {len(labels)} images")
    values = values - values.max(-1, keepdim=True).values
    if float(values.min()) > -1e-9:  # one class, or all classes alike
        return 1.0
    of_label = values.gather(-1, labels[:, None])[:, 0].mean()

    def slope(inverse: float) -> float:
        """The derivative of the NLL in 1/T, which rises with it."""
        mean = ((inverse * values).softmax(-1) * values).sum(-1)
        return float(mean.mean() - of_label)

    low, high = 1 / HOTTEST, 1 / COLDEST
    if slope(low) >= 0:
        return HOTTEST
    if slope(high) <= 0:
        return COLDEST
    return 1 / float(scipy.optimize.brentq(slope, low, high, xtol=1e-14, rtol=1e-14))


def calibrate(
    held_out: Tensor, held_out_labels: Tensor, test: Tensor, test_labels: Tensor, *, bins: int = metrics.BINS
) -> Calibration:
    """Fit on held-out predictions (images, classes), measure on the test predictions (test images, classes).

    >>> held_out, labels = torch.tensor([[2.0, 0.0]] * 4), torch.tensor([0, 0, 0, 1])
    >>> calibrate(held_out, labels, held_out, labels).after["ece"] < 1e-9
    True
    """
    temperature = fit_temperature(held_out, held_out_labels)
    after = scale(test.double(), temperature)
    return Calibration((temperature,), _measures(test, test_labels, bins), _measures(after, test_labels, bins))


def cross_calibrate(test: Tensor, labels: Tensor, *, bins: int = metrics.BINS) -> Calibration:
    """Scale each half of the test predictions (images, classes) with the temperature fitted on the other half.

    Measured over all images together, so that the ECE of before and after is that of as many images as elsewhere;
    the NLL and the Brier score are the means of the halves (`halves`).

    >>> calibration = cross_calibrate(torch.tensor([[2.0, 0.0]] * 8), torch.tensor([0, 0, 0, 1] * 2))
    >>> len(calibration.temperatures)
    2
    """
    if len(labels) < 2:
        raise NesbsError(f"cross-calibration needs two images or more, found {len(labels)}")
    temperatures = tuple(fit_temperature(test[half], labels[half]) for half in halves(labels))
    after = scaled(test, labels, temperatures)
    return Calibration(temperatures, _measures(test, labels, bins), _measures(after, labels, bins))


def scaled(test: Tensor, labels: Tensor, temperatures: Sequence[float]) -> Tensor:
    """Return test predictions (images, classes) at the temperatures of a `Calibration`, in float64.

    One temperature is for all images; of two, each is for the half that it was not fitted on.

    >>> scaled(torch.tensor([[0.8, 0.2]]).log(), torch.tensor([0]), [0.5]).exp()
    tensor([[0.9412, 0.0588]], dtype=torch.float64)
    """
    if len(temperatures) == 1:
        return scale(test.double(), temperatures[0])
    after = test.double().clone()
    first, second = halves(labels)
    for temperature, measured in zip(temperatures, (second, first), strict=True):
        after[measured] = scale(after[measured], temperature)
    return after


def halves(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return indices of two random halves of the images; their counts of any class differ by one at most.

    The same labels have the same halves every time.

    >>> [len(half) for half in halves(torch.tensor([0] * 5 + [1] * 4))]
    [5, 4]
    """
    order = torch.randperm(len(labels), generator=rng.generator(0, "halves")).to(labels.device)
    order = order[labels[order].argsort(stable=True)]
    return order[0::2], order[1::2]


def _measures(log_probs: Tensor, labels: Tensor, bins: int) -> dict[str, float]:
    log_probs = log_probs.double().log_softmax(-1)
    return {
        "nll": float(metrics.nll(log_probs, labels)),
        "brier": float(metrics.brier(log_probs, labels)),
        "ece": float(metrics.ece(log_probs, labels, bins)),
    }
