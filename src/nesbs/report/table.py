"""The measures as plain text, for the terminal."""

from __future__ import annotations

from nesbs.report.reading import Record
from nesbs.report.scores import best_member


def scores_as_text(metrics: Record) -> str:
    """The chosen ensemble beside its best member and beside a uniform-random ensemble, as plain text."""
    ensemble, uniform = metrics["ensemble"], metrics.get("uniform")
    rows = [("chosen ensemble", ensemble), ("its best member*", best_member(ensemble))]
    if uniform:
        rows.append(("uniform-random ensemble", uniform))
    lines = [
        f"{metrics['data']}, {metrics['test_images']} test images",
        f"{'':<24}{'error %':>9}{'NLL':>9}{'Brier':>9}{'ECE':>9}{'ATE %':>9}{'PPD %':>9}",
    ]
    for name, row in rows:
        line = f"{name:<24}{100 * row['error']:>9.2f}{row['nll']:>9.4f}{row['brier']:>9.4f}{row['ece']:>9.4f}"
        if "member_error" in row:
            line += f"{100 * row['member_error']:>9.2f}{100 * row['disagreement']:>9.2f}"
        lines.append(line)
    lines.append("* by each measure on its own. ATE: mean error of the members; PPD: how often two members differ.")
    return "\n".join(lines)
