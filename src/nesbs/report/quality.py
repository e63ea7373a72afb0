"""How good the estimate is: the section of the page, the printed table, a scatter of estimates and truth."""

from __future__ import annotations

from typing import Any

from nesbs.report import charts, words
from nesbs.report.reading import Record, mapping, sequence
from nesbs.report.table import Table

# What estimates are ranked by; the last where the posterior is fitted to something else than the loss.
KINDS = {"loss": "loss", "error": "error", "brier": "Brier score", "evidence": "evidence"}


def quality(record: Record) -> list[dict[str, Any]]:
    """What `quality.json` says, for the page: an entry for each kind of truth that was compared with."""
    return [_entry(entry) for entry in (mapping(record.get(kind)) for kind in ("trained", "table")) if entry]


def _entry(record: Record) -> dict[str, Any]:
    truth = mapping(record.get("truth"))
    return {
        "verdict": str(record.get("verdict", "")),
        "truth": truth_in_words(truth),
        "count": len(sequence(record.get("architectures"))),
        "share": record.get("share"),
        "rows": [row for kind in KINDS for row in _rows(record, kind)],
        "scatter": scatter(record),
        "mass": mapping(record.get("mass")) or None,
    }


def truth_in_words(truth: Record) -> str:
    """Where the truth comes from."""
    if truth.get("kind") == "table":
        return f"accuracies of {truth.get('file')}, column {truth.get('column')}"
    measured = "test images" if truth.get("test", True) else "held-out training images"
    return (
        f"training each for {truth.get('epochs')} epochs on {words.count(truth.get('images'))} images, measured on "
        f"{words.count(truth.get('measured_on'))} {measured}"
    )


def scatter(record: Record) -> Any:
    """Every single architecture: its estimated loss across, its truth up."""
    table = mapping(record.get("truth")).get("kind") == "table"
    points = [
        (pair[0], 100 * pair[1] if table else pair[1])
        for pair in map(sequence, sequence(mapping(record.get("points")).get("1")))
        if len(pair) == 2 and all(map(words.is_number, pair))
    ]
    if len(points) < 2:
        return None
    name, unit = ("true error", "%") if table else ("true test loss", "nats")
    title = f"Estimated loss and {name} of {len(points)} architectures"
    return charts.scatter(title, "estimated loss in nats", f"{name} in {unit}", [("architecture", "ring", points)])


def quality_as_text(record: Record) -> str:
    """The figures as a table for a terminal, and the verdict."""
    rows = [
        [
            row["name"],
            *(_said(row[name]) for name in ("spearman", "pearson", "agreement")),
            words.decimal(row["better_half"], 2),
        ]
        for kind in KINDS
        for row in _rows(record, kind)
    ]
    table = Table(["estimate, ensembles", "Spearman", "Pearson", "Agreement", "better half"], rows)
    lines = [
        f"{len(sequence(record.get('architectures')))} architectures; "
        f"truth: {truth_in_words(mapping(record.get('truth')))}",
        table.as_text("<28", ">22", ">22", ">22", ">13"),
    ]
    lines.append("in brackets: 95 % intervals; better half: Spearman among the truly better half")
    judged = mapping(record.get("mass"))
    if judged:
        lines.append(
            f"posterior: expected accuracy {words.decimal(judged.get('expected'), 2)} % (uniform "
            f"{words.decimal(judged.get('uniform'), 2)}, best {words.decimal(judged.get('best'), 2)}), effective "
            f"sample size {words.decimal(judged.get('effective'), 1)}; its likeliest is number "
            f"{judged.get('mode_rank')} of {judged.get('architectures')}; mass on the best 1 % "
            f"{words.percent(judged.get('top1'))}, 10 % {words.percent(judged.get('top10'))}"
        )
    return "\n".join([*lines, str(record.get("verdict", ""))])


def _rows(record: Record, kind: str) -> list[dict[str, Any]]:
    """A row for each size of ensembles, by one kind of estimate."""
    rows = []
    for entry in map(mapping, sequence(mapping(record.get("rankings")).get(kind))):
        size, count = entry.get("size"), entry.get("ensembles")
        what = f"{count} alone" if size == 1 else f"{count} of {size}"
        rows.append(
            {
                "name": f"{KINDS[kind]}, {what}",
                **{name: mapping(entry.get(name)) for name in ("spearman", "pearson", "agreement")},
                "better_half": entry.get("better_half"),
            }
        )
    return rows


def _said(interval: Record) -> str:
    """A value with its interval."""
    value = words.decimal(interval.get("value"), 2)
    if not words.is_number(interval.get("low")):
        return value
    return f"{value} [{words.decimal(interval.get('low'), 2)}, {words.decimal(interval.get('high'), 2)}]"
