"""Kills at random moments, each resumed by the same command and compared with an undisturbed run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from random import Random

from soak.children import Case, Child, Ended
from soak.commands import COMMANDS, LONGEST, OUT, References
from soak.judging import FINISHED, Fault, Verdict, different, judge, lost, prints

KIND = "kill"
TRIES = 6  # to kill a command before it ends by itself


def command_of(number: int) -> str:
    """The command that a kill disturbs: all in turn."""
    return list(COMMANDS)[number % len(COMMANDS)]


def kill(number: int, seed: int, folder: Path, references: References) -> Case[Verdict]:
    """Kill a command at a moment drawn uniformly from its own seconds, run it again, compare.

    What a process takes to import torch is left out of them: nothing can be lost there.
    """
    name, random = command_of(number), Random(f"{seed} {KIND} {number}")
    reference = references.made[name]
    arguments = reference.command.arguments
    for shrunk in range(TRIES):
        shutil.rmtree(folder, ignore_errors=True)
        references.begin(name, folder)
        moment = random.uniform(references.start, reference.seconds * 0.5**shrunk)
        [ended] = yield [Child(arguments, folder, fresh=True, kill_after=moment, limit=LONGEST)]
        if ended.killed or ended.code != 0:
            break  # else it was quicker than the undisturbed one: earlier, then
    notes = {"after": round(moment, 2), "of": round(reference.seconds, 2), "stage": stage_of(ended)}
    if not ended.killed:
        faults = judge(ended) or [Fault("unclear", f"was over {TRIES} times before it could be killed")]
        return Verdict(KIND, number, name, tuple(faults), arguments, notes)
    faults = whole(reference.folder, folder / OUT)
    before = prints(folder)
    [resumed] = yield [Child(arguments, folder, fresh=True, limit=LONGEST)]
    faults += judge(resumed)
    if resumed.code != 0:
        faults += [] if faults else [Fault("lost", f"is not resumed: {resumed.err.strip()[-300:]}")]
    else:
        faults += lost(before, folder) + different(reference.folder, folder / OUT)
    return Verdict(KIND, number, name, tuple(faults), arguments, notes)


def stage_of(ended: Ended) -> str:
    """The stage that was at work, as the command's progress says."""
    told = re.findall(r"^(.*?): (started|done)", ended.err, flags=re.M)
    if not told:
        return "before the first stage"
    stage, what = told[-1]
    stage = re.sub(r"\d+", "N", stage)
    return stage if what == "started" else f"after {stage}"


def whole(reference: Path, folder: Path) -> list[Fault]:
    """Finished files that a kill left behind and that are not those of an undisturbed run."""
    good, here = (prints(each) if each.is_dir() else {} for each in (reference, folder))
    return [
        Fault("lost", f"{name} is not whole after the kill")
        for name, value in here.items()
        if FINISHED.search(name) and not Path(name).name.startswith(".") and good.get(name, value) != value
    ]
