"""Budget curves (`curves.json`): test error by the supernet's weights, against architectures judged."""

from nesbs.records.base import Record, StampedRecord
from nesbs.records.comparison import DifferenceRecord, SummaryRecord
from nesbs.records.kinds import Count, Flag, Many, Maybe, Number, Numbers, Texts


class PointOutcome(Record):
    """The ensemble found under one seed; without a seed an entry of `seed-0/curves.json`."""

    seed: Count | None = None
    architectures: Texts | None = None  # None where the budget holds no ensemble
    error: Number | None = None
    nll: Number | None = None
    accuracy: Number | None = None  # per cent, the mean of the members that a table holds; None where it holds none


class PointRecord(Record):
    """One point of a curve: a method, a size of ensembles, a budget; τ and δ where they are set apart."""

    method: str | None = None
    size: Count | None = None
    budget: Count | None = None
    temperature: Number | None = None
    delta: Number | None = None
    seeds: Many[PointOutcome] | None = None
    mean: dict[str, Maybe[SummaryRecord]] | None = None  # of error, nll, accuracy; None where a seed has none
    difference: DifferenceRecord | None = None  # of the error to the reference's
    by_table: DifferenceRecord | None = None  # of the accuracy to the reference's


class SeedSeconds(Record):
    """What a seed took; None for what it shares with another."""

    seed: Count | None = None
    supernet: Number | None = None
    posterior: Number | None = None
    points: Number | None = None


class CurvesRecord(StampedRecord):
    """What `nesbs curves` found: `curves.json`."""

    FILE = "curves.json"

    data: str | None = None
    space: str | None = None
    seeds: Numbers | None = None
    one_supernet: Flag | None = None
    device: str | None = None
    seconds: Many[SeedSeconds] | None = None
    reference: str | None = None
    sampler: str | None = None
    search: str | None = None
    added: Texts | None = None  # to the paper's method, see `Recipe.additions`
    points: Many[PointRecord] | None = None
    table: str | None = None  # the file that accuracies are from, with its column
    held: Number | None = None  # share of all members that it holds
