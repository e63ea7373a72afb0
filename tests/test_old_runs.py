"""Folders that nesbs 0.1.0 left behind, before the records had types, are resumed, measured and reported.

old_run/finished    a run with quality and attacks (without its supernet, to be small)
old_run/half        the same run, stopped in the training of its second member
old_run/comparison  old_run/curves  what nesbs compare wrote, without weights
"""

import json
import shutil
from pathlib import Path

import pytest
import torch
from toys import call, without_seconds

from nesbs import files
from nesbs.runs import Progress, Run

OLD = Path(__file__).parent / "old_run"
FIXED = ("recipe.yaml", "posterior.json", "selection.json")  # whose bytes depend on the seed alone


@pytest.fixture
def old(request, tmp_path):
    return shutil.copytree(OLD / request.param, tmp_path / request.param)


def folder(name):
    return pytest.mark.parametrize("old", [name], indirect=True)


def contents(root, names=("**/*.safetensors", *FIXED)):
    """The bytes of the files with these names."""
    return {path.relative_to(root): path.read_bytes() for name in names for path in root.glob(name) if path.is_file()}


def read(path):
    return json.loads(path.read_text())


class Steps(Progress):
    """Every step of every stage."""

    def __init__(self):
        self.steps, self.stage = [], ""

    def start(self, stage, total):
        self.stage = stage

    def advance(self, done, note=""):
        self.steps.append((self.stage, done))


@folder("finished")
def test_a_finished_run_is_reported_and_nothing_is_computed_again(old, capsys):
    before, metrics = contents(old), (old / "metrics.json").read_bytes()
    assert call("run", old / "recipe.yaml", "--out", old) == 0
    captured = capsys.readouterr()
    assert "started" not in captured.err
    assert "chosen ensemble" in captured.out
    assert contents(old) == before
    assert (old / "metrics.json").read_bytes() == metrics
    page = (old / "report.html").read_text()
    assert "Do not trust this search" in page  # of quality.json
    assert "Defence" in page  # of attacks.json


@folder("finished")
def test_a_finished_run_is_measured_further(old):
    before, first = contents(old), read(old / "metrics.json")
    assert call("evaluate", old, "--corruptions", "fog", "--quiet") == 0
    assert contents(old) == before
    metrics = read(old / "metrics.json")
    assert metrics["ensemble"]["corruptions"]["ensemble"]["by_corruption"].keys() == {"fog"}
    for name in ("ensemble", "uniform"):
        for measure in ("error", "nll", "brier", "ece", "members"):
            assert metrics[name][measure] == first[name][measure]


@folder("finished")
def test_attacks_of_a_finished_run_are_found(old):
    networks, first = contents(old, ["attacks/*.json"]), read(old / "attacks.json")
    settings = ["pgd.steps=2", "epsilons=[]", "pictures=1"]
    changes = [part for setting in settings for part in ("--set", setting)]
    assert call("attack", old, "--attacks", "fgsm,pgd", "--images", "20", *changes, "--quiet") == 0
    assert contents(old, ["attacks/*.json"]) == networks
    again = read(old / "attacks.json")
    assert {key: again[key] for key in first if "seconds" not in key} == without_seconds(first)


@folder("half")
def test_half_a_run_is_resumed(old):
    before, steps = contents(old), Steps()
    run = Run.open(old, progress=steps)
    run.ensemble()
    after = contents(old)
    assert {path: after[path] for path in before if "checkpoint" not in path.name} == {
        path: content for path, content in before.items() if "checkpoint" not in path.name
    }
    assert after.keys() - before.keys() == {Path("members/1.safetensors")}
    assert steps.steps == [("members", 6)]  # one epoch of six was missing
    second, expected = (files.read_tensors(at / "members" / "1.safetensors")[0] for at in (old, OLD / "finished"))
    assert second.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(second[name], expected[name], rtol=1e-3, atol=1e-3)
    assert call("evaluate", old, "--quiet") == 0
    error = read(OLD / "finished" / "metrics.json")["ensemble"]["error"]
    assert read(old / "metrics.json")["ensemble"]["error"] == pytest.approx(error, abs=0.05)
    assert "chosen" in (old / "report.html").read_text()


@folder("half")
def test_the_choice_is_the_same_when_it_is_made_again(old):
    first = read(old / "selection.json")
    for name in ("selection.json", "posterior.json"):
        (old / name).unlink()
    assert call("search", old / "recipe.yaml", "--out", old, "--quiet") == 0
    again = read(old / "selection.json")
    assert again["architectures"] == first["architectures"]
    assert again["loss"] == pytest.approx(first["loss"], abs=1e-3)
    assert [proposal["architectures"] for proposal in again["proposals"]] == [
        proposal["architectures"] for proposal in first["proposals"]
    ]


@folder("half")
def test_quality_of_an_old_run_takes_the_same_architectures(old):
    options = ["--architectures", "4", "--candidates", "8", "--epochs", "1", "--sizes", "1"]
    assert call("quality", old, *options, "--quiet") == 0
    first, again = (read(at / "quality.json")["trained"] for at in (OLD / "finished", old))
    assert again["truth"] == first["truth"]
    for one, other in zip(again["architectures"], first["architectures"], strict=True):
        assert one["architecture"] == other["architecture"]
        assert one["true_loss"] == pytest.approx(other["true_loss"], abs=1e-3)


@folder("comparison")
def test_a_comparison_is_found_whole(old, capsys):
    assert call("report", old, "--quiet") == 0
    assert "snapshot" in (old / "report.html").read_text()
    before, first = contents(old), read(old / "comparison.json")
    words = ["compare", old / "recipe.yaml", "--methods", "urs,snapshot", "--seeds", "2", "--out", old]
    assert call(*words) == 0
    assert "started" not in capsys.readouterr().err
    assert contents(old) == before
    again = read(old / "comparison.json")
    assert {name: again[name] for name in first} == first


@folder("curves")
def test_curves_are_found_whole(old, capsys):
    first = read(old / "curves.json")
    words = ["--budgets", "4,8", "--deltas", "1", "--temperatures", "1,2", "--seeds", "2", "--out", old]
    assert call("curves", old / "recipe.yaml", "--methods", "urs,nes-re", *words) == 0
    assert "started" not in capsys.readouterr().err
    again = read(old / "curves.json")
    assert {name: again[name] for name in first} == first
    assert (old / "report.html").is_file()
