"""Judges of ensembles that rank among good candidates, and what a choice owes to chance. All of it ours.

The paper judges an ensemble by its validation loss under the supernet's weights (`scorer`). Among good candidates that
loss hardly ranks. The judges here add two rank shares:

    quality of the members + gain × what the ensemble adds

The quality is the members' mean share of others that they are better than: by their log-probability, of architectures
drawn from the posterior (`posterior`); or by the evidence that the posterior is fitted to, of its reference
(`evidence`). What an ensemble adds is its members' mean loss less its own loss, as the share of ensembles of its size
that add less, drawn uniformly or from the posterior (`search.gain_pool`). Uniform ensembles hold bad members and so add
a lot: among them ensembles of good members hardly differ.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import torch
from torch import Tensor

from nesbs import rng
from nesbs.ensemble.scoring import Judge, Predictor, distinct, scorer
from nesbs.ensemble.settings import SearchSettings
from nesbs.errors import NesbsError
from nesbs.posterior import Posterior, ReferenceRanks, share_below
from nesbs.spaces import Architecture

DRAWN = 256  # architectures of the posterior to compare log-probabilities with
POOL = 64  # architectures of which ensembles are made to compare what they add
ENSEMBLES = 256  # such ensembles
TOLD_APART = 0.9  # share of the resamples in which an ensemble must be better to be preferred

T = TypeVar("T")
Scores = Callable[[Sequence[Sequence[T]]], Tensor]  # of ensembles
# Of architectures, under each weighting of the images where there are some: (…, architectures); higher is better
Quality = Callable[[Sequence[Architecture], Tensor | None], Tensor]


class RankJudge:
    """Judge ensembles by the quality of their members and by what the ensemble adds, both as rank shares."""

    def __init__(
        self, score: Judge, quality: Quality, pool: Sequence[Architecture], *, gain: float, seed: int = 0
    ) -> None:
        """`score` is the validation loss, the ensembles to compare with are of `pool`, `gain` weighs what is added."""
        self.pool = pool
        self.compared = [*pool]  # all that must be estimated before ensembles are judged
        self._score, self._quality, self._weight, self._seed = score, quality, gain, seed
        self._reference: dict[tuple[int, bool], Tensor] = {}  # by size, and whether images are weighted

    def __call__(self, ensembles: Sequence[Sequence[Architecture]], weights: Tensor | None = None, /) -> Tensor:
        """Return minus the weighted sum of both shares, as a `Judge` does."""
        members, places = distinct(ensembles)
        quality = self._quality(members, weights)[..., places].mean(-1)
        return -(quality + self._weight * self.added(ensembles, weights)) if self._weight else -quality

    def added(self, ensembles: Sequence[Sequence[Architecture]], weights: Tensor | None = None) -> Tensor:
        """Return the share of the pool's ensembles of that size whose gain is lower, (…, ensembles)."""
        size, key = len(ensembles[0]), (len(ensembles[0]), weights is None)
        if key not in self._reference:
            random = rng.generator(self._seed, "judge", "ensembles", size)
            places = torch.rand(ENSEMBLES, len(self.pool), generator=random).argsort(1)[:, :size].tolist()
            self._reference[key] = self.gains([[self.pool[place] for place in row] for row in places], weights)
        return _shares(self.gains(ensembles, weights), self._reference[key])

    def gains(self, ensembles: Sequence[Sequence[Architecture]], weights: Tensor | None = None) -> Tensor:
        """Return the members' mean loss less the ensemble's, (…, ensembles)."""
        members, places = distinct(ensembles)
        alone = self._score([[member] for member in members], weights)
        return alone[..., places].mean(-1) - self._score(ensembles, weights)


def by_posterior(posterior: Posterior, *, seed: int = 0) -> Quality:
    """Make the quality: the share of architectures drawn from the posterior that are less probable under it."""
    drawn = posterior.log_prob(posterior.sample(DRAWN, generator=rng.generator(seed, "judge", "posterior"))).double()

    def quality(architectures: Sequence[Architecture], weights: Tensor | None) -> Tensor:
        share = share_below(posterior.log_prob(list(architectures)).double(), drawn)
        return share if weights is None else share.expand(len(weights), -1)

    return quality


def by_evidence(ranks: ReferenceRanks, score: Judge) -> Quality:
    """Make the quality: the evidence that the posterior is fitted to, over all held-out images.

    `score` is the validation loss under the evidence's own label noise.
    """

    def likelihood(architectures: Sequence[Architecture], weights: Tensor | None) -> Tensor:
        return -score([[architecture] for architecture in architectures], weights)

    def quality(architectures: Sequence[Architecture], weights: Tensor | None) -> Tensor:
        values, reference = likelihood(architectures, weights), likelihood(ranks.reference, weights)
        return _shares(values, reference) + ranks.untrained(architectures)

    return quality


def make_judge(
    settings: SearchSettings,
    score: Judge,
    predictor: Predictor,
    posterior: Posterior,
    ranks: ReferenceRanks | None,
    *,
    size: int,
    seed: int = 0,
) -> Judge:
    """Make the judge that the settings name; `score` is the validation loss that `predictor` gives.

    Candidates that are trained are not judged here: of `trained` the score itself is returned.
    """
    if settings.judge in ("likelihood", "trained"):
        return score
    if settings.judge == "posterior":
        quality = by_posterior(posterior, seed=seed)
    elif ranks is not None:
        quality = by_evidence(ranks, scorer(predictor, noise=ranks.noise) if ranks.noise > 0 else score)
    else:
        raise NesbsError(
            "search(judge='evidence') compares with a reference: give ranks=reference_ranks(…) of nesbs.posterior"
        )
    source = posterior if settings.gain_pool == "posterior" else posterior.space
    pool = source.sample(max(POOL, size), generator=rng.generator(seed, "judge", "pool")) if settings.gain else []
    judge = RankJudge(score, quality, pool, gain=settings.gain, seed=seed)
    judge.compared += ranks.reference if ranks is not None and settings.judge == "evidence" else ()
    return judge


@dataclass(frozen=True)
class JudgeNoise(Generic[T]):
    """What a choice owes to the held-out images at hand, by bootstrap, and what decides where it owes too much."""

    scores: Scores[T]  # of ensembles under every resample of the images, (resamples, ensembles)
    log_p: Scores[T]  # how probable an ensemble's members are in the mean, (ensembles,)

    def is_better(self, one: Sequence[T], other: Sequence[T]) -> bool:
        """Whether an ensemble is better than another beyond the noise."""
        first, second = self.scores([one]), self.scores([other])
        return float((first < second).double().mean()) >= TOLD_APART

    def prefer(self, ensembles: Sequence[Sequence[T]], scores: Sequence[float], best: int) -> int:
        """Return the place of the most probable ensemble that is not told apart from the best one."""
        resampled = self.scores(ensembles)
        worse = (resampled[:, [best]] < resampled).double().mean(0) >= TOLD_APART
        log_p = self.log_p(ensembles).tolist()
        return max((i for i in range(len(scores)) if not worse[i]), key=lambda i: (log_p[i], -scores[i]))


def noise_under(
    weights: Tensor,
    judge: Callable[[Sequence[Sequence[T]], Tensor], Tensor],
    posterior: Posterior,
    architecture: Callable[[T], Architecture] = lambda member: member,  # type: ignore[assignment,return-value]
) -> JudgeNoise[T]:
    """Make the noise of a judge under weights of the images (`resamples`).

    `architecture` says which one a member has, where members are not architectures themselves.
    """

    def log_p(ensembles: Sequence[Sequence[T]]) -> Tensor:
        members, places = distinct([[architecture(one) for one in each] for each in ensembles])
        return posterior.log_prob(members)[places].mean(-1)

    return JudgeNoise(lambda ensembles: judge(ensembles, weights), log_p)


def resamples(images: int, count: int, *, seed: int = 0) -> Tensor:
    """Draw bootstrap samples of so many images: the weight of every image in each, (count, images).

    >>> resamples(4, 1000, seed=0).sum(1).unique()
    tensor([1.])
    """
    drawn = torch.randint(images, (count, images), generator=rng.generator(seed, "search", "noise"))
    return torch.zeros(count, images).scatter_add_(1, drawn, torch.ones(drawn.shape)) / images


def _shares(values: Tensor, reference: Tensor) -> Tensor:
    """`share_below` of values (…, number) among a reference (…, another number), row by row."""
    if values.ndim == 1:
        return share_below(values, reference)
    return torch.stack([share_below(*rows) for rows in zip(values, reference, strict=True)])
