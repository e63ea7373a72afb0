"""The README's commands and code run, and its figures are those of the records."""

import re
from statistics import fmean

import pytest
import tables
from documents import ROOT, at_toy_size, code, commands, folder_of_images, run_command, table

README = (ROOT / "README.md").read_text()
NOTES = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "results").glob("*/README.md"))]


def test_the_readme_is_short_and_begins_with_what_to_type():
    lines = README.splitlines()
    assert len(lines) <= 110
    assert {"make demo", "make test"} <= set(commands("\n".join([*lines[:30], "```"])))
    assert len(commands(README)) >= 10


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "results/README.md", *NOTES])
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
        assert (ROOT / page).parent.joinpath(target).exists(), target


def test_the_readmes_commands_run(tmp_path, monkeypatch):
    """All of them, in the README's order: a command finds what the one before it left."""
    places = ("RUN", "COMPARED", "CURVES", "SHOWN", "ONE", "runs/mine", "model.onnx")
    names = {name: str(tmp_path / name) for name in places}
    names |= {"RECIPE": "toy", "a.b=c": "seed=0", "FOLDER": str(folder_of_images(tmp_path / "images"))}
    at_toy_size(monkeypatch)
    for command in commands(README):
        run_command(command, names)


def test_the_readmes_python_runs(capsys):
    """As it stands, not at toy size: an ensemble that has learned something, better than its members."""
    [block] = code(README)
    space = {}
    exec(block, space)
    scores = space["scores"]
    assert f"test error {scores.error:.1%}" in capsys.readouterr().out
    assert scores.error < scores.member_error < 0.5  # guessing: 0.9


def test_the_readmes_figures_are_those_of_the_records():
    assert table(README, "demo") == tables.demo()
    said = README.replace("\n", " ")
    assert tables.demo_in_words() in said
    rows = tables.read("cifar10-table", "comparison.json")["methods"]
    error = {name: f"{100 * row['mean']['error']['mean']:.2f} %" for name, row in rows.items()}
    assert f"24 epochs, five seeds: {error['nesbs']}, NES-RS with as many seconds {error['nes-rs']}" in said
    assert f"(networks half as large), random ones {error['random']}" in said
    sizes = {name: row["cost"]["multiply_adds"]["mean"] for name, row in rows.items()}
    assert sizes["nes-rs"] == pytest.approx(sizes["nesbs"] / 2, rel=0.01)
    seconds = {name: row["cost"]["search_seconds"]["mean"] for name, row in rows.items()}
    assert seconds["nesbs"] == pytest.approx(seconds["nes-rs"], rel=0.1)  # "as many"
    assert f"likeliest, {error['likeliest']}, of the benchmark's best, {error['oracle']}" in said
    full = tables.read("cifar10-headline", "comparison.json")["methods"]["nesbs"]["seeds"]
    found = [100 * seed["scores"]["error"] for seed in full]
    assert "have an error of {:.2f} and {:.2f} % (two seeds)".format(*found) in said
    assert fmean(seed["training_seconds"] for seed in full) / 60 == pytest.approx(12, abs=0.5)  # "in twelve"


def test_members_reach_the_benchmarks_accuracy():
    for name, accuracy, known, _ in tables.against_benchmark():
        assert accuracy == pytest.approx(known, abs={"best": 0.5, "kernels": 0.5, "middle": 1.0}[name])
