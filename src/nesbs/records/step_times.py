"""How long steps of networks took on a machine: what `python -m benchmarks --json FILE` writes."""

from nesbs.records.base import Record
from nesbs.records.kinds import Count, Many, Number, TextTable


class StepRecord(Record):
    """What is done in one step.

    `member`, `supernet`: training on a batch. `estimate`: predictions of one architecture for so many images. `fit`:
    a step of the posterior's fit by straight-through. Without an architecture, the one that stands for its space's.
    """

    kind: str | None = None
    space: str | None = None
    architecture: str | None = None
    images: Count | None = None  # in a step
    image: tuple[Count, Count, Count] | None = None  # channels, height, width
    classes: Count | None = None
    cells: Count | None = None
    channels: Count | None = None
    multiply_adds: Count | None = None  # of one image, where it is not counted from the network
    stem: str = "cifar"
    auxiliary: bool = False
    partial: Count = 1
    paths: str = "one"
    precision: str = "float32"


class StepTimeRecord(Record):
    """The seconds of a step, and of what comes before the first one (compiling, recording)."""

    name: str | None = None
    seconds: Number | None = None
    prepare_seconds: Number | None = None
    step: StepRecord | None = None  # None where it is a time of something else


class StepTimesRecord(Record):
    """Steps that were timed on one machine."""

    machine: TextTable | None = None
    results: Many[StepTimeRecord] | None = None
