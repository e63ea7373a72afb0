"""NESBS: ensembles drawn from the posterior over architectures (Algorithm 1), with either sampler."""

from collections.abc import Callable
from dataclasses import replace

from nesbs import rng
from nesbs.compare.budgets import MOST, deltas_of, ensembles_judged, measured_once, times_within
from nesbs.compare.harness import CurveHarness, Harness, Point
from nesbs.compare.method import Method
from nesbs.ensemble import Selection, ShortTraining, decide, search
from nesbs.posterior import Posterior
from nesbs.records.comparison import OutcomeRecord
from nesbs.records.recipe import Recipe
from nesbs.samplers import MonteCarlo, NoEnsembleError, Proposal, Sampler, SvgdRd, get_sampler
from nesbs.spaces import Architecture
from nesbs.supernet import Supernet


class PosteriorSearch(Method):
    """Algorithm 1 on the supernet and posterior of the run: what samples for a recipe, and in how many rounds."""

    own_training = False
    draws_from_posterior = True
    stages: tuple[str, ...] = ("supernet", "posterior")

    def __init__(
        self,
        name: str,
        description: str,
        sampler: Callable[[Recipe], Sampler],
        rounds: Callable[[Recipe], int] = lambda recipe: recipe.search.rounds,
    ) -> None:
        self.name, self.description, self.sampler, self.rounds = name, description, sampler, rounds

    def trained(self, harness: Harness) -> tuple[Supernet, Posterior]:
        """The supernet and the posterior that ensembles are drawn from."""
        return harness.run.supernet(), harness.run.posterior()

    def choose(self, harness: Harness) -> Selection:
        """Draw and judge ensembles; a budget in seconds says how many rounds."""
        run, recipe = harness.run, harness.run.recipe
        supernet, posterior = self.trained(harness)
        sampler = self.sampler(recipe)
        settings = recipe.search.model_copy(update={"tune": "grid", "rounds": self.rounds(recipe)})

        def chosen(rounds: int) -> Selection:
            return search(
                supernet,
                posterior,
                run.data.search_valid,
                size=harness.size,
                sampler=sampler,
                combine=recipe.ensemble.combine,
                seed=recipe.seed,
                ranks=run.ranks() if settings.judge == "evidence" else None,
                training=ShortTraining(run.data.search_train, recipe.members, costs=run.costs.members),
                **{**settings.model_dump(), "rounds": rounds},
            )

        def fitting(left: float) -> int:
            return times_within(left, chosen, settings.rounds, most=max(1, MOST // deltas_of(sampler)))

        if (seconds := harness.settings.seconds) is not None:
            left = seconds - harness.seconds(*self.stages)
            if settings.judge == "trained":  # what is left goes into training candidates
                own = settings.judge_seconds or left
                settings = settings.model_copy(update={"judge_seconds": max(min(left, own), 1e-3)})
            else:
                rounds = measured_once(run, f"{self.name} rounds", lambda: fitting(left))
                settings = settings.model_copy(update={"rounds": rounds})
        judge = f"judge-{self.name}"
        with run.stage(f"rival {self.name}", 1, fresh=not (run.folder / judge).is_dir()) as stage:
            return run.search(supernet, posterior, sampler, settings, stage, folder=judge)

    def within(self, harness: CurveHarness, point: Point) -> tuple[Architecture, ...] | None:
        """Decide among the first rounds of the largest budget's, as many as the point's budget holds.

        Ensembles come by whole rounds of the recipe's δ, for Monte Carlo too: all samplers judge as many.
        """
        recipe = harness.run.recipe
        sampler = self.sampler(recipe)
        if isinstance(sampler, SvgdRd):
            sampler = replace(sampler, device=str(harness.run.data.test.device))
            sampler = sampler if point.delta is None else replace(sampler, delta=point.delta)
        together = deltas_of(get_sampler(recipe.sampler)) if point.delta is None else 1

        def rounds_in(budget: int) -> int:
            return budget // (point.size * together) * together // deltas_of(sampler)

        rounds = rounds_in(point.budget)
        if rounds < 1:
            return None
        draw = replace(point, budget=0)
        if draw not in harness.drawn:
            harness.drawn[draw] = _proposals(harness, point, sampler, rounds_in(harness.largest))
        proposals = [proposal for proposal in harness.drawn[draw] if proposal.round <= rounds]
        if not proposals:
            return None
        judge, noise = harness.judge(point)
        limits = harness.run.limits(point.size)
        return decide(proposals, judge, recipe.search.method, noise, apart=recipe.search.apart, limits=limits)[0]


class RunSearch(PosteriorSearch):
    """What the run itself chooses, where no budget in seconds changes its rounds."""

    stages = ("supernet", "posterior", "selection")

    def choose(self, harness: Harness) -> Selection:
        """Take the run's own selection."""
        return harness.run.selection() if harness.settings.seconds is None else super().choose(harness)

    def outcome(self, harness: Harness) -> OutcomeRecord:
        """Measure the selection; the networks that were trained for it become the run's members, ready to be used."""
        outcome = super().outcome(harness)
        if harness.settings.seconds is None:
            harness.run.adopt(harness.trained.folder)
        return outcome


def _proposals(harness: CurveHarness, point: Point, sampler: Sampler, rounds: int) -> list[Proposal]:
    """Ensembles of as many rounds as the largest budget holds."""
    try:
        return sampler.propose(
            harness.posterior.tempered(point.temperature or 1.0),
            size=point.size,
            rounds=rounds,
            duplicates=harness.run.recipe.search.duplicates,
            allowed=harness.run.limits(point.size),
            generator=rng.generator(harness.seed, "curves", sampler.name, point.size),
        )
    except NoEnsembleError:
        return []  # attraction so strong that all members are one


NESBS = RunSearch(
    "nesbs",
    "Bayesian sampling with the recipe's sampler (always there)",
    lambda recipe: get_sampler(recipe.sampler),
)
NESBS_MC = PosteriorSearch(
    "nesbs-mc",
    "the same with Monte Carlo sampling",
    lambda recipe: MonteCarlo(),
    lambda recipe: recipe.rivals.rounds or ensembles_judged(recipe),
)
