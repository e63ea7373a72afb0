"""README and the pages of docs/: their commands and their code, run at toy size; their tables, found by name."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from torch.distributed.run import get_args_parser
from toys import TINY, call
from typer.main import get_command

from nesbs.attacks import sanity
from nesbs.cli import app
from nesbs.deploy import Classifier
from nesbs.deploy.exporting import describe
from nesbs.records.classifier import ExportRecord
from nesbs.runs import load_recipe
from nesbs.runs.recipe import training_recipe

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.M | re.S)
CELL = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|"  # of the toy space; pages' NAS-Bench-201 cells begin so
SMALLER = {
    "rivals.pool=36": "rivals.pool=4",
    "rivals.pool=18": "rivals.pool=4",
    "data.train_limit=5000": "data.train_limit=60",
    "data.train_limit=12000": "data.train_limit=60",
    "rivals.pool_epochs=2": "rivals.pool_epochs=1",
    "rivals.pool_epochs=12": "rivals.pool_epochs=1",
    "members.epochs=24": "members.epochs=2",
    "supernet.epochs=30": "supernet.epochs=2",
    "posterior.steps=200": "posterior.steps=2",
    f'rivals.architecture="{CELL}+|skip_connect~0|nor_conv_3x3~1|nor_conv_1x1~2|"': f'rivals.architecture="{CELL}"',
}
# Added to a command of this name: what makes it short.
SHORT = {
    "attack": [
        "--images",
        "10",
        "--set",
        "pgd.steps=2",
        "--set",
        "cw.steps=2",
        "--set",
        "epsilons=[0.01]",
        "--set",
        "closer=10",
    ],
    "compare": ["--seeds", "1", "--set", "rivals.pool=4"],
    "curves": ["--seeds", "1"],
    "latency": ["--repeats", "2"],
    "quality": ["--architectures", "4", "--epochs", "1"],
}
TOOLS = ("benchmarks", "mutants", "soak")  # packages beside src/, run as python -m
SMALL = {"epochs": 1, "channels": 2, "cells": 1}
RECIPE = [  # changes of the toy recipe that a page's own changes come after
    *(change for change in TINY if "epochs" not in change and "uniform" not in change),
    *("supernet.cells=1", "members.cells=1", "data.size=8"),
]
# Settings of functions in the code of a page: what makes them quick.
SIZES = {
    "nesbs.reproduce.gaussians.sample_svgd_rd": {"steps": 20},
    "nesbs.samplers.svgd_ensembles.sample_svgd_rd": {"steps": 5},
    "nesbs.sample_svgd_rd": {"steps": 300},
    "nesbs.load_dataset": {"train_limit": 100, "test_limit": 20},
    "nesbs.train_supernet": SMALL,
    "nesbs.fit_posterior": {"steps": 2, "batch_size": 20},
    "nesbs.train_ensemble": SMALL,
    "nesbs.compare.compare": {"seeds": 1},
    "nesbs.compare.curves": {"seeds": 1},
}


def commands(text: str) -> list[str]:
    """Every line of every block for a shell, without the words behind it."""
    blocks = [body for language, body in FENCE.findall(text) if language in ("", "sh")]
    lines = [re.split(r"  |\s#", line)[0].strip() for block in blocks for line in block.splitlines()]
    return [line.removeprefix(".venv/bin/") for line in lines if line]


def mentions(text: str) -> list[str]:
    """Every command inside a sentence."""
    spans = re.findall(r"`([^`]+)`", FENCE.sub("", text).replace("\n", " "))
    return [span for span in spans if re.match(r"(nesbs|python|make|pip) ", span)]


def code(text: str) -> list[str]:
    """Every block of Python."""
    return [body for language, body in FENCE.findall(text) if language == "python"]


def table(text: str, name: str) -> str:
    """The table between `<!-- NAME table -->` and `<!-- end -->`."""
    found = re.search(rf"<!-- {name} table -->\n(.*?)\n<!-- end -->", text, re.S)
    assert found, f"there is no {name} table"
    assert "<!--" not in found[1], f"the {name} table is empty: put a line in it, which is written over"
    return found[1].strip()


def at_toy_size(monkeypatch: pytest.MonkeyPatch, *, converts: bool = False) -> None:
    """Every recipe becomes the toy one, every function quick; what a page changes still applies.

    Unless it `converts`, an export is a file that says what it holds, and no model: ONNX takes longer than the rest.
    """

    def loaded(_: str, changes=(), **top):
        changes = [f"{key}={value}" for key, value in changes.items()] if isinstance(changes, dict) else changes
        return load_recipe("toy", [*RECIPE, *changes], **top)

    def trained(texts, changes, **more):
        small = ["data.root=null", *(change for change in RECIPE if not change.startswith("space."))]
        cells = ["members.cells=3"] if more["space"] == "darts" else []  # fewer there cannot be
        return training_recipe(texts, changes=[*changes, *small, *cells], **{**more, "name": "toy", "data": None})

    monkeypatch.setattr("nesbs.cli.options.load_recipe", loaded)
    monkeypatch.setattr("nesbs.runs.load_recipe", loaded)
    monkeypatch.setattr("nesbs.runs.recipe.load_recipe", loaded)
    monkeypatch.setattr("nesbs.deploy.scikit_learn.load_recipe", loaded)
    monkeypatch.setattr("nesbs.runs.without_search.training_recipe", trained)
    monkeypatch.setattr("nesbs.deploy.latency.has_extra", lambda: False)
    monkeypatch.setattr("nesbs.attacks.sanity.LARGE", sanity.LARGE.model_copy(update={"steps": 2}))
    monkeypatch.setattr(
        "nesbs.report.canvas.as_svg", lambda figure: "<svg/>"
    )  # pictures: tests/reproduce, tests/compare
    monkeypatch.setattr("nesbs.report.canvas.saved", lambda figure: ("<svg/>", b""))
    if not converts:
        monkeypatch.setattr("nesbs.cli.export.export_classifier", _described)
    monkeypatch.setitem(sys.modules, "pyautoattack", None)  # it takes its time with images that it cannot break
    for name, settings in SIZES.items():
        module, _, function = name.rpartition(".")
        monkeypatch.setattr(name, _quick(getattr(import_module(module), function), settings))


def _described(classifier: Classifier, out: Path, **_: object) -> ExportRecord:
    about = describe(classifier)
    out.write_text(str(about))
    return about


def _quick(original, settings):
    return lambda *given, **named: original(*given, **{**named, **settings})


def run_command(command: str, names: dict[str, str]) -> None:
    """Run a command, with the words that `names` knows put in; of what installs or takes hours, check the words."""
    first, *words = [SMALLER.get(word, _filled(word, names)) for word in shlex.split(command)]
    if first == "torchrun":  # its own options are read; what it would start runs here, alone
        start = get_args_parser().parse_args(words)
        assert (start.module, start.training_script) == (True, "nesbs"), command
        first, words = "nesbs", start.training_script_args
    if first == "nesbs":
        assert call(*words, *SHORT.get(words[0], [])) == 0, command
    elif first == "make":
        assert set(words) <= set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M)), command
    elif first == "pip":
        known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert set(re.findall(r"\[(\w+)\]", command)) <= set(known), command
    elif words[:1] == ["-m"] and words[1].startswith(TOOLS):
        _parse(words[1], words[2:])
    else:
        assert first == "python", f"nobody knows how to try {command}"
        assert (ROOT / words[0]).is_file(), f"nobody knows how to try {command}"


def check_mention(command: str) -> None:
    """See that a command inside a sentence exists and has the options that are named."""
    first, name, *words = shlex.split(command)
    if first == "nesbs":
        known = get_command(app).commands
        meant = known.values() if name == "COMMAND" else [known[name]]
        options = {"--help", *(option for one in meant for parameter in one.params for option in parameter.opts)}
        assert {word for word in words if word.startswith("--")} <= options, command
    elif name == "-m" and (len(words) == 1 or not words[0].startswith(TOOLS)):
        assert find_spec(words[0]), command
    else:
        run_command(command, {})


def _filled(word: str, names: dict[str, str]) -> str:
    """A word, or what stands behind its `=`, as the test calls it."""
    key, equals, value = word.partition("=")
    return names.get(word, f"{key}={names[value]}" if equals and value in names else word)


def _parse(module: str, words: list[str]) -> None:
    """Let a tool read its options, and no more."""

    class ReadError(Exception):
        pass

    def read(self, *given, **named):
        original(self, *given, **named)
        raise ReadError

    original = argparse.ArgumentParser.parse_args
    main = import_module(f"{module}.__main__" if module in TOOLS else module).main
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", read)
        with pytest.raises(ReadError):
            main(words)


def folder_of_images(root: Path) -> Path:
    """Three classes of twelve grey images, the name of one in another alphabet."""
    from PIL import Image

    for name, shade in (("cat", 60), ("dog", 180), ("птица", 120)):
        (root / name).mkdir(parents=True, exist_ok=True)
        for i in range(12):
            Image.new("L", (10, 10), shade + i).save(root / name / f"{i}.png")
    return root
