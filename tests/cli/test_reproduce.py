"""`nesbs reproduce` as its user meets it, and the files that say what is run."""

import io
import json
import math
import re
import sys

import pytest
from toys import call

from nesbs.compare.methods import METHODS
from nesbs.errors import NesbsError
from nesbs.records.experiment import GaussiansRecord
from nesbs.reproduce import NAMES, SCALES, Work, experiment, paper_figures
from nesbs.reproduce.cost import experiment_cost, statement
from nesbs.reproduce.exhibit import parse_quantity
from nesbs.runs.recipe import load_recipe
from nesbs.runs.step_times import StepTimes

BEFORE = "fashion-mini-darts-40cead9f"
PAPERS_CELLS = {  # those the paper's tables name
    *("nasnet-a", "amoebanet-a", "pnas", "enas", "darts-v2", "gdas", "p-darts", "sdarts-adv", "robnet-free", "resnet"),
    *("darts-minus", "darts-minus-1", "darts-minus-2", "darts-minus-3", "darts-minus-4"),
    *("darts-minus-c100", "darts-minus-c100-1", "darts-minus-c100-2", "darts-minus-c100-3"),
}


def test_without_a_name_there_is_one_line_each(capsys):
    assert call("reproduce") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == list(NAMES)
    assert all(experiment(name).shows in line for name, line in zip(NAMES, lines, strict=False))


def test_the_help_lists_the_names_in_plain_text(capsys):
    assert call("reproduce", "--help") == 0
    said = capsys.readouterr().out
    first = [line.split()[0] for line in said.partition("all  ")[0].splitlines() if line.strip()]
    assert [word for word in first if word in NAMES] == list(NAMES)
    assert "╭" not in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tabel1"], "unknown name tabel1: did you mean table1?"),
        (["fig-deltas"], "did you mean fig-delta?"),
        (["table1", "--scale", "papers"], "--scale: did you mean paper?"),
        (["table1", "--draw"], "leave --draw out"),
        (["fig-delta", "--draw", "--seed", "9"], "--set and --seed have no effect on it"),
        (["table1", "--draw", "--set", "members.epochs=1"], "--set and --seed have no effect on it"),
        (["fig-delta", "--set", "members.epochs=1"], "fig-delta has no recipe: --set has no effect on it"),
        (["table1", "--set", "members.epoch=1"], "did you mean members.epochs?"),
        (["table1", "--scale", "hour"], "data set cifar10 needs data.root"),
        (["table3", "--scale", "hour"], "Give --set data.root=FOLDER; --scale smoke needs no data"),
        (["table2", "--scale", "paper"], "add --yes to begin"),
        (["table2", "--scale", "paper", "--yes"], "cifar-10-batches-bin/"),
    ],
)
def test_bad_input_leaves_nothing_behind(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert call("reproduce", *arguments, "--out", tmp_path / "out", "--quiet") == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()


def test_folders_of_others_are_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert call("reproduce", "fig-delta", "--out", tmp_path / "file") == 2
    assert "is a file: name a folder" in capsys.readouterr().err
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mine.txt").write_text("dear")
    assert call("reproduce", "fig-delta", "--out", tmp_path / "letters") == 2
    assert "holds something else" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "letters").iterdir()] == ["mine.txt"]


def test_another_command_in_the_same_place_is_refused(tmp_path):
    quick = experiment("fig-delta")
    Work(quick, "smoke", tmp_path / "out", ("seed=2",)).begin()
    begun = Work(quick, "smoke", tmp_path / "out", ("seed=1",))
    begun.begin()  # nothing was measured yet
    begun.save(gaussians=GaussiansRecord(steps=1))
    with pytest.raises(NesbsError, match="was made with --set seed=1: give the same"):
        Work(quick, "smoke", tmp_path / "out", (), 3).begin()
    moved = Work(quick, "smoke", tmp_path / "out", ("seed=1", "data.root=elsewhere"))
    moved.begin()
    assert moved.record.asked.set == ("seed=1",)  # where the data lie is of this machine, and no change of what is made
    moved.save(asked=moved.record.asked.replace(set=("seed=1", "data.root=before")))  # as an older version wrote it
    Work(quick, "smoke", tmp_path / "out", ("seed=1", "data.root=elsewhere")).begin()
    Work(quick, "hour", tmp_path / "out", (), 3).begin()  # another scale has a folder of its own


def test_the_status_of_a_folder_of_names_says_which_are_done(tmp_path, capsys):
    place = tmp_path / "paper"
    assert call("reproduce", "fig-delta", "--out", place, "--quiet") == 0
    capsys.readouterr()
    assert call("status", place) == 0
    assert re.search(
        r"^smoke +fig-delta +done +\d.*cpu\nfinished; no process is at work$", capsys.readouterr().out, re.M
    )
    record = place / "smoke" / "fig-delta" / "record.json"
    record.write_text(record.read_text().replace('"complete": true', '"complete": false'))
    for folder in (place, place / "smoke", record.parent):
        assert call("status", folder) == 0
        out = capsys.readouterr().out
        assert re.search(r"^smoke +fig-delta +begun ", out, re.M)
        assert out.endswith("no process is at work; the same command resumes\n")


def test_parts_without_data_are_left_out(tmp_path):
    one = experiment("table1")
    part = one.scales["smoke"].parts["CIFAR-10"]
    gone = part.model_copy(update={"set": ("data.name=cifar100", "data.root=nowhere")})
    after = part.model_copy(update={"searched_on": "CIFAR-100"})
    parts = {"CIFAR-10": part, "CIFAR-100": gone, "ImageNet16-120": after}
    scale = one.scales["smoke"].model_copy(update={"parts": parts})
    work = Work(one.model_copy(update={"scales": {"smoke": scale}}), "smoke", tmp_path / "out")
    work.begin()
    assert [label for label, _, _ in work.parts()] == ["CIFAR-10"]
    assert "nowhere" in work.record.left_out["CIFAR-100"]
    assert "CIFAR-100, on which the search is made, is not there" in work.record.left_out["ImageNet16-120"]
    work.save_part("CIFAR-10", runs=work.place(work.recipe(part)).name, data="fashion-mini")
    work.save(complete=True)
    work.begin()
    assert work.record.complete
    found = scale.model_copy(update={"parts": {**parts, "CIFAR-100": part}})  # its data are there now
    again = Work(one.model_copy(update={"scales": {"smoke": found}}), "smoke", tmp_path / "out")
    again.begin()
    assert not again.record.complete


def test_the_full_setting_states_its_cost_first(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert call("reproduce", "table2", "--scale", "paper", "--out", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert "an estimate by step times of NVIDIA H200" in said
    assert "the paper's own figure: 0.2 GPU days for NESBS's search" in said
    # On a terminal it asks; no is no.
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.confirm", lambda *_, **__: False)
    assert call("reproduce", "table2", "--scale", "paper", "--out", tmp_path / "out") == 2
    assert "not begun" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_cost_is_a_count_times_a_measured_speed():
    def cost(name, *gpus):
        return experiment_cost(experiment(name), "paper", StepTimes.recorded(), gpus or (1,))

    found = {stage.name: stage for stage in cost("table6").stages}
    # Ten networks, 100 epochs of ⌊50,000 / 96⌋ steps of 22.96 ms, and compiling; no posterior is needed.
    assert list(found) == ["CIFAR-10: supernet", "CIFAR-10: networks"]
    networks = found["CIFAR-10: networks"]
    assert (networks.count, networks.seconds) == (10, pytest.approx(100 * 520 * 22.9629e-3 + 57.925, rel=1e-4))
    two = cost("table2", 1, 1000)
    # What was found is only trained on CIFAR-100. Every row of a single network and of DARTS- (avg), MC DropPath's one,
    # three of each of the five ensembles.
    assert {stage.name: stage.count for stage in two.stages} == {
        "CIFAR-10: supernet": 1,
        "CIFAR-10: pool": 50,
        "CIFAR-10: posterior": 1,
        "CIFAR-10: selection": 2,
        **{f"{label}: networks": 8 + cells + 1 + 5 * 3 for label, cells in (("CIFAR-10", 5), ("CIFAR-100", 4))},
    }
    alone = {stage.name.removeprefix("CIFAR-10: "): stage.seconds for stage in two.stages}
    one, many = (schedule.seconds for schedule in two.schedules)
    assert one == pytest.approx(sum(stage.count * stage.seconds for stage in two.stages))
    # Supernet and pool side by side, posterior and two choices, the networks of one data set and then of the other.
    first = max(alone["supernet"], alone["pool"])
    last = alone["networks"] + alone["CIFAR-100: networks"]
    assert many == pytest.approx(first + alone["posterior"] + 2 * alone["selection"] + last)
    three = cost("table1")
    assert {stage.name: stage.count for stage in three.stages}["CIFAR-10: pool"] == 3 * 50  # of three seeds
    assert not three.stages[0].measured  # with partial channels it was not
    assert "supernets of darts-2nd, enas, gdas, setn" in three.not_counted
    both = {stage.name: stage.count for stage in cost("table7").stages}
    seeds = experiment("table7").scales["paper"].seeds
    assert both["CIFAR-10: selection"] == 2 * 2 * seeds  # two samplers, each by either posterior


@pytest.mark.parametrize(
    ("name", "scale", "words"),
    [
        ("table1", "hour", "CIFAR-10: untrained networks, CIFAR-10: drawing ensembles, measuring"),
        ("table4", "paper", "CIFAR-10: drawing ensembles, the attacks, measuring"),
        ("table7", "paper", "CIFAR-10: drawing ensembles, best-response supernets and posteriors, measuring"),
        ("fig-delta", "paper", "the particles (seconds on a CPU)"),
        ("fig-discrepancy", "paper", "best-response supernets and posteriors, measuring"),
        ("fig-efficiency", "paper", "the curves, measuring"),
    ],
)
def test_the_cost_says_what_it_leaves_out(name, scale, words):
    assert f"\nnot counted, since never measured: {words}\n" in statement(experiment(name), scale) + "\n"


@pytest.mark.parametrize("name", NAMES)
def test_what_is_run_can_be_run(name):
    known, rows = experiment(name), paper_figures(name).rows
    assert set(known.scales) == set(SCALES)
    averaged = [(row, name) for row, parts in known.averages.items() for names in parts.values() for name in names]
    for row, method in [*known.rows.items(), *averaged]:
        kind, _, cell = method.partition(":")
        assert (kind in ("single", "deep", "mc-droppath") and cell in PAPERS_CELLS) if cell else method in METHODS
        if known.kind == "methods":
            assert row in rows
    for column in known.columns:
        assert any(column in row for row in rows.values())
    for scale in known.scales.values():
        seen = []
        for label, part in scale.parts.items():
            recipe = part.resolved()
            assert recipe.data.name == "fashion-mini" if scale is known.scales["smoke"] else recipe.data.name != ""
            assert part.searched_on is None or part.searched_on in seen
            seen.append(label)
        assert scale.rows is None or set(scale.rows) <= set(known.rows)
    for row in rows.values():  # every figure of the paper can be read
        for text in row.values():
            assert math.isfinite(parse_quantity(text).value)


def test_experiments_of_one_scale_share_their_runs():
    """The recipes of the DARTS experiments are the same at each scale, so that a supernet is trained once."""
    shared = [name for name in NAMES if name not in ("table1", "fig-delta")]
    for scale in ("smoke", "hour"):
        recipes = {experiment(name).scales[scale].parts["CIFAR-10"].resolved().to_yaml() for name in shared}
        assert len(recipes) == 1
    own = [experiment(name).scales["paper"].parts["CIFAR-10"].resolved() for name in shared if name != "table7"]
    assert all(recipe == load_recipe("cifar10-darts-paper") for recipe in own)


@pytest.mark.parametrize("name", [name for name in NAMES if experiment(name).rows or name == "fig-discrepancy"])
def test_the_hour_has_seeds_for_an_interval_and_ends_with_any_posterior(name):
    scale = experiment(name).scales["hour"]
    # Networks of one seed: attacks, whose spread is over members; trainings of the same cells; a stand-in for ImageNet.
    assert scale.seeds >= 3 or name in ("table3", "table4", "fig-tradeoff")
    recipe = scale.parts["CIFAR-10"].resolved()
    # The best-response posterior, or a sharp τ, may be sure of one architecture: redrawing would end with an error.
    assert recipe.search.duplicates == "allow" or name == "table1"


def test_a_setting_that_came_later_moves_no_shared_folder_while_it_has_its_default(tmp_path):
    work, recipe = Work(experiment("table2"), "smoke", tmp_path), load_recipe("smoke-darts")
    # As it was before the settings of ADDED_LATER were there.
    assert work.place(recipe).name == BEFORE
    for change in ("members.colour_jitter=[0.1, 0, 0, 0]", "posterior.schedule=constant"):
        assert work.place(load_recipe("smoke-darts", [change])).name != BEFORE


def test_quiet_is_quiet_and_drawing_again_gives_the_same_bytes(tmp_path, capsys):
    out = tmp_path / "out"
    options = ("--out", out, "--quiet")
    work = Work(experiment("table7"), "smoke", out)
    work.begin()  # a record with nothing in it yet
    assert call("reproduce", "table7", "--draw", *options) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")
    first = {path.name: path.read_bytes() for path in work.folder.iterdir()}
    assert set(first) == {"record.json", *(f"table7.{ending}" for ending in ("md", "tex", "csv", "svg", "png"))}
    assert "complete" not in json.loads(first["record.json"])
    assert "Unfinished" in first["table7.md"].decode()
    assert call("reproduce", "table7", "--draw", *options) == 0
    assert {path.name: path.read_bytes() for path in work.folder.iterdir()} == first
