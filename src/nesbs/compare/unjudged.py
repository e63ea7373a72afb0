"""What a search has to beat: ensembles that are drawn and not judged, and the posterior's likeliest architecture alone.

Nothing is judged, so each costs little more than what it draws from: nothing, or supernet and posterior. Ours.
"""

from dataclasses import replace

import torch

from nesbs import rng
from nesbs.compare.harness import CurveHarness, Harness, Point
from nesbs.compare.method import Method
from nesbs.ensemble import Selection
from nesbs.posterior import Posterior
from nesbs.rivals import deep, likeliest_allowed
from nesbs.runs.resumable_run import Run
from nesbs.samplers import Sampler, Uniform, for_one_draw, get_sampler
from nesbs.spaces import Architecture

POSTERIOR = ("supernet", "posterior")


class Unjudged(Method):
    """One ensemble as it is drawn, from the posterior by the recipe's sampler or uniformly."""

    own_training = False

    def __init__(self, name: str, description: str, *, stages: tuple[str, ...]) -> None:
        self.name, self.description, self.stages = name, description, stages

    def choose(self, harness: Harness) -> Selection:
        """Draw one ensemble; of a grid of δ, with one of them."""
        run = harness.run
        if self.stages:
            run.posterior()  # a stage of its own
        with run.stage(f"rival {self.name}", 1, fresh=True):
            drawn = self._drawn(run, harness.size, run.recipe.seed)
        return replace(Selection.fixed(drawn), sampler=self.name)

    def within(self, harness: CurveHarness, point: Point) -> tuple[Architecture, ...] | None:
        """The same whatever the budget, from one ensemble on."""
        return self._drawn(harness.run, point.size, harness.seed) if point.budget >= point.size else None

    def _drawn(self, run: Run, size: int, seed: int) -> tuple[Architecture, ...]:
        recipe = run.recipe
        random = rng.generator(seed, "rivals", self.name, size)
        sampler: Sampler = get_sampler(recipe.sampler) if self.stages else Uniform()
        posterior = run.posterior() if self.stages else Posterior(run.space)
        duplicates, limits = for_one_draw(recipe.search.duplicates), run.limits(size)
        drawn = sampler.propose(posterior, size=size, rounds=1, duplicates=duplicates, allowed=limits, generator=random)
        return drawn[int(torch.randint(len(drawn), (), generator=random))].architectures


class Likeliest(Method):
    """A deep ensemble of the architecture that the posterior finds most probable."""

    name = "likeliest"
    description = "a deep ensemble of the posterior's likeliest architecture"
    stages = POSTERIOR

    def choose(self, harness: Harness) -> Selection:
        """As many copies of it as an ensemble has members; of the likeliest of which so many are within limits."""
        run, posterior, size = harness.run, harness.run.posterior(), harness.size
        random = rng.generator(run.recipe.seed, "rivals", self.name)
        likeliest = likeliest_allowed(posterior, posterior.mode(), run.limits(), copies=size, generator=random)
        return replace(deep(likeliest, size), sampler=self.name)


UNJUDGED = (
    Unjudged("random", "an ensemble drawn uniformly, not judged", stages=()),
    Unjudged("drawn", "an ensemble drawn from the posterior, not judged", stages=POSTERIOR),
)
