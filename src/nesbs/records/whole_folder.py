"""Everything that a folder says about itself: that of a run, and that of a comparison."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from nesbs import files
from nesbs.errors import NesbsError
from nesbs.records.attacks import AttacksRecord
from nesbs.records.comparison import ComparisonRecord
from nesbs.records.curves import CurvesRecord
from nesbs.records.distilled import DistilledRecord
from nesbs.records.latency import LatencyRecord
from nesbs.records.metrics import MetricsRecord
from nesbs.records.operation_times import OperationTimesRecord
from nesbs.records.predictions import PredictionsRecord
from nesbs.records.quality import QualityRecord
from nesbs.records.recipe import RECIPE, Recipe, parse_yaml
from nesbs.records.run import RunRecord
from nesbs.records.search import PosteriorRecord, SelectionRecord


@dataclass(frozen=True)
class RunRecords:
    """The records of a run folder; None for a file that is not there."""

    recipe: Recipe | None = None
    record: RunRecord | None = None
    posterior: PosteriorRecord | None = None
    selection: SelectionRecord | None = None
    metrics: MetricsRecord | None = None
    quality: QualityRecord | None = None
    attacks: AttacksRecord | None = None
    predictions: PredictionsRecord | None = None
    latency: LatencyRecord | None = None
    distilled: DistilledRecord | None = None
    operation_times: OperationTimesRecord | None = None

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """The records of a folder; a broken file is a `NesbsError`, a missing one is not unless all are missing."""
        folder = Path(folder)
        check_run(folder)
        records = cls(
            recipe=find_recipe(folder),
            record=RunRecord.find(folder),
            posterior=PosteriorRecord.find(folder),
            selection=SelectionRecord.find(folder),
            metrics=MetricsRecord.find(folder),
            quality=QualityRecord.find(folder),
            attacks=AttacksRecord.find(folder),
            predictions=PredictionsRecord.find(folder),
            latency=LatencyRecord.find(folder),
            distilled=DistilledRecord.find(folder),
            operation_times=OperationTimesRecord.find(folder),
        )
        if records == cls():
            check_begun(folder)
        return records

    @property
    def data(self) -> str | None:
        """The name of the data set that the run began with or was measured on."""
        began = self.record.data if self.record else None
        return (self.metrics.data if self.metrics else None) or (began.name if began else None)

    @property
    def space(self) -> str | None:
        """The name of the space."""
        return self.recipe.space.name if self.recipe else self.posterior.space if self.posterior else None

    @property
    def chosen(self) -> tuple[str, ...]:
        """The chosen architectures."""
        return (self.selection.architectures if self.selection else None) or ()

    @property
    def fixed(self) -> bool:
        """Whether the user fixed the architectures, so that nothing was searched."""
        return self.selection is not None and self.selection.sampler == "given"


@dataclass(frozen=True)
class ComparisonRecords:
    """The records of a comparison folder; None for a file that is not there."""

    recipe: Recipe | None = None
    comparison: ComparisonRecord | None = None
    curves: CurvesRecord | None = None
    seeds: tuple[str, ...] = ()  # the run folders inside, by the number of their seed

    @classmethod
    def read(cls, folder: str | Path) -> Self:
        """The records of a folder; a broken file is a `NesbsError`, a missing one is not."""
        folder = Path(folder)
        if not is_comparison(folder):
            raise NesbsError(
                f"{folder} is no comparison that has begun a seed: `nesbs compare RECIPE --out {folder}` makes one"
            )
        seeds = sorted((entry.name for entry in folder.glob("seed-*") if entry.is_dir()), key=lambda n: (len(n), n))
        return cls(find_recipe(folder), ComparisonRecord.find(folder), CurvesRecord.find(folder), tuple(seeds))


def find_recipe(folder: Path) -> Recipe | None:
    """The recipe of a folder for showing it, None where there is none; what cannot be read has its default."""
    path = folder / RECIPE
    return Recipe.lenient(parse_yaml(files.read_text(path), str(path))) if path.is_file() else None


def check_begun(folder: Path) -> None:
    """Raise where no run has begun in the folder: its recipe is written first."""
    if not (folder / RECIPE).is_file():
        if (folder / RunRecord.FILE).is_file():
            raise NesbsError(f"{folder} lacks {RECIPE}, which every run has: copy it, too")
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            raise NesbsError(f"{folder} is not a run: `nesbs run RECIPE --out {folder}` makes one")
        inside = sorted(path.parent for path in folder.glob(f"*/{RECIPE}")) if folder.is_dir() else []
        runs = f"name one of the runs in it, such as {inside[0]}" if inside else "name the folder of a run"
        raise NesbsError(f"{folder} is not a run: {runs}")


def check_run(folder: Path) -> None:
    """Raise where the folder is a comparison's, in which no run may begin or be resumed."""
    if is_comparison(folder):
        raise NesbsError(f"{folder} is a comparison; its runs are {folder}/seed-0 and so on: name one of those")


def is_comparison(folder: Path) -> bool:
    """Whether `nesbs compare` or `nesbs curves` made the folder, or began to.

    It has their record, or it has a recipe and run folders `seed-0`, … of their own. (A run folder inside a
    comparison may hold a `curves.json` too: the points of its own seed.)
    """
    if (folder / ComparisonRecord.FILE).is_file():
        return True
    if (folder / RECIPE).is_file() and any(folder.glob(f"seed-*/{RECIPE}")):
        return True
    curves = CurvesRecord.find(folder)
    return curves is not None and curves.points is not None
