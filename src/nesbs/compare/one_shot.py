"""One-shot methods: each trains a supernet in its own way and ends with one architecture, found without training it."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from nesbs.compare.ahead import Ahead, one_shot_ahead
from nesbs.compare.budgets import measured_once, times_within
from nesbs.compare.harness import Harness, rival_file
from nesbs.compare.method import Method
from nesbs.ensemble import Selection
from nesbs.rivals import SearchRequest, SearchResult, darts, enas, gdas, rsps, setn, snas


class OneShot(Method):
    """A method that trains a supernet of its own, a stage of the run that resumes.

    `judges` says whether it judges `rivals.samples` architectures at the end.
    """

    one_network = True
    own_supernet = True

    def __init__(
        self,
        name: str,
        description: str,
        search: Callable[..., SearchResult],
        *,
        judges: bool = False,
        mixes_operations: bool = True,
    ) -> None:
        self.name, self.description, self.mixes_operations = name, description, mixes_operations
        self._search, self._judges = search, judges

    def choose(self, harness: Harness) -> Selection:
        """Search with the recipe's supernet settings; a budget in seconds shortens it to the epochs that fit."""
        run, epochs = harness.run, harness.run.recipe.supernet.epochs
        if (seconds := harness.settings.seconds) is not None:
            most = epochs
            epochs = measured_once(
                run,
                f"{self.name} epochs",
                lambda: times_within(seconds, lambda count: self._search(_request(harness, count)), 1, most=most),
            )
        checkpoint = _checkpoint(harness, self.name)
        with run.stage(f"rival {self.name}", epochs, fresh=not checkpoint.is_file()) as stage:
            result = self._search(replace(_request(harness, epochs), checkpoint=checkpoint, on_epoch=stage.epoch))
        return _selection(self, result)

    def trains_ahead(self, harness: Harness) -> list[Ahead]:
        """Its supernet."""
        request = _request(harness, harness.run.recipe.supernet.epochs)
        checkpoint = _checkpoint(harness, self.name)
        return [one_shot_ahead(harness.run, f"rival {self.name}", checkpoint, request, self._search)]

    def evaluations(self, harness: Harness) -> int:
        """How many architectures were judged at the end."""
        return harness.settings.samples if self._judges else 0


class Rsps(OneShot):
    """Random search on the supernet that NESBS trains, too."""

    own_supernet = False
    stages = ("supernet",)

    def choose(self, harness: Harness) -> Selection:
        """Judge uniform draws with the weights of the run's supernet."""
        supernet = harness.run.supernet()
        with harness.run.stage(f"rival {self.name}", 1, fresh=True):
            return _selection(self, self._search(_request(harness, harness.run.recipe.supernet.epochs), supernet))

    def trains_ahead(self, harness: Harness) -> list[Ahead]:
        """Nothing beside the run's supernet."""
        return []


def _checkpoint(harness: Harness, name: str) -> Path:
    return rival_file(harness.run.folder, name, "checkpoint.safetensors")


def _request(harness: Harness, epochs: int) -> SearchRequest:
    run, recipe = harness.run, harness.run.recipe
    own = recipe.supernet
    return SearchRequest(
        run.space,
        run.data.search_train,
        run.data.search_valid,
        own.model_copy(update={"paths": "one", "epochs": epochs, "warm_up": min(own.warm_up, epochs - 1)}),
        learning_rate=recipe.rivals.learning_rate,
        samples=recipe.rivals.samples,
        batch_size=recipe.search.batch_size,
        seed=recipe.seed,
        allowed=run.limits(1),
    )


def _selection(method: Method, result: SearchResult) -> Selection:
    return replace(Selection.fixed((result.architecture,)), sampler=method.name)


RSPS = "random search with parameter sharing; this and what follows find one network"
ONE_SHOT: tuple[Method, ...] = (
    Rsps("rsps", RSPS, rsps, judges=True, mixes_operations=False),
    OneShot("darts", "differentiable search, first order", darts),
    OneShot("darts-2nd", "the same, second order", partial(darts, second_order=True)),
    OneShot("gdas", "one path a step, drawn by Gumbel-Softmax", gdas),
    OneShot("setn", "weights trained uniformly, an evaluator of paths", setn, judges=True),
    OneShot("enas", "a recurrent controller that learns by reward", enas, judges=True, mixes_operations=False),
    OneShot("snas", "the best-response posterior", snas),
)
