"""An experiment at work: what it was asked for, its record, and the runs that experiments share.

OUT/reproduce.json                       says whose folder this is
OUT/SCALE/NAME/record.json               everything measured, as far as it got
OUT/SCALE/NAME/NAME.md .tex .csv .png .svg   drawn from it
OUT/SCALE/runs/DATA-SPACE-DIGEST/seed-0/ …   run folders, one for each recipe: what one name trained, others find
"""

import datetime
import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from nesbs import files
from nesbs.cluster import Workers
from nesbs.compare.harness import Harness
from nesbs.compare.methods import METHODS
from nesbs.compare.over_seeds import begin
from nesbs.data import load_dataset
from nesbs.errors import NesbsError
from nesbs.records import ExperimentRecord, LockRecord
from nesbs.records.experiment import Asked
from nesbs.records.recipe import Recipe, flatten
from nesbs.reproduce.paper_methods import check_cell
from nesbs.reproduce.spec import DataPart, Experiment, Scale, ScaleName
from nesbs.runs.resumable_run import Run
from nesbs.runs.stage_progress import Progress, device_name
from nesbs.version import __version__

MARK = "reproduce.json"  # written first; what makes a folder ours
OF_THE_MACHINE = {"data.root", "data.workers", "members.together", "members.workers"}  # figures stay, rounding aside
WITHOUT_EFFECT = {"seed", "threads"} | OF_THE_MACHINE  # on what a shared folder holds
# Settings that older folders do not know: at their defaults they do not count for a folder's name.
ADDED_LATER = {"supernet.colour_jitter", "members.colour_jitter", "posterior.schedule", "sampler.variance"}
ADDED_LATER |= {"data.class_weights", "data.calibration_fraction", "supernet.image_size"}
ADDED_LATER |= {"data.rare_classes", "data.rare_fraction"}
ADDED_LATER |= {
    "posterior.untrained_cells",
    "posterior.untrained_channels",
    "supernet.batch_norm",
    "members.batch_norm",
    "members.kernels",
}
ADDED_LATER |= {f"search.{name}" for name in ("judge", "gain", "gain_pool", "noise", "apart")}
ADDED_LATER |= {f"search.limits.{name}" for name in ("parameters", "multiply_adds", "latency", "device", "per")}
ADDED_LATER |= {f"search.judge_{name}" for name in ("candidates", "epochs", "pool", "seconds")}


@dataclass
class Work:
    """One experiment at one scale in one folder; `record` is what the tables and figures are made of."""

    experiment: Experiment
    scale_name: ScaleName
    out: Path
    changes: tuple[str, ...] = ()
    seed: int | None = None
    device: str = "cpu"
    progress: Progress = field(default_factory=Progress)
    workers: Workers | None = None
    record: ExperimentRecord = field(default_factory=ExperimentRecord)
    counted: float = field(default_factory=time.perf_counter)  # until when seconds are in the record

    @property
    def scale(self) -> Scale:
        """Return what is run."""
        return self.experiment.scales[self.scale_name]

    @property
    def folder(self) -> Path:
        """Return where the record and what is drawn from it go."""
        return self.out / self.scale_name / self.experiment.name

    def check_folder(self) -> None:
        """Raise where the folder is someone else's."""
        if self.out.exists() and not self.out.is_dir():
            raise NesbsError(f"--out {self.out} is a file: name a folder")
        names = [entry.name for entry in self.out.iterdir()] if self.out.is_dir() else []
        ours = all(name.endswith(files.PART) or name.startswith(LockRecord.FILE) for name in names)
        if MARK not in names and not ours:
            raise NesbsError(f"--out {self.out} holds something else: name another folder")

    def begin(self) -> None:
        """Take the folder, or resume in it; raise where it was made by another command."""
        changes = of_the_experiment(self.changes)
        asked = Asked(name=self.experiment.name, scale=self.scale_name, set=changes, seed=self.seed)
        record = ExperimentRecord.find(self.folder)
        if record is None or not (record.parts or record.gaussians):  # nothing is measured: not bound to a command
            record = ExperimentRecord(asked=asked, seconds=record and record.seconds)
        earlier = record.asked or Asked()
        earlier = earlier.replace(set=of_the_experiment(earlier.set or ()))  # older versions kept them
        if earlier != asked:
            options = [f"--set {change}" for change in earlier.set or ()]
            options += [] if earlier.seed is None else [f"--seed {earlier.seed}"]
            raise NesbsError(
                f"{self.folder} was made with {' '.join(options) or 'no --set and no --seed'}: give the same, or name "
                "another folder with --out"
            )
        record = self._without_old_parts(record)
        left_out = self._left_out()
        if record.complete and set(self.scale.parts) - set(record.parts or {}) - set(left_out):
            record = record.replace(complete=None)  # data that were missing are there now
        here = {"torch": torch.__version__, "device": device_name(self.device)}
        if record.complete:  # what it was made on stays, wherever it is looked at
            here = {}
        elif record.started is None:
            here["started"] = datetime.date.today().isoformat()
        self.record = record.replace(left_out=left_out, parts=record.parts or {}, **here)
        if not (self.out / MARK).is_file():
            files.write_json(self.out / MARK, {"nesbs": __version__})
        self.save()

    def save(self, **values: Any) -> None:
        """Write the record, with other values for some of its fields, and the seconds since it was last written."""
        now, before = time.perf_counter(), self.record.seconds or 0.0
        spent = 0.0 if self.record.complete else now - self.counted  # looking at a finished one takes nothing
        self.counted = now
        self.record = self.record.replace(seconds=round(before + spent, 3), **values)
        self.record.write(self.folder / ExperimentRecord.FILE)

    def save_part(self, label: str, **values: Any) -> None:
        """Write the record, with other values for some fields of one of its parts."""
        self.record = self.record.with_part(label, **values)
        self.save()

    def leave_out(self, reasons: Mapping[str, str]) -> None:
        """Say in the record what could not be run, and why."""
        self.record = self.record.replace(left_out={**(self.record.left_out or {}), **reasons})

    def parts(self) -> Iterator[tuple[str, DataPart, Recipe]]:
        """Yield the parts whose data are there, with their recipes."""
        for label, part in self.scale.parts.items():
            if label not in (self.record.left_out or {}):
                yield label, part, self.recipe(part)

    def recipe(self, part: DataPart) -> Recipe:
        """Return a part's recipe under the user's changes, with whole paths."""
        recipe = part.resolved(self.changes, self.seed)
        return recipe.model_copy(update={"data": recipe.data.resolved(), "evaluation": recipe.evaluation.resolved()})

    def one_seed(self) -> Iterator[tuple[str, DataPart, Harness]]:
        """Yield the parts whose data are there, with a harness for the first seed of each."""
        for label, part, [harness] in self.all_seeds(count=1):
            yield label, part, harness

    def all_seeds(self, count: int | None = None) -> Iterator[tuple[str, DataPart, list[Harness]]]:
        """Yield the same with harnesses for so many seeds, by default the scale's."""
        for label, part, recipe in self.parts():
            seeds = range(recipe.seed, recipe.seed + (count or self.scale.seeds))
            harnesses = [self.harness(label, recipe, seed) for seed in seeds]
            self._describe(label, harnesses[0].run)
            yield label, part, harnesses

    def methods(self, label: str, harness: Harness) -> list[str]:
        """Return the methods that can be run on a part; the record says which of the paper's rows cannot."""
        asked = self.experiment.asked(self.scale_name, label)
        reasons = {}
        for row, methods in asked.items():
            try:
                for method in methods:
                    check_cell(method, harness.run)
            except NesbsError as error:
                reasons[row] = str(error)
        earlier = {name: why for name, why in (self.record.left_out or {}).items() if name not in asked}
        self.record = self.record.replace(left_out={**earlier, **reasons})
        return [method for row, methods in asked.items() if row not in reasons for method in methods]

    def place(self, recipe: Recipe) -> Path:
        """Return the folder of a recipe's runs, the same for every experiment at this scale."""
        values, usual = (flatten(each.model_dump(mode="json")) for each in (recipe, Recipe()))
        left_out = WITHOUT_EFFECT | {key for key in ADDED_LATER if values[key] == usual[key]}
        values = {key: value for key, value in values.items() if key not in left_out}
        digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:8]
        data = re.sub(r"[^\w.-]+", "-", Path(recipe.data.name).name)
        return self.out / self.scale_name / "runs" / f"{data}-{recipe.space.name}-{digest}"

    def harness(self, label: str, recipe: Recipe, seed: int) -> Harness:
        """Return the harness around the run of a part's recipe under one seed."""
        folder = self.place(recipe)
        if recipe.ensemble.architectures is None:
            asked = [method for methods in self.experiment.asked(self.scale_name, label).values() for method in methods]
            begin(recipe, folder, [METHODS[method] for method in asked if method in METHODS], self.scale.seeds)
        own = recipe.model_copy(update={"seed": seed})
        place = folder / f"seed-{seed}"
        return Harness(Run.create(place, own, device=self.device, progress=self.progress, workers=self.workers))

    def _describe(self, label: str, run: Run) -> None:
        """Say in the record what a part is made on."""
        data, recipe, part = run.data, run.recipe, self.scale.parts[label]
        self.record = self.record.with_part(
            label,
            runs=run.folder.parent.name,
            data=data.name,
            train_images=len(data.train),
            test_images=len(data.test),
            size=tuple(data.train.size),
            space=recipe.space.name,
            ensemble_size=recipe.ensemble.size,
            searched_on=part.searched_on,
            added=recipe.additions(),
            epochs={
                "supernet": recipe.supernet.epochs if part.searched_on is None else None,
                "members": None if part.search_only else recipe.members.epochs,
            },
        )

    def _without_old_parts(self, record: ExperimentRecord) -> ExperimentRecord:
        """The record without parts whose recipe was another: an older version's, whose rows are not beside today's."""
        places = {label: self.place(self.recipe(part)).name for label, part in self.scale.parts.items()}
        kept = {label: part for label, part in (record.parts or {}).items() if part.runs == places.get(label)}
        if len(kept) == len(record.parts or {}):
            return record
        return ExperimentRecord(asked=record.asked, parts=kept, seconds=record.seconds)

    def _left_out(self) -> dict[str, str]:
        """Find the parts whose data cannot be loaded, and why; raise where no part can be run."""
        missing: dict[str, str] = {}
        for label, part in self.scale.parts.items():
            recipe = self.recipe(part)
            try:
                if part.searched_on in missing:
                    raise NesbsError(f"{part.searched_on}, on which the search is made, is not there")
                load_dataset(**recipe.data.model_dump())
            except NesbsError as error:
                missing[label] = str(error)
        if missing and len(missing) == len(self.scale.parts):
            raise NesbsError(
                f"{self.experiment.name} at scale {self.scale_name}: {next(iter(missing.values()))}. Give --set "
                "data.root=FOLDER; --scale smoke needs no data beyond the package's"
            )
        return missing


def of_the_experiment(changes: Sequence[str]) -> tuple[str, ...]:
    """The changes of settings that change what is made."""
    return tuple(change for change in changes if change.partition("=")[0] not in OF_THE_MACHINE)
