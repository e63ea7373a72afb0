"""Every method in one run folder, under the same data, splits, networks and training loop.

    RUN/rivals/METHOD.selection.json  what it chose        RUN/rivals/METHOD.json  what that is worth and cost

A method is a function from a `Contest` to a `Selection`; what it chose is then trained and measured like everybody's.
MC DropPath and snapshots predict in their own way (`PREDICTS`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from torch import Tensor

from nesbs import files, metrics, rng
from nesbs.ensemble import Ensemble, Predictor, Score, Selection, scorer, search
from nesbs.errors import NesbsError, did_you_mean
from nesbs.evaluation import score_logits
from nesbs.one_shot import ONE_SHOT, checkpoint_of, one_shot
from nesbs.pool import Pool
from nesbs.rivals import deep, mc_droppath, nes_re, nes_rs, single_best, snapshot, uniform_pool, urs
from nesbs.rivals.snapshot import cycles
from nesbs.runs import Run
from nesbs.samplers import MonteCarlo
from nesbs.spaces import Architecture, named_architecture
from nesbs.stages import device_name
from nesbs.supernet import Estimator
from nesbs.training import Epoch

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
        """K architectures, drawn uniformly: the same for every method that draws so."""
        random = rng.generator(self.run.recipe.seed, "rivals", "pool")
        return uniform_pool(self.run.space, self.settings.pool, generator=random)

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
        return Selection.from_json(files.read_json(path), self.run.space)

    def outcome(self, method: str) -> dict[str, Any]:
        """What a method is worth on the test images and what it cost, once."""
        path = self.run.folder / "rivals" / f"{method}.json"
        if path.is_file():
            return files.read_mapping(path)
        selection = self.selection(method)
        logits = PREDICTS.get(method, _predicted)(self, selection.architectures)
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
            "training_seconds": round(self.training_seconds(method, selection.architectures), 3),
            "scores": scores.to_json(),
        }
        files.write_json(path, value)
        return files.read_mapping(path)  # as a later sitting finds it

    def combined(self, logits: Tensor) -> Tensor:
        """The ensemble's log-probabilities (images, classes) from its members' logits (members, images, classes)."""
        if self.run.recipe.ensemble.combine == "logits":
            return metrics.average_logits(logits)
        return metrics.average(logits.log_softmax(-1))

    def search_seconds(self, method: str) -> float:
        """What finding the architectures took: each method pays for what it used, whoever had it made."""
        stages = self.run.record["stages"]
        if method == REFERENCE:
            return _seconds(stages, SEARCH)
        if method == "nesbs-mc":
            return _seconds(stages, (*SEARCH[:2], "rival nesbs-mc"))
        if method in ONE_SHOT:
            return _seconds(stages, ("supernet", "rival rsps") if method == "rsps" else (f"rival {method}",))
        if method in OF_ONE:
            return 0.0 if self.settings.architecture is not None else self.search_seconds("single-best")
        if self.settings.judge == "supernet":
            return _seconds(stages, ("supernet", f"rival {method}"))
        return self.judged.seconds([architecture for architecture, _ in self.selection(method).candidates])

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
    settings = contest.settings
    return nes_re(
        contest.run.space,
        contest.candidates[: settings.first],
        contest.size,
        score,
        budget=settings.pool,
        parents=settings.parents,
        generator=rng.generator(contest.run.recipe.seed, "rivals", "nes-re"),
    )


def _one_shot(method: str) -> Callable[[Contest], Selection]:
    """A method that finds one architecture by a supernet of its own."""
    return lambda contest: replace(Selection.given((one_shot(contest.run, method),)), sampler=method)


def _nesbs_mc(contest: Contest) -> Selection:
    run = contest.run
    supernet, posterior = run.supernet(), run.posterior()
    with run.stage("rival nesbs-mc", 1) as stage:
        return search(
            supernet,
            posterior,
            run.data.search_valid,
            size=contest.size,
            sampler=MonteCarlo(),
            combine=run.recipe.ensemble.combine,
            seed=run.recipe.seed,
            on_estimate=stage.share,
            **{**run.recipe.search.model_dump(), "tune": "grid"},
        )


def _predicted(contest: Contest, architectures: Sequence[Architecture]) -> Tensor:
    """Logits on the test images, (members, images, classes): of trained networks, or with the supernet's weights."""
    run, test = contest.run, contest.run.data.test
    if contest.settings.measure == "supernet":
        return (
            Estimator(run.supernet(), test, batch_size=run.recipe.search.batch_size).log_probs(architectures).double()
        )
    ensemble = Ensemble(contest.trained.members(architectures))
    return ensemble.predict(test, batch_size=run.recipe.evaluation.batch_size).double()


def _passes(contest: Contest, architectures: Sequence[Architecture]) -> Tensor:
    [member] = contest.trained.members(architectures)
    return mc_droppath(
        member,
        contest.run.data.test,
        probability=contest.settings.drop_path,
        passes=contest.settings.passes,
        generator=rng.generator(contest.run.recipe.seed, "rivals", "mc-droppath"),
        batch_size=contest.run.recipe.evaluation.batch_size,
    ).double()


def _snapshots(contest: Contest, architectures: Sequence[Architecture]) -> Tensor:
    run = contest.run
    lengths = [share.epochs for share in cycles(run.recipe.members, contest.size)]
    with run.stage("snapshot", sum(lengths)) as stage:

        def heard(cycle: int, epoch: Epoch) -> None:
            stage.write()
            stage.advance(sum(lengths[:cycle]) + epoch.number, f"cycle {cycle + 1}, loss {epoch.loss:.3f}")

        ensemble = snapshot(
            run.space,
            architectures[0],
            run.train_images,
            run.recipe.members,
            size=contest.size,
            seed=run.recipe.seed,
            folder=run.folder / "snapshot",
            on_epoch=heard,
        )
    return ensemble.predict(run.data.test, batch_size=run.recipe.evaluation.batch_size).double()


METHODS: dict[str, Callable[[Contest], Selection]] = {
    REFERENCE: lambda contest: contest.run.selection(),
    "nesbs-mc": _nesbs_mc,
    "urs": _judging("urs", lambda contest, score: urs(contest.candidates, contest.size, score)),
    "nes-rs": _judging("nes-rs", lambda contest, score: nes_rs(contest.candidates, contest.size, score)),
    "nes-re": _judging("nes-re", _nes_re),
    "deep": lambda contest: deep(contest.one(), contest.size),
    "mc-droppath": lambda contest: Selection.given((contest.one(),)),
    "snapshot": lambda contest: Selection.given((contest.one(),)),
    "single-best": _judging("single-best", lambda contest, score: single_best(contest.candidates, score)),
    **{name: _one_shot(name) for name in ONE_SHOT},
}
OF_ONE = ("deep", "mc-droppath", "snapshot")  # methods that take one architecture
OWN_TRAINING = (*OF_ONE, *ONE_SHOT)  # they cannot be measured with the supernet's weights
PREDICTS: dict[str, Callable[[Contest, Sequence[Architecture]], Tensor]] = {
    "mc-droppath": _passes,
    "snapshot": _snapshots,
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
