"""What an experiment would cost: `nesbs cost --json FILE`."""

from nesbs.records.base import Record, StampedRecord
from nesbs.records.kinds import Count, Many, Number, Texts


class StageCost(Record):
    """One stage: so many trainings or other tasks, each of so many seconds on one GPU."""

    name: str
    phase: Count  # stages of one phase run side by side, phases one after another
    count: Count = 1  # tasks
    side_by_side: bool = False  # whether workers share them; else one after another in the process that was started
    seconds: Number  # of each task
    compiling: Number = 0.0  # so many of them
    epochs: Count = 1  # of each, between which a task can move to another GPU
    source: str  # the step that was measured
    factor: Number = 1.0  # by which its time was multiplied
    measured: bool = False  # whether it is that step itself
    data_bytes: Count = 0  # of the images, which travel to each node once
    checkpoint_bytes: Count = 0  # of each network, which travels with every task and back


class ScheduledStage(Record):
    """When a stage begins and ends, in seconds."""

    name: str
    start: Number
    end: Number


class CostSchedule(Record):
    """The whole on so many GPUs."""

    gpus: Count
    seconds: Number
    busy: Number  # share of the GPUs' time
    stages: Many[ScheduledStage]


class CostRecord(StampedRecord):
    """What an experiment would cost on a machine's GPUs."""

    FILE = "cost.json"

    of: str  # what is reckoned, in words
    device: str
    unit: str = "GPU"
    stages: Many[StageCost]
    not_counted: Texts = ()
    schedules: Many[CostSchedule]
    # Where there are workers:
    tasks: Count  # that they are given
    image_bytes: Count  # that travel to each node, in the phase that needs most
    checkpoint_bytes: Count  # that travel there and back, in all
