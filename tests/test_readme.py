"""The README's commands and code run, and its figures are those of the records."""

import csv
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from test_cli import call
from test_config import load_recipe
from test_runs import TINY

import nesbs
from nesbs.config import training_recipe

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
COMMANDS = re.findall(r"^(?:\.venv/bin/)?nesbs [^#\n]*?(?=  |$)", README, re.M)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("readme")


def folder_of_images(root):
    from PIL import Image

    for name, shade in (("cat", 60), ("dog", 180)):
        (root / name).mkdir(parents=True, exist_ok=True)
        for i in range(12):
            Image.new("L", (10, 10), shade + i).save(root / name / f"{i}.png")
    return root


def test_the_readme_has_commands():
    assert len(COMMANDS) >= 10


def test_the_readmes_commands_run(place, monkeypatch):
    """All of them, in the README's order: a command finds what the one before it left."""
    names = {name: str(place / name) for name in ("RUN", "DEEP", "MOVED", "COMPARED", "runs/mine")}
    names |= {"RECIPE": "toy", "a.b=c": "seed=0", "data.name=FOLDER": f"data.name={folder_of_images(place / 'images')}"}
    names |= {"FOLDER": str(place / "images")}
    # Every recipe at toy size; the documented changes still apply.
    monkeypatch.setattr(
        "nesbs.cli.load_recipe", lambda name, changes, **top: load_recipe("toy", [*TINY, *changes], **top)
    )
    small = [change for change in TINY if not change.startswith("space.")]

    def trained(texts, changes, **more):
        return training_recipe(
            texts, changes=[*changes, "data.root=null", *small], **{**more, "name": "toy", "data": None}
        )

    monkeypatch.setattr("nesbs.given.training_recipe", trained)
    monkeypatch.setitem(sys.modules, "pyautoattack", None)  # it takes its time with images that it cannot break
    briefly = [part for change in ("pgd.steps=2", "cw.steps=2", "epsilons=[0.01]") for part in ("--set", change)]
    for command in COMMANDS:
        words = [names.get(word, word) for word in shlex.split(command)[1:]]
        assert call(*words, *(briefly if words[0] == "attack" else [])) == 0, command


def test_the_readmes_python_runs(monkeypatch, capsys):
    [code] = re.findall(r"```python\n(.*?)```", README, re.S)
    small = {"epochs": 1, "channels": 2, "cells": 1}
    sizes = {
        "load_dataset": {"train_limit": 100, "test_limit": 20},
        "train_supernet": small,
        "fit_posterior": {"steps": 2, "batch_size": 20},
        "train_ensemble": small,
    }
    for name, settings in sizes.items():
        original = getattr(nesbs, name)
        monkeypatch.setattr(
            nesbs, name, lambda *a, original=original, settings=settings, **k: original(*a, **{**k, **settings})
        )
    exec(code, {})
    assert "error=" in capsys.readouterr().out


def demo_table():
    """The table of the README, from the committed records."""
    lines = [
        "| seed | ensemble: error %, NLL | best member: error %, NLL | uniform-random ensemble: error %, NLL |",
        "| --- | --- | --- | --- |",
    ]
    for folder in sorted((ROOT / "results" / "demo").iterdir()):
        metrics = json.loads((folder / "metrics.json").read_text())
        ensemble, uniform = metrics["ensemble"], metrics["uniform"]
        best = {key: min(member[key] for member in ensemble["members"]) for key in ("error", "nll")}
        cells = [f"{100 * row['error']:.2f}, {row['nll']:.4f}" for row in (ensemble, best, uniform)]
        lines.append(f"| {folder.name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def test_the_readmes_figures_are_those_of_the_records():
    written = re.search(r"<!-- demo table -->\n(.*?)\n<!-- end -->", README, re.S)[1]
    assert written == demo_table()
    means = []
    for name in ("ensemble", "uniform"):
        folders = (ROOT / "results" / "demo").iterdir()
        rows = [json.loads((folder / "metrics.json").read_text())[name] for folder in folders]
        means.append([sum(row[key] for row in rows) / len(rows) for key in ("error", "nll")])
    (error, nll), (uniform_error, uniform_nll) = means
    said = f"error {100 * error:.2f} % against {100 * uniform_error:.2f} %, NLL {nll:.4f} against {uniform_nll:.4f}"
    assert said in README.replace("\n", " ")


def benchmark_table():
    """The second table of the README: committed records beside the benchmark's rows."""
    lines = ["| architecture | images | accuracy % | the benchmark's | seconds |", "| --- | --- | --- | --- | --- |"]
    for name, known in (
        ("best", 94.37),
        ("middle", None),
    ):  # the first: NAS-Bench-201's best on CIFAR-10, test accuracy
        folder = ROOT / "results" / "nasbench201" / name
        metrics, record = (json.loads((folder / f"{file}.json").read_text()) for file in ("metrics", "record"))
        [text] = metrics["ensemble"]["architectures"]
        accuracy = 100 * (1 - metrics["ensemble"]["error"])
        known = known or ROWS[text]
        kind = "test" if metrics["measured_on"] == "test" else "held-out"
        seconds = record["stages"]["members"]["seconds"]
        shown = text.replace("|", "\\|")
        lines.append(f"| `{shown}` | {metrics['test_images']:,} {kind} | {accuracy:.2f} | {known:g} | {seconds:.0f} |")
        yield accuracy, known
    yield "\n".join(lines)


with (ROOT / "tests" / "nasbench201_sample.csv").open() as opened:
    ROWS = {row["architecture"]: float(row["valid_acc_cifar10"]) for row in csv.DictReader(opened)}


def test_members_reach_the_benchmarks_accuracy():
    (best, best_known), (middle, middle_known), table = benchmark_table()
    assert best == pytest.approx(best_known, abs=0.5)
    assert middle == pytest.approx(middle_known, abs=1.0)
    assert re.search(r"<!-- benchmark table -->\n(.*?)\n<!-- end -->", README, re.S)[1] == table


def test_the_speed_pages_figures_are_those_of_the_record():
    rows = json.loads((ROOT / "results" / "benchmarks" / "h200.json").read_text())["results"]
    lines = ["| | ours, ms | plain, ms | ratio |", "| --- | --- | --- | --- |"]
    for row in rows:
        ours, plain = 1e3 * row["seconds"], 1e3 * row["reference_seconds"]
        lines.append(f"| {row['name']} | {ours:.2f} | {plain:.2f} | {row['ratio']:.1f} |")
    page = (ROOT / "docs" / "speed.md").read_text()
    assert re.search(r"<!-- speed table -->\n(.*?)\n<!-- end -->", page, re.S)[1] == "\n".join(lines)


def test_the_ranking_pages_figures_are_those_of_the_record():
    results = json.loads((ROOT / "results" / "benchmarks" / "estimators.json").read_text())["results"]
    lines = ["| | bias | deviation | cosine |", "| --- | --- | --- | --- |"]
    for place, rows in results.items():
        for row in rows:
            figures = " | ".join(f"{row[key]:.2f}" for key in ("bias", "deviation", "cosine"))
            lines.append(f"| {place}: {row['name']} | {figures} |")
    page = (ROOT / "docs" / "ranking.md").read_text()
    assert re.search(r"<!-- estimators table -->\n(.*?)\n<!-- end -->", page, re.S)[1] == "\n".join(lines)
