"""Attack and defence: the section of the page and the printed table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from nesbs.report import charts, words
from nesbs.report.reading import Record, mapping, sequence
from nesbs.report.table import Table

NAMES = {"fgsm": "FGSM", "pgd": "PGD", "cw": "CW", "autoattack": "AutoAttack"}
ENSEMBLES = {"ensemble": "Ensemble", "uniform": "Uniform-random ensemble"}
SERIES = (("Attack", "attack"), ("Defence", "defence"), ("adaptive", "adaptive"))
BASE64 = re.compile(r"[A-Za-z0-9+/]+=*")


def attacks(record: Record) -> dict[str, Any] | None:
    """What `attacks.json` says, for the page; None where nothing was attacked."""
    parts = [
        _part(name, mapping(record.get(key)), record) for key, name in ENSEMBLES.items() if mapping(record.get(key))
    ]
    if not parts:
        return None
    return {
        "kind": "test images" if record.get("measured_on", "test") == "test" else "held-out training images",
        "skipped": [str(why) for why in mapping(record.get("skipped")).values()],
        "settings": settings_in_words(mapping(record.get("settings"))),
        "rows": [row for part in parts for row in part["rows"]],
        "meaning": parts[0]["meaning"],
        "parts": parts,
    }


def settings_in_words(settings: Record) -> list[str]:
    """Each attack with its settings.

    >>> settings_in_words({"pgd": {"epsilon": 0.01, "random_start": False}})
    ['PGD: epsilon 0.01, random start false']
    """
    said = []
    for name, values in settings.items():
        parts = [
            f"{str(key).replace('_', ' ')} {words.short(value) if words.is_number(value) else str(value).lower()}"
            for key, value in mapping(values).items()
        ]
        said.append(f"{NAMES.get(name, name)}: {', '.join(parts)}")
    return said


def _part(name: str, record: Record, whole: Record) -> dict[str, Any]:
    """One ensemble: its rows of the table, transfer matrices, curves, checks and pictures."""
    found = {str(key): mapping(value) for key, value in mapping(record.get("attacks")).items()}
    closer = mapping(record.get("closer"))
    return {
        "name": name,
        "meaning": str(record.get("meaning", "")),
        "rows": [_row(name, attack, entry) for attack, entry in found.items()],
        "transfer": [
            {"name": NAMES.get(attack, attack), "rows": rows}
            for attack, entry in found.items()
            if len(rows := [sequence(mapping(one).get("members")) for one in sequence(entry.get("rounds"))]) > 1
        ],
        "closer_images": closer.get("images"),
        "curves": [
            (NAMES.get(attack, attack), chart)
            for attack in mapping(closer.get("curves"))
            if (chart := _curve(attack, closer)) is not None
        ],
        "sanity": [
            {
                "question": str(check.get("question", "")),
                "passed": check.get("passed") is True,
                "figures": [(str(key), value) for key, value in mapping(check.get("accuracies")).items()],
            }
            for check in map(mapping, sequence(closer.get("sanity")))
        ],
        "pictures": [
            {"name": NAMES.get(attack, attack), "shown": shown}
            for attack, entries in mapping(record.get("pictures")).items()
            if (shown := [entry for entry in map(mapping, sequence(entries)) if _can_be_shown(entry)])
        ],
    }


def _row(name: str, attack: str, entry: Record) -> dict[str, Any]:
    """A row of the table: an ensemble under an attack."""
    clean, rounds = mapping(entry.get("clean")), [mapping(one) for one in sequence(entry.get("rounds"))]
    members = [share for share in sequence(clean.get("members")) if words.is_number(share)]
    successes = [one.get("success") for one in rounds if words.is_number(one.get("success"))]
    lengths = [one.get("l2") for one in rounds if words.is_number(one.get("l2"))]
    return {
        "ensemble": name,
        "attack": NAMES.get(attack, attack),
        "images": entry.get("images"),
        "clean_member": _mean(members),
        "clean": clean.get("ensemble"),
        "attacked": with_deviation(entry.get("attack"), entry.get("attack_std")),
        "defended": with_deviation(entry.get("defence"), entry.get("defence_std")),
        "adaptive": mapping(entry.get("adaptive")).get("attack"),
        "success": _mean(successes),
        "l2": _mean(lengths),
    }


def _mean(values: Sequence[Any]) -> float | None:
    return sum(values) / len(values) if values else None


def with_deviation(mean: Any, deviation: Any) -> str:
    """A mean share in per cent, with its standard deviation where there is one.

    >>> with_deviation(0.5, 0.012), with_deviation(0.5, None)
    ('50.00 ± 1.20 %', '50.00 %')
    """
    if not words.is_number(mean) or not words.is_number(deviation):
        return words.percent(mean)
    return f"{100 * mean:.2f} ± {100 * deviation:.2f} %"


def _curve(attack: str, closer: Record) -> Any:
    """Accuracy over ε: of the attacked member, of the ensemble that defends, of the ensemble attacked itself."""
    curve, clean = mapping(mapping(closer.get("curves")).get(attack)), mapping(closer.get("clean"))
    sizes = [words.short(size) for size in sequence(closer.get("epsilons"))]
    start = {"attack": _mean([share for share in sequence(clean.get("members")) if words.is_number(share)])}
    series = []
    for name, key in SERIES:
        values = [start.get(key, clean.get("ensemble")), *sequence(curve.get(key))]
        if len(values) == len(sizes) + 1 and all(map(words.is_number, values)):
            series.append((name, [100 * value for value in values]))
    if not series or not sizes:
        return None
    said = "; ".join(f"{name} from {values[0]:.1f} to {values[-1]:.1f} %" for name, values in series)
    title = f"Accuracy under {NAMES.get(attack, attack)} by ε: {said}"
    return charts.lines(title, "ε, of pixels from 0 to 1", "accuracy in %", series, ["0", *sizes])


def _can_be_shown(entry: Record) -> bool:
    """Whether the three pictures are there and are nothing but base64."""
    return all(BASE64.fullmatch(str(entry.get(name, ""))) for name in ("clean", "perturbed", "difference"))


def attacks_as_text(records: Sequence[tuple[str, Record]]) -> str:
    """The figures of one run or several, (name, record), as one table for a terminal; accuracies in per cent."""
    shown = [(name, attacks(record)) for name, record in records]
    wide = max([24, *(len(name) + 1 for name, _ in shown)]) if len(shown) > 1 else 25
    heads = ["accuracy in %", "attack", "images", "clean member", "clean", "Attack", "Defence", "adaptive", "success"]
    rows: list[list[str]] = []
    notes: list[str] = []
    for name, part in shown:
        if part is None:
            continue
        for row in part["rows"]:
            label = row["ensemble"].lower()
            if len(shown) > 1:
                label = name if label == "ensemble" else "  " + label
            cells = [_bare(words.percent(row[key])) for key in ("clean_member", "clean")]
            spread = [_bare(row[key]) for key in ("attacked", "defended")]
            last = [_bare(words.percent(row[key])) for key in ("adaptive", "success")]
            rows.append(
                [label, row["attack"], words.count(row["images"]), *cells, *spread, *last, words.decimal(row["l2"], 3)]
            )
        doubts = [check for one in part["parts"] for check in one["sanity"] if not check["passed"]]
        checked = sum(len(one["sanity"]) for one in part["parts"])
        notes += [f"measured on {part['kind']}. {part['meaning']}"]
        if checked:
            seen = ", ".join(words.count(one["closer_images"]) for one in part["parts"][:1])
            notes.append(f"sanity checks passed: {checked - len(doubts)} of {checked} (on {seen} images)")
        notes += [f"not passed: {check['question']} {_figures(check['figures'])}" for check in doubts]
        notes += [f"left out: {why}" for why in part["skipped"]]
    widths = (f"<{wide}", "<11", ">7", ">13", ">9", ">16", ">16", ">10", ">9", ">8")
    return "\n".join([Table([*heads, "L2"], rows).as_text(*widths), *dict.fromkeys(notes)])


def _figures(figures: Sequence[tuple[str, Any]]) -> str:
    return "(" + ", ".join(f"{name}: {words.percent(share)}" for name, share in figures) + ")"


def _bare(text: str) -> str:
    return text.removesuffix(" %")
