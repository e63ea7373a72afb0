"""An experiment of `nesbs reproduce` (its `record.json`): what was asked, and every part's figures."""

from typing import Annotated, Any, Self

from pydantic import Field

from nesbs.records.attacks import CleanAccuracy
from nesbs.records.base import Record, StampedRecord
from nesbs.records.curves import PointRecord
from nesbs.records.kinds import Count, Flag, Many, Matrix, Number, Numbers, NumberTable, Texts, TextTable
from nesbs.records.metrics import NetworkMetrics
from nesbs.records.quality import RankingRecord, Truth


class Asked(Record):
    """The command that made the folder."""

    name: str | None = None
    scale: str | None = None
    set: Texts | None = None
    seed: Count | None = None


class MethodRow(NetworkMetrics):
    """A method's figures under one seed (tables 1, 2, 3, 5 and 7)."""

    seed: Count | None = None
    architectures: Texts | None = None
    member_error: Number | None = None
    disagreement: Number | None = None
    parameters: Number | None = None
    multiply_adds: Number | None = None
    search_seconds: Number | None = None
    training_seconds: Number | None = None


class AttackRow(Record):
    """A method under one attack."""

    attack: Number | None = None
    attack_std: Number | None = None
    defence: Number | None = None
    defence_std: Number | None = None
    images: Count | None = None
    adaptive: Number | None = None


class MethodEntry(Record):
    """A method under all attacks (table 4), or its networks, each architecture trained several times (figure 3)."""

    clean: CleanAccuracy | None = None
    attacks: dict[str, AttackRow] | None = None
    architectures: Texts | None = None
    which: Numbers | None = None  # the architecture of each network
    errors: Numbers | None = None
    points: Matrix | None = None  # of each network on the map of predictions


class DiscrepancyRow(Record):
    """The likeliest and the best architecture of a posterior under one seed (figure 4)."""

    seed: Count | None = None
    mode: Number | None = None
    best: Number | None = None
    gap: Number | None = None
    draws: Count | None = None


class PartRecord(Record):
    """A part of an experiment, in the place of one of the paper's data sets; its fields depend on the kind."""

    runs: str | None = None  # the folder of its networks: another one where the recipe is another
    data: str | None = None
    train_images: Count | None = None
    test_images: Count | None = None
    size: Numbers | None = None  # height, width
    space: str | None = None
    ensemble_size: Count | None = None
    searched_on: str | None = None
    added: Texts | None = None  # to the paper's method, see `Recipe.additions`
    epochs: NumberTable | None = None  # of `supernet` and `members`; None where they were not trained
    # Figures seed by seed (a list), or one entry.
    methods: dict[str, Annotated[tuple[MethodRow, ...] | MethodEntry, Field(union_mode="left_to_right")]] | None = None
    attack: Texts | None = None  # settings of the attacks
    truth: Truth | None = None
    rankings: dict[str, Many[RankingRecord]] | None = None
    verdict: str | None = None
    posteriors: dict[str, Many[DiscrepancyRow]] | None = None
    points: Many[PointRecord] | None = None
    seeds: Numbers | None = None
    plane: str | None = None  # how the map of predictions was made
    repeats: Count | None = None

    def rows(self, method: str) -> tuple[MethodRow, ...]:
        """A method's figures, seed by seed."""
        entry = (self.methods or {}).get(method)
        return entry if isinstance(entry, tuple) else ()

    def entry(self, method: str) -> MethodEntry:
        """A method under attacks, or its single networks; empty where there is neither."""
        entry = (self.methods or {}).get(method)
        return entry if isinstance(entry, MethodEntry) else MethodEntry()


class DeltaRecord(Record):
    """The particles of one δ (figure 2)."""

    delta: Number | None = None
    particles: Matrix | None = None  # of the first seed
    log_density: Matrix | None = None  # (seeds, particles)


class GaussiansRecord(Record):
    """SVGD-RD on two Gaussians (figure 2)."""

    centres: Matrix | None = None
    variances: Numbers | None = None
    steps: Count | None = None
    step_size: Number | None = None
    seeds: Numbers | None = None
    deltas: Many[DeltaRecord] | None = None


class ExperimentRecord(StampedRecord):
    """What `nesbs reproduce NAME` measured, as far as it got."""

    FILE = "record.json"

    left_out: TextTable | None = None  # what could not be run, and why
    parts: dict[str, PartRecord] | None = None
    asked: Asked | None = None
    started: str | None = None  # a date
    torch: str | None = None
    device: str | None = None
    seconds: Number | None = None  # that it took; what other names had trained in the folder is not counted
    gaussians: GaussiansRecord | None = None
    complete: Flag | None = None

    def part(self, label: str) -> PartRecord:
        """The part in the place of one of the paper's data sets; empty where it was not run."""
        return (self.parts or {}).get(label) or PartRecord()

    def with_part(self, label: str, **values: Any) -> Self:
        """The record with more figures in one of its parts."""
        return self.replace(parts={**(self.parts or {}), label: self.part(label).replace(**values)})
