"""Every method in one run folder, under the same data, splits, networks and training loop.

    RUN/rivals/METHOD.selection.json  what it chose        RUN/rivals/METHOD.json  what that is worth and cost
    RUN/rivals/METHOD.images.safetensors  of every test image: whether it was wrong, and its NLL

A method is a function from a `Contest` to a `Selection`; what it chose is then trained and measured like everybody's.
MC DropPath and snapshots predict in their own way (`PREDICTS`), also where they are METHOD-of-SOMETHING.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nesbs import files, metrics, rng
from nesbs.compare.budgets import MOST, OVER, affordable, estimating, remembered, times_within
from nesbs.compare.one_shot import ONE_SHOT, checkpoint_of, one_shot
from nesbs.compare.pool import Pool
from nesbs.compare.predictions import passes, predicted, snapshots
from nesbs.ensemble import Predictor, Score, Selection, scorer, search
from nesbs.errors import NesbsError, did_you_mean
from nesbs.evaluation import score_logits
from nesbs.rivals import deep, nes_re, nes_rs, single_best, uniform_draws, uniform_pool, urs
from nesbs.runs.folder import read_selection
from nesbs.runs.run import Run
from nesbs.runs.stage import device_name
from nesbs.samplers import MonteCarlo, Sampler, SvgdRd, get_sampler
from nesbs.spaces import Architecture, named_architecture
from nesbs.supernet import Estimator

REFERENCE = "nesbs"  # the method the others are held against: the recipe's own sampler
SEARCH = ("supernet", "posterior", "selection")  # the stages of a run that its search takes


class Contest:
    """One run, in which every method is judged by the same architectures' predictions and trained by one pool."""

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

        def fitting(left: float) -> int:
            cost = self._training_cost if self.settings.judge == "trained" else estimating(self.run)
            draws = uniform_draws(self.run.space, generator=random())
            return len(affordable(draws, cost, left, least=min(self.size, len(self.run.space))))

        count = self.settings.pool
        if (seconds := self.settings.seconds) is not None:
            if self.settings.judge == "supernet":
                self.run.supernet()
                seconds -= _seconds(self.run.record["stages"], SEARCH[:1])
            count = remembered(self.run, "pool", lambda: fitting(seconds))
        return uniform_pool(self.run.space, count, generator=random())

    def _training_cost(self, architecture: Architecture) -> float:
        self.judged.train([architecture])
        return self.judged.seconds([architecture])

    @cached_property
    def judged(self) -> Pool:
        """Candidates trained on their own, on the supernet's images; judged on those it leaves unseen."""
        data, epochs = self.run.data, self.settings.pool_epochs
        return Pool(self.run, data.search_valid, epochs=epochs, images="search_train")

    @cached_property
    def trained(self) -> Pool:
        """What was chosen, trained in full."""
        return Pool(self.run, self.run.data.test, images=self.run.recipe.members.images)

    def score(self) -> Score:
        """How candidates are judged; with the supernet's weights each method makes its own estimates."""
        if self.settings.judge == "trained":
            judge: Predictor = self.judged
        else:
            judge = Estimator(
                self.run.supernet(), self.run.data.search_valid, batch_size=self.run.recipe.search.batch_size
            )
        return scorer(judge, self.run.recipe.ensemble.combine)

    def selection(self, method: str) -> Selection:
        """What a method chooses, once."""
        path = self.run.folder / "rivals" / f"{method}.selection.json"
        if not path.is_file():
            files.write_json(path, METHODS[method](self).to_json())
        checkpoint_of(self.run, method).unlink(missing_ok=True)
        return read_selection(path, self.run.space)

    def outcome(self, method: str) -> dict[str, Any]:
        """What a method is worth on the test images and what it cost, once."""
        path = self.run.folder / "rivals" / f"{method}.json"
        if path.is_file():
            return files.read_mapping(path)
        selection = self.selection(method)
        logits = PREDICTS.get(method.partition("-of-")[0], predicted)(self.run, self.trained, selection.architectures)
        if not bool(logits.isfinite().all()):
            raise NesbsError(f"{method}: predictions are not numbers: lower members.learning_rate or set members.clip")
        combined = self.combined(logits)
        scores = score_logits(logits, combined, self.run.data.test.labels, bins=self.run.recipe.evaluation.bins)
        value = {
            "method": method,
            "architectures": [str(architecture) for architecture in selection.architectures],
            "validation_loss": selection.loss,
            "evaluations": self.evaluations(method),
            "device": device_name(self.run.device),
            "search_seconds": round(self.search_seconds(method), 3),
            "over_budget": self.over_budget(method),
            "training_seconds": round(self.training_seconds(method, selection.architectures), 3),
            "scores": scores.to_json(),
        }
        labels = self.run.data.test.labels
        each = {"error": combined.argmax(-1) != labels, "nll": -combined.gather(1, labels[:, None])[:, 0]}
        files.write_tensors(images_of(self.run.folder, method), each)
        files.write_json(path, value)
        return files.read_mapping(path)  # as a later sitting finds it

    def combined(self, logits: Tensor) -> Tensor:
        """The ensemble's log-probabilities (images, classes) from its members' logits (members, images, classes)."""
        return metrics.combine(logits, self.run.recipe.ensemble.combine)

    def search_seconds(self, method: str) -> float:
        """What finding the architectures took: each method pays for what it used, whoever had it made."""
        stages = self.run.record["stages"]
        if method == REFERENCE and self.settings.seconds is None:
            return _seconds(stages, SEARCH)
        if method.startswith(REFERENCE):
            return _seconds(stages, (*SEARCH[:2], f"rival {method}"))
        if method in ONE_SHOT:
            return _seconds(stages, ("supernet", "rival rsps") if method == "rsps" else (f"rival {method}",))
        if method in OF_ONE:
            return 0.0 if self.settings.architecture is not None else self.search_seconds("single-best")
        if self.settings.judge == "supernet":
            return _seconds(stages, ("supernet", f"rival {method}"))
        return self.judged.seconds([architecture for architecture, _ in self.selection(method).candidates])

    def over_budget(self, method: str) -> bool:
        """Whether the search took more seconds than it might, beyond the noise of measuring."""
        seconds = self.settings.seconds
        return seconds is not None and self.search_seconds(method) > OVER * seconds

    def evaluations(self, method: str) -> int:
        """How many architectures were judged to find the method's."""
        if method in ONE_SHOT:
            return self.settings.samples if method in ("rsps", "setn", "enas") else 0
        if method in OF_ONE:
            return 0 if self.settings.architecture is not None else self.evaluations("single-best")
        return len(self.selection(method).candidates)

    def training_seconds(self, method: str, architectures: Sequence[Architecture]) -> float:
        """What training the chosen networks in full took."""
        if self.settings.measure == "supernet":
            return 0.0
        if method == "snapshot":
            return _seconds(self.run.record["stages"], ("snapshot",))
        return self.trained.seconds(architectures)

    def one(self) -> Architecture:
        """The architecture of the methods that need one: a given one, or the single best."""
        if self.settings.architecture is not None:
            return named_architecture(self.run.space, self.settings.architecture)
        return self.selection("single-best").architectures[0]


def images_of(folder: Path, method: str) -> Path:
    """Where a run keeps what a method made of every test image."""
    return folder / "rivals" / f"{method}.images.safetensors"


def _seconds(stages: dict[str, Any], names: Sequence[str]) -> float:
    return sum(float(stages.get(name, {}).get("seconds", 0.0)) for name in names)


def _judging(method: str, choose: Callable[[Contest, Score], Selection]) -> Callable[[Contest], Selection]:
    """A method that judges candidates; its estimates by a supernet are a stage of the run."""

    def search(contest: Contest) -> Selection:
        if contest.settings.judge == "trained":
            return choose(contest, contest.score())
        score = contest.score()
        with contest.run.stage(f"rival {method}", 1):
            return choose(contest, score)

    return search


def _nes_re(contest: Contest, score: Score) -> Selection:
    pool = contest.candidates
    settings, seconds = contest.settings.model_copy(update={"pool": len(pool)}), contest.settings.seconds
    trained = settings.judge == "trained"

    def spent(known: Collection[Architecture]) -> bool:
        """Whether one more, beside the youngest who may still be untrained, would take longer than there is time."""
        assert seconds is not None
        costs = [cost for cost in (contest.judged.seconds([each]) for each in known) if cost > 0]
        return sum(costs) / len(costs) * (len(known) + 1) > seconds

    return nes_re(
        contest.run.space,
        pool[: settings.first],
        contest.size,
        score,
        # Children of small networks may be quicker to train than uniform draws.
        budget=len(pool) if seconds is None or not trained else 4 * len(pool),
        parents=settings.parents,
        enough=spent if seconds is not None and trained else None,
        generator=rng.generator(contest.run.recipe.seed, "rivals", "nes-re"),
    )


def _one_shot(method: str) -> Callable[[Contest], Selection]:
    """A method that finds one architecture by a supernet of its own."""
    return lambda contest: replace(Selection.fixed((one_shot(contest.run, method),)), sampler=method)


def _nesbs(contest: Contest) -> Selection:
    if contest.settings.seconds is None:
        return contest.run.selection()
    return _sampled(contest, REFERENCE, get_sampler(contest.run.recipe.sampler))


def _sampled(contest: Contest, method: str, sampler: Sampler) -> Selection:
    """Algorithm 1 with a sampler; a budget in seconds says how many rounds."""
    run = contest.run
    supernet, posterior = run.supernet(), run.posterior()
    usual = (method == "nesbs-mc" and contest.settings.rounds) or run.recipe.search.rounds

    def found(rounds: int, heard: Callable[[int, int], None] | None = None) -> Selection:
        return search(
            supernet,
            posterior,
            run.data.search_valid,
            size=contest.size,
            sampler=sampler,
            combine=run.recipe.ensemble.combine,
            seed=run.recipe.seed,
            on_progress=heard,
            **{**run.recipe.search.model_dump(), "tune": "grid", "rounds": rounds},
        )

    def fitting(left: float) -> int:
        found(1)  # what the first search of a process prepares is not the price of the others
        values = len(sampler.deltas) if isinstance(sampler, SvgdRd) else 1
        return times_within(left, found, usual, most=max(1, MOST // values))

    rounds = usual
    if (seconds := contest.settings.seconds) is not None:
        left = seconds - _seconds(run.record["stages"], SEARCH[:2])
        rounds = remembered(run, f"{method} rounds", lambda: fitting(left))
    with run.stage(f"rival {method}", 1) as stage:
        return found(rounds, stage.share)


METHODS: dict[str, Callable[[Contest], Selection]] = {
    REFERENCE: _nesbs,
    "nesbs-mc": lambda contest: _sampled(contest, "nesbs-mc", MonteCarlo()),
    "urs": _judging("urs", lambda contest, score: urs(contest.candidates, contest.size, score)),
    "nes-rs": _judging("nes-rs", lambda contest, score: nes_rs(contest.candidates, contest.size, score)),
    "nes-re": _judging("nes-re", _nes_re),
    "deep": lambda contest: deep(contest.one(), contest.size),
    "mc-droppath": lambda contest: Selection.fixed((contest.one(),)),
    "snapshot": lambda contest: Selection.fixed((contest.one(),)),
    "single-best": _judging("single-best", lambda contest, score: single_best(contest.candidates, score)),
    **{name: _one_shot(name) for name in ONE_SHOT},
}
OF_ONE = ("deep", "mc-droppath", "snapshot")  # methods that take one architecture
OWN_TRAINING = (*OF_ONE, *ONE_SHOT)  # they cannot be measured with the supernet's weights
PREDICTS: dict[str, Callable[[Run, Pool, Sequence[Architecture]], Tensor]] = {
    "mc-droppath": passes,
    "snapshot": snapshots,
}


def named_methods(text: str, *, measure: str = "trained") -> list[str]:
    """The methods in a list with commas, or `all` of them; the reference always, and first.

    >>> named_methods("urs,deep")
    ['nesbs', 'urs', 'deep']
    """
    asked = [name.strip() for name in text.split(",") if name.strip()]
    if asked == ["all"]:
        return [name for name in METHODS if measure == "trained" or name not in OWN_TRAINING]
    if not asked:
        raise NesbsError(f"--methods names none: {did_you_mean('', ['all', *METHODS])}")
    for name in asked:
        if name not in METHODS:
            raise NesbsError(f"--methods: unknown method {name}: {did_you_mean(name, ['all', *METHODS])}")
        if name in OWN_TRAINING and measure == "supernet":
            raise NesbsError(f"--methods: {name} needs a training of its own: set rivals.measure=trained")
    return list(dict.fromkeys([REFERENCE, *asked]))
