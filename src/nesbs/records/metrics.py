"""What was measured on the test images (`metrics.json`): of the ensemble, of each member, of the uniform ensemble."""

import math

from nesbs.evaluation import lowest
from nesbs.evaluation.calibration import COLDEST, HOTTEST
from nesbs.records.base import Record, StampedRecord
from nesbs.records.kinds import Columns, Count, Many, Matrix, Maybe, Number, Numbers, NumberTable, Texts, whole_sum


class NetworkMetrics(Record):
    """One network's measures, lower is better for all; or how far the ensemble is below another network."""

    error: Number | None = None
    nll: Number | None = None
    brier: Number | None = None
    ece: Number | None = None
    top5_error: Number | None = None

    def plain(self) -> list[tuple[str, float]]:
        """The measures of a network that are known, by name."""
        known = ((name, getattr(self, name)) for name in NetworkMetrics.model_fields)
        return [(name, value) for name, value in known if value is not None]


class Calibrated(Record):
    """One network before and after temperature scaling; two temperatures where two halves were used."""

    temperatures: Numbers | None = None
    before: NetworkMetrics | None = None
    after: NetworkMetrics | None = None

    @property
    def usable(self) -> float | None:
        """The temperature to predict with, of two halves' the geometric mean; None where there is none.

        One at the end of its range is not taken: it was fitted to too few errors (or to nothing but errors), and would
        make every answer certain (or none).

        >>> Calibrated(temperatures=(1.0, 4.0)).usable, Calibrated(temperatures=(0.01, 2.0)).usable
        (2.0, None)
        """
        values = self.temperatures or ()
        inside = [value for value in values if value is not None and COLDEST < value < HOTTEST]
        if not inside or len(inside) < len(values):
            return None
        return math.exp(sum(map(math.log, inside)) / len(inside))


class ReliabilityBins(Record):
    """A reliability diagram, bin by bin; a bin without images has neither confidence nor accuracy."""

    images: Numbers | None = None
    confidence: Numbers | None = None
    accuracy: Numbers | None = None

    @property
    def rows(self) -> list[tuple[Number | None, Number | None, Number | None]]:
        """(images, confidence, accuracy) of every bin."""
        return list(zip(self.images or (), self.confidence or (), self.accuracy or (), strict=False))


class Temperature(Record):
    """Temperature scaling of the ensemble and of its members."""

    fitted_on: str | None = None  # `calibration`, `search_valid` or `test halves`
    images: Count | None = None
    ensemble: Calibrated | None = None
    members: Many[Calibrated] | None = None
    reliability: dict[str, ReliabilityBins] | None = None  # of the ensemble, `before` and `after`


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


class Intervals(Record):
    """Bootstrap intervals over the test images."""

    level: Number | None = None
    resamples: Count | None = None
    ensemble: Reach | None = None
    members: Many[Reach] | None = None
    best: dict[str, GainInterval] | None = None  # by measure


class Human(Record):
    """How far each network's probabilities are from people's labels, by measure of distance."""

    file: str | None = None
    people: NumberTable | None = None  # how often most chose another label (`error`), their `entropy`
    ensemble: NumberTable | None = None
    members: tuple[Maybe[NumberTable], ...] | None = None


class Unseen(Record):
    """How well unseen data is told from the test images by each score of certainty: `auroc` and `fpr95`."""

    data: str | None = None
    images: Count | None = None
    seen_images: Count | None = None
    ensemble: dict[str, Maybe[NumberTable]] | None = None
    members: tuple[Maybe[dict[str, Maybe[NumberTable]]], ...] | None = None


class Corrupted(Record):
    """One network on corrupted images: `error`, `nll` and `ece`, severity by severity."""

    by_corruption: dict[str, Maybe[Columns]] | None = None
    by_severity: Columns | None = None  # means over corruptions
    mean: NumberTable | None = None  # of each measure, over all

    def errors(self, name: str) -> Numbers:
        """The errors under a corruption, severity by severity."""
        return ((self.by_corruption or {}).get(name) or {}).get("error") or ()


class Corruptions(Record):
    """The ensemble and its members on corrupted images."""

    severities: Numbers | None = None
    skipped: Texts | None = None  # they need colour
    ensemble: Corrupted | None = None
    members: Many[Corrupted] | None = None


class AbstentionRow(Record):
    """Answering only above a threshold that is to keep an error: what it gives on other images."""

    wanted: Number | None = None  # error among those that are answered
    threshold: Number | None = None  # None where no threshold keeps it
    coverage: Number | None = None  # share of the images that are answered
    error: Number | None = None  # among them


class SetRow(Record):
    """Sets of classes that are to hold the right one: how often they do on other images, and their mean size."""

    wanted: Number | None = None
    covered: Number | None = None  # None where there were too few images to fit it
    size: Number | None = None
    randomised_covered: Number | None = None
    randomised_size: Number | None = None


class Abstention(Record):
    """When the ensemble should not answer: risk by coverage on all test images, thresholds and sets on some of them."""

    aurc: Number | None = None
    member_aurc: Numbers | None = None
    coverage: Numbers | None = None  # of the curve
    risk: Numbers | None = None
    fitted_on: str | None = None  # as in HeldOutAnswers
    fitted_images: Count | None = None
    measured_images: Count | None = None
    thresholds: Many[AbstentionRow] | None = None
    sets: Many[SetRow] | None = None


class ClassRow(Record):
    """One class: its images, how often the ensemble is wrong about them, how often it answers with the class."""

    name: str | None = None
    train_images: Count | None = None
    test_images: Count | None = None
    error: Number | None = None  # None without test images
    predicted: Count | None = None


class PerClass(Record):
    """The ensemble class by class."""

    classes: Many[ClassRow] | None = None
    confusion: Matrix | None = None  # images of each class (row) by the answer (column); None for very many classes


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
    abstention: Abstention | None = None
    per_class: PerClass | None = None
    human: Human | None = None
    unseen: Unseen | None = None
    corruptions: Corruptions | None = None

    @property
    def best_member(self) -> NetworkMetrics:
        """The lowest value among the members, for each measure on its own."""
        return NetworkMetrics(**lowest(self.members or ()))

    @property
    def scaled_nll(self) -> Number | None:
        """The ensemble's NLL after temperature scaling; None where it was not scaled."""
        return self._after_scaling.nll

    @property
    def scaled_ece(self) -> Number | None:
        """The ensemble's ECE after temperature scaling; None where it was not scaled."""
        return self._after_scaling.ece

    @property
    def _after_scaling(self) -> NetworkMetrics:
        own = (self.temperature or Temperature()).ensemble or Calibrated()
        return own.after or NetworkMetrics()

    @property
    def total_parameters(self) -> Number | None:
        """The parameters of all members; None where those of one are missing."""
        return whole_sum(self.parameters or ())


class MetricsRecord(StampedRecord):
    """What `nesbs evaluate` measured: `metrics.json`."""

    FILE = "metrics.json"

    data: str | None = None
    measured_on: str | None = None  # `test` or `search_valid`
    test_images: Count | None = None
    uniform: EnsembleMetrics | None = None
    ensemble: EnsembleMetrics | None = None
