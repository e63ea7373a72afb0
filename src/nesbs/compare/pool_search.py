"""Methods that judge a pool of uniform draws and choose from it: URS, NES-RS, NES-RE, the single best."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from nesbs import rng
from nesbs.compare.harness import CurveHarness, Harness, Point
from nesbs.compare.method import Method
from nesbs.data import Dataset
from nesbs.ensemble import Limits, Score, Selection
from nesbs.errors import NesbsError
from nesbs.records.recipe import Recipe
from nesbs.rivals import RivalSettings, best_of_births, evolve, nes_rs, single_best, urs
from nesbs.samplers import NoEnsembleError
from nesbs.spaces import Architecture, Space


@dataclass(frozen=True)
class Candidates:
    """What a method chooses from: a pool of `space`, and how ensembles of it are judged."""

    pool: Sequence[Architecture]  # drawn uniformly, the same for every method
    size: int  # of the ensemble
    score: Score  # validation losses of a list of ensembles
    space: Space
    settings: RivalSettings
    seed: int
    limits: Limits | None = None  # of what the ensemble costs
    out_of_time: Callable[[Collection[Architecture]], bool] | None = None  # where there is a budget in seconds


class PoolSearch(Method):
    """A method that judges candidates, trained on their own or with the supernet's weights, and `select`s from them.

    It chooses `members` architectures, by default as many as an ensemble has.
    """

    own_training = False
    stages = ("supernet",)  # where candidates are judged with its weights

    def __init__(
        self,
        name: str,
        description: str,
        select: Callable[[Candidates], Selection],
        *,
        members: int | None = None,
        first: Callable[[Candidates], int] = lambda of: len(of.pool),
    ) -> None:
        """`first` says how many of the pool it judges for certain."""
        self.name, self.description, self.select, self.members, self.first = name, description, select, members, first
        self.one_network = members == 1

    def check(self, recipe: Recipe, data: Dataset, space: Space) -> None:
        """Raise where the pool is larger than the space or less than one ensemble."""
        pool, size = recipe.rivals.pool, recipe.ensemble.size
        if recipe.rivals.seconds is not None:
            return
        if pool > space.size:
            raise NesbsError(f"rivals.pool={pool} is larger than space {space.name} ({space.size}): lower it")
        if pool < (self.members or size):
            raise NesbsError(f"rivals.pool={pool} is less than one ensemble of {size}: raise it")

    def trains_pool(self, recipe: Recipe) -> bool:
        """Whether the recipe has candidates trained, not estimated by the supernet."""
        return recipe.rivals.judge == "trained"

    def choose(self, harness: Harness) -> Selection:
        """Choose from the run's candidates; estimates by a supernet are a stage of the run."""
        candidates = _candidates_of(harness)
        if harness.settings.judge == "trained":
            return self.select(candidates)
        with harness.run.stage(f"rival {self.name}", 1, fresh=True):
            return self.select(candidates)

    def judged_ahead(self, harness: Harness) -> Sequence[Architecture]:
        """The first of the pool, as many as it judges."""
        judged = super().judged_ahead(harness)
        return judged[: self.first(_candidates_of(harness))] if judged else judged

    def search_seconds(self, harness: Harness) -> float:
        """What the supernet and the estimates took, or the training of what was judged."""
        if harness.settings.judge == "supernet":
            return super().search_seconds(harness)
        return harness.judged.seconds([architecture for architecture, _ in self.selection(harness).candidates])

    def within(self, harness: CurveHarness, point: Point) -> tuple[Architecture, ...] | None:
        """Choose from the first candidates, as many as the budget."""
        pool, run = harness.pool[: point.budget], harness.run
        if len(pool) < (self.members or point.size):
            return None
        limits = run.limits(point.size)
        candidates = Candidates(pool, point.size, harness.score, run.space, run.recipe.rivals, harness.seed, limits)
        try:
            return self.select(candidates).architectures
        except NoEnsembleError:
            return None  # none of the pool's is within the limits


def _candidates_of(harness: Harness) -> Candidates:
    """What methods choose from in a run."""
    run = harness.run
    return Candidates(
        harness.candidates,
        harness.size,
        harness.score(),
        run.space,
        harness.settings,
        run.recipe.seed,
        run.limits(),
        harness.out_of_time,
    )


def _population(candidates: Candidates) -> int:
    """How many of the pool NES-RE begins with: one ensemble at least where there are limits."""
    first = candidates.settings.model_copy(update={"pool": len(candidates.pool)}).first
    return first if candidates.limits is None else max(first, candidates.size)


def _evolve(candidates: Candidates) -> Selection:
    """NES-RE, whose population is the first of the pool."""
    pool, out_of_time, settings = candidates.pool, candidates.out_of_time, candidates.settings
    score, limits = candidates.score, candidates.limits
    start = pool[: _population(candidates)]
    births = evolve(
        candidates.space,
        start,
        score,
        # Children of small networks may be quicker to train than uniform draws.
        budget=len(pool) if out_of_time is None else 4 * len(pool),
        parents=settings.parents,
        allowed=limits,
        generator=rng.generator(candidates.seed, "rivals", "nes-re"),
    )
    return best_of_births(births, start, candidates.size, score, enough=out_of_time, limits=limits)


SINGLE_BEST = PoolSearch("single-best", "the best single network", lambda of: single_best(of.pool, of.score), members=1)
ENSEMBLE_SEARCHES = (
    PoolSearch(
        "urs",
        "uniform random ensembles, the best of them",
        lambda of: urs(of.pool, of.size, of.score, of.limits),
        first=lambda of: len(of.pool) // of.size * of.size,
    ),
    PoolSearch("nes-rs", "neural ensemble search, random", lambda of: nes_rs(of.pool, of.size, of.score, of.limits)),
    PoolSearch("nes-re", "neural ensemble search, evolution", _evolve, first=_population),
)
