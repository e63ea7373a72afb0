"""Bad inputs: what one is, and how it is tried."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from soak.children import Case, Child
from soak.commands import OUT, References
from soak.judging import FINISHED, Fault, Verdict, judge, lost, prints

MARK = "was-run"  # the file that a hostile input makes where its code is run


def nothing(folder: Path) -> None:
    """Prepare no files."""


@dataclass(frozen=True)
class Input:
    """A command with something wrong in it, and the files it finds in its folder."""

    name: str
    arguments: tuple[str, ...]
    refused: bool = False  # exit code 0 is a fault; else it may work
    prepare: Callable[[Path], object] = nothing
    mended: tuple[str, ...] | None = None  # the command put right, which must find the folder free
    spoilt: frozenset[str] = frozenset()  # finished files that are broken on purpose


Make = Callable[[Random, int], Input]  # from a random stream and a number


def try_input(kind: str, number: int, make: Make, seed: int, folder: Path) -> Case[Verdict]:
    """Run a command with a bad input, and look at how it ends and what it leaves behind."""
    case = make(Random(f"{seed} {kind} {number}"), number)
    folder.mkdir(parents=True)
    case.prepare(folder)
    before = prints(folder)
    [ended] = yield [Child(case.arguments, folder)]
    faults = judge(ended, refused=case.refused) + lost(before, folder, case.spoilt)
    if (folder / MARK).exists():
        faults.append(Fault("accepted", "the code inside the input was run"))
    if case.mended is not None and ended.code == 2 and (folder / OUT).exists() and not _has_stage(folder / OUT):
        [again] = yield [Child(case.mended, folder)]
        if again.code == 2:
            faults.append(Fault("lost", f"the folder is bound: {again.err.strip()[-300:]}"))
        else:
            faults += judge(again)
    return Verdict(kind, number, case.name, tuple(faults), case.arguments)


def _has_stage(folder: Path) -> bool:
    """Whether a stage has been finished in a run's folder."""
    return any(FINISHED.search(name) and not name.endswith("recipe.yaml") for name in prints(folder))


def copy_of(references: References, name: str) -> Callable[[Path], object]:
    """Prepare a copy of a finished command's folder."""
    return lambda folder: shutil.copytree(references.made[name].folder, folder / OUT)
