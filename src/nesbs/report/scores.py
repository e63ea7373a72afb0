"""What was measured on the test images: the table of measures, and charts of errors, members and predictions."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from nesbs.records import MetricsRecord, PredictionsRecord
from nesbs.records.metrics import EnsembleMetrics, GainInterval, Intervals, NetworkMetrics, Reach
from nesbs.report import charts, diagrams, formats

HELD_OUT = "held-out training images"


@dataclass(frozen=True)
class ScoreRow:
    """A network of the table of measures."""

    name: str
    measures: NetworkMetrics
    parameters: float | None = None
    reach: Reach | None = None  # its intervals over the test images
    whole: bool = False  # an ensemble, not a single network
    hindsight: bool = False  # no network, but the best of several by each measure


def measured_images(metrics: MetricsRecord) -> str:
    """What the images of the measures are: the test images, unless the recipe asks for others.

    >>> measured_images(MetricsRecord(measured_on="search_valid"))
    'held-out training images'
    """
    return HELD_OUT if metrics.measured_on == "search_valid" else "test images"


def has_top5(metrics: MetricsRecord) -> bool:
    """Whether the top-5 error says anything: of five classes or fewer it is always 0.

    >>> from nesbs.records.metrics import ClassRow, PerClass
    >>> has_top5(MetricsRecord(ensemble=EnsembleMetrics(per_class=PerClass(classes=[ClassRow()] * 5))))
    False
    """
    measured = metrics.ensemble.per_class if metrics.ensemble else None
    return measured is None or measured.classes is None or len(measured.classes) > 5


def gain_interval(ensemble: EnsembleMetrics, measure: str) -> GainInterval | None:
    """By how much the ensemble is better than its best member, with the interval over the test images.

    None where it was not recorded, and of one network.
    """
    best = (ensemble.intervals.best if ensemble.intervals else None) or {}
    gain = best.get(measure)
    return gain if gain and gain.verdict and len(ensemble.members or ()) > 1 else None


def score_rows(metrics: MetricsRecord) -> list[ScoreRow]:
    """The table of measures: ensemble, best member, every member, uniform ensemble."""
    rows = []
    if ensemble := metrics.ensemble:
        members, intervals = ensemble.members or (), ensemble.intervals or Intervals()
        sizes = [*(ensemble.parameters or ()), *[None] * len(members)]
        reaches = [*(intervals.members or ()), *[None] * len(members)]
        rows = [
            ScoreRow("Ensemble", ensemble, ensemble.total_parameters, intervals.ensemble, whole=True),
            ScoreRow("Best member by each measure", ensemble.best_member, hindsight=True),
            *(ScoreRow(f"Member {i + 1}", member, sizes[i], reaches[i]) for i, member in enumerate(members)),
        ]
    if uniform := metrics.uniform:
        reach = (uniform.intervals or Intervals()).ensemble
        rows.append(ScoreRow("Uniform-random ensemble", uniform, uniform.total_parameters, reach, whole=True))
    return rows


def gains(ensemble: EnsembleMetrics) -> list[tuple[str, NetworkMetrics]]:
    """How far the ensemble is below its best and its mean member, measure by measure; positive is better."""
    named = (
        ("over the best member by each measure", ensemble.gain_over_best),
        ("over the mean member", ensemble.gain_over_mean),
    )
    return [(name, gain) for name, gain in named if gain]


def error_bars(rows: Sequence[ScoreRow]) -> Markup | None:
    """A bar for the error of each of the networks; None where no error was measured."""
    bars, reaches, texts = [], [], []
    for row in rows:
        if row.measures.error is not None:
            name, ends = row.name.replace("-random", ""), row.reach.ends("error") if row.reach else None
            bars.append((name, row.measures.error, row.whole))
            reaches.append(ends)
            interval = f" ({formats.percent(ends[0])} to {formats.percent(ends[1])})" if ends else ""
            texts.append(f"{name} {formats.percent(row.measures.error)}{interval}")
    axis = "error in %, with 95 % intervals" if any(reaches) else "error in %"
    return charts.bars(f"Error: {', '.join(texts)}", axis, bars, reaches=reaches) if bars else None


def accuracies(metrics: MetricsRecord) -> Markup | None:
    """A histogram of the members' accuracies, those of the uniform-random ensemble beside them."""
    groups = []
    for entry, name, filled in ((metrics.ensemble, "member", True), (metrics.uniform, "uniform-random member", False)):
        errors = [member.error for member in (entry.members if entry else None) or ()]
        values = [100 * (1 - error) for error in errors if error is not None]
        if values:
            groups.append((name, filled, values))
    if not groups:
        return None
    error = metrics.ensemble.error if metrics.ensemble else None
    line = None if error is None else 100 * (1 - error)
    text = "; ".join(f"{name}s {', '.join(f'{value:.2f} %' for value in values)}" for name, _, values in groups)
    title = f"Accuracy of {text}" + (f"; the ensemble {line:.2f} %" if line is not None else "")
    return diagrams.histogram(title, "accuracy in %", groups, line)


def prediction_map(predictions: PredictionsRecord | None) -> tuple[Markup | None, int]:
    """The map of the predictions, None where it is missing, and how many images it shows."""
    points = [
        [(pair[0], pair[1]) for pair in member if len(pair) == 2 and pair[0] is not None and pair[1] is not None]
        for member in (predictions.map.points if predictions and predictions.map else None) or ()
    ]
    images = len(points[0]) if points else 0
    if not images or any(len(member) != images for member in points):
        return None, 0
    return diagrams.prediction_map(
        f"t-SNE of the predictions of {len(points)} members for {images} images", points
    ), images
