"""One supernet with whose weights ensembles are judged and measured, for the points of budget curves."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from nesbs import metrics, rng
from nesbs.ensemble import scorer
from nesbs.records.curves import PointOutcome
from nesbs.rivals import uniform_pool
from nesbs.runs.run import Run
from nesbs.samplers import Proposal
from nesbs.spaces import Architecture
from nesbs.supernet import Estimator


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
        self.score = scorer(Estimator(supernet, run.data.search_valid, batch_size=size), run.recipe.ensemble.combine)
        self.test = Estimator(supernet, run.data.test, batch_size=size)
        self._draw_anew(run.recipe.seed)

    def with_seed(self, seed: int) -> CurveHarness:
        """One that draws anew and shares the estimates."""
        other = copy.copy(self)
        other._draw_anew(seed)
        return other

    def _draw_anew(self, seed: int) -> None:
        self.seed = seed
        self.drawn: dict[Point, list[Proposal]] = {}
        random, space = rng.generator(seed, "rivals", "pool"), self.run.space
        self.pool = uniform_pool(space, min(self.largest, len(space)), generator=random)

    def measure(self, architectures: Sequence[Architecture]) -> PointOutcome:
        """Error and NLL of an ensemble on the test images with the supernet's weights."""
        log_probs = metrics.combine(self.test.log_probs(architectures), self.run.recipe.ensemble.combine)
        labels = self.run.data.test.labels
        return PointOutcome(
            architectures=tuple(str(architecture) for architecture in architectures),
            error=float(metrics.error(log_probs, labels)),
            nll=float(metrics.nll(log_probs, labels)),
        )
