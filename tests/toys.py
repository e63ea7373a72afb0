"""Runs and comparisons at a size that takes milliseconds, shared by tests of several rooms."""

from dataclasses import asdict

import pytest

from nesbs.cli import main
from nesbs.ensemble import build_member, member_training
from nesbs.evaluation import paired, summarise
from nesbs.runs import Progress, Run, load_recipe
from nesbs.training import side_by_side

TINY = [
    "data.train_limit=60",
    "data.test_limit=40",
    "data.size=12",
    "space.name=toy-edges",
    "sampler.steps=10",
    "supernet.cells=1",
    "members.cells=1",
    "supernet.epochs=2",
    "members.epochs=2",
    "members.channels=2",
    "supernet.channels=2",
    "evaluation.uniform=true",
]
COMPARED = [
    *TINY,
    "threads=1",
    "rivals.pool=6",
    "rivals.pool_epochs=1",
    "rivals.parents=2",
    "rivals.passes=2",
    "rivals.samples=4",
]

COMPARED_SET = [part for change in COMPARED for part in ("--set", change)]


def call(*arguments):
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


def tiny(folder, seed=0, changes=(), progress=None):
    return Run.create(folder, load_recipe("toy", [*TINY, *changes], seed=seed, threads=1), progress=progress)


def compared_recipe(*changes):
    return load_recipe("toy", [*COMPARED, *changes])


def train_member(space, architecture, split, settings, **options):
    """One network trained from scratch, and the mean loss of every epoch."""
    member = build_member(space, architecture, split, settings, seed=0, name=0)
    [losses] = side_by_side([member_training(member, split, settings, seed=0, name=0, **options)])
    return member, losses


def without_seconds(value):
    """A record without what depends on the machine's mood."""
    if isinstance(value, dict):
        moody = ("seconds", "memory")
        return {key: without_seconds(inner) for key, inner in value.items() if not any(map(key.count, moody))}
    return [without_seconds(inner) for inner in value] if isinstance(value, list) else value


class StopError(Exception):
    """The power goes out."""


class Stopping(Progress):
    """Stops after so many steps of a stage."""

    def __init__(self, stage, after):
        self.stage, self.after, self.here = stage, after, False

    def start(self, stage, total):
        self.here = stage.startswith(self.stage)

    def advance(self, done, note=""):
        self.after -= self.here
        if self.here and self.after < 0:
            raise StopError


def comparison_of(differences, seeds=3):
    def method(name, shift):
        scores = [{"error": 0.1 + shift[i], "nll": 0.3 + shift[i]} for i in range(seeds)]
        both = {
            key: paired([s[key] for s in scores], [0.1 if key == "error" else 0.3] * seeds).to_json()
            for key in ("error", "nll")
        }
        mean = {key: asdict(summarise([s[key] for s in scores])) for key in ("error", "nll")}
        return {"seeds": [{"scores": s} for s in scores], "mean": mean, "difference": None if name == "nesbs" else both}

    named = {name: method(name, shift) for name, shift in differences.items()}
    return {"reference": "nesbs", "seeds": list(range(seeds)), "size": 3, "methods": named}
