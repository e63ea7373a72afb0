"""How long answers take on one machine (`latency.json`)."""

from nesbs.records.base import Record, StampedRecord
from nesbs.records.kinds import Count, Many, Number


class LatencyRow(Record):
    """Milliseconds that a member or the ensemble takes for a batch: median and quartiles over the repetitions."""

    runtime: str | None = None  # torch or onnxruntime
    device: str | None = None
    model: str | None = None  # "member 1" and so on, or "ensemble"
    batch: Count | None = None  # images at once
    median: Number | None = None
    lower: Number | None = None  # a quarter of the repetitions took no longer
    upper: Number | None = None


class LatencyRecord(StampedRecord):
    """What `nesbs latency` measured."""

    FILE = "latency.json"

    machine: str | None = None  # the processor, and the GPU where one was used
    threads: Count | None = None  # on the CPU
    torch: str | None = None
    onnxruntime: str | None = None  # None where it was not installed
    repeats: Count | None = None
    rows: Many[LatencyRow] | None = None
