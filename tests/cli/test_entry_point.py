"""The command as its user meets it."""

import inspect
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
import typing
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from data.layouts import write_cifar10, write_folder
from toys import TINY, call
from typer.main import get_command

import nesbs
from nesbs.cli import app, main
from nesbs.cli.entry_point import COMMANDS
from nesbs.cli.options import Computing
from nesbs.cli.progress import progress_shown
from nesbs.data import batches, load_dataset
from nesbs.runs import load_recipe
from nesbs.runs.checks import check_recipe
from nesbs.spaces import toy_edges

SET = [part for change in [*TINY, "threads=1"] for part in ("--set", change)]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli") / "run"
    assert call("run", "toy", "--out", folder, "--quiet", *SET) == 0
    return folder


def test_run_prints_the_table_and_the_report(finished, capsys):
    assert call("run", "toy", "--out", finished, *SET) == 0
    out = capsys.readouterr().out
    metrics = json.loads((finished / "metrics.json").read_text())
    ensemble, uniform = metrics["ensemble"], metrics["uniform"]
    rows = {line[:24].strip(): line[24:].split() for line in out.splitlines()}
    assert rows["chosen ensemble"][:2] == [f"{100 * ensemble['error']:.2f}", f"{ensemble['nll']:.4f}"]
    assert rows["its best member*"][1] == f"{min(member['nll'] for member in ensemble['members']):.4f}"
    assert rows["uniform-random ensemble"][0] == f"{100 * uniform['error']:.2f}"
    assert f"report: {finished / 'report.html'}" in out
    assert (finished / "report.html").is_file()


def test_quiet_says_nothing(finished, capsys):
    assert call("run", "toy", "--out", finished, "--quiet", *SET) == 0
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_stages_one_by_one_give_what_run_gives(finished, tmp_path, capsys):
    folder = tmp_path / "run"
    assert call("evaluate", folder) == 2
    assert "is not a run: `nesbs run RECIPE" in capsys.readouterr().err
    assert call("search", "toy", "--out", folder, *SET) == 0
    out = capsys.readouterr().out
    assert "estimated validation loss" in out
    assert "no member is chosen twice" in out
    assert call("evaluate", folder) == 2
    assert f"has no members/0.safetensors yet: run `nesbs train {folder}` first" in capsys.readouterr().err
    assert call("report", folder) == 0
    assert call("train", folder) == 0
    assert call("evaluate", folder) == 0
    assert "chosen ensemble" in capsys.readouterr().out
    for name in ("selection.json", "metrics.json"):
        assert (folder / name).read_bytes() == (finished / name).read_bytes()


def test_evaluate_adds_what_its_options_ask_for(finished, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    np.save(tmp_path / "people.npy", np.ones((40, 10)))
    data = write_npz(tmp_path / "other.npz")
    options = ["--unseen", data, "--corruptions", "fog,contrast", "--human", tmp_path / "people.npy"]
    assert call("evaluate", folder, *options) == 0
    captured = capsys.readouterr()
    assert "evaluation: started" in captured.err
    assert "other.npz" in captured.out
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["ensemble"]["unseen"]["images"] == 12
    assert metrics["uniform"]["corruptions"]["ensemble"]["by_corruption"].keys() == {"fog", "contrast"}
    assert metrics["ensemble"]["human"]["ensemble"]["total_variation"] > 0
    assert call("evaluate", folder) == 0
    assert "evaluation" not in capsys.readouterr().err
    for options, message in (
        (["--unseen-root", tmp_path], "give both"),
        (["--unseen", "cifar10"], "--unseen-root"),
        (["--corruptions", "foog"], "unknown corruption foog: did you mean fog?"),
        (["--human", tmp_path / "none.npy"], "there is no file"),
    ):
        assert call("evaluate", folder, *options) == 2
        assert message in capsys.readouterr().err
    assert json.loads((folder / "metrics.json").read_text()) == metrics


def test_progress_is_plain_lines_away_from_a_terminal(tmp_path, capsys):
    assert call("search", "toy", "--out", tmp_path / "run", *SET) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "supernet: started"
    assert lines[1].startswith("supernet: done, ")
    assert [line for line in lines if "\x1b" in line] == []


def test_progress_is_bars_on_a_terminal(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert call("search", "toy", "--out", tmp_path / "run", *SET) == 0
    assert "supernet" in capsys.readouterr().err


def write_npz(path, size=12, classes=3):
    g = np.random.default_rng(0)
    arrays = {}
    for part, count in (("train", 40), ("test", 12)):
        arrays[f"x_{part}"] = g.integers(0, 256, (count, size, size), dtype=np.uint8)
        arrays[f"y_{part}"] = np.arange(count) % classes
    np.savez(path, **arrays)
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "tooy", "--out", "OUT"], "unknown recipe tooy: did you mean toy?"),
        (["run", "toy", "--out", "OUT", "--set", "supernet.epoch=3"], "did you mean supernet.epochs?"),
        (["run", "toy", "--out", "OUT", "--set", "supernet.epochs=many"], "supernet.epochs: input should be a valid"),
        (["run", "toy", "--out", "OUT", "--set", "posterior.evidence=-1"], "posterior.evidence: input should be great"),
        (["run", "toy", "--out", "OUT", "--set", "data.name=none.npz"], "none.npz"),
        (["run", "toy", "--out", "OUT", "--set", "data.name=ODD"], "found 30×30: set data.size"),
        (["run", "PIPE", "--out", "OUT"], "is not a file"),
        (["run", "toy", "--out", "OUT", "--device", "tpu"], "--device"),
        (["run", "toy", "--out", "FILE"], "is a file: name a folder"),
        (["run", "toy", "--out", "HERE"], "holds something that is not a run"),
        (["run", "EMPTY", "--out", "OUT"], "is empty"),
        (["run", "toy"], "Missing option '--out'"),
        (["run", "toy", "--outt", "OUT"], "No such option: --outt"),
        (["frobnicate"], "No such command 'frobnicate'"),
        (["train", "HERE"], "is not a run"),
        (["report", "HERE"], "is not a run"),
        (["recipes", "dmeo"], "did you mean demo?"),
        (["datasets", "cifar10"], "needs data.root"),
        (["run", "toy", "--out", "OUT", "--seed", "-1"], "--seed"),
    ],
)
def test_bad_input_ends_with_code_2_and_a_line(arguments, message, tmp_path, capsys):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty.yaml").write_text("")
    os.mkfifo(tmp_path / "pipe.yaml")
    places = {
        "OUT": tmp_path / "run",
        "FILE": tmp_path / "file",
        "HERE": tmp_path,
        "EMPTY": tmp_path / "empty.yaml",
        "PIPE": tmp_path / "pipe.yaml",
        "data.name=ODD": f"data.name={write_npz(tmp_path / 'odd.npz', size=30)}",
    }
    assert call(*(places.get(argument, argument) for argument in arguments)) == 2
    captured = capsys.readouterr()
    error = captured.err.splitlines()[-1]
    assert message in error
    assert error.startswith("error: ")
    assert "Traceback" not in captured.err
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["ensemble.size=15625"], "ensemble.size: input should be less than or equal to 1000, found 15625"),
        (["ensemble.size=99", "space.name=toy-edges"], "larger than space"),
        (["members.crop=1000000"], "less than or equal to 2048, found 1000000"),
        (["members.crop=29"], "members.crop=29 shifts images of 28×28 pixels out of sight"),
        (["supernet.crop=29"], "supernet.crop=29 shifts images of 28×28 pixels out of sight"),
        (["evaluation.corruptions={a: 1}"], "should be all, or a list of names, found {'a': 1}"),
        (["posterior.temperature=1.0e-300"], "greater than or equal to 0.000001"),
        (["seed=yes"], "seed: input should be a number (YAML reads yes, no, on and off as true and false), found True"),
        ([f"seed={'9' * 5000}"], "--set seed: the value is not valid YAML: a number or a date in it is none"),
        ([f"seed=0x{'f' * 9000}"], "found a value of type int with a number of thousands of digits"),
        ([f"seed={'[' * 5000}"], "not valid YAML: it is nested too deeply"),
        (["seed=!!timestamp x"], "--set seed: the value is not valid YAML"),
        (["data.name=~nobody-of-this-name/x"], "there is no such home folder"),
    ],
    ids=lambda value: value[0][:30] if isinstance(value, list) else "",
)
def test_settings_out_of_bounds_are_refused_before_anything_is_made(settings, message, tmp_path, capsys):
    arguments = [part for setting in settings for part in ("--set", setting)]
    assert call("run", "toy", "--out", tmp_path / "run", *arguments) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["compare", "--budget", "9" * 400], "--budget takes up to 100,000 architectures"),
        (["compare", "--budget", "1e10s"], "--budget takes up to 100,000 architectures"),
        (["compare", "--seeds", "1001"], "--seeds"),
        (["compare", "--seed", str(2**63 - 1)], "seed: input should be less than or equal"),
        (["curves", "--budgets", "9" * 400], "--budgets takes whole numbers"),
        (["curves", "--budgets", ",".join("4" * 2000)], "--budgets takes whole numbers"),
        (["curves", "--budgets", "200000"], "--budgets lie between 1 and 100,000"),
        (["curves", "--budgets", "4", "--sizes", "0"], "--sizes lie between 1 and 1,000"),
        (["curves", "--budgets", "4", "--temperatures", "0"], "--temperatures lie between 1e-06 and"),
        (["curves", "--budgets", "4", "--deltas", "1e9"], "--deltas lie between"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_options_out_of_bounds_are_refused_before_anything_is_made(arguments, message, tmp_path, capsys):
    command, *options = arguments
    assert call(command, "toy", "--methods", "urs", "--out", tmp_path / "all", *options) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line
    assert not (tmp_path / "all").exists()


def test_nan_in_training_ends_with_code_2_and_keeps_what_was_done(tmp_path, capsys):
    changes = ["--set", "members.learning_rate=1e6", "--set", "members.weight_decay=1e6"]
    more = ["--set", "data.train_limit=120"]  # steps enough to get there
    assert call("run", "toy", "--out", tmp_path / "run", *SET, *changes, *more) == 2
    assert "training member 1: the loss is not a number at epoch" in capsys.readouterr().err
    assert (tmp_path / "run" / "selection.json").is_file()


def test_debug_shows_where_it_came_from(tmp_path):
    with pytest.raises(nesbs.NesbsError, match="unknown recipe"):
        main(["run", "tooy", "--out", str(tmp_path / "run"), "--debug"])


def test_ctrl_c_says_that_nothing_is_lost(tmp_path, capsys, monkeypatch):
    def interrupted(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr("nesbs.runs.resumable_run.search", interrupted)
    assert call("run", "toy", "--out", tmp_path / "run", *SET) == 130
    assert "stopped; the same command resumes from here" in capsys.readouterr().err
    assert (tmp_path / "run" / "posterior.json").is_file()


def test_ctrl_c_outside_of_any_work_leaves_no_traceback(capsys, monkeypatch):
    def interrupted(*arguments, **keywords):
        raise KeyboardInterrupt

    monkeypatch.setattr("nesbs.cli.entry_point.app", interrupted)
    with pytest.raises(SystemExit) as end:
        main(["datasets"])
    assert end.value.code == 130
    assert capsys.readouterr().err.startswith("stopped")


def test_ctrl_c_while_modules_are_imported_ends_the_command_at_once(tmp_path):
    """Neither a traceback nor a command that goes on with modules that are half imported."""
    command = [sys.executable, "-m", "nesbs", "run", "toy", "--out", str(tmp_path / "run")]
    listening = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # what a shell starts with & ignores Ctrl-C
    begun = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=listening)
    time.sleep(1)
    begun.send_signal(signal.SIGINT)
    _, err = begun.communicate()
    assert begun.returncode in (-signal.SIGINT, 130)  # 130 where a quick machine was at work by then
    assert b"Traceback" not in err


def test_a_closed_error_stream_is_no_reason_to_stop(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    with progress_shown(quiet=False) as progress:
        progress.start("supernet", 3)


def test_more_threads_than_cores_bring_a_warning(tmp_path):
    data = nesbs.load_dataset("fashion-mini", train_limit=200)
    with pytest.warns(UserWarning, match="threads=1024, and this machine runs"):
        check_recipe(load_recipe("toy", ["threads=1024"]), data, toy_edges())


def test_a_users_npz_and_folder_go_through(tmp_path, capsys):
    data = write_npz(tmp_path / "mine.npz")
    changes = [change for change in TINY if not change.startswith(("data.", "evaluation."))]
    arguments = [part for change in changes for part in ("--set", change)]
    assert call("run", "toy", "--out", tmp_path / "run", "--set", f"data.name={data}", *arguments) == 0
    assert "mine.npz, 12 test images" in capsys.readouterr().out


TUNED = ["search.tune=bayesian", "search.trials=2", "supernet.partial=2"]


@pytest.mark.parametrize("changes", [[], pytest.param(TUNED, marks=pytest.mark.slow)])
def test_the_darts_space_goes_through_end_to_end(changes, tmp_path, capsys):
    arguments = [part for change in changes for part in ("--set", change)]
    limits = ["--set", "data.train_limit=80", "--set", "data.test_limit=20"]
    assert call("run", "toy", "--out", tmp_path / "run", "--set", "space.name=darts", *limits, *arguments) == 0
    assert "chosen ensemble" in capsys.readouterr().out
    selection = json.loads((tmp_path / "run" / "selection.json").read_text())
    assert nesbs.darts().parse(selection["architectures"][0]).text == selection["architectures"][0]
    trace = json.loads((tmp_path / "run" / "record.json").read_text())["stages"]["selection"]["delta_trace"]
    assert len(trace) == (2 if not changes else len({p["delta"] for p in selection["proposals"]}))


def test_zoo(capsys, tmp_path):
    assert call("zoo") == 0
    assert "darts-v2\n    3.35 million parameters" in capsys.readouterr().out
    assert call("zoo", "darts-v2", "--out", tmp_path / "cells.svg") == 0
    out = capsys.readouterr().out
    assert "node 2 = sep_conv_3x3" in out
    assert "normal=[('sep_conv_3x3', 0)" in out
    assert "<svg" in (tmp_path / "cells.svg").read_text()
    assert call("zoo", "darts-v9") == 2
    assert "did you mean darts-v" in capsys.readouterr().err


def test_lists(capsys):
    assert call("recipes") == 0
    assert "demo\n" in capsys.readouterr().out
    assert call("recipes", "toy") == 0
    assert "name: fashion-mini" in capsys.readouterr().out
    assert call("recipes", "--keys") == 0
    out = capsys.readouterr().out
    assert "supernet.epochs=50\n" in out
    assert "sampler.delta=[-0.5, 0.0, 0.5, 1.0]\n    diversity" in out
    assert call("datasets") == 0
    assert "fashion-mini" in capsys.readouterr().out
    assert call("datasets", "fashion-mini") == 0
    assert "ankle boot\n    600 training, 200 test" in capsys.readouterr().out


def test_datasets_says_what_is_needed_and_what_is_there(tmp_path, capsys):
    assert call("datasets") == 0
    out = capsys.readouterr().out
    assert "imagenet16-120\n" in out
    assert "needs in data.root: cifar-100-binary/ or cifar-100-python/" in out
    folder = write_folder(tmp_path / "mine", count=10)
    (folder / "ant" / "4.png").write_text("not an image")
    assert call("datasets", folder) == 0
    out = capsys.readouterr().out
    assert "mine: 15 training and 4 test images, 12×12\nchannels 3, mean 0." in out
    assert f"kept in memory: {19 * 3 * 144:,} bytes\nant\n    7 training, 2 test\nbee\n    8 training, 2 test" in out
    assert "1 image is left out:\n" in out
    assert "4.png cannot be read as an image (cannot identify" in out
    assert call("datasets", folder, "--set", "data.broken_limit=0") == 2
    assert "more than data.broken_limit=0" in capsys.readouterr().err
    assert call("datasets", folder, "--set", "data.stream=always", "--set", "data.size=16") == 0
    out = capsys.readouterr().out
    assert "16×16" in out
    assert f"in memory they would be {19 * 3 * 256:,} bytes" in out
    assert call("datasets", folder, "--set", "data.streams=always") == 2
    assert "did you mean data.stream?" in capsys.readouterr().err


def test_datasets_of_a_streamed_set_reads_a_sample(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("nesbs.data.image_folder.SAMPLE", 6)
    monkeypatch.setattr("nesbs.data.sources.SAMPLE", 6)
    write_folder(tmp_path / "train", count=10)
    write_folder(tmp_path / "val", count=2)
    assert call("datasets", tmp_path, "--set", "data.stream=always", "--set", "data.workers=2") == 0
    out = capsys.readouterr().out
    assert "(of 6 training images)\nstreamed from their files by 2 processes" in out
    assert call("datasets", "imagenet", "--root", tmp_path) == 0
    out = capsys.readouterr().out
    assert "imagenet: 20 training and 4 test images, 224×224" in out
    assert "deviation 0.2290, 0.2240, 0.2250 (as published)" in out
    assert "training sees random parts" in out


def test_download_asks_for_what_it_needs(tmp_path, capsys, monkeypatch):
    assert call("datasets", "cifar10", "--download") == 2
    assert "--download needs --root FOLDER" in capsys.readouterr().err
    assert call("datasets", "imagenet", "--root", tmp_path, "--download") == 2
    assert "image-net.org" in capsys.readouterr().err
    monkeypatch.setattr("nesbs.cli.listing.download", lambda name, root: write_cifar10(root))
    assert call("datasets", "cifar10", "--root", tmp_path, "--download") == 0
    assert "cifar10: 20 training and 4 test images, 32×32" in capsys.readouterr().out


LISTING = {"report", "status", "cost", "recipes", "datasets", "zoo"}  # they train and measure nothing
WITHOUT_SEED = {"predict", "export", "latency"}  # nothing is random there
WITHOUT_DEVICE = {"export"}  # a file is made and tried on the CPU


@pytest.mark.parametrize("command", get_command(app).commands)
def test_every_command_takes_the_common_options(command, capsys):
    assert call(command, "--help") == 0
    text = capsys.readouterr().out
    for option in ("--quiet", "--debug"):
        assert f"  {option} " in text
    for option in ("--seed N", "--device auto|cpu|cuda|cuda:N"):  # where they have an effect
        without = LISTING | (WITHOUT_SEED if option.startswith("--seed") else WITHOUT_DEVICE)
        assert (f"  {option}" in text) == (command not in without)
    assert "\x1b" not in text


def test_the_list_of_commands_is_whole(capsys):
    assert call("--help") == 0
    assert "..." not in capsys.readouterr().out.partition("Commands:")[2]  # no line is cut short


def test_options_without_effect_are_not_there(tmp_path, capsys):
    for option in (["--seed", "0"], ["--device", "cpu"]):
        assert call("recipes", *option) == 2
        assert f"No such option: {option[0]}" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["recipes"], ["recipes", "--keys"], ["datasets"], ["zoo", "darts-v2"], ["reproduce"]]
)
def test_quiet_lists_print_nothing(command, capsys):
    assert call(*command, "--quiet") == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "cuda:1", "cuda:12"])
def test_devices_go_through(name, monkeypatch):
    chosen = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.set_device", lambda device: chosen.append(str(device)))
    if name == "cuda:12":
        with pytest.raises(nesbs.NesbsError, match="--device cuda:12: there is no such GPU; the last one is cuda:1"):
            Computing(device=name).chosen_device()
    else:
        assert Computing(device=name).chosen_device() == name
        assert chosen == ([] if name == "cuda" else [name])


def test_a_device_that_is_not_there_is_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    for name in ("cuda", "cuda:1"):
        assert call("run", "toy", "--out", tmp_path / "run", "--device", name) == 2
        assert capsys.readouterr().err.splitlines() == [
            f"error: --device {name}: no GPU that torch can use was found; take --device cpu"
        ]
    assert Computing(device="auto").chosen_device() == "cpu"


def test_python_m_is_the_same_command():
    ended = subprocess.run([sys.executable, "-m", "nesbs", "--version"], capture_output=True, text=True, env=os.environ)
    assert ended.stdout.strip() == nesbs.__version__


def test_warnings_are_a_line_of_words(monkeypatch, capsys):
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)  # put back afterwards
    assert call("recipes", "--quiet") == 0
    ours = str(Path(nesbs.__file__).parent / "data" / "sources.py")
    assert warnings.formatwarning(UserWarning("a\x1bb"), UserWarning, ours, 7) == "warning: a\\x1bb\n"
    assert warnings.formatwarning(UserWarning("a"), UserWarning, "file.py", 7).startswith("file.py:7: UserWarning: a")


def test_demo_is_the_recipe_demo(tmp_path, monkeypatch):
    asked = []

    def small(name, changes, **top):
        asked.append(name)
        return load_recipe("toy", TINY, **top)

    monkeypatch.setattr("nesbs.cli.options.load_recipe", small)
    assert call("demo", "--out", tmp_path / "run", "--seed", "3", "--quiet") == 0
    assert asked == ["demo"]
    assert json.loads((tmp_path / "run" / "record.json").read_text())["seed"] == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["recipes", "toy", "--keys"], "leave the name out"),
        (["datasets", "--download"], "need the NAME or PATH of a data set"),
        (["datasets", "fashion-mini", "--set", "members.epochs=4"], "only settings of the section data matter"),
        (["datasets", "fashion-mini", "--set", "data.resize=pad"], "is for image files; fashion-mini has none"),
        (["zoo", "--out", "f.svg"], "--out draws one cell: name it"),
        (["zoo", "darts-v2", "--out", "f.png"], "--out draws an SVG, such as f.svg, found f.png"),
        (["cost", "demo", "--scale", "hour"], "--scale is for the names of `nesbs reproduce`, and demo is none"),
        (["demo", "--out", "x", "--gpus-each", "0.5"], "--gpus-each is the share of each worker: say how many"),
        (["run", "toy", "--out", "x", "--set", "members.warm_up=5"], "leaves none of the epochs"),
        (["run", "toy", "--out", "x", "--set", "threads=100000000000"], "less than or equal to 1024"),
    ],
)
def test_options_without_effect_are_refused(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert call(*words) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [("run", "toy", "--out", ""), ("predict", "RUN", ""), ("",)])
def test_an_empty_argument_is_not_the_current_folder(capsys, monkeypatch, tmp_path, words):
    monkeypatch.chdir(tmp_path)
    assert call(*words) == 2
    assert capsys.readouterr().err == "error: an argument is empty: perhaps a variable of the shell that is not set\n"
    assert not list(tmp_path.iterdir())


def ask_for_too_much(folder):
    torch.empty(2**60)  # torch's own words, whatever they are


def lose_a_reader(folder):
    running = batches(load_dataset(folder, stream="always", workers=1).train, 1, generator=torch.Generator())
    next(running)
    [reader] = multiprocessing.active_children()
    os.kill(reader.pid, signal.SIGKILL)
    time.sleep(20)  # a long step of training, in which torch says so


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("fails", "words"),
    [
        (ask_for_too_much, "not enough memory (4294967296.0 GiB asked for at once): take fewer or smaller images"),
        (lose_a_reader, "a process that reads images was ended from outside (DataLoader worker (pid "),
    ],
)
def test_what_ends_a_run_from_outside_is_said_in_a_line_and_keeps_what_is_finished(
    fails, words, capsys, monkeypatch, tmp_path
):
    folder = write_folder(tmp_path / "mine", count=10)
    monkeypatch.setattr("nesbs.runs.resumable_run.search", lambda *_, **__: fails(folder))
    assert call("run", "toy", "--out", tmp_path / "run", *SET, "--quiet") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {words}")
    assert line.endswith("what is finished is kept")
    assert (tmp_path / "run/posterior.json").is_file()
    monkeypatch.undo()
    assert call("run", "toy", "--out", tmp_path / "run", *SET, "--quiet") == 0


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.__name__)
def test_every_number_on_the_command_line_is_bounded(command):
    own, shared = (inspect.signature(each, eval_str=True).parameters for each in (command, Computing))
    for name, parameter in {**shared, **own}.items():
        kinds = typing.get_args(parameter.annotation)
        if kinds and {int, float} & {kinds[0], *typing.get_args(kinds[0])}:
            assert None not in (kinds[1].min, kinds[1].max), name
