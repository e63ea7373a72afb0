"""`nesbs attack`: the whole experiment of the paper's sec. 4.2 and app. B.6 on a trained run (`attacks.json`).

Every network attacked by every attack is a file in `attacks/` when it is done, so that a killed command is resumed; the
record is put together from them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from nesbs import files, rng
from nesbs.attacks import Clean, Defence, Round, can_be_made, clean_accuracy, sanity_checks, sources
from nesbs.attacks.settings import AttackSettings
from nesbs.cluster import Workers
from nesbs.data import Split
from nesbs.ensemble import Ensemble
from nesbs.errors import NesbsError
from nesbs.records import AttacksRecord
from nesbs.records.attacks import AttackUnit, CloserLook, EnsembleAttacks
from nesbs.runs.attack_tasks import AnyAttack, AttackedNetworks, AttackTask, attack_all
from nesbs.runs.recipe import apply_changes
from nesbs.runs.resumable_run import Run

OWN = ("ensemble", "uniform")  # a run's own ensembles, as `attacks.json` names them


def attack_settings(attacks: str | None, images: int | None, changes: Sequence[str]) -> AttackSettings:
    """The settings that the options of `nesbs attack` ask for.

    >>> attack_settings("pgd,fgsm", 100, ["pgd.steps=20"]).attacks
    ('fgsm', 'pgd')
    """
    options = {"attacks": attacks, "images": images}
    values: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    apply_changes(values, changes, AttackSettings)
    return AttackSettings.of(values)


def measure_robustness(run: Run, chosen: AttackSettings) -> AttacksRecord:
    """Attack a run's ensemble, and the uniform-random one where there is one; write and return `attacks.json`."""
    names, skipped = can_be_made(chosen.attacks)
    record = AttacksRecord(
        data=run.data.name,
        measured_on=run.recipe.evaluation.images,
        seed=run.recipe.seed,
        settings={name: chosen.attack(name).model_dump(mode="json") for name in names},
        skipped=skipped,
        **_Experiment(run, run.ensembles(), names, chosen).made("attack"),
    )
    return record.beside(AttacksRecord.find(run.folder)).write(run.folder / AttacksRecord.FILE)


def attack_ensembles(
    run: Run,
    ensembles: Mapping[str, Ensemble],
    chosen: AttackSettings,
    *,
    on_unit: Callable[[], None] = lambda: None,
) -> dict[str, EnsembleAttacks]:
    """Attack other ensembles of a run, such as its rivals', each under a name of its own.

    Every network attacked is kept in `attacks/` like those of the run's own ensemble; `on_unit` is called after each.
    """
    if taken := [name for name in ensembles if name in OWN]:
        raise NesbsError(f"{taken[0]} is the name of an ensemble of the run's own: name this one otherwise")
    names, skipped = can_be_made(chosen.attacks)
    answers = _Experiment(run, ensembles, names, chosen).made("attack ensembles", on_unit)
    return {name: answer.replace(skipped=skipped) for name, answer in answers.items()}


def drawn(split: Split, images: int | None, *, seed: int) -> Split:
    """So many images of a split, drawn at random and in their order; all of them where there are no more."""
    if images is None or images >= len(split):
        return split
    order = torch.randperm(len(split), generator=rng.generator(seed, "attacked images"))
    return split.subset(order[:images].sort().values)


@dataclass(frozen=True)
class _Experiment:
    """Ensembles of a run under attacks of these names; every network's answer to an attack is a unit of the work."""

    run: Run
    ensembles: Mapping[str, Ensemble]
    attacks: Sequence[str]
    settings: AttackSettings

    @cached_property
    def splits(self) -> tuple[Split, Split]:
        """All images that are attacked, and those of the closer look."""
        seed = self.run.recipe.seed
        whole = drawn(self.run.measured_images, self.settings.images, seed=seed)
        return whole, drawn(whole, self.settings.closer, seed=seed)

    def made(self, stage_name: str, on_unit: Callable[[], None] = lambda: None) -> dict[str, EnsembleAttacks]:
        """Make the units that are missing, as a stage of the run; the part of each ensemble in the record."""
        tasks = {task.path: task for task in self._tasks()}  # an ε of the curves may be that of a whole attack
        missing = [task for path, task in tasks.items() if not path.is_file()]
        device, seed = self.run.data.test.device.type, self.run.recipe.seed
        networks = AttackedNetworks(dict(self.ensembles), self.splits, device, seed, self.settings.batch_size)
        with self.run.stage(stage_name, len(tasks)) as stage:
            done = attack_all(missing, networks, self.run.workers or Workers())
            for number, what in enumerate(done, start=len(tasks) - len(missing) + 1):
                stage.write()
                stage.advance(number, what)
                on_unit()
            return {name: self._answer(name) for name in self.ensembles}

    def _tasks(self) -> Iterator[AttackTask]:
        """Everything there is to do, in order."""
        for name, ensemble in self.ensembles.items():
            everybody = sources(ensemble)
            for attack in map(self.settings.attack, self.attacks):
                yield from (self._task(name, attack, source, closer=False) for source in everybody)
            for attack in self.settings.curves:
                yield from (self._task(name, attack, source, closer=True) for source in everybody)
            for check in self.settings.checks.values():
                yield from (self._task(name, check, source, closer=True) for source in everybody[:-1])

    def _answer(self, name: str) -> EnsembleAttacks:
        """An ensemble's part of the record, once every unit is kept."""
        ensemble, whole = self.ensembles[name], self.splits[0]
        clean = clean_accuracy(ensemble, whole, batch_size=self.settings.batch_size)
        attacks = {each: self.settings.attack(each) for each in self.attacks}
        defences = {each: self._defence(name, attack, clean, closer=False) for each, attack in attacks.items()}
        return EnsembleAttacks(
            architectures=[str(architecture) for architecture in ensemble.architectures],
            clean=asdict(clean),
            attacks={each: defence.to_json() for each, defence in defences.items()},
            meaning=next(iter(defences.values())).meaning,
            closer=self._closer_look(name) if self.settings.epsilons else None,
            pictures={each: self._unit(name, attack, 0, closer=False).pictures for each, attack in attacks.items()},
        )

    def _closer_look(self, name: str) -> CloserLook:
        """Fewer images looked at more closely: curves over ε, and the sanity checks."""
        ensemble, closer = self.ensembles[name], self.splits[1]
        clean = clean_accuracy(ensemble, closer, batch_size=self.settings.batch_size)
        curves: dict[str, dict[str, list[float]]] = {}
        for attack in self.settings.curves:
            defence = self._defence(name, attack, clean, closer=True)
            curve = curves.setdefault(attack.name, {"attack": [], "defence": [], "adaptive": []})
            curve["attack"].append(defence.attack)
            curve["defence"].append(defence.defence)
            curve["adaptive"].append(defence.adaptive.attack)
        members = range(len(ensemble.members))
        accuracies = {
            question: fmean(self._round(name, check, source, closer=True).attack for source in members)
            for question, check in self.settings.checks.items()
        }
        return CloserLook(
            images=len(closer),
            clean=asdict(clean),
            epsilons=self.settings.epsilons,
            curves=curves,
            sanity=[check.to_json() for check in sanity_checks(fmean(clean.members), accuracies)],
        )

    def _defence(self, name: str, attack: AnyAttack, clean: Clean, *, closer: bool) -> Defence:
        *rounds, adaptive = (
            self._round(name, attack, source, closer=closer) for source in sources(self.ensembles[name])
        )
        return Defence(attack.name, len(self.splits[closer]), clean, tuple(rounds), adaptive)

    def _round(self, name: str, attack: AnyAttack, source: int | None, *, closer: bool) -> Round:
        kept = self._unit(name, attack, source, closer=closer).round
        if kept is None or None in (kept.attack, kept.defence, kept.members, kept.linf):
            raise NesbsError(f"{self.run.folder / 'attacks'} holds broken files: {files.AGAIN}")
        return Round(**kept.model_dump())

    def _unit(self, name: str, attack: AnyAttack, source: int | None, *, closer: bool) -> AttackUnit:
        """One network attacked by one attack, as it was kept."""
        task = self._task(name, attack, source, closer=closer)
        kept = AttackUnit.read(task.path)
        if kept.unit != task.unit:
            raise NesbsError(f"{task.path} is not of {attack.name} as it is asked for here: {files.AGAIN}")
        return kept

    def _task(self, name: str, attack: AnyAttack, source: int | None, *, closer: bool) -> AttackTask:
        """The attack on one network, with pictures where it is the first member under a whole attack."""
        pictures = self.settings.pictures if source == 0 and not closer else 0
        unit: dict[str, Any] = {  # what the answer depends on, beside the run's weights
            "ensemble": name,
            "attack": attack.name,
            "settings": attack.model_dump(mode="json"),
            "source": source,
            "images": [len(self.splits[0]), len(self.splits[closer])],
            "batch_size": self.settings.batch_size,
            "pictures": pictures,
        }
        if name not in OWN:
            unit["architectures"] = [str(architecture) for architecture in self.ensembles[name].architectures]
        key = hashlib.sha256(json.dumps(unit, sort_keys=True).encode()).hexdigest()[:16]
        path = Path(self.run.folder, "attacks", f"{key}.json")
        return AttackTask(path, unit, attack, name, source, closer, pictures)
