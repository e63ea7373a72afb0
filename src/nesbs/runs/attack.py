"""`nesbs attack`: the whole experiment of the paper's sec. 4.2 and app. B.6 on a trained run (`attacks.json`).

Every network attacked by every attack is a file in `attacks/` when it is done, so that a killed command is resumed; the
record is put together from them.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from nesbs import files, rng
from nesbs.attacks import Album, AutoAttack, CarliniWagner, Fgsm, Noise, Pgd, autoattack_library
from nesbs.attacks.defence import Clean, Defence, Round, attack_round, clean_accuracy, sources
from nesbs.attacks.sanity import sanity_attacks, sanity_checks
from nesbs.attacks.settings import NAMES, AttackSettings
from nesbs.cluster import Workers, run_tasks
from nesbs.data import Split
from nesbs.ensemble import Ensemble
from nesbs.errors import NesbsError
from nesbs.records import AttacksRecord, Record
from nesbs.records.attacks import AttackUnit, CloserLook, EnsembleAttacks
from nesbs.runs.recipe import apply_changes
from nesbs.runs.resumable_run import Run

AnyAttack = Fgsm | Pgd | CarliniWagner | AutoAttack | Noise


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
    names, skipped = _available(chosen.attacks)
    record = AttacksRecord(
        data=run.data.name,
        measured_on=run.recipe.evaluation.images,
        seed=run.recipe.seed,
        settings={name: chosen.attack(name).model_dump(mode="json") for name in names},
        skipped=skipped,
        **_attacked("attack", [_Work(run, name, each, names, chosen) for name, each in run.ensembles().items()]),
    )
    return _merged(AttacksRecord.find(run.folder), record).write(run.folder / AttacksRecord.FILE)


def attack_ensembles(run: Run, ensembles: Mapping[str, Ensemble], chosen: AttackSettings) -> dict[str, EnsembleAttacks]:
    """Attack other ensembles of a run, such as its rivals', each under a name of its own.

    Every network attacked is kept in `attacks/` like those of the run's own ensemble.
    """
    names, skipped = _available(chosen.attacks)
    works = [_Work(run, name, each, names, chosen) for name, each in ensembles.items()]
    return {name: found.replace(skipped=skipped) for name, found in _attacked("attack ensembles", works).items()}


def _attacked(stage: str, works: Sequence[_Work]) -> dict[str, EnsembleAttacks]:
    """Attack several ensembles of one run, side by side where there are workers; their parts of a record."""
    tasks = [task for work in works for task in work.tasks()]
    with works[0].run.stage(stage, len(tasks)) as progress:
        for number, (task, node) in enumerate(_done(works, tasks), start=1):
            progress.write()
            progress.advance(number, f"{task} on {node}" if node else str(task))
        return {work.name: work.answer() for work in works}


def _done(works: Sequence[_Work], tasks: Sequence[AttackTask]) -> Iterator[tuple[AttackTask, str]]:
    """Make every unit that is not kept yet; yield each with the machine that made it, then those kept before."""
    first, run = works[0], works[0].run
    left = [task for task in tasks if not task.path.is_file()]
    workers, device = run.workers or Workers(), run.data.test.device.type
    if workers.take(len(left)):  # else the slow ones would be begun last, and by themselves
        left.sort(key=lambda task: (not task.attack.name.startswith("autoattack"), task.source is not None))
    else:
        workers = Workers()
    home = "cpu" if workers != Workers() else device  # from where what they share travels
    shared = Attacked(
        {work.name: work.ensemble if home == device else copy.deepcopy(work.ensemble).to(home) for work in works},
        tuple(split.to(home) for split in (first.split, first.closer)),
        device,
        run.recipe.seed,
        first.settings.batch_size,
    )
    missing, waiting = {task.path: task for task in left}, iter(left)
    results = run_tasks(lambda: next(waiting, None), shared, workers=workers, gpu=device != "cpu")
    with contextlib.closing(results) as ended:
        for result in ended:
            path, unit = result.value
            unit.write(path)
            yield missing[path], result.node if workers != Workers() else ""
    yield from ((task, "") for task in tasks if task.path not in missing)


def _merged(earlier: AttacksRecord | None, new: AttacksRecord) -> AttacksRecord:
    """What was measured before beside what is new; the same attack's earlier answer gives way."""
    if earlier is None:
        return new

    def both(first: dict[str, Any] | None, second: dict[str, Any] | None) -> dict[str, Any]:
        entries = {**(first or {}), **(second or {})}
        return {name: entries[name] for name in NAMES if name in entries}

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
    by_library = [name for name in names if name.startswith("autoattack")]
    try:
        if by_library:
            autoattack_library()
    except NesbsError as error:
        if len(names) == len(by_library):
            raise
        return [name for name in names if name not in by_library], dict.fromkeys(by_library, str(error))
    return list(names), {}


@dataclass
class _Work:
    """One ensemble of a run under all attacks, each network's answer a unit of the work."""

    run: Run
    name: str
    ensemble: Ensemble
    attacks: list[str]
    settings: AttackSettings

    def __post_init__(self) -> None:
        settings, seed = self.settings, self.run.recipe.seed
        self.split = drawn(self.run.measured_images, settings.images, seed=seed)
        self.closer = drawn(self.split, settings.closer, seed=seed)
        self.curves: list[Fgsm | Pgd] = [
            *(settings.fgsm.model_copy(update={"epsilon": epsilon}) for epsilon in settings.epsilons),
            *(settings.pgd.at(epsilon) for epsilon in settings.epsilons),
        ]
        self.checks = sanity_attacks(settings.pgd) if settings.epsilons else {}

    def _units(self) -> Iterator[tuple[AnyAttack, int | None, Split]]:
        """Everything there is to do, in order: attack, network attacked, images."""
        everybody = sources(self.ensemble)
        for name in self.attacks:
            yield from ((self.settings.attack(name), source, self.split) for source in everybody)
        for attack in self.curves:
            yield from ((attack, source, self.closer) for source in everybody)
        for check in self.checks.values():
            yield from ((check, source, self.closer) for source in everybody[:-1])

    def tasks(self) -> list[AttackTask]:
        """Every network attacked by every attack."""
        return [self._task(*unit) for unit in self._units()]

    def answer(self) -> EnsembleAttacks:
        """The ensemble's part of the record, once every unit is kept."""
        clean = clean_accuracy(self.ensemble, self.split, batch_size=self.settings.batch_size)
        attacks = {name: self._defence(self.settings.attack(name), self.split, clean) for name in self.attacks}
        return EnsembleAttacks(
            architectures=[str(architecture) for architecture in self.ensemble.architectures],
            clean=asdict(clean),
            attacks={name: result.to_json() for name, result in attacks.items()},
            meaning=next(iter(attacks.values())).meaning,
            closer=self._closer_look() if self.settings.epsilons else None,
            pictures={name: self._unit(self.settings.attack(name), 0, self.split).pictures for name in self.attacks},
        )

    def _closer_look(self) -> CloserLook:
        """Fewer images looked at more closely: curves over ε, and the sanity checks."""
        clean = clean_accuracy(self.ensemble, self.closer, batch_size=self.settings.batch_size)
        curves: dict[str, dict[str, list[float]]] = {}
        for attack in self.curves:
            result = self._defence(attack, self.closer, clean)
            curve = curves.setdefault(attack.name, {"attack": [], "defence": [], "adaptive": []})
            curve["attack"].append(result.attack)
            curve["defence"].append(result.defence)
            curve["adaptive"].append(result.adaptive.attack)
        members = range(len(self.ensemble.members))
        accuracies = {
            name: fmean(self._round(check, source, self.closer).attack for source in members)
            for name, check in self.checks.items()
        }
        return CloserLook(
            images=len(self.closer),
            clean=asdict(clean),
            epsilons=self.settings.epsilons,
            curves=curves,
            sanity=[check.to_json() for check in sanity_checks(fmean(clean.members), accuracies)],
        )

    def _defence(self, attack: AnyAttack, split: Split, clean: Clean) -> Defence:
        *rounds, adaptive = (self._round(attack, source, split) for source in sources(self.ensemble))
        return Defence(attack.name, len(split), clean, tuple(rounds), adaptive)

    def _round(self, attack: AnyAttack, source: int | None, split: Split) -> Round:
        kept = self._unit(attack, source, split).round or Record()
        try:
            return Round(**kept.model_dump())
        except TypeError:
            raise NesbsError(f"{self.run.folder / 'attacks'} holds broken files: {files.AGAIN}") from None

    def _unit(self, attack: AnyAttack, source: int | None, split: Split) -> AttackUnit:
        """One network attacked by one attack, as it was kept."""
        task = self._task(attack, source, split)
        kept = AttackUnit.read(task.path)
        if kept.unit != task.unit:
            raise NesbsError(f"{task.path} is not of {attack.name} as it is asked for here: {files.AGAIN}")
        return kept

    def _task(self, attack: AnyAttack, source: int | None, split: Split) -> AttackTask:
        """The attack on one network, with pictures where it is the first member under a whole attack."""
        whole = split is self.split
        pictures = self.settings.pictures if source == 0 and whole else 0
        unit = {  # what the answer depends on, beside the run's weights
            "ensemble": self.name,
            "attack": attack.name,
            "settings": attack.model_dump(mode="json"),
            "source": source,
            "images": [len(self.split), len(split)],
            "batch_size": self.settings.batch_size,
            "pictures": pictures,
        }
        key = hashlib.sha256(json.dumps(unit, sort_keys=True).encode()).hexdigest()[:16]
        return AttackTask(self.run.folder / "attacks" / f"{key}.json", unit, attack, source, not whole, pictures)


@dataclass(frozen=True)
class Attacked:
    """What the attacks on a run's ensembles share: the networks, all images and those of the closer look."""

    ensembles: dict[str, Ensemble]
    splits: tuple[Split, ...]
    device: str
    seed: int
    batch_size: int

    @cached_property
    def placed(self) -> tuple[dict[str, Ensemble], list[Split]]:
        """Networks and images on the device, there once a worker."""
        ensembles = {name: ensemble.to(self.device) for name, ensemble in self.ensembles.items()}
        return ensembles, [split.to(self.device) for split in self.splits]


@dataclass(frozen=True)
class AttackTask:
    """One network to be attacked by one attack: the source, or all of them (None)."""

    path: Path  # of the file that will say how it ended
    unit: dict[str, Any]
    attack: AnyAttack
    source: int | None
    closer: bool
    pictures: int

    def __str__(self) -> str:
        who = "all" if self.source is None else f"member {self.source + 1}"
        return f"{self.attack.name}, {who} of {self.unit['ensemble']}"

    def __call__(self, shared: Attacked) -> tuple[Path, AttackUnit]:
        """Attack."""
        ensembles, splits = shared.placed
        split = splits[self.closer]
        album = Album(self.pictures, split.class_names)
        result = attack_round(
            ensembles[self.unit["ensemble"]],
            self.attack,
            split,
            self.source,
            seed=shared.seed,
            batch_size=shared.batch_size,
            on_batch=album.add,
        )
        return self.path, AttackUnit(unit=self.unit, round=asdict(result), pictures=album.pictures)
