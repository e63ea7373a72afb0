"""Where a posterior puts its mass, judged by architectures whose true performance is known."""

import numpy as np


def mass(log_probs: np.ndarray, accuracies: np.ndarray) -> dict[str, float]:
    """Judge a posterior by log-probabilities and true accuracies (architectures,) of known architectures.

    Probabilities are normalised over these. `expected` and `uniform` are the mean accuracy under the posterior and
    under the uniform prior, `best` the highest; `effective` is the effective sample size, 1 / Σ p². `mode_rank` is the
    rank (from 1) of the likeliest by true accuracy; `top1` and `top10` are the mass on the truly best 1 % and 10 %.

    >>> judged = mass(np.log(np.array([0.5, 0.25, 0.25])), np.array([90.0, 80.0, 70.0]))
    >>> judged["expected"], judged["uniform"], judged["mode_rank"], round(judged["effective"], 2)
    (82.5, 80.0, 1, 2.67)
    """
    weights = np.exp(log_probs - log_probs.max())
    weights = weights / weights.sum()
    order = np.argsort(-accuracies, kind="stable")
    likeliest = int(np.argmax(log_probs))

    def on_best(share: float) -> float:
        return float(weights[order[: max(1, round(share * len(order)))]].sum())

    return {
        "architectures": len(accuracies),
        "expected": float(weights @ accuracies),
        "uniform": float(accuracies.mean()),
        "best": float(accuracies.max()),
        "effective": float(1 / np.square(weights).sum()),
        "mode_rank": int(np.flatnonzero(order == likeliest)[0]) + 1,
        "mode_accuracy": float(accuracies[likeliest]),
        "top1": on_best(0.01),
        "top10": on_best(0.1),
    }
