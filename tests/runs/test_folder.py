"""What a run folder keeps is read with care: other images, another's folder, two commands at once, lost files."""

import json
import shutil

import numpy as np
import pytest
from documents import folder_of_images
from toys import TINY, call, tiny

from nesbs import files
from nesbs.data import load_dataset
from nesbs.errors import NesbsError
from nesbs.records import MetricsRecord
from nesbs.runs.folder import about_data, with_others
from nesbs.runs.recipe import load_recipe
from nesbs.runs.resumable_run import Run

SET = [part for change in [*TINY, "threads=1"] for part in ("--set", change)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept") / "run"
    tiny(folder).scores()
    return folder


@pytest.fixture
def run(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


def test_a_folder_whose_images_have_changed_is_noticed(tmp_path):
    images = folder_of_images(tmp_path / "images")
    changes = [change for change in TINY if not change.startswith("data.")]
    recipe = load_recipe("toy", [*changes, f"data.name={images}", "threads=1"], seed=0)
    run = Run.create(tmp_path / "run", recipe)
    run.supernet()
    before = (tmp_path / "run/record.json").read_bytes()
    one = next(path for path in sorted(images.rglob("*")) if path.is_file())
    one.rename(tmp_path / one.name)
    with pytest.raises(
        NesbsError, match="have changed since the run began: train_images .* then, .* now; put them back"
    ):
        Run.open(tmp_path / "run")
    assert (tmp_path / "run/record.json").read_bytes() == before  # what was known is not overwritten
    (tmp_path / one.name).rename(one)
    Run.open(tmp_path / "run")


def test_other_labels_in_the_same_number_are_noticed(tmp_path):
    def written(labels):
        path = tmp_path / "data.npz"
        images = np.zeros((12, 8, 8), np.uint8)
        np.savez(path, x_train=images, y_train=labels, x_test=images, y_test=np.arange(12) % 2)
        return load_dataset(path)

    first = about_data(written(np.arange(12) % 2), None, tmp_path)
    assert about_data(written(np.arange(12) % 2), first, tmp_path) == first
    with pytest.raises(NesbsError, match="have changed since the run began, though not in number"):
        about_data(written((np.arange(12) + 1) % 2), first, tmp_path)
    older = first.replace(labels=None)  # of before labels were recorded
    assert about_data(written((np.arange(12) + 1) % 2), older, tmp_path) != first


def test_a_comparison_is_no_run(tmp_path, capsys):
    asked = ["compare", "toy", "--methods", "urs", "--seeds", "1", "--out", tmp_path / "all", *SET, "--quiet"]
    asked += ["--set", "rivals.judge=supernet", "--set", "rivals.measure=supernet", "--set", "rivals.pool=4"]
    assert call(*asked) == 0
    capsys.readouterr()
    for command in (["evaluate"], ["quality"], ["run", "toy", "--out"], ["search", "toy", "--out"]):
        assert call(*command, tmp_path / "all", *(SET if len(command) > 1 else [])) == 2
        assert "is a comparison; its runs are" in capsys.readouterr().err
    assert not (tmp_path / "all/record.json").exists()
    assert call(*asked) == 0
    assert call("report", tmp_path / "all/seed-0") == 0


def test_a_folder_of_runs_is_no_comparison(run, tmp_path, capsys):
    shutil.copytree(run, tmp_path / "runs/seed-0")
    assert call("run", "toy", "--out", tmp_path / "runs", *SET) == 2
    assert "holds something that is not a run" in capsys.readouterr().err


def test_a_broken_choice_is_named_once(run, capsys):
    (run / "selection.json").write_text("{")
    assert call("search", "toy", "--out", run, *SET) == 2
    assert capsys.readouterr().err.count("selection.json") == 1


def test_what_two_commands_measure_at_once_is_kept(run):
    path = run / "metrics.json"
    before = files.read_json(path)
    path.write_text(json.dumps({**before, "ensemble": {**before["ensemble"], "unseen": {"theirs": 1}}}))
    mine = {**before, "ensemble": {**before["ensemble"], "corruptions": {"mine": 2}, "error": 0.25}}
    merged = with_others(path, *map(MetricsRecord.from_json, (before, mine))).to_json()["ensemble"]
    assert (merged["unseen"], merged["corruptions"], merged["error"]) == ({"theirs": 1}, {"mine": 2}, 0.25)
    assert merged["nll"] == before["ensemble"]["nll"]


def test_a_lost_supernet_is_made_again_by_the_search(run, capsys):
    kept = (run / "supernet.safetensors").read_bytes()
    (run / "supernet.safetensors").unlink()
    assert call("search", "toy", "--out", run, *SET, "--quiet") == 0
    assert (run / "supernet.safetensors").read_bytes() == kept


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("metrics.json", "metrics.json is not what `nesbs evaluate` writes: remove it"),
        ("selection.json", "selection.json: this is not a selection: 'architectures' is missing or of the wrong kind"),
    ],
)
def test_a_file_of_something_else_is_named(run, file, message, capsys):
    (run / file).write_text('{"a": 1}')
    command = ["evaluate", run] if file == "metrics.json" else ["search", "toy", "--out", run, *SET]
    assert call(*command) == 2
    assert message in capsys.readouterr().err


def test_a_training_that_diverges_says_how_to_go_on(tmp_path):
    work = tiny(tmp_path / "run", changes=["members.learning_rate=1e30", "members.clip=null"])
    with pytest.raises(NesbsError, match=r"`nesbs train .* --data fashion-mini --out NEW --set members.learning_rate="):
        work.ensemble()
    again = ["--out", tmp_path / "new", "--set", "members.learning_rate=0.01", "--set", "members.epochs=1"]
    assert call("train", tmp_path / "run", "--data", "fashion-mini", *again, "--set", "data.train_limit=60") == 0
