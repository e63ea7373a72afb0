"""How well estimates rank: correlation and agreement with the truth, with intervals, and a verdict in words.

The paper's appendix C.1 for any space and data. Performances are losses or errors, so lower is better on both
sides. Correlations of single architectures have Fisher's interval (for ranks with Bonett and Wright's error), and their
agreement has Wilson's for so many hits of k. Ensembles of the same few architectures share members and are not
independent: their intervals leave out one architecture at a time (jackknife), with every ensemble it is in.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its parts are loaded when they are first used

from nesbs.errors import NesbsError

SHARE = 0.3  # of all architectures: the k of Agreement-k (paper)
MOST = 500  # ensembles of one size, at most
Measure = Callable[[np.ndarray, np.ndarray], float]
Members = Sequence[Sequence[int]]  # (ensembles, size): the places of each ensemble's architectures


def spearman(estimated: np.ndarray, true: np.ndarray) -> float:
    """Return the rank correlation, ties at their mean rank; 0 where one side does not vary.

    >>> spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0]))
    0.5
    """
    return pearson(scipy.stats.rankdata(estimated), scipy.stats.rankdata(true))


def pearson(estimated: np.ndarray, true: np.ndarray) -> float:
    """Return the linear correlation; 0 where one side does not vary.

    >>> pearson(np.array([1.0, 2.0, 3.0]), np.array([5.0, 7.0, 9.0]))
    1.0
    """
    one, two = estimated - estimated.mean(), true - true.mean()
    scale = math.sqrt(float(one @ one) * float(two @ two))
    return round(float(one @ two) / scale, 12) if scale > 0 else 0.0


def top_agreement(estimated: np.ndarray, true: np.ndarray, share: float = SHARE) -> float:
    """Return Agreement-k: the share of the best k by estimate that are among the best k in truth.

    k is a `share` of all. Ties are broken by place. Chance gives about `share`.

    >>> top_agreement(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 9.0, 2.0, 8.0]), 0.5)
    0.5
    """
    k = _top(share, len(true))
    best = [set(np.argsort(values, kind="stable")[:k].tolist()) for values in (estimated, true)]
    return len(best[0] & best[1]) / k


def _top(share: float, count: int) -> int:
    return max(1, round(share * count))


@dataclass(frozen=True)
class Interval:
    """A value with its 95 % interval; the ends are None where there are too few architectures for one."""

    value: float
    low: float | None
    high: float | None


def fisher_interval(value: float, count: int, *, ranks: bool) -> Interval:
    """Return the 95 % interval of a correlation of `count` independent pairs, on Fisher's scale.

    For ranks the standard error is that of Bonett and Wright (2000), √((1 + ρ²/2) / (n − 3)).

    >>> round(fisher_interval(0.0, 28, ranks=False).high, 3)
    0.373
    """
    if count < 4:
        return Interval(value, None, None)
    error = math.sqrt((1 + value**2 / 2 if ranks else 1.0) / (count - 3))
    middle, reach = math.atanh(min(max(value, -0.999999), 0.999999)), float(scipy.stats.norm.ppf(0.975)) * error
    return Interval(value, math.tanh(middle - reach), math.tanh(middle + reach))


def wilson_interval(value: float, count: int) -> Interval:
    """Return the 95 % interval of a share of `count` (Wilson's score).

    >>> interval = wilson_interval(1.0, 3)
    >>> round(interval.low, 2), interval.high
    (0.44, 1.0)
    """
    interval = scipy.stats.binomtest(round(value * count), count).proportion_ci(0.95, method="wilson")
    return Interval(value, float(interval.low), float(interval.high))


def with_interval(
    measure: Measure, estimated: np.ndarray, true: np.ndarray, members: Members, *, correlation: bool = True
) -> Interval:
    """Compute a measure over ensembles of architectures, `members` (ensembles, size), with a jackknife interval.

    Correlations are treated on Fisher's scale, so that an interval stays between −1 and 1. Where leaving out makes no
    difference, the jackknife says nothing, and there is no interval.
    """
    value = measure(estimated, true)
    inside = np.array([list(row) for row in members])
    architectures = np.unique(inside)

    def scale(x: float) -> float:
        return math.atanh(min(max(x, -0.999999), 0.999999)) if correlation else x

    left = []
    for architecture in architectures:
        others = ~(inside == architecture).any(1)
        if others.sum() < 3:
            return Interval(value, None, None)
        left.append(scale(measure(estimated[others], true[others])))
    count = len(left)
    error = math.sqrt((count - 1) / count * float(np.square(np.array(left) - np.mean(left)).sum()))
    if error == 0:
        return Interval(value, None, None)
    reach = float(scipy.stats.t.ppf(0.975, count - 1)) * error
    ends = [scale(value) - reach, scale(value) + reach]
    low, high = [math.tanh(end) for end in ends] if correlation else [min(max(end, 0.0), 1.0) for end in ends]
    return Interval(value, low, high)


@dataclass(frozen=True)
class Ranking:
    """How well one kind of estimate ranks ensembles of one size."""

    size: int
    ensembles: int
    spearman: Interval
    pearson: Interval
    agreement: Interval
    better_half: float | None  # Spearman among those that are truly better, None where they are too few


def rank(estimated: np.ndarray, true: np.ndarray, members: Members, *, share: float = SHARE) -> Ranking:
    """Compare estimated and true losses (ensembles,) of ensembles with these members."""
    for what, values in (("estimated", estimated), ("true", true)):
        if not np.isfinite(values).all():
            raise NesbsError(f"{np.count_nonzero(~np.isfinite(values))} of the {what} performances are not numbers")
    if len(members[0]) == 1:
        agreement = wilson_interval(top_agreement(estimated, true, share), _top(share, len(true)))
    else:
        agreement = with_interval(lambda a, b: top_agreement(a, b, share), estimated, true, members, correlation=False)
    half = np.argsort(true, kind="stable")[: (len(true) + 1) // 2]
    return Ranking(
        len(members[0]),
        len(members),
        _correlation(spearman, estimated, true, members),
        _correlation(pearson, estimated, true, members),
        agreement,
        spearman(estimated[half], true[half]) if len(half) >= 5 else None,
    )


def _correlation(measure: Measure, estimated: np.ndarray, true: np.ndarray, members: Members) -> Interval:
    """A correlation with the interval that fits: single architectures are independent, ensembles are not."""
    if len(members[0]) == 1:
        return fisher_interval(measure(estimated, true), len(true), ranks=measure is spearman)
    return with_interval(measure, estimated, true, members)


def ensembles_of(architectures: int, size: int, *, seed: int = 0) -> list[tuple[int, ...]]:
    """List ensembles of `size` different architectures: all of them, or 500 drawn without repetition.

    >>> len(ensembles_of(10, 3)), len(ensembles_of(20, 5))
    (120, 500)
    """
    if math.comb(architectures, size) <= MOST:
        return list(itertools.combinations(range(architectures), size))
    random = np.random.default_rng(seed)
    drawn: dict[tuple[int, ...], None] = {}
    while len(drawn) < MOST:
        drawn[tuple(sorted(random.choice(architectures, size, replace=False).tolist()))] = None
    return list(drawn)


def spread(losses: Sequence[float], count: int) -> list[int]:
    """Pick `count` places spread over the ranks of losses, the best first, so that performances differ widely.

    The best, the worst, then the middle, the quarters, the eighths: the places of a smaller count are among those of a
    larger one, so who measures more keeps what has been measured.

    >>> spread([0.3, 0.1, 0.2, 0.5, 0.4], 3)
    [1, 0, 3]
    """
    order, last = np.argsort(np.array(losses), kind="stable"), len(losses) - 1
    ranks = dict.fromkeys((0, last)[: len(losses)])
    for number in itertools.count(1):
        if len(ranks) >= min(count, len(losses)):
            break
        bits = f"{number:b}"
        ranks[round(int(bits[::-1], 2) / 2 ** len(bits) * last)] = None  # van der Corput's sequence
    return [int(order[rank]) for rank in sorted(list(ranks)[:count])]


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
        return float(weights[order[: _top(share, len(order))]].sum())

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


def gain_of_choice(true: np.ndarray, chosen: float) -> dict[str, float]:
    """Compare the true loss of a chosen ensemble with those of ensembles drawn and not judged, (ensembles,).

    `gain` is the mean of the ensembles drawn less the chosen one's loss, `better` counts those that are better than it.

    >>> gain_of_choice(np.array([0.1, 0.2, 0.6]), 0.2)
    {'drawn': 0.3, 'chosen': 0.2, 'gain': 0.1, 'better': 1}
    """
    drawn, better = round(float(true.mean()), 12), int(np.count_nonzero(true < chosen))
    return {"drawn": drawn, "chosen": chosen, "gain": round(drawn - chosen, 12), "better": better}


def verdict(ranking: Ranking, *, loss: float, classes: int) -> str:
    """Say in a sentence or two what the figures for single architectures mean for a search.

    `loss` is the median estimated loss: a supernet at chance has learned nothing, whatever its correlation.
    """
    value, low, high = ranking.spearman.value, ranking.spearman.low, ranking.spearman.high
    figures = f"Spearman {value:.2f}" + ("" if low is None else f", 95 % interval {low:.2f} to {high:.2f}")
    figures = figures.replace("-", "−")
    if loss > 0.97 * math.log(classes):
        return (
            f"Do not trust this search: the supernet predicts no better than chance (median estimated loss {loss:.2f}, "
            f"chance {math.log(classes):.2f}), so its ranking ({figures}) means nothing. Train it longer."
        )
    if low is None or high is None:
        return f"Too few architectures to judge the estimate ({figures}): measure more with --architectures."
    if high < 0:
        return f"Do not trust this search: the estimate ranks backwards ({figures}). Train it longer, or shallower."
    if low <= 0:
        return (
            f"The estimate cannot be told from chance with {ranking.ensembles} architectures ({figures}). Measure "
            "more, or train a shallower supernet, longer, before trusting the choice."
        )
    if value >= 0.7:
        return f"The estimate ranks well ({figures}): the search can tell good architectures from bad ones."
    return f"The estimate ranks better than chance, but weakly ({figures}): expect good members, not the best ones."
