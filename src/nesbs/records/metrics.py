"""What was measured on the test images (`metrics.json`): of the ensemble, of each member, of the uniform ensemble."""

from __future__ import annotations

from statistics import fmean
from typing import ClassVar

from nesbs.evaluation import lowest
from nesbs.records.base import (
    Count,
    Many,
    Matrix,
    Maybe,
    Named,
    Number,
    Numbers,
    NumberTable,
    Record,
    StampedRecord,
    Texts,
)


class NetworkMetrics(Record):
    """One network's measures, lower is better for all; or how far the ensemble is below another network."""

    error: Number | None = None
    nll: Number | None = None
    brier: Number | None = None
    ece: Number | None = None
    top5_error: Number | None = None


class Calibrated(Record):
    """One network before and after temperature scaling; two temperatures where two halves were used."""

    temperatures: Numbers | None = None
    before: NetworkMetrics | None = None
    after: NetworkMetrics | None = None


class ReliabilityBins(Record):
    """A reliability diagram, bin by bin; a bin without images has neither confidence nor accuracy."""

    images: Numbers | None = None
    confidence: Numbers | None = None
    accuracy: Numbers | None = None

    @property
    def rows(self) -> list[tuple[Number | None, Number | None, Number | None]]:
        """(images, confidence, accuracy) of every bin."""
        return list(zip(self.images or (), self.confidence or (), self.accuracy or (), strict=False))


class Reliability(Record):
    """The ensemble's reliability diagrams."""

    before: ReliabilityBins | None = None
    after: ReliabilityBins | None = None


class Temperature(Record):
    """Temperature scaling of the ensemble and of its members."""

    fitted_on: str | None = None  # `search_valid` or `test halves`
    images: Count | None = None
    ensemble: Calibrated | None = None
    members: Many[Calibrated] | None = None
    reliability: Reliability | None = None


class Reach(Record):
    """The ends of the intervals of one network."""

    error: Numbers | None = None
    nll: Numbers | None = None

    def ends(self, measure: str) -> tuple[Number, Number] | None:
        """The lower and the upper end of a measure's interval, None where either is missing."""
        pair: Numbers = getattr(self, measure) or ()
        known = [end for end in pair if end is not None]
        return (known[0], known[1]) if len(known) == len(pair) == 2 else None


class GainInterval(Record):
    """By how much the ensemble is better than its best member, with an interval; members count from 1."""

    member: Count | None = None
    gain: Number | None = None
    low: Number | None = None
    high: Number | None = None

    @property
    def verdict(self) -> str | None:
        """`better`, `worse` or `open`; None where a number is missing."""
        if self.gain is None or self.low is None or self.high is None:
            return None
        return "better" if self.low > 0 else "worse" if self.high < 0 else "open"


class BestGain(Record):
    """The gain over the best member by each measure."""

    error: GainInterval | None = None
    nll: GainInterval | None = None


class Intervals(Record):
    """Bootstrap intervals over the test images."""

    level: Number | None = None
    resamples: Count | None = None
    ensemble: Reach | None = None
    members: Many[Reach] | None = None
    best: BestGain | None = None


class People(Record):
    """The people behind human labels: how often most chose another label, and how undecided they were."""

    error: Number | None = None
    entropy: Number | None = None


class Distances(Record):
    """How far one network's probabilities are from people's labels."""

    cross_entropy: Number | None = None
    kl_divergence: Number | None = None
    total_variation: Number | None = None


class Human(Record):
    """Agreement with people's labels."""

    file: str | None = None
    people: People | None = None
    ensemble: Distances | None = None
    members: Many[Distances] | None = None


class Detection(Record):
    """How well one score tells unseen data from the test images."""

    auroc: Number | None = None
    fpr95: Number | None = None


class Unseen(Record):
    """Unseen data told from the test images: by network, then by score."""

    data: str | None = None
    images: Count | None = None
    seen_images: Count | None = None
    ensemble: Named[Detection] | None = None
    members: tuple[Maybe[Named[Detection]], ...] | None = None


class Corrupted(Record):
    """One network on corrupted images: measures by corruption and severity."""

    by_corruption: Named[CorruptedMeasures] | None = None
    by_severity: CorruptedMeasures | None = None  # means over corruptions
    mean: NumberTable | None = None  # of each measure, over all

    def errors(self, name: str) -> Numbers:
        """The errors under a corruption, severity by severity."""
        measures = (self.by_corruption or {}).get(name)
        return (measures.error if measures else None) or ()


class CorruptedMeasures(Record):
    """Measures at every severity."""

    error: Numbers | None = None
    nll: Numbers | None = None
    ece: Numbers | None = None


class Corruptions(Record):
    """The ensemble and its members on corrupted images."""

    severities: Numbers | None = None
    skipped: Texts | None = None  # they need colour
    ensemble: Corrupted | None = None
    members: Many[Corrupted] | None = None


class EnsembleMetrics(NetworkMetrics):
    """Everything that was measured of one ensemble."""

    member_error: Number | None = None
    disagreement: Number | None = None
    disagreement_matrix: Matrix | None = None
    members: Many[NetworkMetrics] | None = None
    gain_over_best: NetworkMetrics | None = None
    gain_over_mean: NetworkMetrics | None = None
    architectures: Texts | None = None
    channels: Numbers | None = None
    parameters: Numbers | None = None
    multiply_adds: Numbers | None = None
    temperature: Temperature | None = None
    intervals: Intervals | None = None
    human: Human | None = None
    unseen: Unseen | None = None
    corruptions: Corruptions | None = None

    @property
    def best_member(self) -> NetworkMetrics:
        """The lowest value among the members, for each measure on its own."""
        return NetworkMetrics(**lowest(self.members or ()))

    @property
    def total_parameters(self) -> Number | None:
        """The parameters of all members; None where those of one are missing."""
        known = [count for count in self.parameters or () if count is not None]
        return sum(known) if known and len(known) == len(self.parameters or ()) else None


class MetricsRecord(StampedRecord):
    """What `nesbs evaluate` measured: `metrics.json`."""

    FILE: ClassVar[str] = "metrics.json"

    data: str | None = None
    measured_on: str | None = None  # `test` or `search_valid`
    test_images: Count | None = None
    uniform: EnsembleMetrics | None = None
    ensemble: EnsembleMetrics | None = None


def known_mean(values: Numbers) -> float | None:
    """The mean of the numbers among the values, None where there are none.

    >>> known_mean((1.0, None, 2.0)), known_mean(())
    (1.5, None)
    """
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
