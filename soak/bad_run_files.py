"""Files of a run's folder that are cut short, changed, swapped or gone, under the commands that read them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

from soak.bad_recipes import cut, flip
from soak.commands import LONGER, OUT, References, settings
from soak.inputs import Input

WEIGHTS = "members/0.safetensors"
# A command, the files that it would find finished and is to make anew, and those that it reads.
READS: tuple[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], ...] = (
    (
        ("evaluate", OUT),
        ("metrics.json",),
        ("recipe.yaml", "record.json", "selection.json", WEIGHTS, "members/1.safetensors"),
    ),
    (("train", OUT), ("members/1.safetensors",), ("recipe.yaml", "record.json", "selection.json", WEIGHTS)),
    (
        ("attack", OUT, "--attacks", "fgsm", "--images", "8"),
        ("attacks.json",),
        ("recipe.yaml", "record.json", "selection.json", WEIGHTS),
    ),
    (
        ("quality", OUT, "--architectures", "4", "--candidates", "6", "--epochs", "1"),
        (),
        ("recipe.yaml", "record.json", "supernet.safetensors"),
    ),
    (
        ("search", "toy", "--out", OUT, *settings(*LONGER)),
        ("selection.json",),
        ("recipe.yaml", "record.json", "posterior.json", "supernet.safetensors"),
    ),
    (
        ("run", "toy", "--out", OUT, *settings(*LONGER)),
        ("metrics.json",),
        ("recipe.yaml", "record.json", "selection.json", WEIGHTS, "uniform/0.safetensors"),
    ),
    (
        ("report", OUT),
        (),
        ("recipe.yaml", "record.json", "selection.json", "posterior.json", "metrics.json", "predictions.json"),
    ),
)


def make(random: Random, number: int, references: References) -> Input:
    """One broken file under one command: all pairs in turn, spoilt in all ways in turn."""
    pairs = [(*row[:2], file) for row in READS for file in row[2]]
    command, removed, file = pairs[number % len(pairs)]
    ways = list(WAYS)
    way = ways[(number // len(pairs) + number) % len(ways)]
    weights = file.endswith(".safetensors")
    refused = weights and way not in ("gone", "swapped")
    refused |= way in ("cut short", "empty", "random bytes", "nested deep") and not weights and file != "recipe.yaml"

    def prepare(folder: Path) -> None:
        run = folder / OUT
        shutil.copytree(references.made["run"].folder, run)
        for name in removed:
            (run / name).unlink(missing_ok=True)
        WAYS[way](run / file, random)

    spoilt = frozenset(f"{OUT}/{name}" for name in (file, SWAPPED.get(file, file)))
    return Input(f"{command[0]}, {file}: {way}", command, refused, prepare, spoilt=spoilt)


SWAPPED = {
    WEIGHTS: "members/1.safetensors",
    "members/1.safetensors": WEIGHTS,
    "supernet.safetensors": WEIGHTS,
    "uniform/0.safetensors": "uniform/1.safetensors",
    "selection.json": "posterior.json",
    "posterior.json": "selection.json",
    "record.json": "metrics.json",
    "metrics.json": "record.json",
    "predictions.json": "record.json",
    "recipe.yaml": "record.json",
}


def _cut(path: Path, random: Random) -> None:
    path.write_bytes(cut(path.read_bytes()[:-1], random))


def _swap(path: Path, random: Random) -> None:
    run = path.parent.parent if path.parent.name in ("members", "uniform") else path.parent
    other = run / SWAPPED[path.relative_to(run).as_posix()]
    if other.is_file():
        here = path.read_bytes()
        path.write_bytes(other.read_bytes())
        other.write_bytes(here)


def _gone(path: Path, random: Random) -> None:
    path.unlink()
    instead: tuple[Callable[[], object], ...] = (
        path.mkdir,
        lambda: path.symlink_to(path.name),
        lambda: os.mkfifo(path),
        int,
    )
    random.choice(instead)()


def _value(path: Path, random: Random) -> None:
    """One value of a record becomes another."""
    text = path.read_bytes().decode("latin1")
    places = [i for i, letter in enumerate(text) if letter in '0123456789"[{'][:2_000_000]
    place = random.choice(places)
    new = random.choice(("null", "-1", "1e999", "NaN", '"\\u001b[31m"', "[]", "{}", "9" * 5000, "true"))
    path.write_bytes((text[:place] + new + text[place + 1 :]).encode("latin1"))


WAYS: dict[str, Callable[[Path, Random], object]] = {
    "cut short": _cut,
    "a bit flipped": lambda path, random: path.write_bytes(flip(path.read_bytes(), random)),
    "swapped": _swap,
    "empty": lambda path, random: path.write_bytes(b""),
    "bits flipped": lambda path, random: path.write_bytes(flip(path.read_bytes(), random, 50)),
    "gone": _gone,
    "another value": _value,
    "random bytes": lambda path, random: path.write_bytes(random.randbytes(500)),
    "nested deep": lambda path, random: path.write_bytes(b'{"a": ' * 100_000 + b"}" * 100_000),
}
