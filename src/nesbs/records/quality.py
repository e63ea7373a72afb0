"""How good the supernet's estimates are (`quality.json`): the last answer of either kind of truth."""

from nesbs.records.base import Record, StampedRecord
from nesbs.records.kinds import Count, Flag, Many, Matrix, Number


class Truth(Record):
    """Where the truth comes from: networks trained for it, or a table."""

    kind: str | None = None  # `trained` or `table`
    epochs: Count | None = None
    images: Count | None = None
    measured_on: Count | None = None
    test: Flag | None = None  # whether those are test images
    file: str | None = None
    column: str | None = None


class IntervalRecord(Record):
    """A value with its 95 % interval."""

    value: Number | None = None
    low: Number | None = None
    high: Number | None = None


class RankingRecord(Record):
    """How well one kind of estimate ranks ensembles of one size."""

    size: Count | None = None
    ensembles: Count | None = None
    spearman: IntervalRecord | None = None
    pearson: IntervalRecord | None = None
    agreement: IntervalRecord | None = None
    better_half: Number | None = None


class JudgedArchitecture(Record):
    """An architecture with its estimated and its true figures."""

    architecture: str | None = None
    estimated_loss: Number | None = None
    estimated_error: Number | None = None
    true_loss: Number | None = None
    true_error: Number | None = None


class MassRecord(Record):
    """Where the posterior's mass lies among architectures of known accuracy (see `nesbs.evaluation.mass`)."""

    architectures: Count | None = None
    expected: Number | None = None
    uniform: Number | None = None
    best: Number | None = None
    effective: Number | None = None
    mode_rank: Count | None = None
    mode_accuracy: Number | None = None
    top1: Number | None = None
    top10: Number | None = None


class ChoiceQuality(Record):
    """How the recipe's judge ranks ensembles of the recipe's size, and what choosing gains over drawing.

    The truth of an ensemble is its members' mean error where a table is the truth, else the loss of the trained
    ensemble: lower is better.
    """

    judge: str | None = None
    size: Count | None = None
    proposals: Count | None = None  # ensembles that were drawn, or formed of the trained architectures
    known: Count | None = None  # of these, how many have a known truth
    ranking: RankingRecord | None = None  # of these; None where the judge has no scores, or they are too few
    by_search: Flag | None = None  # whether the choice is the search's own, not the best-judged of these
    drawn: Number | None = None  # their mean truth: what an unjudged draw is expected to have
    chosen: Number | None = None
    gain: Number | None = None  # drawn less chosen
    better: Count | None = None  # how many of them are truly better than the choice


class QualityAnswer(Record):
    """Estimates compared with one kind of truth."""

    truth: Truth | None = None
    share: Number | None = None  # k of Agreement-k
    rankings: dict[str, Many[RankingRecord]] | None = None  # by the kind of estimate
    points: dict[str, Matrix] | None = None  # by size: pairs (estimate, truth)
    architectures: Many[JudgedArchitecture] | None = None
    mass: MassRecord | None = None
    choice: ChoiceQuality | None = None
    verdict: str | None = None


class QualityRecord(StampedRecord):
    """What `nesbs quality` measured: `quality.json`."""

    FILE = "quality.json"

    trained: QualityAnswer | None = None
    table: QualityAnswer | None = None
