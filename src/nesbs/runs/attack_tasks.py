"""Attacks as tasks: each network attacked by one attack is a file of its own, wherever it was made."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from nesbs.attacks import Album, AutoAttack, CarliniWagner, Fgsm, Noise, Pgd, attack_round
from nesbs.cluster import Workers, elsewhere, run_tasks
from nesbs.data import Split
from nesbs.ensemble import Ensemble
from nesbs.records.attacks import AttackUnit

AnyAttack = Fgsm | Pgd | CarliniWagner | AutoAttack | Noise


@dataclass(frozen=True)
class AttackedNetworks:
    """What all tasks share: ensembles by name, all images and those of the closer look, where to compute."""

    ensembles: dict[str, Ensemble]
    splits: tuple[Split, Split]
    device: str
    seed: int
    batch_size: int

    @cached_property
    def placed(self) -> tuple[dict[str, Ensemble], list[Split]]:
        """Networks and images on the device, moved there once a process."""
        ensembles = {name: ensemble.to(self.device) for name, ensemble in self.ensembles.items()}
        return ensembles, [split.to(self.device) for split in self.splits]

    def to_travel(self) -> AttackedNetworks:
        """The same in the memory of this machine, from where they go to other processes."""
        if self.device == "cpu":
            return self
        whole, closer = self.splits
        ensembles = {name: copy.deepcopy(ensemble).to("cpu") for name, ensemble in self.ensembles.items()}
        return replace(self, ensembles=ensembles, splits=(whole.to("cpu"), closer.to("cpu")))


@dataclass(frozen=True)
class AttackTask:
    """One network of an ensemble to be attacked by one attack: the source, or all of them (None)."""

    path: Path  # of the file that will say how it ended
    unit: dict[str, Any]  # what the answer depends on
    attack: AnyAttack
    ensemble: str
    source: int | None
    closer: bool
    pictures: int

    def __str__(self) -> str:
        who = "all" if self.source is None else f"member {self.source + 1}"
        return f"{self.attack.name}, {who} of {self.ensemble}"

    def __call__(self, shared: AttackedNetworks) -> tuple[str, Path, AttackUnit]:
        """Attack; return what was done in words, and its answer beside the file that it goes into."""
        ensembles, splits = shared.placed
        split = splits[self.closer]
        album = Album(self.pictures, split.class_names)
        answer = attack_round(
            ensembles[self.ensemble],
            self.attack,
            split,
            self.source,
            seed=shared.seed,
            batch_size=shared.batch_size,
            on_batch=album.add,
        )
        return str(self), self.path, AttackUnit(unit=self.unit, round=asdict(answer), pictures=album.pictures)

    @property
    def slow(self) -> tuple[bool, bool]:
        """How long it takes beside others: four attacks in a row, and all members at once."""
        return isinstance(self.attack, AutoAttack), self.source is None


def attack_all(tasks: Sequence[AttackTask], networks: AttackedNetworks, workers: Workers) -> Iterator[str]:
    """Attack, side by side where there are workers, and keep every answer; yield in words what was done and where."""
    gpu = networks.device != "cpu"
    if workers.take(len(tasks)):  # the slow ones first: begun last, they would run on while nothing is left beside them
        tasks, networks = sorted(tasks, key=lambda task: task.slow, reverse=True), networks.to_travel()
    else:
        workers = Workers()
    waiting = iter(tasks)
    results = run_tasks(lambda: next(waiting, None), networks, workers=workers, gpu=gpu)
    with contextlib.closing(results) as ended:
        for result in ended:
            what, path, unit = result.value
            unit.write(path)
            yield what + elsewhere(result.node)
