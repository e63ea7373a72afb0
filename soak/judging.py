"""What counts as a fault, and the folders of two runs compared."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from soak.children import Ended

COLUMNS = ("different", "lost", "tracebacks", "hangs", "unclear", "accepted")
LINES = 2  # that a message may have
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]")  # what may steer a terminal
COSTS = "costs.json"  # the seconds of each network of a pool, under its name
DRAWN = {".html", ".svg", ".png", ".pdf", ".md", ".tex", ".csv"}  # from records, seconds included
CHANGING = re.compile(r"seconds|hours|peak_memory|^(started|nesbs|commit|clean|source)$")  # the machine's mood, paths
FINISHED = re.compile(
    r"(selection|posterior)\.json$|(?<!checkpoint)\.safetensors$|recipe\.yaml$"
)  # never written again


@dataclass(frozen=True)
class Fault:
    """One thing that went wrong: the column it counts in, and what it was."""

    column: str
    what: str


@dataclass(frozen=True)
class Verdict:
    """What a case found."""

    kind: str
    number: int
    name: str
    faults: tuple[Fault, ...] = ()
    command: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self, seed: int) -> dict[str, Any]:
        """Plain data, with the command that repeats the case."""
        return {
            "kind": self.kind,
            "number": self.number,
            "name": self.name,
            "faults": [{"column": fault.column, "what": plain(fault.what)} for fault in self.faults],
            "command": ["nesbs", *map(plain, self.command)],
            "repeat": repeat(seed, self.kind, self.number),
        }


def plain(text: str, most: int = 300) -> str:
    """A text that can be printed: without what steers a terminal or is no character, and not too long."""
    text = CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text).encode("utf-8", "backslashreplace").decode()
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def repeat(seed: int, kind: str, number: int) -> str:
    """The command that runs one case again and keeps its folder."""
    return f"python -m soak --seed {seed} --only {kind} --number {number} --keep FOLDER"


def judge(ended: Ended, *, refused: bool = False) -> list[Fault]:
    """What is wrong with how a command ended; `refused`: exit code 0 is wrong, too."""
    if ended.hung:
        return [Fault("hangs", f"nothing for {ended.seconds:.0f} s; last: {_last(ended.err)}")]
    if ended.at_work or ended.code == 0:
        faults = [Fault("accepted", "exit code 0" if ended.code == 0 else "went to work")] if refused else []
    elif ended.code != 2 or "Traceback (most recent call last)" in ended.err:
        return [Fault("tracebacks", f"exit code {ended.code}: {_last(ended.err)}")]
    else:
        faults = unclear(ended.err)
    if CONTROL.search(ended.out + ended.err):
        near = CONTROL.split(ended.out + ended.err)[0].splitlines()[-1:]
        faults.append(Fault("unclear", f"a control character after {' '.join(near)!r}"))
    return faults


def unclear(err: str) -> list[Fault]:
    """Whether the message of a refusal is missing or long."""
    message = re.split(r"^error: ", err, flags=re.M)[1:]
    if not message:
        return [Fault("unclear", f"exit code 2 without a message: {_last(err)}")]
    lines = message[-1].strip().splitlines()
    if len(lines) > LINES or not lines:
        return [Fault("unclear", f"a message of {len(lines)} lines: {' / '.join(lines)[:300]}")]
    return []


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "(nothing)"


def prints(folder: Path) -> dict[str, str]:
    """A digest of every plain file below a folder, by its path."""
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            if stat.S_ISREG(os.lstat(path).st_mode):
                with open(path, "rb") as handle:
                    found[os.path.relpath(path, folder)] = hashlib.file_digest(handle, "sha256").hexdigest()
    return found


def lost(before: Mapping[str, str], folder: Path, spoilt: frozenset[str] = frozenset()) -> list[Fault]:
    """Finished files that have vanished or changed since `before`; those that were `spoilt` on purpose may."""
    after = prints(folder)
    good = {name: value for name, value in before.items() if FINISHED.search(name) and name not in spoilt}
    return [
        Fault("lost", f"{name} {'has changed' if name in after else 'has vanished'}")
        for name, value in good.items()
        if after.get(name) != value
    ]


def different(reference: Path, other: Path) -> list[Fault]:
    """What differs between an undisturbed folder and another of the same command, and what is missing or too much."""
    one, two = (_contents(folder) for folder in (reference, other))
    faults = [Fault("lost", f"{name} is missing") for name in one.keys() - two.keys()]
    faults += [Fault("different", f"{name} is left over") for name in two.keys() - one.keys()]
    for name in sorted(one.keys() & two.keys()):
        if one[name] != two[name]:
            faults.append(Fault("different", f"{name}: {_first_difference(one[name], two[name])}"))
    return faults


def _contents(folder: Path) -> dict[str, Any]:
    """Every file: a record without what changes from time to time, a drawing by name alone, else a digest."""
    found: dict[str, Any] = {}
    for name, digest in prints(folder).items():
        suffix = Path(name).suffix
        found[name] = None if suffix in DRAWN else digest
        if suffix == ".json" and not FINISHED.search(name):
            with contextlib.suppress(ValueError):  # one that is broken is compared by its digest
                value = json.loads((folder / name).read_text())
                found[name] = sorted(value) if Path(name).name == COSTS else lasting(value)
    return found


def lasting(value: Any) -> Any:
    """A record without seconds, memory, dates and versions."""
    if isinstance(value, dict):
        return {key: lasting(inner) for key, inner in value.items() if not CHANGING.search(key)}
    return [lasting(inner) for inner in value] if isinstance(value, list) else value


def _first_difference(one: Any, two: Any, place: str = "") -> str:
    if isinstance(one, dict) and isinstance(two, dict):
        for key in [*one, *(key for key in two if key not in one)]:
            if one.get(key) != two.get(key):
                return _first_difference(one.get(key), two.get(key), f"{place}.{key}")
    if isinstance(one, list) and isinstance(two, list) and len(one) == len(two):
        for index, pair in enumerate(zip(one, two, strict=True)):
            if pair[0] != pair[1]:
                return _first_difference(*pair, f"{place}[{index}]")
    return f"{place} {str(one)[:60]} undisturbed, {str(two)[:60]} here".strip()
