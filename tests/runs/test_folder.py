"""What a run folder keeps is read with care: other images, another's folder, two commands at once, lost files."""

import json
import shutil

import numpy as np
import pytest
from documents import folder_of_images
from PIL import Image
from toys import COMPARED_SET, TINY, StopError, Stopping, call, tiny

import nesbs
from nesbs import files
from nesbs.data import load_dataset
from nesbs.errors import NesbsError
from nesbs.posterior import Posterior
from nesbs.records import MetricsRecord, RunRecords
from nesbs.runs.folder import about_data, with_others
from nesbs.runs.recipe import load_recipe
from nesbs.runs.resumable_run import Run
from nesbs.spaces import nasbench201

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
    # Moved as it is, it is found where it is said to be.
    images.rename(tmp_path / "moved")
    with pytest.raises(NesbsError, match="if it was moved, put a link to it there"):
        Run.open(tmp_path / "run")
    moved = Run.open(tmp_path / "run", root=str(tmp_path / "moved"))
    assert moved.recipe.data.name == str(tmp_path / "moved")
    assert moved.recipe.data.root is None
    moved.ensemble()
    attack = ["attack", tmp_path / "run", "--attacks", "fgsm", "--images", "4", "--set", "epsilons=[]", "--quiet"]
    distil = ["distil", tmp_path / "run", "--into", "smallest", "--out", tmp_path / "student", "--quiet"]
    quality = ["quality", tmp_path / "run", "--architectures", "4", "--candidates", "4", "--epochs", "1", "--quiet"]
    for command in (attack, distil, quality):
        assert call(*command) == 2
        assert call(*command, "--root", tmp_path / "moved") == 0


def test_a_run_without_its_recipe_is_told_what_is_missing(run):
    assert RunRecords.read(str(run)).recipe is not None
    (run / "recipe.yaml").unlink()
    with pytest.raises(NesbsError, match=r"run lacks recipe\.yaml, which every run has: copy it, too"):
        Run.open(run)


def test_other_labels_in_the_same_number_are_noticed(tmp_path):
    def written(labels, test_labels=(0, 1) * 4):
        path = tmp_path / "data.npz"
        images = np.zeros((12, 8, 8), np.uint8)
        np.savez(path, x_train=images, y_train=labels, x_test=images[:8], y_test=np.array(test_labels))
        return load_dataset(path)

    first = about_data(written(np.arange(12) % 2), None, tmp_path)
    assert (first.train_images, first.test_images, first.search_train, first.search_valid) == (12, 8, 8, 4)
    with pytest.raises(NesbsError, match="have changed since the run began, though not in number"):
        about_data(written(np.arange(12) % 2, (1, 0) * 4), first, tmp_path)
    assert about_data(written(np.arange(12) % 2), first, tmp_path) == first
    with pytest.raises(NesbsError, match="have changed since the run began, though not in number"):
        about_data(written((np.arange(12) + 1) % 2), first, tmp_path)
    older = first.replace(labels=None)  # of before labels were recorded
    assert about_data(written((np.arange(12) + 1) % 2), older, tmp_path) != first


def test_images_that_take_the_place_of_others_are_noticed(tmp_path):
    """The split is another one then, though every class has as many images as before."""
    images = folder_of_images(tmp_path / "images")
    first = about_data(load_dataset(images), None, tmp_path)
    for number, change in enumerate((_renamed, _replaced, _swapped)):
        changed = shutil.copytree(images, tmp_path / f"{number}" / "images")
        assert about_data(load_dataset(changed), first, tmp_path) == first  # a copy is as good
        change(changed)
        with pytest.raises(NesbsError, match="have changed since the run began, though not in number"):
            about_data(load_dataset(changed), first, tmp_path)
    about_data(load_dataset(changed), first.replace(images=None), tmp_path)  # of before they were recorded


def _files(folder):
    """The first image of each of the first two classes."""
    classes = sorted(path for path in folder.iterdir() if path.is_dir())[:2]
    return [min(path for path in each.iterdir() if path.is_file()) for each in classes]


def _renamed(folder):
    one, _ = _files(folder)
    one.rename(one.with_name(f"zz{one.suffix}"))


def _replaced(folder):
    one, _ = _files(folder)
    Image.new("RGB", (50, 50), "red").save(one)


def _swapped(folder):
    one, other = _files(folder)
    one.rename(other.with_name(f"moved{one.suffix}"))
    other.rename(one)


@pytest.mark.parametrize("changed", [0, 1])
def test_other_arrays_with_the_same_labels_are_noticed(tmp_path, changed):
    """As they came: what a machine makes of them in another size may differ by rounding."""

    def data(shades, **settings):
        first, second = (
            np.full((number, 8, 8), shade, np.uint8) for number, shade in zip((12, 4), shades, strict=True)
        )
        return nesbs.from_arrays(first, np.arange(12) % 2, second, np.arange(4) % 2, **settings)

    first = about_data(data([10, 20]), None, tmp_path)
    assert about_data(data([10, 20]), first, tmp_path) == first
    assert about_data(data([10, 20], size=12), None, tmp_path).images == first.images
    with pytest.raises(NesbsError, match="have changed since the run began, though not in number"):
        about_data(data([10 + (changed == 0), 20 + (changed == 1)]), first, tmp_path)


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
        ("selection.json", "selection.json: this is not a selection: 'architectures' is missing"),
    ],
)
def test_a_file_of_something_else_is_named(run, file, message, capsys):
    (run / file).write_text('{"a": 1}')
    command = ["evaluate", run] if file == "metrics.json" else ["search", "toy", "--out", run, *SET]
    assert call(*command) == 2
    assert message in capsys.readouterr().err


def test_a_training_that_diverges_says_how_to_go_on(tmp_path):
    work = tiny(tmp_path / "run", changes=["members.learning_rate=1e6", "members.weight_decay=1e6"])
    with pytest.raises(NesbsError, match=r"`nesbs train .* --data fashion-mini --out NEW --set members.learning_rate="):
        work.ensemble()
    again = ["--out", tmp_path / "new", "--set", "members.learning_rate=0.01", "--set", "members.epochs=1"]
    assert call("train", tmp_path / "run", "--data", "fashion-mini", *again, "--set", "data.train_limit=60") == 0


class Noting(Stopping):
    """Remembers notes, and stops after so many steps of a stage."""

    def __init__(self, stage="none", after=0):
        super().__init__(stage, after)
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def test_a_folder_without_a_finished_stage_takes_another_recipe(tmp_path):
    with pytest.raises(StopError):
        tiny(tmp_path / "run", progress=Stopping("supernet", 1)).supernet()
    assert (tmp_path / "run/supernet.checkpoint.safetensors").is_file()
    mended, progress = ["supernet.channels=3", "data.train_limit=90"], Noting()
    run = tiny(tmp_path / "run", changes=mended, progress=progress)
    assert progress.notes == [f"{run.folder}: the training that another recipe began there is removed"]
    assert not (run.folder / "supernet.checkpoint.safetensors").exists()
    assert run.record.stages == {}
    run.supernet()
    fresh = tiny(tmp_path / "fresh", changes=mended)
    fresh.supernet()
    for name in ("recipe.yaml", "supernet.safetensors"):
        assert (run.folder / name).read_bytes() == (fresh.folder / name).read_bytes()
    with pytest.raises(NesbsError, match="made by another recipe"):  # now a stage is finished
        tiny(tmp_path / "run")


def test_a_recipe_that_cannot_work_leaves_an_unfinished_run_as_it_was(tmp_path):
    with pytest.raises(StopError):
        tiny(tmp_path / "run", progress=Stopping("supernet", 1)).supernet()
    before = {path: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(NesbsError, match="no data set"):
        tiny(tmp_path / "run", changes=["data.name=nowhere"])
    assert {path: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_given_architectures_alone_do_not_bind_a_folder(tmp_path):
    first, other = "|nor_conv_3x3~0|+|none~0|skip_connect~1|", "|none~0|+|nor_conv_3x3~0|skip_connect~1|"
    run = tiny(tmp_path / "run", changes=[f"ensemble.architectures=['{first}']"])
    run.selection()
    run = tiny(tmp_path / "run", changes=[f"ensemble.architectures=['{other}']", "ensemble.size=1"])
    run.ensemble()
    assert [str(one) for one in run.selection().architectures] == [other]
    with pytest.raises(NesbsError, match="made by another recipe"):
        tiny(tmp_path / "run", changes=[f"ensemble.architectures=['{first}']"])


@pytest.mark.parametrize("result", ["selection.json", "members/0.safetensors", "mine.txt"])
def test_whatever_else_is_in_a_folder_binds_it(result, tmp_path):
    tiny(tmp_path / "run")
    (tmp_path / "run" / result).parent.mkdir(exist_ok=True)
    (tmp_path / "run" / result).write_text("{")
    with pytest.raises(NesbsError, match="made by another recipe"):
        tiny(tmp_path / "run", changes=["search.rounds=7"])
    assert (tmp_path / "run" / result).read_text() == "{"


def test_a_folder_left_by_a_recipe_that_is_no_longer_allowed_is_taken_over(tmp_path):
    path = tiny(tmp_path / "run").folder / "recipe.yaml"
    path.write_text(path.read_text().replace("epochs: 2", "epochs: -1"))
    with pytest.raises(NesbsError, match="without its recipe a run cannot go on"):
        Run.open(tmp_path / "run")
    assert tiny(tmp_path / "run").recipe.supernet.epochs == 2


def test_a_recipe_that_the_user_wrote_is_not_replaced(tmp_path):
    (tmp_path / "recipe.yaml").write_text("data: {name: fashion-mini}  # mine\n")
    with pytest.raises(NesbsError, match="made by another recipe"):
        tiny(tmp_path)
    assert (tmp_path / "recipe.yaml").read_text() == "data: {name: fashion-mini}  # mine\n"


def test_a_comparison_without_a_finished_stage_takes_another_recipe(tmp_path, monkeypatch, capsys):
    asked = ["compare", "toy", "--methods", "urs", "--seeds", "1", "--out", tmp_path / "all", *COMPARED_SET, "--quiet"]
    asked += ["--set", "rivals.judge=supernet", "--set", "rivals.measure=supernet", "--set", "rivals.pool=4"]
    with monkeypatch.context() as patched:
        patched.setattr("nesbs.runs.resumable_run.train_supernet", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            call(*asked)
    assert (tmp_path / "all/seed-0/record.json").is_file()
    assert call(*asked, "--set", "supernet.channels=3") == 0
    assert call(*asked) == 2
    assert "made by another recipe: supernet.channels is 3 there and 2 here" in capsys.readouterr().err


def flip(path):
    """Damage a file in a way that its length and form do not show."""
    content = bytearray(path.read_bytes())
    content[-5] ^= 16
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("supernet.safetensors", ["quality"]),
        ("members/1.safetensors", ["train"]),
        ("uniform/0.safetensors", ["evaluate", "--corruptions", "fog"]),
    ],
)
def test_damaged_weights_are_named(run, file, command, capsys):
    flip(run / file)
    assert call(command[0], run, *command[1:]) == 2
    damaged = f"error: {run / file} is damaged (its checksum is another): remove it and run the same command again\n"
    assert capsys.readouterr().err == damaged


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("members/0.safetensors", "members/1.safetensors", "holds member 0 of seed 0, not member 1 of seed 0"),
        ("uniform/1.safetensors", "members/1.safetensors", "holds member uniform 1 of seed 0, not member 1 of seed 0"),
        ("members/0.safetensors", "supernet.safetensors", "holds member 0 of seed 0, not the supernet of seed 0"),
        ("selection.json", "posterior.json", "posterior.json: this is not a posterior: .*: remove it"),
    ],
)
def test_files_in_the_place_of_others_are_named(run, source, target, message):
    shutil.copy(run / source, run / target)
    work = Run.open(run)
    with pytest.raises(NesbsError, match=message):
        work.ensemble(), work.supernet(), work.posterior()


def test_a_posterior_of_another_space_is_named(run):
    files.write_json(run / "posterior.json", Posterior(nasbench201()).to_json())
    with pytest.raises(NesbsError, match=r"posterior\.json: it is of space nasbench201, the recipe's is toy-edges: "):
        Run.open(run).posterior()


def test_a_checkpoint_is_of_its_own_training_and_whole(tmp_path):
    for name in ("run", "other"):
        with pytest.raises(StopError):
            tiny(tmp_path / name, seed=int(name == "other"), progress=Stopping("supernet", 0)).supernet()
    own, other = (tmp_path / name / "supernet.checkpoint.safetensors" for name in ("run", "other"))
    whole = own.read_bytes()
    shutil.copy(other, own)
    with pytest.raises(NesbsError, match="holds the training of supernet under seed 1, not the training of supernet"):
        tiny(tmp_path / "run").supernet()
    own.write_bytes(whole)
    flip(own)
    with pytest.raises(NesbsError, match=r"supernet\.checkpoint\.safetensors is damaged"):
        tiny(tmp_path / "run").supernet()
    own.write_bytes(whole)
    assert len(tiny(tmp_path / "run").supernet().losses) == 2


BIG = "1" + "0" * 400  # a whole number that no float can hold


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        (
            "selection.json",
            '"loss": ',
            f'"loss": {BIG}',
            "selection.json: this is not a selection: a part of it is of the",
        ),
        (
            "selection.json",
            '"sampler": "svgd-rd"',
            '"sampler": "svgd-rd", "round": "x"',
            "a part of it is of the wrong k",
        ),
        (
            "posterior.json",
            '"temperature": ',
            f'"temperature": {BIG}',
            "this is not a posterior: the temperature must be above 0 and finite",
        ),
        ("posterior.json", '"variables"', '"others"', "this is not a posterior: 'variables' is missing"),
    ],
)
def test_numbers_out_of_reach_in_a_runs_files_are_named(run, file, old, new, message, capsys):
    text = (run / file).read_text()
    assert old in text
    (run / file).write_text(text.replace(old, new, 1))
    assert call("search", "toy", "--out", run, *SET) == 2
    assert message in capsys.readouterr().err


def test_a_record_with_numbers_out_of_reach_does_not_stop_a_run(run):
    record = json.loads((run / "record.json").read_text())
    record["stages"]["selection"]["seconds"] = int(BIG)
    (run / "record.json").write_text(json.dumps(record))
    assert call("report", run, "--quiet") == 0
    assert call("search", "toy", "--out", run, *SET, "--quiet") == 0
