"""Methods held against each other over seeds (`comparison.json`)."""

from nesbs.records.base import Record, StampedRecord
from nesbs.records.kinds import Count, Flag, Many, Number, Numbers, Texts
from nesbs.records.metrics import EnsembleMetrics


class SummaryRecord(Record):
    """A mean over seeds with its standard error (see `nesbs.evaluation.Summary`)."""

    mean: Number | None = None
    standard_error: Number | None = None


class DifferenceRecord(Record):
    """A method less the reference, with its interval (see `nesbs.evaluation.Difference`)."""

    mean: Number | None = None
    low: Number | None = None
    high: Number | None = None
    verdict: str | None = None  # `lower`, `higher`, or None where it cannot be told


class ImagesRecord(Record):
    """Error and NLL with intervals over the test images, and their differences to the reference."""

    error: DifferenceRecord | None = None
    nll: DifferenceRecord | None = None
    difference: dict[str, DifferenceRecord] | None = None


class OutcomeRecord(Record):
    """What a method found under one seed, what it is worth and what it cost (`rivals/METHOD.json`)."""

    seed: Count | None = None
    method: str | None = None
    architectures: Texts | None = None
    validation_loss: Number | None = None
    evaluations: Count | None = None
    device: str | None = None
    search_seconds: Number | None = None
    over_budget: Flag | None = None
    training_seconds: Number | None = None
    peak_memory: Count | None = None  # bytes on a GPU, of the stages that it used
    parameters: Count | None = None  # of all networks that predict
    multiply_adds: Count | None = None  # of all of them, for one image
    scores: EnsembleMetrics | None = None


class MethodRecord(Record):
    """One method over all seeds; by the name of a measure: means, costs, differences to the reference."""

    seeds: Many[OutcomeRecord] | None = None
    mean: dict[str, SummaryRecord] | None = None
    cost: dict[str, SummaryRecord] | None = None
    difference: dict[str, DifferenceRecord] | None = None  # None of the reference itself
    images: ImagesRecord | None = None

    def values(self, measure: str) -> list[float]:
        """A measure under every seed that has it."""
        scores = [each.scores for each in self.seeds or () if each.scores is not None]
        return [float(value) for each in scores if (value := getattr(each, measure)) is not None]


class RivalsRecord(Record):
    """How the rivals were run, as far as a table tells it: some of the recipe's section."""

    judge: str | None = None
    measure: str | None = None
    seconds: Number | None = None  # the budget of every search


class ComparisonRecord(StampedRecord):
    """What `nesbs compare` found: `comparison.json`."""

    FILE = "comparison.json"

    data: str | None = None
    space: str | None = None
    size: Count | None = None  # of ensembles
    seeds: Numbers | None = None
    device: str | None = None
    reference: str | None = None
    sampler: str | None = None
    rivals: RivalsRecord | None = None
    added: Texts | None = None  # to the paper's method, see `Recipe.additions`
    methods: dict[str, MethodRecord] | None = None
