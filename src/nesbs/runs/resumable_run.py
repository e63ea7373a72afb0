"""A run: its stages wired together, each made once and kept in the run folder, so that a stopped run is resumed.

    RUN/recipe.yaml record.json supernet.safetensors posterior.json selection.json members/ metrics.json
        predictions.json

A stage is done when its file is there; files appear whole or not at all, so the same command on the same
folder resumes the run, also after `kill -9`. `uniform/` holds the members of the uniform-random
ensemble where the recipe asks for one. `members/classifier.json` is all that predicting needs beside the weights.
"""

import contextlib
import itertools
import json
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from nesbs import files, rng
from nesbs.cluster.torchrun import on_all_ranks
from nesbs.ensemble import Ensemble, SearchSettings, Selection, by_content, search
from nesbs.errors import DivergedError, NesbsError
from nesbs.evaluation import EvaluationSettings
from nesbs.posterior import Posterior, ReferenceRanks, fit_posterior, reference_ranks
from nesbs.posterior.evidence import OnProgress
from nesbs.records import (
    ClassifierRecord,
    DistilledRecord,
    HeldOutAnswers,
    MetricsRecord,
    PredictionsRecord,
)
from nesbs.runs import folder as folders
from nesbs.runs.beside import Beside, idle_workers
from nesbs.runs.by_workers import MemberTraining
from nesbs.runs.classifier import describe_classifier, keep, keep_temperature
from nesbs.runs.folder import MEMBERS, SUPERNET_CHECKPOINT, UNIFORM
from nesbs.runs.folder_lock import holds, locked
from nesbs.runs.judging import KeptTraining, note_judging
from nesbs.runs.measures import WITH_SCORES, answers_to_keep, gather, measure, missing_measures, units
from nesbs.runs.members import copy_members, network_in, trained_members, workers_of
from nesbs.runs.opened_run import OpenedRun
from nesbs.runs.predictions import show, to_show
from nesbs.runs.stage_progress import Stage
from nesbs.samplers import Sampler, Uniform, for_one_draw, get_sampler
from nesbs.spaces import Architecture, sizes_of
from nesbs.supernet import Supernet, build_supernet, train_supernet


class Run(OpenedRun):
    """One folder, one recipe. Each stage is a method that loads what is there or makes it."""

    _ranks: ReferenceRanks | None = None  # made by `ranks`

    def supernet(self) -> Supernet:
        """Stage 1 (Algorithm 1, line 2)."""
        path, settings = self.folder / "supernet.safetensors", self.recipe.supernet
        images, seed = self.data.search_train, self.recipe.seed
        checkpoint, of = self.folder / SUPERNET_CHECKPOINT, f"the supernet of seed {seed}"
        if path.is_file():
            files.discard(checkpoint)
            supernet = build_supernet(self.space, images, settings, seed=seed)
            tensors, about = files.read_tensors(path, self.device, of=of)
            files.load_into(supernet, tensors, path)
            supernet.eval()
            supernet.losses, supernet.updates = (files.about_json(about, name, path) for name in ("losses", "updates"))
            return supernet
        with self.stage("supernet", settings.epochs, fresh=not checkpoint.is_file()) as stage:
            train = partial(train_supernet, self.space, images, seed=seed, **settings.model_dump())
            supernet = on_all_ranks(train, checkpoint=checkpoint, on_epoch=stage.epoch)
            parameters = sum(parameter.numel() for parameter in supernet.parameters())
            stage.note(losses=supernet.losses, updates=supernet.updates, parameters=parameters)
            about = {"losses": json.dumps(supernet.losses), "updates": json.dumps(supernet.updates)}
            files.write_tensors(path, supernet.state_dict(), **about, of=of)
            files.discard(checkpoint)
        return supernet

    def posterior(self) -> Posterior:
        """Stage 2 (line 3)."""
        path, settings = self.folder / "posterior.json", self.recipe.posterior
        if path.is_file():
            return folders.read_posterior(path, self.space)
        supernet = self.supernet()
        with self.stage("posterior", settings.steps * settings.starts, fresh=True) as stage:
            figures: list[tuple[float, float]] = []  # entropy and evidence; the fits take their steps in turn
            chosen: list[int] = []

            def on_step(step: int, entropy: float, evidence: float) -> None:
                figures.append((entropy, evidence))
                stage.figure("entropy", entropy, step)
                stage.advance(step, f"entropy {entropy:.2f} nats")

            posterior = fit_posterior(
                supernet,
                self.data.search_valid,
                seed=self.recipe.seed,
                ranks=self.ranks(stage.untrained),
                on_step=on_step,
                on_best_start=chosen.append,
                **settings.model_dump(),
            )
            fits = [figures[start :: settings.starts] for start in range(settings.starts)]
            entropies = [entropy for fit in fits for entropy, _ in fit]
            _, evidence = fits[chosen[0]][-1]
            stage.note(entropies=entropies, starts=settings.starts, kept=chosen[0] + 1, evidence=evidence)
            files.write_json(path, posterior.to_json())
        return posterior

    def selection(self) -> Selection:
        """Stage 3 (lines 4 to 8)."""
        path = self.folder / "selection.json"
        if path.is_file():
            return folders.read_selection(path, self.space)
        fixed = self.recipe.ensemble.fixed(self.space)
        if fixed is not None:
            files.write_json(path, Selection.fixed(fixed).to_json())
            return Selection.fixed(fixed)
        supernet, posterior = self.supernet(), self.posterior()
        judge = "judge"
        with self.stage("selection", 1, fresh=not (self.folder / judge).is_dir()) as stage:
            sampler, settings = get_sampler(self.recipe.sampler), self.recipe.search
            selection = self.search(supernet, posterior, sampler, settings, stage, folder=judge)
            stage.note(delta_trace=[list(pair) for pair in selection.trace])
            self.costs.keep_times(selection.architectures)
            files.write_json(path, selection.to_json())
        return selection

    def search(
        self,
        supernet: Supernet,
        posterior: Posterior,
        sampler: Sampler,
        settings: SearchSettings,
        stage: Stage,
        *,
        folder: str,
    ) -> Selection:
        """Choose an ensemble as part of a stage; what its judge trains is kept in a folder of the run."""
        started = time.perf_counter()
        ranks = self.ranks(stage.untrained) if settings.judge == "evidence" else None
        prepared = time.perf_counter() - started
        images, members, costs = self.data.search_train, self.recipe.members, self.costs.members
        training = KeptTraining(
            images, members, folder=self.folder / folder, stage=stage, costs=costs, workers=self.workers
        )
        selection = search(
            supernet,
            posterior,
            self.data.search_valid,
            size=self.recipe.ensemble.size,
            sampler=sampler,
            combine=self.recipe.ensemble.combine,
            seed=self.recipe.seed,
            ranks=ranks,
            training=training,
            on_progress=stage.share,
            **settings.model_dump(),
        )
        note_judging(stage, selection, prepared)
        return selection

    def ranks(self, on_progress: OnProgress | None = None) -> ReferenceRanks | None:
        """The reference that the posterior is fitted to, made once; None where the recipe has none."""
        if self._ranks is None:
            members = self.recipe.members.cells, self.recipe.members.channels
            images, settings, seed = self.data.search_valid, self.recipe.posterior, self.recipe.seed
            self._ranks = reference_ranks(
                self.space, images, settings, seed=seed, members=members, on_progress=on_progress
            )
            if self._ranks is not None:
                self._ranks.score_ahead(on_progress)
        return self._ranks

    def ensemble(self) -> Ensemble:
        """Stage 4: the chosen architectures, or those the recipe fixes, trained from scratch.

        What predicting needs is kept beside the members, unless this process only looks at a run.
        """
        architectures, folder = self.selection().architectures, self.folder / MEMBERS
        trained = all((folder / f"{index}.safetensors").is_file() for index in range(len(architectures)))
        if not trained and (self.folder / DistilledRecord.FILE).is_file():
            raise NesbsError(f"{self.folder} is to learn from another run's answers: `nesbs distil` goes on with it")
        ensemble = self._trained(MEMBERS, architectures)
        if not trained or holds(self.folder):
            with locked(self.folder):
                keep(self.classifier(ensemble), folder)
        return ensemble

    def adopt(self, pool: Path) -> None:
        """Copy the run's members from a folder of networks that were trained as members are, named `by_content`.

        Nothing is trained: where nothing is chosen yet, or a network is missing, nothing is copied. Members that the
        run has, or has begun to train, stay. The seconds of the networks' training are not counted again.
        """
        begun = MEMBERS in (self.record.stages or {}) and any((self.folder / MEMBERS).glob("*.safetensors"))
        if begun or not (self.folder / "selection.json").is_file():
            return
        architectures = self.selection().architectures
        stems = by_content(architectures)
        if not all((pool / f"{stem}.safetensors").is_file() for stem in stems):
            return
        with self.stage(MEMBERS, len(stems)) as stage:
            folder, images = self.folder / MEMBERS, self.train_images
            losses = copy_members(architectures, stems, source=pool, folder=folder, seed=self.recipe.seed)
            members = self.ensemble().members
            # Last: until the record knows of the members, a run that was killed here does all of it again.
            stage.note(**sizes_of(members, (images.channels, *images.size)), losses=losses)  # type: ignore[arg-type]

    def classifier(self, ensemble: Ensemble) -> ClassifierRecord:
        """What predicting with the trained ensemble needs (`members/classifier.json`)."""
        measured = folders.read_metrics(self.folder / MetricsRecord.FILE)
        return describe_classifier(self.recipe, self.data, ensemble, self.folder / MEMBERS, measured)

    def uniform(self) -> Ensemble:
        """Beside it: as many architectures drawn uniformly, trained the same way."""
        if self._beside is not None:
            self._beside.end()
            self._beside.join()
        return self._trained(UNIFORM, self._uniform_architectures())

    def _uniform_architectures(self) -> tuple[Architecture, ...]:
        random = rng.generator(self.recipe.seed, "uniform ensemble")
        size, duplicates = self.recipe.ensemble.size, for_one_draw(self.recipe.search.duplicates)
        prior = Posterior(self.space)
        [proposal] = Uniform().propose(
            prior, size=size, rounds=1, duplicates=duplicates, allowed=self.limits(), generator=random
        )
        return tuple(proposal.architectures)

    @contextlib.contextmanager
    def uniform_beside(self) -> Iterator[None]:
        """Train the uniform-random ensemble on idle cores inside a `with` block, where a search comes before it.

        It depends on no search. What is left of it when `uniform` is asked for, that trains.
        """
        folder, split = self.folder / UNIFORM, self.train_images
        searched = (self.folder / "selection.json").is_file() or self.recipe.ensemble.architectures is not None
        workers = idle_workers(self.workers or workers_of(split, self.recipe.members))
        if workers is None or searched or not self.recipe.evaluation.uniform or split.device.type != "cpu":
            yield
            return
        architectures = enumerate(self._uniform_architectures())
        missing = {i: each for i, each in architectures if not (folder / f"{i}.safetensors").is_file()}
        training = MemberTraining(self.space, split, self.recipe.members, self.recipe.seed)
        networks = [(training, network_in(folder, i, each)) for i, each in missing.items()]
        with locked(self.folder):
            self._beside = Beside(self.folder, UNIFORM, networks, workers)
            try:
                yield
            except Exception:
                self._beside.end()
                self._beside.join()  # nothing is written once the lock is gone
                raise
            finally:
                self._beside.end()

    def ensembles(self) -> dict[str, Ensemble]:
        """Both by name, the uniform-random one where the recipe asks for it."""
        ensembles = {"ensemble": self.ensemble()}
        if self.recipe.evaluation.uniform:
            ensembles["uniform"] = self.uniform()
        return ensembles

    def scores(self, *, complete: bool = False, **asked: object) -> MetricsRecord:
        """Stage 5: the measures on the test images (`metrics.json`), and predictions to look at (`predictions.json`).

        A measure that a setting of `evaluation` in `asked` names is made anew and put beside what is there. With
        `complete`, a run that was measured by an older nesbs gets what that did not measure.
        """
        path = self.folder / MetricsRecord.FILE
        settings = EvaluationSettings.of({**self.recipe.evaluation.model_dump(), **asked})
        images = len(settings.measured(self.data))
        before = folders.read_metrics(path) or MetricsRecord(
            data=self.data.name, measured_on=settings.images, test_images=images, uniform=None
        )
        names = missing_measures(before.ensemble, settings, (*asked, *(WITH_SCORES if complete else ())))
        showing = to_show(PredictionsRecord.find(self.folder))
        kept = False
        with contextlib.suppress(NesbsError):  # a broken file is made anew
            kept = bool((answers := HeldOutAnswers.find(self.folder / MEMBERS)) and answers.whole())
        keeping = "abstention" in names or (complete and not kept)
        if not names and not showing and not keeping:
            if holds(self.folder):  # one that was killed in between has not kept it
                keep_temperature(self.folder / MEMBERS, before)
            return before
        held_out = self.data.search_valid if self.recipe.members.images == "search_train" else None
        material = gather(self.data, settings, held_out)
        ensembles = self.ensembles()
        with self.stage("evaluation", len(ensembles) * units(names, material) + showing + keeping) as stage:
            numbers = itertools.count(1)

            def on_unit(unit: str) -> None:
                stage.advance(next(numbers), unit)

            if showing:
                show(ensembles["ensemble"], material).write(self.folder / PredictionsRecord.FILE)
                on_unit("predictions to look at")
            if keeping:
                answers_to_keep(ensembles["ensemble"], material).write(self.folder / MEMBERS / HeldOutAnswers.FILE)
                on_unit("answers to held-out images")
            entries = {
                name: measure(getattr(before, name), ensemble, material, names, on_unit)
                for name, ensemble in ensembles.items()
                if names
            }
            measured = folders.with_others(path, before, before.replace(**entries)).write(path)
            for name, entry in entries.items():
                for figure, value in entry.plain():
                    stage.figure(f"{figure} of {name}", value, 0)
            keep_temperature(self.folder / MEMBERS, measured)
            return measured

    def _trained(self, folder: str, architectures: Sequence[Architecture]) -> Ensemble:
        """The members in a folder of the run, loaded where they have been trained and trained where not."""
        try:
            members = trained_members(
                architectures,
                MemberTraining(self.space, self.train_images, self.recipe.members, self.recipe.seed),
                folder=self.folder / folder,
                stage=lambda total: self.stage(folder, total),
                workers=self.workers,
            )
        except DivergedError as error:
            command = f"nesbs train {self.folder} --data {self.recipe.data.name} --out NEW"
            raise NesbsError(
                f"{error}; `{command} --set members.learning_rate=…` trains what was chosen otherwise"
            ) from None
        return Ensemble(members, self.recipe.ensemble.combine)
