"""Mutation testing: what is changed, what is left alone, and that a toy's mutants are killed where a test looks."""

import json
from pathlib import Path

import documents
import pytest
import yaml

from mutants import changes
from mutants.__main__ import main
from mutants.reaching import distance
from mutants.record import counts, equivalent, modules, read_results, share, survivors, table

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "mutants.md"
RECORD = json.loads((ROOT / "results" / "mutants" / "mutants.json").read_text())
TABLES = {"rooms": lambda rows: table(rows, "room"), "modules": modules, "survivors": survivors}  # of the page
STRICT = ("samplers", "posterior", "ensemble", "metrics", "attacks")  # 95 % of these must be killed
SOURCE = '''
LIMIT: int | None = 3


def chosen(data, *, count: int | None = None, text: str = ""):
    """1 + 1."""
    if count is None:
        raise ValueError("0" + text)
    print(f"{count + 5} images")
    on_gpu = data.device == "cuda"
    return data.test if count > LIMIT else data.search_valid.size
'''


@pytest.fixture
def project(tmp_path):
    """A project whose one room in use is metrics, with a function that a test looks at and one that none does."""
    files = {
        "src/nesbs/__init__.py": "",
        "src/nesbs/metrics.py": "def double(x):\n    return 2 * x\n\n\ndef unseen(x):\n    return x + 1\n",
        "tests/test_metrics.py": "from nesbs.metrics import double\n\n\ndef test():\n    assert double(3) == 6\n",
        "pyproject.toml": '[tool.pytest.ini_options]\naddopts = "--import-mode=importlib"\n[tool.coverage.run]\n'
        'source = ["nesbs"]\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def mutants_of(project, source, room="metrics"):
    (project / "src/nesbs/metrics.py").write_text(source)
    return changes.mutants(project, room, seed=0, count=1000)


def test_what_people_and_type_checkers_read_is_left_alone(project):
    changed = mutants_of(project, SOURCE)
    assert {mutant.before for mutant in changed} == {
        "LIMIT: int | None = 3",
        "if count is None:",
        "return data.test if count > LIMIT else data.search_valid.size",
    }
    assert {mutant.after for mutant in changed if mutant.line == 2} == {
        "LIMIT: int | None = 4",
        "LIMIT: int | None = 2",
    }
    assert {(mutant.line, mutant.inside, mutant.name) for mutant in changed} == {
        (2, False, "LIMIT"),
        (7, True, "chosen"),
        (11, True, "chosen"),
    }
    assert not any(" is LIMIT" in mutant.after for mutant in changed)


def test_every_other_part_of_the_images_is_put_where_one_is_named(project, monkeypatch):
    monkeypatch.setitem(changes.ROOMS, "separation", ("metrics.py",))
    changed = mutants_of(project, SOURCE.replace(".size", ""), "separation")
    after = "return data.{} if count > LIMIT else data.{}"
    assert {mutant.after for mutant in changed} == {
        after.format("train", "search_valid"),
        after.format("test", "search_train"),
        after.format("test", "train"),
    }
    assert len(mutants_of(project, SOURCE, "separation")) == 1  # all parts have one size


def test_no_place_is_changed_twice_before_every_place_is_changed_once(project):
    source = "def total(a, b, c, d):\n    return a + b * c - d\n"
    assert len({mutant.operator.split("_")[1] for mutant in mutants_of(project, source)[:3]}) == 3


def test_another_way_to_write_the_same_number_is_no_change(project):
    assert mutants_of(project, "LIMIT = 1e300\n") == []
    assert len(mutants_of(project, "LIMIT = 1e3\n")) == 2


def test_of_separation_its_own_tests_come_first(project, monkeypatch):
    monkeypatch.setitem(changes.ROOMS, "separation", ("metrics.py",))
    mutant = mutants_of(project, SOURCE, "separation")[0]
    tests = ["tests/runs/test_a.py::test", "tests/test_metrics.py::test", "tests/test_separation.py::test[a::b]"]
    assert [distance(test, mutant) for test in tests] == [2, 0, 0]


def test_a_mutant_keeps_its_name_when_other_lines_change(project):
    before = {mutant.id: mutant.after for mutant in mutants_of(project, SOURCE)}
    moved = mutants_of(project, f"OTHER = 5\n{SOURCE}")
    assert before.items() <= {mutant.id: mutant.after for mutant in moved}.items()
    assert len({mutant.id for mutant in moved}) == len(moved)


def test_a_default_value_is_tried_by_the_tests_of_its_function(project):
    [mutant, _] = mutants_of(project, "def double(x, times=2):\n    return x.times(times)\n")
    assert (mutant.line, mutant.lines, mutant.inside) == (1, (2, 2), True)


def test_mutants_are_killed_where_a_test_looks_and_nowhere_else(project, capsys):
    options = ["--root", str(project), "--work", str(project / "work"), "--rooms", "metrics", "--jobs", "1"]
    main([*options, "--sample", "3", "--commit", "abc"])
    record = json.loads((project / "work/mutants.json").read_text())
    assert (record["commit"], record["sample"]) == ("abc", 3)
    outcomes = {(row["name"], row["outcome"]) for row in record["mutants"]}
    assert outcomes == {("double", "killed"), ("unseen", "survived")}
    assert {row["by"] for row in record["mutants"] if row["name"] == "double"} == {"tests/test_metrics.py::test"}
    assert "3 of 3 mutants tried" in capsys.readouterr().out
    main([*options, "--sample", "4"])  # goes on: one more
    assert len((project / "work/results.jsonl").read_text().splitlines()) == 4


def test_named_mutants_change_a_text_that_is_there_once():
    written = yaml.safe_load(changes.NAMED.read_text())
    made = changes.mutants(ROOT, "named", seed=0, count=0)
    assert [(mutant.path, mutant.before) for mutant in made] == [(one["path"], one["before"]) for one in written]
    for mutant in made:
        compile(mutant.code((ROOT / mutant.path).read_text()), mutant.path, "exec")


def test_a_timeout_is_no_kill_and_an_equivalent_mutant_does_not_count(tmp_path, monkeypatch):
    outcomes = ["killed", "killed", "survived", "timeout"]
    about = {"room": "a", "path": "src/nesbs/a.py", "name": "f", "before": "x | y", "after": "x"}
    rows = [{"id": str(number), "outcome": outcome, **about} for number, outcome in enumerate(outcomes)]
    (tmp_path / "equivalent.yaml").write_text("'2': it is the same\n")
    monkeypatch.setattr("mutants.record.EQUIVALENT", tmp_path / "equivalent.yaml")
    tally = counts(rows, "path")["src/nesbs/a.py"]
    assert (tally["tried"], tally["killed"], tally["timeout"], tally["equivalent"]) == (4, 2, 1, 1)
    assert share(tally) == pytest.approx(2 / 3)
    assert "| a.py | 4 | 2 | 1 | 0 | 1 | 66.7 % |" in table(rows, "path")
    assert r"| 2 | a.py, `f` | `` x \| y `` | `` x `` | it is the same |" in survivors(rows)
    assert len(survivors(rows).splitlines()) == 4


def test_a_line_that_was_cut_off_is_tried_again(tmp_path):
    (tmp_path / "results.jsonl").write_text('{"id": "a", "outcome": "killed"}\n{"id": "b", "outc')
    assert list(read_results(tmp_path / "results.jsonl")) == ["a"]


@pytest.mark.parametrize("name", TABLES)
def test_the_page_has_what_the_record_has(name):
    assert documents.table(PAGE.read_text(), name) == TABLES[name](RECORD["mutants"])


def test_the_record_has_enough_mutants_and_the_tests_kill_enough():
    by_room = counts(RECORD["mutants"], "room")
    assert by_room["all"]["tried"] >= 400
    assert by_room["all"]["lost"] == 0
    for room in STRICT:
        assert by_room[room]["tried"] >= 40
        assert share(by_room[room]) >= 0.95
    assert share(by_room["separation"]) == share(by_room["named"]) == 1


def test_only_what_survived_is_judged_equivalent():
    alive = {row["id"] for row in RECORD["mutants"] if row["outcome"] != "killed"}
    assert equivalent().keys() <= alive


if __name__ == "__main__":  # writes the page's tables anew
    text = PAGE.read_text()
    for name, made in TABLES.items():
        start, end = f"<!-- {name} table -->\n", "\n<!-- end -->"
        text = text.replace(start + documents.table(text, name) + end, start + made(RECORD["mutants"]) + end)
    PAGE.write_text(text)
