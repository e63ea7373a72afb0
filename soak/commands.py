"""The commands that are disturbed, the folders they begin in, and an undisturbed run of each to compare with."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from soak.children import Case, Child, Ended, Pool

OUT = "out"  # the folder of every command, inside the folder of its case
LONGEST = 900.0  # seconds that an undisturbed command may take


def settings(*changes: str) -> tuple[str, ...]:
    """Changes as the command takes them."""
    return tuple(part for change in changes for part in ("--set", change))


SMALL = (  # every stage in a moment
    *("threads=1", "data.train_limit=120", "data.test_limit=40", "space.name=toy-edges"),
    *("supernet.channels=2", "members.channels=2"),
)
LONGER = (*SMALL, "supernet.epochs=4", "members.epochs=4", "posterior.steps=10", "evaluation.uniform=true")
RIVALS = ("rivals.pool=3", "rivals.pool_epochs=1", "rivals.parents=2", "rivals.passes=2", "rivals.samples=4")
LARGER_SPACE = (*(change for change in SMALL if not change.startswith("space.")), "space.name=nasbench201")
REPRODUCED = (*LARGER_SPACE, "supernet.epochs=1", "supernet.cells=3", "members.epochs=1", "members.cells=3")
ATTACKS = (
    *("attacks=[fgsm, pgd, cw]", "pgd.steps=4", "cw.search_steps=2", "cw.steps=5"),
    *("epsilons=[0.01]", "closer=8", "pictures=1"),
)
ARCHITECTURE = "|nor_conv_3x3~0|+|none~0|nor_conv_1x1~1|+|skip_connect~0|none~1|avg_pool_3x3~2|"


@dataclass(frozen=True)
class Command:
    """A command on the folder `out`, which is a copy of another command's where it has a `base`."""

    arguments: tuple[str, ...]
    base: str | None = None


COMMANDS = {
    "run": Command(("run", "toy", "--out", OUT, *settings(*LONGER))),
    "search": Command(("search", "toy", "--out", OUT, *settings(*LONGER))),
    "train": Command(("train", OUT), "search"),
    "train --architecture": Command(
        (
            *("train", "--architecture", ARCHITECTURE, "--size", "2", "--recipe", "toy", "--out", OUT),
            *settings(*LARGER_SPACE, "members.epochs=3"),
        )
    ),
    "evaluate": Command(("evaluate", OUT, "--corruptions", "contrast,fog", "--unseen", "fashion-mini"), "train"),
    "distil": Command(
        ("distil", OUT, "--into", "smallest", "--out", f"{OUT}/student", *settings("members.epochs=3")), "train"
    ),
    "attack": Command(("attack", OUT, "--images", "12", *settings(*ATTACKS)), "train"),
    "quality": Command(("quality", OUT, "--architectures", "4", "--candidates", "6", "--epochs", "2"), "search"),
    "compare": Command(
        (
            "compare",
            "toy",
            "--methods",
            "nes-re,deep,rsps",
            "--seeds",
            "1",
            "--out",
            OUT,
            *settings(*SMALL, *RIVALS),
        )
    ),
    "curves": Command(
        (
            *("curves", "toy", "--methods", "all", "--budgets", "2,4", "--seeds", "2", "--out", OUT),
            *settings(*SMALL, *RIVALS),
        )
    ),
    "reproduce": Command(("reproduce", "table6", "--out", OUT, *settings(*REPRODUCED))),
}


@dataclass(frozen=True)
class Reference:
    """A command that nothing disturbed."""

    command: Command
    folder: Path  # its `out`
    seconds: float


class References:
    """Undisturbed runs of commands, made as they are needed."""

    def __init__(self, folder: Path, pool: Pool) -> None:
        self.folder, self.pool = folder, pool
        self.made: dict[str, Reference] = {}
        self.start = 0.0  # seconds that a command needs before it does anything

    def make(self, names: Iterable[str]) -> None:
        """Run these commands undisturbed, `jobs` at a time, after those whose folder they begin in."""
        names = [name for name in names if name not in self.made]
        bases = {base for name in names if (base := COMMANDS[name].base) is not None}
        if bases:
            self.make(bases)
        names = [name for name in names if name not in self.made]
        for name, ended in self.pool.work(self._undisturbed(name) for name in names):
            if ended.code != 0:
                raise SystemExit(
                    f"undisturbed, `nesbs {' '.join(COMMANDS[name].arguments)}` ends with {ended.code}:\n{ended.err}"
                )
            self.made[name] = Reference(COMMANDS[name], self._at(name) / OUT, ended.seconds)

    def _at(self, name: str) -> Path:
        return self.folder / name.replace(" ", "")

    def _undisturbed(self, name: str) -> Case[tuple[str, Ended]]:
        self.begin(name, self._at(name))
        [ended] = yield [Child(COMMANDS[name].arguments, self._at(name), fresh=True, limit=LONGEST)]
        return name, ended

    def begin(self, name: str, folder: Path) -> None:
        """Make a folder in which the command can be run."""
        folder.mkdir(parents=True)
        base = COMMANDS[name].base
        if base is not None:
            shutil.copytree(self.made[base].folder, folder / OUT)

    def measure_start(self) -> None:
        """Measure how long a command takes to import what it needs."""

        def nothing() -> Case[Ended]:
            [ended] = yield [Child(("zoo",), self.folder, fresh=True)]
            return ended

        self.folder.mkdir(parents=True, exist_ok=True)
        self.start = min(ended.seconds for ended in self.pool.work(nothing() for _ in range(max(2, self.pool.jobs))))
