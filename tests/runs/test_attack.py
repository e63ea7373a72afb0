"""`nesbs attack`: on a run, killed and gone on with, without AutoAttack, in the report."""

import itertools
import json
import os
import re
import shutil
import signal
import sys

import pytest
import torch
from killed import ForkedWorker, exit_code
from pages import HOSTILE, drawings, plain, rows, without_script
from toys import TINY, call

from nesbs import files
from nesbs.attacks import AttackSettings, AutoAttack, Fgsm, attack_round, attack_then_defend
from nesbs.cli import main
from nesbs.cluster import Workers
from nesbs.errors import NesbsError
from nesbs.records import AttacksRecord, RunRecord, RunRecords
from nesbs.report import attacks_as_text, render
from nesbs.runs import attack_tasks
from nesbs.runs.attack import attack_ensembles, attack_settings, drawn
from nesbs.runs.attack_tasks import AttackedNetworks, AttackTask, attack_all
from nesbs.runs.recipe import load_recipe
from nesbs.runs.resumable_run import Run
from nesbs.settings import keys

QUICK = ["--images", "30", "--set", "pgd.steps=3", "--set", "cw.steps=5", "--set", "epsilons=[0.01, 0.1]"]
QUICK += ["--set", "closer=20", "--set", "fgsm.epsilon=0.1", "--attacks", "fgsm,pgd,cw"]
FEW = ["--images", "10", "--attacks", "fgsm,pgd", "--set", "pgd.steps=2", "--set", "epsilons=[]"]


def small(folder, *changes):
    """A run of two given architectures beside two random ones, on images of 8×8."""
    given = "ensemble.architectures=['|nor_conv_3x3~0|+|nor_conv_3x3~0|skip_connect~1|']"
    sizes = ["data.size=8", "members.epochs=6", "members.channels=4", "members.cells=1", "data.train_limit=200"]
    return Run.create(folder, load_recipe("toy", [*TINY, *sizes, given, *changes], seed=0, threads=1))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Members good enough to have something to lose."""
    folder = tmp_path_factory.mktemp("robustness") / "run"
    work = small(folder)
    work.ensemble()
    work.uniform()
    return folder


@pytest.fixture(scope="module")
def attacked(trained, tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked") / "run"
    shutil.copytree(trained, folder)
    assert call("attack", folder, "--quiet", *QUICK) == 0
    return folder


@pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA cannot be forked")
def test_two_workers_measure_the_same(trained, tmp_path, monkeypatch):
    begun = []

    class CountedWorker(ForkedWorker):
        def __init__(self, *given, **named):
            begun.append(self)
            super().__init__(*given, **named)

    monkeypatch.setattr("nesbs.cluster.processes.subprocess.Popen", CountedWorker)
    folders = [tmp_path / "alone", tmp_path / "spread"]
    for folder, options in zip(folders, ([], ["--workers", "2"]), strict=True):
        shutil.copytree(trained, folder)
        assert call("attack", folder, "--quiet", *FEW, *options) == 0
    alone, spread = ((folder / "attacks.json").read_bytes() for folder in folders)
    assert alone == spread
    assert len(begun) == 2


def test_with_workers_slow_attacks_begin_first(tmp_path, monkeypatch):
    given = []

    def recorded(next_task, *_, **__):
        given.extend(iter(next_task, None))
        yield from ()

    monkeypatch.setattr(attack_tasks, "run_tasks", recorded)
    tasks = [
        AttackTask(tmp_path / attack.name, {}, attack, "ensemble", source, closer=False, pictures=0)
        for attack in (Fgsm(), AutoAttack())
        for source in (0, None)
    ]
    networks = AttackedNetworks({}, (None, None), "cpu", seed=0, batch_size=1)
    list(attack_all(tasks, networks, Workers(2)))
    assert given == tasks[::-1]
    given.clear()
    list(attack_all(tasks, networks, Workers()))
    assert given == tasks


def test_what_several_parts_ask_for_is_attacked_once(trained, tmp_path, monkeypatch):
    """With few images an ε of the curves and a sanity check are the whole attack."""
    folder, attacked = shutil.copytree(trained, tmp_path / "run"), []

    def counted(ensemble, attack, split, source, **named):
        attacked.append((ensemble.architectures, attack, len(split), source))
        return attack_round(ensemble, attack, split, source, **named)

    monkeypatch.setattr(attack_tasks, "attack_round", counted)
    assert call("attack", folder, "--quiet", *FEW, "--set", "epsilons=[0.01]", "--set", "pictures=0") == 0
    assert len(attacked) == len(list((folder / "attacks").iterdir())) == 2 * (3 * 2 + 4 * 2)
    assert all(attacked.count(one) == 1 for one in attacked)


def test_other_ensembles_of_a_run_are_attacked_like_its_own(trained, tmp_path):
    run = Run.open(shutil.copytree(trained, tmp_path / "run"))
    settings = attack_settings("fgsm", None, ["epsilons=[]", "pictures=0", "fgsm.epsilon=0.1"])
    rivals, units = {"first": run.ensemble(), "second": run.uniform()}, []
    answers = attack_ensembles(run, rivals, settings, on_unit=lambda: units.append(1))
    assert list(answers) == list(rivals)
    assert len(units) == 2 * 3
    right = {name: attack_then_defend(rival, Fgsm(epsilon=0.1), run.data.test) for name, rival in rivals.items()}
    assert right["first"].attack != right["second"].attack
    for name, answer in answers.items():
        assert answer.attacks["fgsm"].attack == pytest.approx(right[name].attack)
        assert answer.attacks["fgsm"].defence == pytest.approx(right[name].defence)
        assert list(answer.architectures) == [str(architecture) for architecture in rivals[name].architectures]
        assert answer.skipped == {}
    # Another ensemble under a name that was there before is not given its answers.
    [again] = attack_ensembles(run, {"first": rivals["second"]}, settings).values()
    assert again.attacks["fgsm"].attack == pytest.approx(right["second"].attack)
    with pytest.raises(NesbsError, match="uniform is the name of an ensemble of the run's own"):
        attack_ensembles(run, {"uniform": rivals["first"]}, settings)
    assert attack_ensembles(run, {}, settings) == {}


def test_the_record_holds_the_experiment(attacked):
    record = files.read_json(attacked / "attacks.json")
    assert record["ensemble"]["attacks"]["pgd"]["images"] == 30
    assert record["settings"]["cw"]["rule"] == "grow"
    for name in ("ensemble", "uniform"):
        part = record[name]
        assert list(part["attacks"]) == ["fgsm", "pgd", "cw"]
        for result in part["attacks"].values():
            assert [entry["source"] for entry in result["rounds"]] == [0, 1]
            assert len(result["rounds"][0]["members"]) == 2
            assert result["attack"] == pytest.approx(sum(entry["attack"] for entry in result["rounds"]) / 2)
            assert result["adaptive"]["source"] is None
        assert part["closer"]["images"] == 20
        assert len(part["closer"]["curves"]["pgd"]["adaptive"]) == 2
        assert len(part["closer"]["sanity"]) == 4
    fgsm = record["ensemble"]["attacks"]["fgsm"]
    assert fgsm["attack"] < sum(fgsm["clean"]["members"]) / 2
    assert json.loads((attacked / "record.json").read_text())["stages"]["attack"]["seconds"] > 0


def test_a_round_of_the_record_is_what_python_gives(attacked):
    record = files.read_json(attacked / "attacks.json")
    run = Run.open(attacked)
    split = drawn(run.data.test, 30, seed=0)
    assert len(split) == 30
    again = attack_round(run.ensemble(), Fgsm(epsilon=0.1), split, 1)
    known = record["ensemble"]["attacks"]["fgsm"]["rounds"][1]
    assert (again.attack, again.defence, list(again.members)) == (known["attack"], known["defence"], known["members"])


def test_a_second_call_reads_and_a_wider_one_adds(attacked, capsys):
    before = (attacked / "attacks.json").read_bytes()
    units = {path: path.stat().st_mtime_ns for path in (attacked / "attacks").iterdir()}
    assert call("attack", attacked, *QUICK) == 0
    out = capsys.readouterr().out
    assert (attacked / "attacks.json").read_bytes() == before
    assert {path: path.stat().st_mtime_ns for path in (attacked / "attacks").iterdir()} == units
    fgsm = json.loads(before)["uniform"]["attacks"]["fgsm"]
    row = next(line for line in out.splitlines() if line.startswith("uniform-random ensemble") and "FGSM" in line)
    assert f"{100 * fgsm['attack']:.2f} ± {100 * fgsm['attack_std']:.2f}" in row
    assert f"{100 * fgsm['adaptive']['attack']:.2f}" in row
    assert f"report: {attacked / 'report.html'}" in out


def killed_before_the_sixth_round(folder):
    count = itertools.count(1)

    def counted(*given, **named):
        if next(count) == 6:
            os.kill(os.getpid(), signal.SIGKILL)
        return attack_round(*given, **named)

    attack_tasks.attack_round = counted
    main(["attack", str(folder), "--quiet", *FEW])


def test_a_killed_command_goes_on_with_the_same_bytes(trained, tmp_path):
    folder, whole = (shutil.copytree(trained, tmp_path / name) for name in ("run", "whole"))
    assert call("attack", whole, "--quiet", *FEW) == 0
    assert exit_code(killed_before_the_sixth_round, folder) == -signal.SIGKILL
    done = {path: path.stat().st_mtime_ns for path in (folder / "attacks").iterdir()}
    assert len(done) == 5
    assert not (folder / "attacks.json").exists()
    assert call("attack", folder, "--quiet", *FEW) == 0
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert (folder / "attacks.json").read_bytes() == (whole / "attacks.json").read_bytes()


def test_the_answer_of_another_attack_is_refused(attacked, tmp_path, capsys):
    folder = shutil.copytree(attacked, tmp_path / "run")
    first, second = sorted((folder / "attacks").iterdir())[:2]
    shutil.copy(first, second)
    assert call("attack", folder, "--quiet", *QUICK) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"error: {second} is not of ")
    assert error.endswith(" as it is asked for here: remove it and run the same command again\n")


@pytest.mark.parametrize("broken", [None, {}, {"attack": None, "defence": 0.5, "members": [0.5], "linf": 0.1}])
def test_a_broken_answer_is_refused(broken, attacked, tmp_path, capsys):
    folder = shutil.copytree(attacked, tmp_path / "run")
    path = min((folder / "attacks").iterdir())
    files.write_json(path, {**files.read_json(path), "round": broken})
    assert call("attack", folder, "--quiet", *QUICK) == 2
    assert f"error: {folder / 'attacks'} holds broken files" in capsys.readouterr().err


def test_without_autoattack_the_others_run(trained, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    monkeypatch.setitem(sys.modules, "pyautoattack", None)
    quick = ["--images", "10", "--set", "epsilons=[]"]
    assert call("attack", folder, "--attacks", "autoattack", *quick) == 2
    assert "autoattack needs pyautoattack: pip install 'nesbs[robust]'" in capsys.readouterr().err
    assert call("attack", folder, "--attacks", "autoattack,autoattack8", *quick) == 2
    assert "autoattack needs pyautoattack" in capsys.readouterr().err
    assert call("attack", folder, "--attacks", "fgsm,autoattack,autoattack8", *quick) == 0
    assert "left out: autoattack needs pyautoattack: pip install 'nesbs[robust]'" in capsys.readouterr().out
    record = files.read_json(folder / "attacks.json")
    assert list(record["ensemble"]["attacks"]) == ["fgsm"]
    assert record["ensemble"]["closer"] is None
    assert "Left out: autoattack needs pyautoattack" in plain(render(RunRecords.read(folder)))


def test_nonsense_is_refused(trained, tmp_path, capsys):
    for options, message in (
        (["--attacks", "fgms"], "unknown attack fgms: did you mean fgsm?"),
        (["--images", "0"], "Invalid value for '--images'"),
        (["--set", "pgd.step=1"], "unknown setting pgd.step: did you mean pgd.steps?"),
        (["--set", "pgd.steps=many"], "pgd.steps"),
        (["--set", "epsilons"], "--set takes section.name=value"),
        (["--seed", "5"], "was made with seed 0, not 5"),
    ):
        assert call("attack", trained, *options) == 2
        assert message in capsys.readouterr().err
        assert not (trained / "attacks.json").exists()
    assert call("attack", tmp_path / "nowhere") == 2
    searched = small(tmp_path / "searched")
    searched.selection()
    capsys.readouterr()
    assert call("attack", searched.folder) == 2
    assert "has no members/0.safetensors yet: run `nesbs train" in capsys.readouterr().err


def test_several_runs_come_into_one_table_and_attacks_add_up(trained, tmp_path, capsys):
    folders, one = [tmp_path / "ours", tmp_path / "rival"], ["--set", "epsilons=[0.1]"]
    for folder in folders:
        shutil.copytree(trained, folder)
    assert call("attack", folders[0], *QUICK, "--attacks", "pgd", "--images", "10", *one, "--quiet") == 0
    first = files.read_json(folders[0] / "attacks.json")
    assert call("attack", *folders, *QUICK, "--attacks", "fgsm", "--set", "epsilons=[]") == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith(f"{folders[0]}: sanity checks passed: ") for line in lines) == 1
    assert not any(line.startswith(f"{folders[1]}: ") for line in lines)  # its checks were left out
    rows = [line.split()[:3] for line in lines if line.startswith(tuple(f"{folder} " for folder in folders))]
    assert rows == [[str(folders[0]), "FGSM", "30"], [str(folders[0]), "PGD", "10"], [str(folders[1]), "FGSM", "30"]]
    assert sum(line.startswith("accuracy in %") for line in lines) == 1
    both = files.read_json(folders[0] / "attacks.json")
    assert both["uniform"]["attacks"]["pgd"] == first["uniform"]["attacks"]["pgd"]
    assert both["ensemble"]["closer"] == first["ensemble"]["closer"]
    assert list(both["settings"]) == ["fgsm", "pgd"]


def test_one_member_works_and_says_what_it_means(tmp_path, capsys):
    work = small(tmp_path / "one", "ensemble.size=1", "evaluation.uniform=false", "members.epochs=1")
    work.ensemble()
    capsys.readouterr()
    assert call("attack", work.folder, *QUICK) == 0
    out = capsys.readouterr().out
    assert "An ensemble of one" in out
    page = render(RunRecords.read(work.folder))
    assert "An ensemble of one" in plain(page)
    assert "Transfer" not in page


def test_the_page_shows_the_experiment(attacked):
    page = render(RunRecords.read(attacked))
    record = files.read_json(attacked / "attacks.json")
    text = plain(page)
    assert "Attack one, defend with all" in text
    fgsm = record["ensemble"]["attacks"]["fgsm"]
    table = rows(page, "attacks")
    assert table[1][:2] == ["Ensemble", "FGSM"]
    assert table[1][2] == "30"
    assert table[1][7] == f"{100 * fgsm['adaptive']['attack']:.2f} %"
    curves = [drawing for drawing in drawings(page, "chart") if "Accuracy under" in drawing.find("title").text]
    assert len(curves) == 4  # FGSM and PGD of two ensembles
    assert [mark.text for mark in curves[0].iter("text") if mark.text in ("0", "0.01", "0.1")] == ["0", "0.01", "0.1"]
    assert text.count("Are more steps not weaker?") == 2
    shown = sum(len(entries) for name in ("ensemble", "uniform") for entries in record[name]["pictures"].values())
    assert shown > 3
    assert page.count("<img") == 3 * shown
    assert all(source.startswith("data:image/png;base64,") for source in re.findall(r'<img[^>]*src="([^"]*)"', page))


def test_pictures_are_of_images_that_broke(attacked):
    import base64
    import io

    import numpy as np
    from PIL import Image

    record = files.read_json(attacked / "attacks.json")
    picture = record["ensemble"]["pictures"]["fgsm"][0]
    assert picture["attacked"] != picture["label"]
    assert picture["largest"] == pytest.approx(0.1, abs=1e-6)
    clean, perturbed = (
        np.asarray(Image.open(io.BytesIO(base64.b64decode(picture[kind])))).astype(int)
        for kind in ("clean", "perturbed")
    )
    assert 20 <= abs(perturbed - clean).max() <= 27  # a tenth of 255


def test_a_strange_record_does_no_harm(attacked):
    record = files.read_json(attacked / "attacks.json")
    record["ensemble"]["pictures"]["fgsm"][0]["clean"] = '"><script>'
    record["ensemble"]["meaning"] = HOSTILE
    record["ensemble"]["closer"]["curves"]["pgd"] = None
    record["skipped"] = {"x": HOSTILE}
    page = render(RunRecords(attacks=AttacksRecord.from_json(record)))
    assert "<script" not in without_script(page)
    for strange in ({"ensemble": 3}, {"ensemble": {"attacks": []}}, {"ensemble": {"attacks": {"pgd": None}}}, {}):
        attacks = AttacksRecord.from_json(strange)
        render(RunRecords(attacks=attacks, record=RunRecord(seed=1)))
        assert attacks_as_text([("run", attacks)]).startswith("accuracy in %")


def test_runs_on_other_images_are_told_apart_under_the_table(attacked):
    record = AttacksRecord.read(attacked / "attacks.json")
    ours, copies, photos = record, record, record.replace(data="photos")
    alike = attacks_as_text([("ours", ours), ("copies", copies)])
    assert "\nmeasured on test images of fashion-mini. " in alike
    assert "ours: " not in alike
    text = attacks_as_text([("ours", ours), ("copies", copies), ("photos", photos)])
    assert "\nours, copies: measured on test images of fashion-mini. " in text
    assert "\nphotos: measured on test images of photos. " in text
    assert text.count("sanity checks passed: ") == alike.count("sanity checks passed: ") == 1


def test_the_help_names_every_setting(capsys):
    assert call("attack", "--help") == 0
    text = capsys.readouterr().out
    for key in keys(AttackSettings):
        assert key in text, key


def test_settings_from_options():
    assert attack_settings(None, None, ["epsilons=0.1"]).epsilons == (0.1,)
    chosen = attack_settings(None, None, ["cw.rule=bisect", "epsilons=[0.2, 0.1]"])
    assert chosen.attacks == ("fgsm", "pgd", "cw", "autoattack", "autoattack8")
    assert (chosen.cw.rule, chosen.epsilons) == ("bisect", (0.1, 0.2))
    assert chosen.pgd == AttackSettings().pgd
