"""The methods of the paper's rows: those of `nesbs compare`, and some that only its tables have.

deep:darts-v2, mc-droppath:darts-v2, single:gdas   an ensemble or a network of a published cell
nesbs-best-response, nesbs-mc-best-response        NESBS with the best-response posterior (app. C.2)
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import fmean

from nesbs import files
from nesbs.compare.ahead import Ahead, one_shot_ahead
from nesbs.compare.harness import Harness, rival_file
from nesbs.compare.method import Method
from nesbs.compare.methods import METHODS
from nesbs.compare.one_architecture import Deep, McDropPath, OneArchitecture
from nesbs.compare.posterior_search import PosteriorSearch
from nesbs.ensemble import Ensemble
from nesbs.errors import NesbsError
from nesbs.posterior import Posterior
from nesbs.records.experiment import MethodRow
from nesbs.records.metrics import EnsembleMetrics
from nesbs.reproduce.spec import BEST_RESPONSE
from nesbs.rivals import SearchRequest, best_response
from nesbs.runs.folder import read_posterior
from nesbs.runs.resumable_run import Run
from nesbs.spaces import zoo
from nesbs.supernet import Supernet

SCORES = ("error", "top5_error", "nll", "brier", "ece", "member_error", "disagreement")


class BestResponse(PosteriorSearch):
    """NESBS with the best-response posterior in place of its own."""

    stages = ("best response",)

    def __init__(self, plain: PosteriorSearch) -> None:
        said = f"{plain.name} with the best-response posterior"
        super().__init__(plain.name + BEST_RESPONSE, said, plain.sampler, plain.rounds)

    def trained(self, harness: Harness) -> tuple[Supernet, Posterior]:
        """Return the supernet and the posterior that are trained together."""
        return best_response_of(harness.run)

    def trains_ahead(self, harness: Harness) -> list[Ahead]:
        """The supernet and the posterior that are trained together, unless they are."""
        run, (_, fitted, checkpoint) = harness.run, _best_response_files(harness.run)
        search = partial(best_response, posterior=run.recipe.posterior)
        return (
            []
            if fitted.is_file()
            else [one_shot_ahead(run, "best response", checkpoint, _best_response_request(run), search)]
        )


# What KIND:CELL stands for.
OF_A_CELL = {"deep": Deep, "mc-droppath": McDropPath, "single": OneArchitecture}


def paper_method(name: str) -> Method:
    """Return the method of a row: one of `nesbs compare`, of a published cell, or with the best-response posterior.

    >>> paper_method("deep:darts-v2").name, paper_method("nesbs-mc-best-response").name
    ('deep-of-darts-v2', 'nesbs-mc-best-response')
    """
    kind, _, cell = name.partition(":")
    if cell:
        return OF_A_CELL[kind](cell)
    plain = METHODS[name.removesuffix(BEST_RESPONSE)]
    return BestResponse(plain) if name not in METHODS and isinstance(plain, PosteriorSearch) else plain


def check_cell(name: str, run: Run) -> None:
    """Raise where a method is of a cell that is not there or cannot be built in this run's network."""
    _, _, cell = name.partition(":")
    if cell and cell not in zoo:
        raise NesbsError(f"the zoo has no cell {cell}")
    if cell:
        paper_method(name).check(run.recipe, run.data, run.space)


def trained_ensemble(name: str, harness: Harness) -> Ensemble:
    """Return what a method chose, trained in full."""
    architectures = paper_method(name).selection(harness).architectures
    return Ensemble(harness.trained.members(architectures), harness.run.recipe.ensemble.combine)


def hand_over(name: str, harness: Harness, searched: Harness | None) -> None:
    """Make what a method chose where it `searched` its choice here, too."""
    method = paper_method(name)
    if searched is not None and not method.has_chosen(harness.run.folder):
        path = rival_file(harness.run.folder, method.name, "selection.json")
        files.write_json(path, method.selection(searched).to_json())


def measured_row(name: str, harness: Harness, searched: Harness | None = None) -> MethodRow:
    """Measure a method on the test images; where it `searched` on other data, its choice is trained and measured here.

    What a run folder says of it already is taken from there, also where the networks' weights are gone.
    """
    method, run = paper_method(name), harness.run
    hand_over(name, harness, searched)
    outcome = method.outcome(harness)
    scores = outcome.scores or EnsembleMetrics()
    seconds = outcome.search_seconds if searched is None else round(method.search_seconds(searched), 3)
    costs = [run.costs.members(architecture) for architecture in method.selection(harness).architectures]
    return MethodRow(
        seed=run.recipe.seed,
        architectures=outcome.architectures,
        **{score: getattr(scores, score) for score in SCORES},
        parameters=fmean(cost.parameters for cost in costs),
        multiply_adds=fmean(cost.multiply_adds for cost in costs),
        search_seconds=None if ":" in name else seconds,  # others found a published cell
        training_seconds=outcome.training_seconds,
    )


def best_response_of(run: Run) -> tuple[Supernet, Posterior]:
    """Train the best-response supernet and posterior of a run, or load them where they are there."""
    request, (weights, fitted, checkpoint) = _best_response_request(run), _best_response_files(run)
    of = f"the best-response supernet of seed {run.recipe.seed}"
    if fitted.is_file():
        files.discard(checkpoint)
        supernet = request.supernet()
        files.load_into(supernet, files.read_tensors(weights, run.device, of=of)[0], weights)
        supernet.eval()
        return supernet, read_posterior(fitted, run.space)
    with run.stage("best response", request.settings.epochs, fresh=not checkpoint.is_file()) as stage:
        request = replace(request, checkpoint=checkpoint, on_epoch=stage.epoch)
        supernet, posterior = best_response(request, run.recipe.posterior)
        files.write_tensors(weights, supernet.state_dict(), of=of)
        files.write_json(fitted, posterior.to_json())  # last: it says that the stage is done
        files.discard(checkpoint)
    return supernet, posterior


def _best_response_request(run: Run) -> SearchRequest:
    settings = run.recipe.supernet.model_copy(update={"paths": "one"})
    return SearchRequest(run.space, run.data.search_train, run.data.search_valid, settings, seed=run.recipe.seed)


def _best_response_files(run: Run) -> tuple[Path, Path, Path]:
    """The files of the weights, of the posterior, and of the training so far."""
    folder = run.folder / f"best-response-{run.recipe.posterior.estimator}"
    return folder / "supernet.safetensors", folder / "posterior.json", folder / "checkpoint.safetensors"
