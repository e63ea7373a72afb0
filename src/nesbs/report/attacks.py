"""Attack and defence: the section of the page and the printed table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from nesbs.records import AttacksRecord
from nesbs.records.attacks import AttackPicture, CleanAccuracy, CloserLook, DefenceRecord, EnsembleAttacks, RoundRecord
from nesbs.report import charts, formats
from nesbs.report.table import Table
from nesbs.report.templates import is_base64

NAMES = {"fgsm": "FGSM", "pgd": "PGD", "cw": "CW", "autoattack": "AutoAttack"}
SERIES = (("Attack", "attack"), ("Defence", "defence"), ("adaptive", "adaptive"))


def attacks(record: AttacksRecord | None) -> dict[str, Any] | None:
    """What `attacks.json` says, for the page; None where nothing was attacked."""
    if record is None:
        return None
    named = (("Ensemble", record.ensemble), ("Uniform-random ensemble", record.uniform))
    parts = [_of_ensemble(name, entry) for name, entry in named if entry]
    if not parts:
        return None
    return {
        "kind": "test images" if record.measured_on in (None, "test") else "held-out training images",
        "skipped": list((record.skipped or {}).values()),
        "settings": settings_in_words(record.settings or {}),
        "rows": [row for part in parts for row in part["rows"]],
        "meaning": parts[0]["meaning"],
        "parts": parts,
    }


def settings_in_words(settings: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Each attack with its settings.

    >>> settings_in_words({"pgd": {"epsilon": 0.01, "random_start": False}})
    ['PGD: epsilon 0.01, random start false']
    """
    lines = []
    for name, values in settings.items():
        parts = []
        for key, value in values.items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            parts.append(f"{key.replace('_', ' ')} {formats.short(value) if number else str(value).lower()}")
        lines.append(f"{NAMES.get(name, name)}: {', '.join(parts)}")
    return lines


def _of_ensemble(name: str, record: EnsembleAttacks) -> dict[str, Any]:
    """One ensemble: its rows of the table, transfer matrices, curves over ε, checks and pictures."""
    defences, closer = record.attacks or {}, record.closer or CloserLook()
    curves = [(NAMES.get(attack, attack), _epsilon_curve(attack, closer)) for attack in closer.curves or {}]
    pictures = [
        (NAMES.get(attack, attack), [picture for picture in group if _can_be_shown(picture)])
        for attack, group in (record.pictures or {}).items()
    ]
    return {
        "name": name,
        "meaning": record.meaning or "",
        "rows": [_row(name, attack, defence) for attack, defence in defences.items()],
        "transfer": [
            (NAMES.get(attack, attack), defence.transfer)
            for attack, defence in defences.items()
            if len(defence.transfer) > 1
        ],
        "closer_images": closer.images,
        "curves": [(attack, chart) for attack, chart in curves if chart],
        "sanity": list(closer.sanity or ()),
        "pictures": [(attack, shown) for attack, shown in pictures if shown],
    }


def _row(name: str, attack: str, defence: DefenceRecord) -> list[str]:
    """The cells of a row of the table: an ensemble under an attack."""
    clean, adaptive = defence.clean or CleanAccuracy(), defence.adaptive or RoundRecord()
    return [
        name,
        NAMES.get(attack, attack),
        formats.count(defence.images),
        formats.percent(clean.member_mean),
        formats.percent(clean.ensemble),
        with_deviation(defence.attack, defence.attack_std),
        with_deviation(defence.defence, defence.defence_std),
        formats.percent(adaptive.attack),
        formats.percent(defence.success),
        formats.decimal(defence.l2),
    ]


def with_deviation(mean: float | None, deviation: float | None) -> str:
    """A mean share in per cent, with its standard deviation where there is one.

    >>> with_deviation(0.5, 0.012), with_deviation(0.5, None)
    ('50.00 ± 1.20 %', '50.00 %')
    """
    if mean is None or deviation is None:
        return formats.percent(mean)
    return f"{100 * mean:.2f} ± {100 * deviation:.2f} %"


def _epsilon_curve(attack: str, closer: CloserLook) -> Markup | None:
    """Accuracy over ε: of the attacked member, of the ensemble that defends, of the ensemble attacked itself."""
    curve, clean = (closer.curves or {})[attack], closer.clean or CleanAccuracy()
    sizes = [formats.short(size) for size in closer.epsilons or ()]
    series = []
    for name, key in SERIES:
        start = clean.member_mean if key == "attack" else clean.ensemble
        values = [100 * value for value in (start, *(curve.get(key) or ())) if value is not None]
        if len(values) == len(sizes) + 1:
            series.append((name, values))
    if not series or not sizes:
        return None
    text = "; ".join(f"{name} from {values[0]:.1f} to {values[-1]:.1f} %" for name, values in series)
    title = f"Accuracy under {NAMES.get(attack, attack)} by ε: {text}"
    return charts.lines(title, "ε, of pixels from 0 to 1", "accuracy in %", series, ["0", *sizes])


def _can_be_shown(picture: AttackPicture) -> bool:
    """Whether the three pictures are there and are nothing but base64."""
    return all(map(is_base64, (picture.clean, picture.perturbed, picture.difference)))


def attacks_as_text(records: Sequence[tuple[str, AttacksRecord]]) -> str:
    """The figures of one run or several, (name, record), as one table for a terminal; accuracies in per cent."""
    shown = [(name, section) for name, record in records if (section := attacks(record)) is not None]
    wide = max([24, *(len(name) + 1 for name, _ in records)]) if len(records) > 1 else 25
    heads = ["accuracy in %", "attack", "images", "clean member", "clean", "Attack", "Defence", "adaptive", "success"]
    rows: list[list[str]] = []
    for name, section in shown:
        for ensemble, *cells in section["rows"]:
            label = ensemble.lower()
            if len(records) > 1:
                label = name if label == "ensemble" else "  " + label
            rows.append([label, *(cell.removesuffix(" %") for cell in cells)])
    widths = (f"<{wide}", "<11", ">7", ">13", ">9", ">16", ">16", ">10", ">9", ">8")
    notes = dict.fromkeys(note for _, section in shown for note in _notes(section))
    return "\n".join([Table([*heads, "L2"], rows).as_text(*widths), *notes])


def _notes(section: Mapping[str, Any]) -> list[str]:
    """What was measured on, which checks were passed, what was left out."""
    checks = [check for part in section["parts"] for check in part["sanity"]]
    doubts = [check for check in checks if not check.passed]
    notes = [f"measured on {section['kind']}. {section['meaning']}"]
    if checks:
        images = formats.count(section["parts"][0]["closer_images"])
        notes.append(f"sanity checks passed: {len(checks) - len(doubts)} of {len(checks)} (on {images} images)")
    for check in doubts:
        figures = ", ".join(f"{name}: {formats.percent(share)}" for name, share in (check.accuracies or {}).items())
        notes.append(f"not passed: {check.question} ({figures})")
    return notes + [f"left out: {why}" for why in section["skipped"]]
