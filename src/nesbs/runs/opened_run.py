"""A run that is opened: its folder, recipe, data and record, and the bookkeeping of its stages (`Run` has these).

Versions, machine and data are written into `record.json` once, the seconds and memory of a stage while it is at work.
"""

import contextlib
import datetime
import platform
import warnings
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Self

import torch

from nesbs import files
from nesbs.cluster import Workers
from nesbs.data import DATASETS, Dataset, Split, in_both_parts, load_dataset
from nesbs.ensemble import Limits
from nesbs.errors import NesbsError
from nesbs.records import Recipe, RunRecord
from nesbs.records.recipe import RECIPE
from nesbs.records.whole_folder import check_begun, check_run
from nesbs.runs import folder as folders
from nesbs.runs.beside import Beside
from nesbs.runs.checks import check_batches, check_recipe
from nesbs.runs.folder import MEMBERS
from nesbs.runs.folder_lock import holds, locked
from nesbs.runs.member_costs import RunCosts
from nesbs.runs.plan import planned_stages
from nesbs.runs.stage_progress import Progress, Stage, device_name
from nesbs.spaces import Space, get_space
from nesbs.training import make_current
from nesbs.training.threads import use_threads


class OpenedRun:
    """One folder, one recipe, one device: what a `Run` is without its stages. Begin with `Run.create` or `Run.open`."""

    def __init__(
        self,
        folder: Path,
        recipe: Recipe,
        *,
        device: str = "cpu",
        progress: Progress | None = None,
        data: Dataset | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.folder = folder
        self.recipe = recipe
        self.device = device
        make_current(device)
        self.progress = progress or Progress()
        self.workers = workers  # None: those that the recipe names (members.workers)
        self._recorded = False  # whether versions, machine and data are in the record
        self._beside: Beside | None = None
        if data is not None:
            self.data = data.to(device)

    @classmethod
    def create(
        cls,
        folder: Path,
        recipe: Recipe,
        *,
        device: str = "cpu",
        progress: Progress | None = None,
        data: Dataset | None = None,
        workers: Workers | None = None,
    ) -> Self:
        """Start a run, or resume the run that this recipe began in the folder.

        With `data` the images are not those that the recipe names, but given; its `data.name` must tell them from
        others. A run of another recipe gives way where it has finished no stage; else it is refused.
        """
        recipe = recipe.model_copy(update={"data": recipe.data.resolved(), "evaluation": recipe.evaluation.resolved()})
        folder = Path(folder)
        check_run(folder)
        folders.begun(folder)  # into a folder of something else not even a lock is put
        with locked(folder):
            earlier = folders.to_resume(folder, recipe)
            if earlier is not None:
                run = cls(folder, earlier, device=device, progress=progress, data=data, workers=workers)
            else:
                if recipe.threads is None:
                    recipe = recipe.model_copy(update={"threads": torch.get_num_threads()})
                run = cls(folder, recipe, device=device, progress=progress, data=data, workers=workers)
                check_recipe(
                    recipe, run.data, run.space, run.costs.members
                )  # one that cannot work leaves no folder behind
                if folders.clear(folder):
                    run.progress.note(f"{folder}: the training that another recipe began there is removed")
                files.write_text(folder / RECIPE, recipe.to_yaml())
                run.costs.keep_times()
                if recipe.data.name not in DATASETS and (both := in_both_parts(run.data)):
                    warnings.warn(f"{recipe.data.short_name}: {both}", stacklevel=2)
            return run._ready()

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        device: str = "cpu",
        progress: Progress | None = None,
        seed: int | None = None,
        root: str | None = None,
        workers: Workers | None = None,
    ) -> Self:
        """A run that exists already; for looking at it while another process writes to its folder, too.

        `root` is where the data lie now, instead of the recipe's `data.root`, or of `data.name` where that is a path.
        """
        folder = Path(folder)
        check_begun(folder)
        check_run(folder)
        recipe = folders.read_recipe(folder)
        if seed is not None and seed != recipe.seed:
            raise NesbsError(f"{folder} was made with seed {recipe.seed}, not {seed}: search again in another folder")
        if root is not None:
            recipe = recipe.model_copy(update={"data": recipe.data.moved(root)})
        return cls(folder, recipe, device=device, progress=progress, workers=workers)._ready()

    def _ready(self) -> Self:
        """Restore the threads the run began with and check its data; under its lock also record what it runs on."""
        if self.recipe.threads is not None:
            use_threads(self.recipe.threads)
        torch.backends.cudnn.deterministic = True
        check_batches(self.recipe, self.data, self.space)
        folders.about_data(self.data, self.record.data, self.folder)
        if holds(self.folder):
            self._record_machine()
        return self

    def _record_machine(self) -> None:
        """Write versions, machine and data into the record, once."""
        if self._recorded:
            return
        self._recorded = True
        earlier = self.record
        earlier.replace(
            started=earlier.started or datetime.date.today().isoformat(),
            torch=torch.__version__,
            python=platform.python_version(),
            platform=platform.platform(),
            device=device_name(self.device),
            threads=torch.get_num_threads(),
            seed=self.recipe.seed,
            data=folders.about_data(self.data, earlier.data, self.folder),
            stages=earlier.stages or {},
        ).write(self.folder / RunRecord.FILE)

    @property
    def record(self) -> RunRecord:
        """The run record so far (`record.json`)."""
        return RunRecord.find(self.folder) or RunRecord()

    @cached_property
    def data(self) -> Dataset:
        """The data set, on the run's device."""
        return load_dataset(**self.recipe.data.model_dump()).to(self.device)

    @property
    def train_images(self) -> Split:
        """What members are trained on."""
        return self.recipe.members.trained_on(self.data)

    @property
    def measured_images(self) -> Split:
        """What networks are measured on."""
        return self.recipe.evaluation.measured(self.data)

    @cached_property
    def space(self) -> Space:
        """The search space."""
        return get_space(self.recipe.space.name)

    @cached_property
    def costs(self) -> RunCosts:
        """What members cost, as the recipe builds them, and may cost."""
        return RunCosts(self.folder, self.recipe, self.data, self.space)

    def limits(self, size: int | None = None) -> Limits | None:
        """What ensembles of so many members, by default the recipe's, may cost; None where nothing is limited."""
        return self.costs.limits(size or self.recipe.ensemble.size)

    def plan(self, *stages: str) -> None:
        """Tell the progress which of the recipe's stages will come: these, or all where none is named."""
        planned = planned_stages(self.recipe, self.folder)
        self.progress.plan([stage for stage in planned if not stages or stage.name in stages])

    def require(self, name: str, command: str) -> None:
        """Raise where an earlier stage's file is missing."""
        if not (self.folder / name).is_file():
            raise NesbsError(f"{self.folder} has no {name} yet: run `{command}` first")

    def require_members(self) -> None:
        """Raise where a member is not trained yet."""
        self.require("selection.json", f"nesbs search RECIPE --out {self.folder}")
        for index in range(self.recipe.ensemble.size):
            self.require(f"{MEMBERS}/{index}.safetensors", f"nesbs train {self.folder}")

    @contextlib.contextmanager
    def stage(self, name: str, total: int, *, fresh: bool = False) -> Iterator[Stage]:
        """A stage at work: shown while it runs, with its seconds and memory in the record, under the folder's lock.

        Its seconds are added to those in the record, unless it begins `fresh`.
        """
        with locked(self.folder):
            self._record_machine()
            self.progress.start(name, total)
            beside = self._beside.in_words if self._beside is not None else lambda: ""
            stage = Stage(self.folder, name, device=self.device, progress=self.progress, fresh=fresh, beside=beside)
            yield stage
            stage.write()
            self.progress.finish(stage.took)
