"""The measures as plain text, for the terminal."""

from __future__ import annotations

from nesbs.report import words
from nesbs.report.further_measures import calibration, corruptions, human, unseen
from nesbs.report.reading import Record, mapping
from nesbs.report.scores import best_member, gain_over_best, gains, measured_images
from nesbs.report.table import Table


def scores_as_text(metrics: Record) -> str:
    """The chosen ensemble beside its best member and beside a uniform-random ensemble, and what else was measured."""
    ensemble, uniform = metrics["ensemble"], metrics.get("uniform")
    alone = len(ensemble["members"]) == 1
    rows = [("the network" if alone else "chosen ensemble", ensemble)]
    if not alone:
        rows.append(("its best member*", best_member(ensemble)))
    if uniform:
        rows.append(("uniform-random ensemble", uniform))
    cells = []
    for name, row in rows:
        top5 = row.get("top5_error")
        cells.append([name, f"{100 * row['error']:.2f}", *(f"{row[key]:.4f}" for key in ("nll", "brier", "ece"))])
        cells[-1].append(words.NOTHING if top5 is None else f"{100 * top5:.2f}")
        cells[-1] += [f"{100 * row[key]:.2f}" for key in ("member_error", "disagreement") if key in row]
    table = Table(["", "error %", "NLL", "Brier", "ECE", "top-5 %", "ATE %", "PPD %"], cells)
    lines = [
        f"{metrics['data']}, {metrics['test_images']} {measured_images(metrics)}",
        table.as_text("<24", *[">9"] * 7),
    ]
    if alone:
        return "\n".join([*lines, *_parts(metrics)])
    lines.append("* by each measure on its own. ATE: mean error of the members; PPD: how often two members differ.")
    return "\n".join([*lines, *_gains(metrics), *_parts(metrics)])


def _gains(metrics: Record) -> list[str]:
    said = [
        f"{row['name']}: error {words.signed(100 * row['error'], 2)} points, NLL {words.signed(row['nll'], 4)}"
        for row in gains(metrics)
    ]
    lines = ["gain (positive is better) " + "; ".join(said)] if said else []
    if gain := gain_over_best(mapping(metrics.get("ensemble"))):
        error = gain["error"]
        gained, low, high = (words.signed(100 * error[key], 2) for key in ("gain", "low", "high"))
        lines.append(
            f"over member {error['member']}, the best, on the same images: error {gained} points, "
            f"95 % interval {low} to {high}"
        )
    return lines


def _parts(metrics: Record) -> list[str]:
    """A line or two for each part that was measured."""
    lines = []
    if scaled := calibration(metrics):
        own = scaled["rows"][0]
        temperatures = " and ".join(words.decimal(value, 2) for value in own["temperatures"])
        other_half = f"the other half of the {measured_images(metrics)}"
        fitted = "held-out training images" if scaled["held_out"] else other_half
        changes = ", ".join(
            f"{name} {words.decimal(own['before'].get(key), 4)} → {words.decimal(own['after'].get(key), 4)}"
            for key, name in (("nll", "NLL"), ("brier", "Brier"), ("ece", "ECE"))
        )
        lines.append(f"temperature {temperatures}, fitted on {fitted}: {changes}")
    if people := human(metrics):
        row = people["rows"][0]["row"]
        lines.append(
            f"people ({people['file']}): KL divergence {words.decimal(row.get('kl_divergence'), 4)}, "
            f"total variation {words.decimal(row.get('total_variation'), 4)} (lower is nearer)"
        )
    if other := unseen(metrics):
        cells = zip(other["scores"], other["rows"][0]["cells"], strict=True)
        said = "; ".join(
            f"{name} {words.decimal(cell.get('auroc'), 4)} and {words.percent(cell.get('fpr95'))}"
            for name, cell in cells
        )
        lines.append(f"unseen data {other['data']}, AUROC (higher is better) and FPR95 (lower): {said}")
    if corrupted := corruptions(metrics):
        errors, _, ece = corrupted["tables"]
        named = ", ".join(f"{row['name'].lower()} {words.percent(row['mean'])}" for row in errors["rows"])
        lines.append(
            f"{corrupted['count']} corruptions, mean error: {named}; "
            f"the ensemble's ECE {words.decimal(ece['rows'][0]['mean'], 4)}"
        )
    return lines
