"""`nesbs curves` as its user meets it, and `nesbs compare --budgets`, which does the same."""

import json

import pytest
from toys import COMPARED_SET as SET
from toys import call, without_seconds

from nesbs.spaces import get_space

MORE = ["--set", "sampler.delta=0.5", "--set", "sampler.steps=20", "--seeds", "2", "--one-supernet"]
OPTIONS = ["--methods", "urs", "--budgets", "4", "--sizes", "2", "--temperatures", "1,5", "--deltas", "0,1", *MORE]


def test_curves_and_compare_with_budgets_give_the_same(tmp_path, capsys):
    assert call("curves", "toy", "--out", tmp_path / "curves", *OPTIONS, *SET) == 0
    first = capsys.readouterr()
    assert "n = 2, budget" in first.out
    assert call("compare", "toy", "--out", tmp_path / "compare", *OPTIONS, *SET) == 0
    second = capsys.readouterr()
    assert second.err.splitlines()[0] == "nesbs curves does this; nesbs compare --budgets still works"
    own, other = (json.loads((tmp_path / name / "curves.json").read_text()) for name in ("curves", "compare"))
    assert without_seconds(own) == without_seconds(other)
    assert {point["temperature"] for point in own["points"]} == {1.0, 5.0, None}
    assert {point["delta"] for point in own["points"]} == {0.0, 1.0, None}
    assert own["one_supernet"]
    assert len(own["seeds"]) == 2
    assert (tmp_path / "curves" / "curves.svg").is_file()
    table = tmp_path / "bench.csv"
    every = enumerate(get_space(own["space"]))
    table.write_text("architecture,valid\n" + "".join(f'"{one}",{50 + place / 100}\n' for place, one in every))
    again = call("curves", "toy", "--out", tmp_path / "curves", *OPTIONS, *SET, "--table", table, "--column", "valid")
    assert again == 0
    assert "from bench.csv, valid; it holds 100 % of them" in capsys.readouterr().out
    looked_up = json.loads((tmp_path / "curves" / "curves.json").read_text())
    assert all(50 <= point["mean"]["accuracy"]["mean"] <= 100 for point in looked_up["points"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing option '--budgets'"),
        (["--budgets", "4,x"], "--budgets takes whole numbers"),
        (["--budgets", "4", "--deltas", "nan"], "--deltas takes numbers"),
        (["--budgets", "4", "--methods", "deep"], "deep needs a training of its own"),
        (["--budgets", "4", "--budget", "4"], "No such option: --budget"),
        (["--budgets", "4", "--column", "valid"], "--column goes with --table"),
        (["--budgets", "4", "--table", "nowhere.csv", "--column", "valid"], "nowhere.csv"),
    ],
)
def test_nonsense_is_refused(arguments, message, tmp_path, capsys):
    assert call("curves", "toy", "--methods", "urs", "--out", tmp_path / "run", *SET, *arguments) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_quiet_compare_says_nothing_about_curves(tmp_path, capsys):
    few = ["--methods", "urs", "--budgets", "4", "--seeds", "1", "--set", "sampler.delta=0.5"]
    assert call("compare", "toy", "--out", tmp_path / "run", *few, *SET, "--quiet") == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
