"""`nesbs attack`: the whole experiment of the paper's sec. 4.2 and app. B.6 on a trained run (`attacks.json`).

Every network attacked by every attack is a file in `attacks/` when it is done, so that a killed command is resumed; the
record is put together from them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, TypeVar

import torch

from nesbs import rng
from nesbs.attacks import (
    PAPER,
    Album,
    AttackSettings,
    AutoAttack,
    CarliniWagner,
    Clean,
    Defence,
    Fgsm,
    Noise,
    Pgd,
    Round,
    attack_round,
    autoattack_library,
    clean_accuracy,
    sanity_attacks,
    sanity_checks,
    sources,
)
from nesbs.data import Split
from nesbs.ensemble import Ensemble
from nesbs.errors import NesbsError
from nesbs.records import AttacksRecord, Record
from nesbs.records.attacks import AttackUnit, CloserLook, EnsembleAttacks
from nesbs.runs.recipe import apply_changes
from nesbs.runs.run import Run
from nesbs.runs.stage import Stage

T = TypeVar("T")
AnyAttack = Fgsm | Pgd | CarliniWagner | AutoAttack | Noise


def attack_settings(attacks: str | None, images: int | None, changes: Sequence[str]) -> AttackSettings:
    """The settings that the options of `nesbs attack` ask for.

    >>> attack_settings("pgd,fgsm", 100, ["pgd.steps=20"]).attacks
    ('fgsm', 'pgd')
    """
    values: dict[str, Any] = {
        name: value for name, value in (("attacks", attacks), ("images", images)) if value is not None
    }
    apply_changes(values, changes, AttackSettings)
    return AttackSettings.of(values)


def measure_robustness(run: Run, chosen: AttackSettings) -> AttacksRecord:
    """Attack a run's ensemble, and the uniform-random one where there is one; write and return `attacks.json`."""
    names, skipped = _available(chosen.attacks)
    split = _attacked_images(run, chosen)
    ensembles = {"ensemble": run.ensemble()}
    if run.recipe.evaluation.uniform:
        ensembles["uniform"] = run.uniform()
    works = [_Work(run, name, ensemble, split, names, chosen) for name, ensemble in ensembles.items()]
    with run.stage("attack", sum(work.total for work in works)) as stage:
        entries = {}
        done = 0
        for work in works:
            entries[work.name] = work.measured(stage, done)
            done += work.total
        record = AttacksRecord(
            data=run.data.name,
            measured_on=run.recipe.evaluation.images,
            seed=run.recipe.seed,
            settings={name: chosen.attack(name).model_dump(mode="json") for name in names},
            skipped=skipped,
            **entries,
        )
        return _merged(AttacksRecord.find(run.folder), record).write(run.folder / AttacksRecord.FILE)


def attack_ensemble(run: Run, name: str, ensemble: Ensemble, chosen: AttackSettings) -> EnsembleAttacks:
    """Attack another ensemble of a run, such as a rival's, under a name of its own.

    Every network attacked is kept in `attacks/` like those of the run's own ensemble.
    """
    names, skipped = _available(chosen.attacks)
    work = _Work(run, name, ensemble, _attacked_images(run, chosen), names, chosen)
    with run.stage(f"attack {name}", work.total) as stage:
        return work.measured(stage, 0).replace(skipped=skipped)


def _attacked_images(run: Run, chosen: AttackSettings) -> Split:
    return drawn(run.measured_images, chosen.images, seed=run.recipe.seed)


def _merged(earlier: AttacksRecord | None, new: AttacksRecord) -> AttacksRecord:
    """What was measured before beside what is new; the same attack's earlier answer gives way."""
    if earlier is None:
        return new

    def both(first: dict[str, T] | None, second: dict[str, T] | None) -> dict[str, T]:
        entries = {**(first or {}), **(second or {})}
        return {name: entries[name] for name in PAPER if name in entries}

    values: dict[str, Any] = {"settings": both(earlier.settings, new.settings)}
    for name in ("ensemble", "uniform"):
        old: EnsembleAttacks | None = getattr(earlier, name)
        own: EnsembleAttacks | None = getattr(new, name)
        if old is not None and own is not None:
            values[name] = own.replace(
                attacks=both(old.attacks, own.attacks),
                pictures=both(old.pictures, own.pictures),
                closer=own.closer or old.closer,
            )
    return new.replace(**values)


def drawn(split: Split, images: int | None, *, seed: int) -> Split:
    """So many images of a split, drawn at random and in their order; all of them where there are no more."""
    if images is None or images >= len(split):
        return split
    order = torch.randperm(len(split), generator=rng.generator(seed, "attacked images"))
    return split.subset(order[:images].sort().values)


def _available(names: tuple[str, ...]) -> tuple[list[str], dict[str, str]]:
    """The attacks that can be made here, and why the others cannot."""
    if "autoattack" not in names:
        return list(names), {}
    try:
        autoattack_library()
    except NesbsError as error:
        if len(names) == 1:
            raise
        return [name for name in names if name != "autoattack"], {"autoattack": str(error)}
    return list(names), {}


@dataclass(frozen=True)
class _Work:
    """One ensemble of a run under all attacks."""

    run: Run
    name: str
    ensemble: Ensemble
    split: Split
    attacks: list[str]
    settings: AttackSettings

    @property
    def total(self) -> int:
        """How many networks are attacked, counted once for each attack."""
        return len(list(self._units()))

    def _units(self) -> Iterator[tuple[AnyAttack, int | None, Split]]:
        """Everything there is to do, in order: attack, network attacked, images."""
        everybody = sources(self.ensemble)
        for name in self.attacks:
            yield from ((self.settings.attack(name), source, self.split) for source in everybody)
        closer = self._closer()
        for attack in self._curves():
            yield from ((attack, source, closer) for source in everybody)
        for check in self._checks().values():
            yield from ((check, source, closer) for source in everybody[:-1])

    def _closer(self) -> Split:
        return drawn(self.split, self.settings.closer, seed=self.run.recipe.seed)

    def _curves(self) -> list[Fgsm | Pgd]:
        sizes = self.settings.epsilons
        return [
            *(self.settings.fgsm.model_copy(update={"epsilon": epsilon}) for epsilon in sizes),
            *(self.settings.pgd.at(epsilon) for epsilon in sizes),
        ]

    def _checks(self) -> dict[str, Fgsm | Pgd | Noise]:
        return sanity_attacks(self.settings.pgd) if self.settings.epsilons else {}

    def measured(self, stage: Stage, done: int) -> EnsembleAttacks:
        """The ensemble's part of the record; `done` units of the stage were finished before."""
        units: dict[str, AttackUnit] = {}
        for number, (attack, source, split) in enumerate(self._units(), start=1):
            key = self._key(attack, source, split)
            path = self.run.folder / "attacks" / f"{key}.json"
            if key not in units:
                if not path.is_file():
                    self._attacked(attack, source, split).write(path)
                    stage.write()
                units[key] = AttackUnit.read(path)
            who = "the ensemble" if source is None else f"member {source + 1}"
            stage.advance(done + number, f"{attack.name}, {who}")

        def round_of(attack: AnyAttack, source: int | None, split: Split) -> Round:
            value = (units[self._key(attack, source, split)].round or Record()).model_dump()
            return Round(**value)

        def defence(attack: AnyAttack, split: Split, clean: Clean) -> Defence:
            rounds = [round_of(attack, source, split) for source in sources(self.ensemble)]
            return Defence(attack.name, len(split), clean, tuple(rounds[:-1]), rounds[-1])

        clean = clean_accuracy(self.ensemble, self.split, batch_size=self.settings.batch_size)
        attacks = {name: defence(self.settings.attack(name), self.split, clean) for name in self.attacks}
        return EnsembleAttacks(
            architectures=[str(architecture) for architecture in self.ensemble.architectures],
            clean=asdict(clean),
            attacks={name: result.to_json() for name, result in attacks.items()},
            meaning=next(iter(attacks.values())).meaning,
            closer=self._closer_look(defence, round_of) if self.settings.epsilons else None,
            pictures={
                name: units[self._key(self.settings.attack(name), 0, self.split)].pictures for name in self.attacks
            },
        )

    def _closer_look(
        self,
        defence: Callable[[AnyAttack, Split, Clean], Defence],
        round_of: Callable[[AnyAttack, int | None, Split], Round],
    ) -> CloserLook:
        """Fewer images looked at more closely: curves over ε, and the sanity checks."""
        split = self._closer()
        clean = clean_accuracy(self.ensemble, split, batch_size=self.settings.batch_size)
        curves: dict[str, dict[str, list[float]]] = {}
        for attack in self._curves():
            result = defence(attack, split, clean)
            curve = curves.setdefault(attack.name, {"attack": [], "defence": [], "adaptive": []})
            curve["attack"].append(result.attack)
            curve["defence"].append(result.defence)
            curve["adaptive"].append(result.adaptive.attack)
        members = range(len(self.ensemble.members))
        accuracies = {
            name: fmean(round_of(check, source, split).attack for source in members)
            for name, check in self._checks().items()
        }
        return CloserLook(
            images=len(split),
            clean=asdict(clean),
            epsilons=self.settings.epsilons,
            curves=curves,
            sanity=[check.to_json() for check in sanity_checks(fmean(clean.members), accuracies)],
        )

    def _attacked(self, attack: AnyAttack, source: int | None, split: Split) -> AttackUnit:
        """One network attacked by one attack: its round, and pictures of the first member's."""
        album = Album(self.settings.pictures if source == 0 and split is self.split else 0, split.class_names)
        result = attack_round(
            self.ensemble,
            attack,
            split,
            source,
            seed=self.run.recipe.seed,
            batch_size=self.settings.batch_size,
            on_batch=album.add,
        )
        return AttackUnit(unit=self._unit(attack, source, split), round=asdict(result), pictures=album.pictures)

    def _unit(self, attack: AnyAttack, source: int | None, split: Split) -> dict[str, Any]:
        """What a unit's answer depends on, beside the run's weights."""
        return {
            "ensemble": self.name,
            "attack": attack.name,
            "settings": attack.model_dump(mode="json"),
            "source": source,
            "images": [len(self.split), len(split)],
            "batch_size": self.settings.batch_size,
            "pictures": self.settings.pictures if source == 0 and split is self.split else 0,
        }

    def _key(self, attack: AnyAttack, source: int | None, split: Split) -> str:
        text = json.dumps(self._unit(attack, source, split), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
