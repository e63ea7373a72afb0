"""One run in which every method is judged: the same data, splits, candidates, networks and training loop for all.

RUN/rivals/METHOD.selection.json  what it chose        RUN/rivals/METHOD.json  what that is worth and cost
RUN/rivals/METHOD.images.safetensors  of every test image: whether it was wrong, and its NLL
"""

import copy
import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from nesbs import metrics, rng
from nesbs.compare.budgets import affordable, estimating, measured_once
from nesbs.compare.pool import Pool
from nesbs.ensemble import Ensemble, Judge, JudgeNoise, Predictor, Score, make_judge, noise_under, resamples, scorer
from nesbs.records.curves import PointOutcome
from nesbs.rivals import uniform_draws, uniform_pool
from nesbs.runs.resumable_run import Run
from nesbs.samplers import Proposal
from nesbs.spaces import Architecture
from nesbs.supernet import Estimator


class Harness:
    """One run, in which every method judges the same candidates and trains what it chose in one pool."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.settings = run.recipe.rivals
        self.size = run.recipe.ensemble.size

    @cached_property
    def candidates(self) -> list[Architecture]:
        """K architectures, drawn uniformly: the same for every method that draws so.

        With a budget in seconds K is as many as can be judged in it, one ensemble at any rate.
        """

        def random() -> torch.Generator:
            return rng.generator(self.run.recipe.seed, "rivals", "pool")

        def training(architecture: Architecture) -> float:
            self.judged.train([architecture])
            return self.judged.seconds([architecture])

        def fitting(left: float) -> int:
            cost = training if self.settings.judge == "trained" else estimating(self.run)
            draws = uniform_draws(self.run.space, generator=random(), allowed=self.run.limits(), size=self.size)
            return len(affordable(draws, cost, left, least=min(self.size, self.run.space.size)))

        count = self.settings.pool
        if (seconds := self.settings.seconds) is not None:
            if self.settings.judge == "supernet":
                self.run.supernet()
                seconds -= self.seconds("supernet")
            count = measured_once(self.run, "pool", lambda: fitting(seconds))
        return uniform_pool(self.run.space, count, generator=random(), allowed=self.run.limits(), size=self.size)

    @property
    def out_of_time(self) -> Callable[[Collection[Architecture]], bool] | None:
        """Says whether training one more than those judged so far would exceed the budget in seconds.

        None where there is no such budget, or nothing is trained to be judged.
        """
        seconds = self.settings.seconds
        if seconds is None or self.settings.judge != "trained":
            return None

        def exceeded(judged: Collection[Architecture]) -> bool:
            # The youngest of them may still be untrained, and has no cost yet.
            costs = [cost for cost in (self.judged.seconds([each]) for each in judged) if cost > 0]
            return sum(costs) / len(costs) * (len(judged) + 1) > seconds

        return exceeded

    @cached_property
    def judged(self) -> Pool:
        """Candidates trained on their own, on the supernet's images; judged on those it leaves unseen."""
        return Pool(self.run, self.run.data.search_valid, epochs=self.settings.pool_epochs, images="search_train")

    @cached_property
    def trained(self) -> Pool:
        """What was chosen, trained in full."""
        return Pool(self.run, self.run.data.test, images=self.run.recipe.members.images)

    def score(self) -> Score:
        """How candidates are judged; with the supernet's weights each method makes its own estimates."""
        if self.settings.judge == "trained":
            judge: Predictor = self.judged
        else:
            batch_size = self.run.recipe.search.batch_size
            judge = Estimator(self.run.supernet(), self.run.data.search_valid, batch_size=batch_size)
        return scorer(judge, self.run.recipe.ensemble.combine)

    def predict(self, architectures: Sequence[Architecture]) -> Tensor:
        """Logits on the test images, (members, images, classes), of trained networks or with the supernet's weights."""
        recipe, test = self.run.recipe, self.run.data.test
        if self.settings.measure == "supernet":
            estimator = Estimator(self.run.supernet(), test, batch_size=recipe.search.batch_size)
            return estimator.log_probs(architectures).double()
        ensemble = Ensemble(self.trained.members(architectures))
        return ensemble.predict(test, batch_size=recipe.evaluation.batch_size).double()

    def seconds(self, *stages: str) -> float:
        """What stages of the run took; nothing for one that was not run."""
        return self.run.record.seconds(*stages)


@dataclass(frozen=True)
class Point:
    """One ensemble to be found: by a method, of a size, within a budget; δ where it is set apart (Fig. 7)."""

    method: str
    size: int
    budget: int
    temperature: float | None = None  # τ, of methods that draw from the posterior
    delta: float | None = None

    @property
    def name(self) -> str:
        """The point in a record."""
        return " ".join(str(value) for value in asdict(self).values())


class CurveHarness:
    """One supernet for all points; candidates are estimated once, whichever method asks.

    Random draws come from the run's seed, or from another one with the same supernet (`with_seed`). `pool` holds as
    many uniform draws as the largest budget; `drawn` is for methods whose budgets are parts of one draw.
    """

    def __init__(self, run: Run, largest: int) -> None:
        self.run = run
        self.largest = largest
        supernet, size = run.supernet(), run.recipe.search.batch_size
        self.posterior = run.posterior()
        self.valid = Estimator(supernet, run.data.search_valid, batch_size=size)
        self.score = scorer(self.valid, run.recipe.ensemble.combine)
        self.test = Estimator(supernet, run.data.test, batch_size=size)
        self._draw_anew(run.recipe.seed)

    def with_seed(self, seed: int) -> Self:
        """One that draws anew and shares the estimates."""
        other = copy.copy(self)
        other._draw_anew(seed)
        return other

    def _draw_anew(self, seed: int) -> None:
        self.seed = seed
        self.drawn: dict[Point, list[Proposal]] = {}
        random, size = rng.generator(seed, "rivals", "pool"), self.run.recipe.ensemble.size
        draws = uniform_draws(self.run.space, generator=random, allowed=self.run.limits(), size=size)
        self.pool = list(itertools.islice(draws, self.largest))

    def judge(self, point: Point) -> tuple[Judge, JudgeNoise[Architecture] | None]:
        """What judges ensembles that are drawn from the posterior, and its noise where the recipe asks for it."""
        settings, posterior = self.run.recipe.search, self.posterior.tempered(point.temperature or 1.0)
        ranks = self.run.ranks() if settings.judge == "evidence" else None
        judge = make_judge(settings, self.score, self.valid, posterior, ranks, size=point.size, seed=self.seed)
        if not settings.noise:
            return judge, None
        weights = resamples(len(self.valid.split), settings.noise, seed=self.seed).to(self.valid.split.device)
        return judge, noise_under(weights, judge, posterior)

    def measure(self, architectures: Sequence[Architecture]) -> PointOutcome:
        """Error and NLL of an ensemble on the test images with the supernet's weights."""
        log_probs = metrics.combine(self.test.log_probs(architectures), self.run.recipe.ensemble.combine)
        labels = self.run.data.test.labels
        return PointOutcome(
            architectures=tuple(str(architecture) for architecture in architectures),
            error=float(metrics.error(log_probs, labels)),
            nll=float(metrics.nll(log_probs, labels)),
        )


def rival_file(folder: Path, method: str, kind: str) -> Path:
    """A method's file in a run folder; `kind` is how its name ends."""
    return folder / "rivals" / f"{method}.{kind}"
