"""The measures as plain text, for the terminal."""

from nesbs.records import MetricsRecord
from nesbs.records.metrics import Calibrated, EnsembleMetrics, NetworkMetrics, PerClass
from nesbs.report import formats
from nesbs.report.classes import class_warnings
from nesbs.report.further_measures import NONE_FITS, corruptions, unseen_scores
from nesbs.report.scores import HELD_OUT, gain_interval, gains, has_top5, measured_images
from nesbs.report.table import Table


def scores_as_text(metrics: MetricsRecord, *, balanced: bool = False) -> str:
    """The chosen ensemble beside its best member and beside a uniform-random ensemble, and what else was measured.

    `balanced`: training showed every class as often.
    """
    ensemble = metrics.ensemble or EnsembleMetrics()
    alone = len(ensemble.members or ()) == 1
    rows: list[tuple[str, NetworkMetrics]] = [("the network" if alone else "chosen ensemble", ensemble)]
    if not alone:
        rows.append(("its best member*", ensemble.best_member))
    if metrics.uniform:
        rows.append(("uniform-random ensemble", metrics.uniform))
    top5 = has_top5(metrics)
    names = ["error %", "NLL", "Brier", "ECE", *(["top-5 %"] if top5 else []), "ATE %", "PPD %"]
    table = Table(["", *names], [[name, *_cells(row, top5=top5)] for name, row in rows])
    lines = [
        f"{metrics.data}, {metrics.test_images} {measured_images(metrics)}",
        table.as_text("<24", *[">9"] * len(names)),
    ]
    if not alone:
        lines.append("* by each measure on its own. ATE: mean error of the members; PPD: how often two members differ.")
        lines += _gains(ensemble)
    warnings = class_warnings(ensemble.per_class or PerClass(), balanced=balanced)
    return "\n".join([*lines, *_further(metrics), *(f"warning: {line}" for line in warnings)])


def _cells(row: NetworkMetrics, *, top5: bool) -> list[str]:
    """A network's figures, errors in per cent."""
    cells = [_percent(row.error), *(formats.decimal(value, 4) for value in (row.nll, row.brier, row.ece))]
    if top5:
        cells.append(_percent(row.top5_error))
    return cells + (
        [_percent(row.member_error), _percent(row.disagreement)] if isinstance(row, EnsembleMetrics) else []
    )


def _percent(share: float | None) -> str:
    return formats.percent(share).removesuffix(" %")


def _gains(ensemble: EnsembleMetrics) -> list[str]:
    """How far the ensemble is below its members, and the interval of its gain over the best."""
    texts = [
        f"{name}: error {_points(gain.error)} points, NLL {formats.signed(gain.nll, 4)}"
        for name, gain in gains(ensemble)
    ]
    lines = ["gain (positive is better) " + "; ".join(texts)] if texts else []
    if gain := gain_interval(ensemble, "error"):
        lines.append(
            f"over member {gain.member}, the best, on the same images: error {_points(gain.gain)} points, "
            f"95 % interval {_points(gain.low)} to {_points(gain.high)}"
        )
    return lines


def _points(share: float | None) -> str:
    """A difference of errors in points."""
    return formats.signed(None if share is None else 100 * share, 2)


def _further(metrics: MetricsRecord) -> list[str]:
    """A line or two for each further measure that was taken of the ensemble."""
    ensemble, lines = metrics.ensemble or EnsembleMetrics(), []
    if scaling := ensemble.temperature:
        own = scaling.ensemble or Calibrated()
        temperatures = " and ".join(formats.decimal(value, 2) for value in own.temperatures or ())
        halves = f"the other half of the {measured_images(metrics)}"
        changes = ", ".join(
            f"{name} {formats.decimal(getattr(own.before, key, None), 4)} → "
            f"{formats.decimal(getattr(own.after, key, None), 4)}"
            for key, name in (("nll", "NLL"), ("brier", "Brier"), ("ece", "ECE"))
        )
        fitted = HELD_OUT if scaling.fitted_on in ("calibration", "search_valid") else halves
        unused = "" if own.usable else f"; {NONE_FITS}, so predictions are not scaled"
        lines.append(f"temperature {temperatures}, fitted on {fitted}: {changes}{unused}")
    if human := ensemble.human:
        distances = human.ensemble or {}
        lines.append(
            f"people ({human.file}): KL divergence {formats.decimal(distances.get('kl_divergence'), 4)}, "
            f"total variation {formats.decimal(distances.get('total_variation'), 4)} (lower is nearer)"
        )
    if unseen := ensemble.unseen:
        detections = [(name, (unseen.ensemble or {}).get(key) or {}) for key, name in unseen_scores(metrics).items()]
        text = "; ".join(
            f"{name} {formats.decimal(cell.get('auroc'), 4)} and {formats.percent(cell.get('fpr95'))}"
            for name, cell in detections
        )
        lines.append(f"unseen data {unseen.data}, AUROC (higher is better) and FPR95 (lower): {text}")
    if corrupted := corruptions(metrics):
        errors, ece = corrupted["tables"]["error"], corrupted["tables"]["ece"]
        means = ", ".join(f"{name.lower()} {formats.percent(values[-1])}" for name, _, values in errors)
        lines.append(
            f"{len(corrupted['rows'])} corruptions, mean error: {means}; "
            f"the ensemble's ECE {formats.decimal(ece[0][-1][-1], 4)}"
        )
    return lines
