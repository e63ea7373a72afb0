"""The soak test runs, and counts every kind of fault that is planted."""

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
from documents import table

from nesbs.cli.entry_point import COMMANDS
from nesbs.records.recipe import Recipe
from nesbs.settings import keys
from soak import bad_recipes, bad_run_files, bad_settings
from soak.__main__ import SHARES, guarded, makers
from soak.children import Ended
from soak.judging import COLUMNS, Fault, different, judge, lost, prints

ROOT = Path(__file__).parents[1]
# A command that is resumed: two files, made one after the other, and a record with what a machine's mood may change.
PROGRAM = """
import json, os, pathlib, sys, time

def write(path, text):
    part = path.with_name("." + path.name + ".part")
    part.write_text(text)
    os.replace(part, path)

def main(arguments):
    out = pathlib.Path("out")
    disturbed = "undisturbed" not in os.getcwd()
    out.mkdir(exist_ok=True)
    for leftover in out.glob(".*.part"):
        leftover.unlink()
    try:
        for name in ("posterior.json", "selection.json"):
            print(f"{name}: started", file=sys.stderr, flush=True)
            time.sleep(0.1)
            if not (out / name).exists():
                write(out / name, json.dumps({"made": name}))
        FAULT
        write(out / "metrics.json", json.dumps({"error": 0.5, "seconds": time.time()}))
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None

if __name__ == "__main__":
    main(sys.argv[1:])
"""
SCRIPT = """
import json, pathlib, sys
sys.path[:0] = ["{root}", "{folder}"]
import program
from soak import commands, kills
from soak.children import Pool
folder = pathlib.Path("{folder}")
commands.COMMANDS.clear()
commands.COMMANDS["run"] = commands.Command(("run",))
pool = Pool(3, program.main, (sys.executable, str(folder / "program.py")))
references = commands.References(folder / "undisturbed", pool)
references.make(["run"])
{work}
print(json.dumps([dict(each.to_json(0), **each.notes) for each in verdicts]))
"""
KILLS = """
verdicts = list(pool.work(kills.kill(i, 0, folder / str(i), references) for i in range(3)))
"""
FAULTS = """
from soak import faults
faults.DISTURBED = ("run",)
cases = [faults.FAULTS[kind](i, 0, folder / kind / str(i), references) for kind in {kinds} for i in range(6)]
verdicts = list(pool.work(cases))
"""


def verdicts(folder, work, fault="pass"):
    """What a piece of the soak test finds with a command that has this fault."""
    (folder / "program.py").write_text(PROGRAM.replace("FAULT", fault))
    script = SCRIPT.format(root=ROOT, folder=folder, work=work)
    return json.loads(run(script, folder).splitlines()[-1])


def run(script, folder):
    """What a script prints, in a process of its own: one with threads must not fork."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    words = [sys.executable, "-W", "error", "-c", script]
    ended = subprocess.run(words, capture_output=True, text=True, env=environment, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def columns(found):
    return {fault["column"] for verdict in found for fault in verdict["faults"]}


def test_a_command_that_is_resumed_well_has_no_fault_after_kills(tmp_path):
    found = verdicts(tmp_path, KILLS)
    assert [columns([each]) for each in found] == [set()] * 3, found
    assert all(0 <= each["after"] <= each["of"] for each in found)
    assert {each["stage"] for each in found} <= {"before the first stage", "posterior.json", "selection.json"}


@pytest.mark.parametrize(
    ("fault", "column"),
    [
        ('write(out / "metrics.txt", os.getcwd())', "different"),  # a file with other bytes
        ('write(out / f"{os.getpid()}.txt", "")', "different"),  # a file that nobody clears away
        ('disturbed and (out / "selection.json").unlink()', "lost"),
        ("assert not disturbed", "tracebacks"),
        ('if disturbed: raise OSError("no\\x1b[31m")', "unclear"),
    ],
)
def test_a_planted_fault_after_a_kill_is_counted(tmp_path, fault, column):
    assert column in columns(verdicts(tmp_path, KILLS, fault))


def test_a_full_disk_and_a_folder_that_becomes_read_only_are_played(tmp_path):
    work = FAULTS.format(kinds=("disk", "read-only"))
    good = verdicts(tmp_path, work)
    assert columns(good) == set(), good
    assert {each["ended"] for each in good} == {0, 2}  # some come too late to matter
    assert any("Read-only file system" in str(each["message"]) for each in good)


INPUTS = """
import sys
sys.path.insert(0, "{root}")
from nesbs.cli import main as command
from soak.__main__ import main

def broken(arguments):
    raise RuntimeError("planted")

def accepts(arguments):
    print("fine")

for name, call in (("good", command), ("broken", broken), ("accepts", accepts)):
    numbers = "3" if name == "good" else "20"
    words = ["--kills", "0", "--faults", "0", "--inputs", numbers, "--only", "setting"]
    main([*words, "--json", f"{folder}/{{name}}.json"], call)
"""


def test_bad_inputs_are_tried_and_planted_faults_counted(tmp_path):
    printed = run(INPUTS.format(root=ROOT, folder=tmp_path), tmp_path)
    names = ("good", "broken", "accepts")
    good, broken, accepts = (json.loads((tmp_path / f"{name}.json").read_text()) for name in names)
    assert good["rows"] == [{"kind": "setting", "tried": 3, **dict.fromkeys(bad_columns(), 0)}], good["failures"]
    assert {"nesbs", "commit", "date", "machine", "seed", "jobs"} <= set(good)
    [row] = broken["rows"]
    assert row["tracebacks"] == row["tried"] == 20
    assert broken["failures"][0]["faults"] == [{"column": "tracebacks", "what": "exit code 1: RuntimeError: planted"}]
    assert "--only setting --number 0" in broken["failures"][0]["repeat"]
    assert accepts["rows"][0]["accepted"] > 10
    assert "planted" in printed
    assert "tried   different        lost  tracebacks" in printed


def bad_columns():
    return ("different", "lost", "tracebacks", "hangs", "unclear", "accepted")


def ended(code=2, err="error: no\n", out="", **how):
    return Ended(code, out, err, 0.0, 70.0, **how)


@pytest.mark.parametrize(
    ("how", "column"),
    [
        (ended(), None),
        (ended(0, ""), None),
        (ended(1, "Traceback (most recent call last):\nValueError: x"), "tracebacks"),
        (ended(2, "Traceback (most recent call last):\nValueError: x"), "tracebacks"),
        (ended(-11, ""), "tracebacks"),
        (ended(-9, "", hung=True), "hangs"),
        (ended(-9, "", at_work=True), None),
        (ended(2, "stage: done\n"), "unclear"),
        (ended(2, "error: one\ntwo\nthree\n"), "unclear"),
        (ended(0, "", "a \x1b[31m name"), "unclear"),
    ],
)
def test_what_counts_as_a_fault(how, column):
    assert [fault.column for fault in judge(how)] == ([column] if column else [])


def test_what_must_be_refused_and_is_not_is_accepted():
    assert [fault.column for fault in judge(ended(0, ""), refused=True)] == ["accepted"]
    assert [fault.column for fault in judge(ended(-9, "", at_work=True), refused=True)] == ["accepted"]
    assert judge(ended(), refused=True) == []


def test_one_changed_byte_is_different_and_seconds_are_not(tmp_path):
    for name, value in (("one", 1.0), ("two", 2.0)):
        (tmp_path / name / "members").mkdir(parents=True)
        (tmp_path / name / "members" / "0.safetensors").write_bytes(b"weights")
        (tmp_path / name / "costs.json").write_text(json.dumps({"a network": value}))
        (tmp_path / name / "metrics.json").write_text(json.dumps({"error": 0.25, "seconds": value, "started": value}))
    one, two = tmp_path / "one", tmp_path / "two"
    assert different(one, two) == []
    (two / "members" / "0.safetensors").write_bytes(b"weighty")
    assert ["members/0.safetensors" in fault.what for fault in different(one, two)] == [True]
    (two / "metrics.json").write_text(json.dumps({"error": 0.5, "seconds": 1.0, "started": 1}))
    assert [fault.column for fault in different(one, two)] == ["different", "different"]
    (two / "metrics.json").unlink()
    assert {fault.column for fault in different(one, two)} == {"different", "lost"}


def test_a_finished_file_that_is_written_again_is_lost(tmp_path):
    for name in ("selection.json", "metrics.json"):
        (tmp_path / name).write_text("1")
    before = prints(tmp_path)
    assert lost(before, tmp_path) == []
    (tmp_path / "metrics.json").write_text("2")
    assert lost(before, tmp_path) == []  # measures may be added to
    (tmp_path / "selection.json").write_text("2")
    assert [fault.column for fault in lost(before, tmp_path)] == ["lost"]
    assert lost(before, tmp_path, frozenset({"selection.json"})) == []


def test_a_thousand_inputs_have_every_setting_in_every_way():
    count = round(1000 * SHARES["setting"])
    names = {bad_settings.make(Random(number), number).name for number in range(count)}
    assert names == {f"{key}: {kind}" for key in keys(Recipe) for kind in bad_settings.KINDS}
    assert round(1000 * SHARES["recipe"]) > len(bad_recipes.KINDS)
    assert round(1000 * SHARES["run-file"]) > sum(len(row[2]) for row in bad_run_files.READS)


def test_every_input_can_be_made(tmp_path):
    run, made = tmp_path / "run", {}
    for name in {file for row in bad_run_files.READS for file in row[2]} | {*bad_run_files.SWAPPED.values()}:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text('{"a": [1, 2]}' * 9)
    references = SimpleNamespace(made=dict.fromkeys(("run", "search", "train"), SimpleNamespace(folder=run)))
    for kind, make in makers(references).items():
        for number in range(80):
            case = make(Random(f"0 {kind} {number}"), number)
            folder = tmp_path / kind / str(number)
            folder.mkdir(parents=True)
            case.prepare(folder)
            made[kind, number] = case
            assert case.arguments[0] in {command.__name__ for command in COMMANDS}
    assert len({case.name for case in made.values()}) > 200


def test_a_mistake_of_its_own_ends_one_case_and_counts():
    def mistaken():
        yield []
        raise OSError("no folder")

    case = guarded(mistaken(), "image", 3)
    assert next(case) == []
    with pytest.raises(StopIteration) as ended:
        case.send([])
    assert ended.value.value.faults == (Fault("tracebacks", "OSError: no folder"),)


def test_the_page_has_the_records_table():
    found = json.loads((ROOT / "results" / "soak" / "soak.json").read_text())
    total = {"kind": "all", **{column: sum(row[column] for row in found["rows"]) for column in ("tried", *COLUMNS)}}
    heads = ("kind", "tried", *COLUMNS)
    lines = ["| " + " | ".join(str(row[head]) for head in heads) + " |" for row in [*found["rows"], total]]
    assert table((ROOT / "docs" / "faults.md").read_text(), "soak").splitlines()[2:] == lines
    assert {row["kind"]: row["tried"] for row in found["rows"]}["kill"] >= 100
    assert sum(row["tried"] for row in found["rows"] if row["kind"] in SHARES) >= 1000
