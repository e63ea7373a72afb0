"""The run record (`record.json`): versions, machine, data, and what every stage took."""

from typing import Self

from nesbs.records.base import Record, StampedRecord
from nesbs.records.kinds import Count, Matrix, Maybe, Number, Numbers, NumberTable, Texts, whole_sum


class DataRecord(Record):
    """The data set of a run."""

    name: str | None = None
    train_images: Count | None = None
    test_images: Count | None = None
    search_train: Count | None = None
    search_valid: Count | None = None
    calibration: Count | None = None  # set aside first; none by default
    size: Numbers | None = None  # height, width
    channels: Count | None = None
    left_out: Texts | None = None  # files that could not be read as images
    classes: Texts | None = None
    labels: str | None = None  # a digest, to notice that images have changed
    images: str | None = None  # another, of the files or of the images in arrays


class JudgingRecord(Record):
    """What judging ensembles took, where another judge than the supernet's loss was asked (part of a stage)."""

    judge: str | None = None
    seconds: Number | None = None  # of the stage's
    networks: Count | None = None  # trained to be judged


class StageRecord(Record):
    """What a stage took, and its notes: which ones there are depends on the stage."""

    seconds: Number | None = None
    beside: Number | None = None  # of the seconds, those of other processes while an earlier stage was at work
    device: str | None = None
    peak_memory: Count | None = None  # bytes
    workers: Count | None = None  # processes that trained the members; none where it was this one
    channels: Numbers | None = None  # of each member
    parameters: Count | Numbers | None = None  # of one network, or of each
    multiply_adds: Numbers | None = None
    # Of every epoch: of a supernet one list, of members one for each.
    losses: tuple[Maybe[Number | Numbers], ...] | None = None
    updates: dict[str, NumberTable] | None = None  # how often each operation of each edge was trained
    entropies: Numbers | None = None  # of the posterior, after every step of every fit
    starts: Count | None = None
    kept: Count | None = None  # which fit, from 1
    evidence: Number | None = None
    delta_trace: Matrix | None = None  # pairs (δ, lowest loss among its ensembles)
    judging: JudgingRecord | None = None

    @property
    def histories(self) -> tuple[Numbers, ...]:
        """The losses of each member, epoch by epoch; empty for one without any."""
        return tuple(each if isinstance(each, tuple) else () for each in self.losses or ())

    @property
    def history(self) -> Numbers:
        """The losses of the one network a stage trained, epoch by epoch."""
        return tuple(each if isinstance(each, int | float) else None for each in self.losses or ())

    @property
    def each_parameters(self) -> Numbers:
        """The parameters of each network of the stage."""
        return self.parameters if isinstance(self.parameters, tuple) else (self.parameters,)

    @property
    def total_parameters(self) -> Number | None:
        """The parameters of all networks together; None where those of one are missing."""
        return whole_sum(self.each_parameters)


class RunRecord(StampedRecord):
    """What is known about a run: `record.json`."""

    FILE = "record.json"

    started: str | None = None  # a date
    torch: str | None = None
    python: str | None = None
    platform: str | None = None
    device: str | None = None
    threads: Count | None = None
    seed: Count | None = None
    data: DataRecord | None = None
    stages: dict[str, StageRecord] | None = None

    def stage(self, name: str) -> StageRecord:
        """A stage by name; an empty one where it has not run."""
        return (self.stages or {}).get(name) or StageRecord()

    def with_stage(self, name: str, stage: StageRecord) -> Self:
        """The record with a stage's entry in its place."""
        return self.replace(stages={**(self.stages or {}), name: stage})

    def seconds(self, *names: str) -> float:
        """The seconds of these stages together, of all where none is named."""
        return float(sum(self.stage(name).seconds or 0.0 for name in names or self.stages or ()))
