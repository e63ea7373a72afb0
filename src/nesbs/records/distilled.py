"""What a single network was distilled from, and what it keeps of the ensemble's gain (`distilled.json`)."""

from nesbs.records.base import Record, StampedRecord
from nesbs.records.kinds import Count, Number, Texts
from nesbs.records.metrics import NetworkMetrics


class KeptGain(Record):
    """What the student keeps of the ensemble's gain over the network trained on labels, by one measure.

    The gain is the label-trained network's value less the ensemble's. The share is the part of it that the student has;
    None where the interval of the gain does not exclude zero, since a share of nothing says nothing.
    """

    gain: Number | None = None
    gain_low: Number | None = None
    gain_high: Number | None = None
    share: Number | None = None
    low: Number | None = None
    high: Number | None = None


class UnlabelledRecord(Record):
    """The images without labels that the student saw."""

    folder: str | None = None
    images: Count | None = None
    digest: str | None = None  # of their names and sizes, to notice that they have changed


class DistilledRecord(StampedRecord):
    """What `nesbs distil` made: written when it begins, with what was measured when it ends."""

    FILE = "distilled.json"

    source: str | None = None  # the folder of the ensemble's run
    members: Texts | None = None  # SHA-256 of the weights of each of its members
    decided: str | None = None  # how the architecture was found
    architecture: str | None = None
    temperature: Number | None = None
    label_weight: Number | None = None
    unlabelled: UnlabelledRecord | None = None  # None where there were none
    images: Count | None = None  # that the three networks were measured on
    parameters: Count | None = None  # of the student
    ensemble_parameters: Count | None = None
    ensemble: NetworkMetrics | None = None
    student: NetworkMetrics | None = None
    labels: NetworkMetrics | None = None  # of the same network trained on labels alone
    kept: dict[str, KeptGain] | None = None  # by measure
