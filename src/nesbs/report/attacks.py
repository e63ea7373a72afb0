"""Attack and defence: the section of the page and the printed table."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from nesbs.records import AttacksRecord
from nesbs.records.attacks import AttackPicture, CleanAccuracy, CloserLook, DefenceRecord, EnsembleAttacks, RoundRecord
from nesbs.records.kinds import Matrix
from nesbs.report import charts, formats
from nesbs.report.table import Table
from nesbs.report.templates import is_base64

SERIES = (("Attack", "attack"), ("Defence", "defence"), ("adaptive", "adaptive"))


def attacked(record: AttacksRecord | None) -> list[tuple[str, EnsembleAttacks]]:
    """The ensembles that were attacked: (name, record)."""
    named = (("Ensemble", record.ensemble), ("Uniform-random ensemble", record.uniform)) if record else ()
    return [(name, entry) for name, entry in named if entry]


def attacked_images(record: AttacksRecord) -> str:
    """What the attacked images are: the test images, unless the recipe asks for others."""
    return "test images" if record.measured_on in (None, "test") else "held-out training images"


def attack_name(name: str) -> str:
    """An attack as the page names it."""
    names = {"fgsm": "FGSM", "pgd": "PGD", "cw": "CW", "autoattack": "AutoAttack", "autoattack8": "AutoAttack 8/255"}
    return names.get(name, name)


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
        lines.append(f"{attack_name(name)}: {', '.join(parts)}")
    return lines


def rows(record: AttacksRecord) -> list[list[str]]:
    """The table: the cells of every ensemble under every attack."""
    return [
        _row(name, attack, defence)
        for name, entry in attacked(record)
        for attack, defence in (entry.attacks or {}).items()
    ]


def _row(name: str, attack: str, defence: DefenceRecord) -> list[str]:
    """The cells of a row of the table: an ensemble under an attack."""
    clean, adaptive = defence.clean or CleanAccuracy(), defence.adaptive or RoundRecord()
    return [
        name,
        attack_name(attack),
        formats.count(defence.images),
        formats.percent(clean.member_mean),
        formats.percent(clean.ensemble),
        with_deviation(defence.attack, defence.attack_std),
        with_deviation(defence.defence, defence.defence_std),
        formats.percent(adaptive.attack),
        formats.percent(defence.mean("success")),
        formats.decimal(defence.mean("l2")),
    ]


def with_deviation(mean: float | None, deviation: float | None) -> str:
    """A mean share in per cent, with its standard deviation where there is one.

    >>> with_deviation(0.5, 0.012), with_deviation(0.5, None)
    ('50.00 ± 1.20 %', '50.00 %')
    """
    if mean is None or deviation is None:
        return formats.percent(mean)
    return f"{100 * mean:.2f} ± {100 * deviation:.2f} %"


def transfers(record: EnsembleAttacks) -> list[tuple[str, Matrix]]:
    """The transfer matrices, of several members: (attack, matrix)."""
    defences = (record.attacks or {}).items()
    return [(attack_name(attack), defence.transfer) for attack, defence in defences if len(defence.transfer) > 1]


def shown_pictures(record: EnsembleAttacks) -> list[tuple[str, list[AttackPicture]]]:
    """The images that attacks broke, (attack, pictures); without those that are not nothing but base64."""
    groups = [
        (attack_name(attack), [one for one in group if all(map(is_base64, (one.clean, one.perturbed, one.difference)))])
        for attack, group in (record.pictures or {}).items()
    ]
    return [(attack, pictures) for attack, pictures in groups if pictures]


def epsilon_curves(closer: CloserLook) -> list[tuple[str, Markup]]:
    """Charts of the accuracy over ε, (attack, chart), without those of too few numbers."""
    drawn = [(attack_name(attack), _epsilon_curve(attack, closer)) for attack in closer.curves or {}]
    return [(attack, chart) for attack, chart in drawn if chart]


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
    title = f"Accuracy under {attack_name(attack)} by ε: {text}"
    return charts.lines(title, "ε, of pixels from 0 to 1", "accuracy in %", series, ["0", *sizes])


def attacks_as_text(records: Sequence[tuple[str, AttacksRecord]]) -> str:
    """The figures of one run or several, (name, record), as one table for a terminal; accuracies in per cent."""
    several = len(records) > 1
    wide = max([24, *(len(name) + 1 for name, _ in records)]) if several else 25
    heads = ["accuracy in %", "attack", "images", "clean member", "clean", "Attack", "Defence", "adaptive", "success"]
    lines: list[list[str]] = []
    for name, record in records:
        for ensemble, *cells in rows(record):
            label = ensemble.lower()
            if several:
                label = name if label == "ensemble" else "  " + label
            lines.append([label, *(cell.removesuffix(" %") for cell in cells)])
    widths = (f"<{wide}", "<17", ">7", ">13", ">9", ">16", ">16", ">10", ">9", ">8")
    of: dict[str, list[str]] = {}  # each note, and whose it is
    for name, record in records:
        for note in _notes(record):
            of.setdefault(note, []).append(name)
    notes = [note if len(names) == len(records) else f"{', '.join(names)}: {note}" for note, names in of.items()]
    return "\n".join([Table([*heads, "L2"], lines).as_text(*widths), *notes])


def _notes(record: AttacksRecord) -> list[str]:
    """What was measured on, which checks were passed, what was left out."""
    ensembles = [entry for _, entry in attacked(record)]
    if not ensembles:
        return []
    looks = [entry.closer or CloserLook() for entry in ensembles]
    checks = [check for closer in looks for check in closer.sanity or ()]
    doubts = [check for check in checks if not check.passed]
    data = f" of {record.data}" if record.data else ""
    notes = [f"measured on {attacked_images(record)}{data}. {ensembles[0].meaning or ''}"]
    if checks:
        images = formats.count(looks[0].images)
        notes.append(f"sanity checks passed: {len(checks) - len(doubts)} of {len(checks)} (on {images} images)")
    for check in doubts:
        figures = ", ".join(f"{name}: {formats.percent(share)}" for name, share in (check.accuracies or {}).items())
        notes.append(f"not passed: {check.question} ({figures})")
    return notes + [f"left out: {why}" for why in (record.skipped or {}).values()]
