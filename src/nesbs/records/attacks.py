"""Attack and defence (`attacks.json`): the ensemble and the uniform-random one under every attack."""

from __future__ import annotations

from typing import Any

from nesbs.attacks.settings import NAMES
from nesbs.records.base import Record, StampedRecord
from nesbs.records.kinds import Columns, Count, Flag, Many, Number, Numbers, NumberTable, Texts, TextTable, known_mean


class CleanAccuracy(Record):
    """Accuracies on the clean images."""

    ensemble: Number | None = None
    members: Numbers | None = None

    @property
    def member_mean(self) -> float | None:
        """The members' mean accuracy."""
        return known_mean(self.members or ())


class RoundRecord(Record):
    """One network attacked by one attack (see `nesbs.attacks.Round`)."""

    source: Count | None = None  # the member attacked; None: the ensemble itself
    attack: Number | None = None
    defence: Number | None = None
    members: Numbers | None = None
    success: Number | None = None
    l2: Number | None = None
    linf: Number | None = None


class DefenceRecord(Record):
    """One attack on every member in turn, and on the ensemble itself (see `nesbs.attacks.Defence`)."""

    name: str | None = None
    images: Count | None = None
    clean: CleanAccuracy | None = None
    rounds: Many[RoundRecord] | None = None
    adaptive: RoundRecord | None = None
    attack: Number | None = None
    attack_std: Number | None = None
    defence: Number | None = None
    defence_std: Number | None = None
    meaning: str | None = None

    def mean(self, figure: str) -> float | None:
        """The mean over the attacked members of `success` or `l2`."""
        return known_mean(tuple(getattr(one, figure) for one in self.rounds or ()))

    @property
    def transfer(self) -> tuple[Numbers, ...]:
        """The accuracy of every member (columns) under the attack on each member (rows)."""
        return tuple(one.members or () for one in self.rounds or ())


class SanityCheck(Record):
    """A check that an attack works as it should (see `nesbs.attacks.sanity`)."""

    question: str | None = None
    accuracies: NumberTable | None = None
    passed: Flag | None = None


class CloserLook(Record):
    """Fewer images looked at more closely: curves over ε and sanity checks."""

    images: Count | None = None
    clean: CleanAccuracy | None = None
    epsilons: Numbers | None = None
    # By attack: accuracies at every ε, under `attack`, `defence` and `adaptive`.
    curves: dict[str, Columns] | None = None
    sanity: Many[SanityCheck] | None = None


class AttackPicture(Record):
    """An image that an attack broke: PNG files in base64, and the answers to it."""

    label: str | None = None
    attacked: str | None = None
    ensemble: str | None = None
    largest: Number | None = None
    clean: str | None = None
    perturbed: str | None = None
    difference: str | None = None


class AttackUnit(Record):
    """One network attacked by one attack, kept in `attacks/` when it is done, with what it depends on."""

    unit: dict[str, Any] | None = None
    round: RoundRecord | None = None
    pictures: Many[AttackPicture] | None = None


class EnsembleAttacks(Record):
    """One ensemble under all attacks."""

    architectures: Texts | None = None
    clean: CleanAccuracy | None = None
    attacks: dict[str, DefenceRecord] | None = None
    meaning: str | None = None
    closer: CloserLook | None = None
    pictures: dict[str, Many[AttackPicture]] | None = None
    skipped: TextTable | None = None  # attacks that could not be made, and why


class AttacksRecord(StampedRecord):
    """What `nesbs attack` measured: `attacks.json`."""

    FILE = "attacks.json"

    data: str | None = None
    measured_on: str | None = None
    seed: Count | None = None
    settings: dict[str, dict[str, Any]] | None = None  # of each attack
    skipped: TextTable | None = None
    ensemble: EnsembleAttacks | None = None
    uniform: EnsembleAttacks | None = None

    def beside(self, earlier: AttacksRecord | None) -> AttacksRecord:
        """This with what was measured before beside it; the same attack's earlier answer gives way."""
        if earlier is None:
            return self

        def both(first: dict[str, Any] | None, second: dict[str, Any] | None) -> dict[str, Any]:
            entries = {**(first or {}), **(second or {})}
            return {name: entries[name] for name in NAMES if name in entries}

        values: dict[str, Any] = {"settings": both(earlier.settings, self.settings)}
        for name in ("ensemble", "uniform"):
            old: EnsembleAttacks | None = getattr(earlier, name)
            own: EnsembleAttacks | None = getattr(self, name)
            if old is not None and own is not None:
                values[name] = own.replace(
                    attacks=both(old.attacks, own.attacks),
                    pictures=both(old.pictures, own.pictures),
                    closer=own.closer or old.closer,
                )
        return self.replace(**values)
