"""A run in which the paper's rows are found: the methods of `nesbs compare`, and those that only its tables have.

deep:darts-v2, mc-droppath:darts-v2, single:gdas   an ensemble or a network of a published cell
nesbs-best-response, nesbs-mc-best-response        NESBS with the best-response posterior (app. C.2)
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from statistics import fmean

import torch

from nesbs import files
from nesbs.compare.methods import Contest
from nesbs.ensemble import Ensemble, Selection, design_member, search
from nesbs.errors import NesbsError
from nesbs.posterior import Posterior
from nesbs.records.experiment import MethodRow
from nesbs.reproduce.spec import BEST_RESPONSE
from nesbs.rivals import best_response
from nesbs.runs.run import Run
from nesbs.samplers import MonteCarlo, get_sampler
from nesbs.spaces import multiply_adds, named_architecture, parameters, zoo
from nesbs.supernet import Supernet, build_supernet

SCORES = ("error", "top5_error", "nll", "brier", "ece", "member_error", "disagreement")


class PaperContest(Contest):
    """A contest that also knows ensembles of published cells, and NESBS with the best-response posterior."""

    def selection(self, method: str) -> Selection:
        """What a method chooses, once."""
        path = self._path(method)
        if not path.is_file() and (":" in method or method.endswith(BEST_RESPONSE)):
            chosen = self._of_a_cell(method) if ":" in method else self._with_best_response(method)
            files.write_json(path, chosen.to_json())
        return super().selection(stem(method))

    def check(self, method: str) -> None:
        """Raise where a method is of a cell that is not there or cannot be built in this recipe's network."""
        _, _, cell = method.partition(":")
        if not cell:
            return
        if cell not in zoo:
            raise NesbsError(f"the zoo has no cell {cell}")
        with torch.device("meta"):
            architecture = named_architecture(self.run.space, cell)
            design_member(self.run.space, architecture, self.run.data.train, self.run.recipe.members)

    def search_seconds(self, method: str) -> float:
        """What finding the architectures took; nothing for a published cell."""
        if method.endswith(BEST_RESPONSE):
            stages = self.run.record["stages"]
            return sum(float(stages.get(name, {}).get("seconds", 0.0)) for name in ("best response", f"rival {method}"))
        return 0.0 if "-of-" in method else super().search_seconds(method)

    def ensemble(self, method: str) -> Ensemble:
        """What a method chose, trained in full."""
        members = self.trained.members(self.selection(method).architectures)
        return Ensemble(members, self.run.recipe.ensemble.combine)

    def row(self, method: str, searched: PaperContest | None = None, *, count: bool = False) -> MethodRow:
        """A method's figures on the test images; `searched` on other data, its choice is trained and measured here.

        Multiply-adds, which take their time, are counted where `count` asks for it.
        """
        if searched is not None and not self._path(method).is_file():
            files.write_json(self._path(method), searched.selection(method).to_json())
        architectures = self.selection(method).architectures
        found = self.outcome(stem(method))
        search_seconds = found["search_seconds"] if searched is None else searched.search_seconds(stem(method))
        split, members = self.run.data.test, self.trained.members(architectures)
        image = (split.channels, *split.size)
        return MethodRow(
            seed=self.run.recipe.seed,
            architectures=found["architectures"],
            **{name: found["scores"][name] for name in SCORES},
            parameters=fmean(parameters(member) for member in members),
            multiply_adds=fmean(multiply_adds(member, image) for member in members) if count else None,
            search_seconds=None if ":" in method else round(search_seconds, 3),  # a published cell was found elsewhere
            training_seconds=found["training_seconds"],
        )

    @cached_property
    def best_response(self) -> tuple[Supernet, Posterior]:
        """The supernet and the posterior that are trained together, once (`best-response/`)."""
        return best_response_of(self.run)

    def _path(self, method: str) -> Path:
        return self.run.folder / "rivals" / f"{stem(method)}.selection.json"

    def _of_a_cell(self, method: str) -> Selection:
        kind, _, cell = method.partition(":")
        architecture = named_architecture(self.run.space, cell)
        return Selection.fixed((architecture,) * (self.size if kind == "deep" else 1))

    def _with_best_response(self, method: str) -> Selection:
        supernet, posterior = self.best_response
        recipe = self.run.recipe
        sampler = MonteCarlo() if method.startswith("nesbs-mc") else get_sampler(recipe.sampler)
        with self.run.stage(f"rival {method}", 1) as stage:
            return search(
                supernet,
                posterior,
                self.run.data.search_valid,
                size=self.size,
                sampler=sampler,
                combine=recipe.ensemble.combine,
                seed=recipe.seed,
                on_progress=stage.share,
                **{**recipe.search.model_dump(), "tune": "grid"},
            )


def stem(method: str) -> str:
    """A method in file names.

    >>> stem("deep:darts-v2"), stem("nes-rs")
    ('deep-of-darts-v2', 'nes-rs')
    """
    return method.replace(":", "-of-")


def best_response_of(run: Run) -> tuple[Supernet, Posterior]:
    """Stage: the best-response supernet and posterior of a run, loaded where they are there."""
    folder, settings = run.folder / "best-response", run.recipe.supernet.model_copy(update={"paths": "one"})
    weights, fitted = folder / "supernet.safetensors", folder / "posterior.json"
    checkpoint = folder / "checkpoint.safetensors"
    if fitted.is_file():
        checkpoint.unlink(missing_ok=True)
        supernet = build_supernet(run.space, run.data.search_train, settings, seed=run.recipe.seed)
        files.load_into(supernet, files.read_tensors(weights, run.device)[0], weights)
        supernet.eval()
        return supernet, Posterior.from_json(files.read_json(fitted))
    with run.stage("best response", settings.epochs) as stage:
        supernet, posterior = best_response(
            run.space,
            run.data.search_train,
            run.data.search_valid,
            seed=run.recipe.seed,
            supernet=settings,
            posterior=run.recipe.posterior,
            checkpoint=checkpoint,
            on_epoch=stage.epoch,
        )
        files.write_tensors(weights, supernet.state_dict())
        files.write_json(fitted, posterior.to_json())  # last: it says that the stage is done
        checkpoint.unlink(missing_ok=True)
    return supernet, posterior
