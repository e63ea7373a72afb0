"""A finished run is a classifier: from its folder alone, with its own preprocessing, and only where it is whole."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from toys import call, tiny

import nesbs
from nesbs import files, metrics
from nesbs.data.conversion import ArrayView
from nesbs.data.images import View
from nesbs.deploy.load import usable_device, view_of
from nesbs.evaluation.calibration import scale
from nesbs.evaluation.scores import predictions
from nesbs.records import ClassifierRecord, MetricsRecord
from nesbs.records.recipe import Recipe
from nesbs.runs import Run
from nesbs.runs.classifier import preprocessing_of

OLD = Path(__file__).parents[1] / "old_run" / "finished"
FEW = ["data.size=16", "evaluation.uniform=false", "ensemble.size=2"]


def write_photos(root, mode="RGB"):
    """Two classes of odd sizes, bright and dark."""
    random = np.random.default_rng(0)
    for name, shade in (("猫", 40), ("собака", 160)):
        (root / name).mkdir(parents=True)
        for place in range(12):
            pixels = random.integers(shade, shade + 60, (20 + place, 30, 3), dtype=np.uint8)
            Image.fromarray(pixels).convert(mode).save(root / name / f"{place}.png")
    return root


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A measured run on a folder of photos, and what it answered to its test images."""
    root = tmp_path_factory.mktemp("deploy")
    run = tiny(root / "run", changes=[*FEW, f"data.name={write_photos(root / 'photos')}"])
    measured = run.scores()
    logits, combined = predictions(run.ensemble(), run.data.test)
    return run, measured, logits, combined


@pytest.fixture
def moved(made, tmp_path):
    """A copy of the run elsewhere."""
    return shutil.copytree(made[0].folder, tmp_path / "elsewhere")


def test_a_run_that_was_moved_answers_as_it_did_without_its_data(made, moved, monkeypatch):
    run, measured, logits, combined = made
    monkeypatch.setattr("nesbs.runs.opened_run.load_dataset", lambda **_: pytest.fail("the data are not needed"))
    classifier = nesbs.load(moved)
    assert classifier.class_names == run.data.train.class_names == ("собака", "猫")
    [first, second] = measured.ensemble.temperature.ensemble.temperatures
    inside = min(first, second) > 0.01 and max(first, second) < 100
    expected = (first * second) ** 0.5 if inside else 1.0
    assert classifier.temperature == pytest.approx(expected)
    seen = list(run.data.test.images.permute(0, 2, 3, 1).numpy())  # of the networks' size: taken as they are
    torch.testing.assert_close(classifier.members(seen), logits.softmax(-1), rtol=1e-5, atol=1e-6)
    probabilities = classifier.predict_proba(seen)
    torch.testing.assert_close(probabilities, scale(combined, expected).exp(), rtol=1e-5, atol=1e-6)
    names = [classifier.class_names[place] for place in combined.argmax(-1).tolist()]
    assert classifier.predict(seen) == names
    explained = classifier.explain(seen)
    torch.testing.assert_close(explained.entropy, metrics.entropy(scale(combined, expected)), rtol=1e-4, atol=1e-6)
    log_probs = logits.log_softmax(-1)
    torch.testing.assert_close(
        explained.mutual_information, metrics.mutual_information(log_probs), rtol=1e-4, atol=1e-6
    )
    assert explained.disagreement.mean() == metrics.disagreement(log_probs)


def test_the_temperature_softens_the_ensemble_and_not_its_members(made, moved):
    run, _, logits, combined = made
    edit(moved / "members" / "classifier.json", lambda record: record.update(temperature=2.5))
    classifier, seen = nesbs.load(moved), run.data.test.images
    torch.testing.assert_close(classifier.predict_proba(seen), scale(combined, 2.5).exp(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(classifier.members(seen), logits.softmax(-1), rtol=1e-5, atol=1e-6)


def test_files_are_seen_as_in_training(made):
    run = made[0]
    classifier = nesbs.load(run.folder)
    assert classifier.view == run.data.view
    file = Path(run.recipe.data.name) / "猫" / "11.png"
    assert np.array_equal(run.data.view.read(str(file)), classifier.view.read(str(file)))
    probabilities = classifier.predict_proba(file)
    one, same = classifier.predict_proba([str(file), file])
    assert torch.equal(one, same)
    torch.testing.assert_close(one[None], probabilities, rtol=1e-5, atol=0)  # two images may be summed in another order
    with Image.open(file) as image:
        assert torch.equal(classifier.predict_proba(image), probabilities)
        assert torch.equal(classifier.predict_proba(np.asarray(image)), probabilities)


def test_loading_moves_no_random_numbers_and_needs_the_members_alone(moved):
    before = torch.get_rng_state()
    classifier = nesbs.load(moved / "members")
    assert torch.equal(torch.get_rng_state(), before)
    assert not any(parameter.requires_grad for parameter in classifier.ensemble.parameters())


def test_nothing_is_written_so_a_folder_that_cannot_be_written_to_is_enough(moved):
    before = {path: path.stat().st_mtime_ns for path in moved.rglob("*")}
    for path in (*moved.rglob("*"), moved):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        nesbs.load(moved).predict(np.zeros((9, 9), dtype=np.uint8))
    finally:
        for path in (moved, *moved.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    assert {path: path.stat().st_mtime_ns for path in moved.rglob("*")} == before


def flip(path, place=-5):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


def edit(path, change):
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.update(format=2), "is of format 2, this nesbs reads format 1: install a newer one"),
        (lambda r: r.pop("classes"), "does not say its classes"),
        (lambda r: r.update(classes=["a", "a"]), "two classes are called a"),
        (lambda r: r.update(classes=["a", "\x1b[2J"]), r"characters that can be printed, found '\\x1b\[2J'"),
        (lambda r: r.update(classes=["a", "b", "c"]), "0.safetensors does not fit"),
        (lambda r: r.update(temperature=-1), "does not say its temperature"),
        (lambda r: r.update(temperature=None), "does not say its temperature"),
        (lambda r: r.update(space="moon"), "unknown space moon"),
        (lambda r: r.update(cells=10**6), "does not say its cells"),
        (lambda r: r.update(combine="votes"), "does not say its combine"),
        (lambda r: r.update(members=[]), "names no members"),
        (lambda r: r["members"][0].update(channels=4096), "0.safetensors does not fit"),
        (lambda r: r["members"][0].update(architecture="|none~0|"), "holds another architecture"),
        (lambda r: r["members"][1].pop("sha256"), "does not say its members.1.sha256"),
        (lambda r: r["members"].append(r["members"][0]), "there is no file .*2.safetensors"),
        (lambda r: r["preprocessing"].update(size=[10**9, 10**9]), "does not say its preprocessing.size"),
        (lambda r: r["preprocessing"].update(size=[16, 20]), "are square, found a size of 16×20"),
        (lambda r: r["preprocessing"].update(size=[18, 18]), "multiples of 4"),
        (lambda r: r["preprocessing"].update(mode="CMYK"), "does not say its preprocessing.mode"),
        (lambda r: r["preprocessing"].update(mode="L"), "mean needs a number for each of 1 channels"),
        (lambda r: r["preprocessing"].update(mean=[0.1, 0.2, 0.3]), "trained with another mean"),
    ],
)
def test_a_broken_description_is_one_line(moved, change, message):
    edit(moved / "members" / "classifier.json", change)
    with pytest.raises(nesbs.NesbsError, match=message) as answer:
        nesbs.load(moved)
    assert "\n" not in str(answer.value)


def test_flipped_bytes_are_refused(moved):
    path = moved / "members" / "1.safetensors"
    flip(path)
    with pytest.raises(nesbs.NesbsError, match=r"1.safetensors is damaged or another file"):
        nesbs.load(moved)
    shutil.copy(moved / "members" / "0.safetensors", path)
    with pytest.raises(nesbs.NesbsError, match="damaged or another file"):
        nesbs.load(moved)


def test_a_pipe_in_the_place_of_weights_is_not_waited_for(moved):
    path = moved / "members" / "0.safetensors"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(nesbs.NesbsError, match=r"there is no file .*0.safetensors"):
        nesbs.load(moved)


def test_a_broken_description_is_made_anew_by_the_next_command(made, moved):
    path = moved / "members" / "classifier.json"
    for content in ("{", "[]", json.dumps({"classes": 3})):
        path.write_text(content)
        with pytest.raises(nesbs.NesbsError, match="classifier.json"):
            nesbs.load(moved)
        assert call("train", moved, "--quiet") == 0
        assert path.read_bytes() == (made[0].folder / "members" / "classifier.json").read_bytes()


def test_a_strangers_pickle_is_not_opened(moved, tmp_path):
    """Not even where the description vouches for it."""

    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "sprung",))

    path = moved / "members" / "0.safetensors"
    torch.save(Trap(), path)
    edit(
        moved / "members" / "classifier.json",
        lambda record: record["members"][0].update(sha256=files.file_checksum(path)),
    )
    with pytest.raises(nesbs.NesbsError, match="is not a whole safetensors file"):
        nesbs.load(moved)
    assert not (tmp_path / "sprung").exists()


def test_what_is_no_finished_run_is_named(tmp_path, moved):
    with pytest.raises(nesbs.NesbsError, match="is not a run: name one of the runs in it, such as .*elsewhere"):
        nesbs.load(tmp_path)
    with pytest.raises(nesbs.NesbsError, match="run must be the folder of a run, found 3"):
        nesbs.load(3)
    with pytest.raises(nesbs.NesbsError, match="device 'meta' cannot be used"):
        nesbs.load(moved, device="meta")
    with pytest.raises(nesbs.NesbsError, match="device 'abacus' cannot be used"):
        nesbs.load(moved, device="abacus")
    shutil.rmtree(moved / "members")
    with pytest.raises(nesbs.NesbsError, match=r"has no members/0.safetensors yet: run `nesbs train"):
        nesbs.load(moved)


def test_a_run_made_before_is_opened_with_its_data_once(tmp_path, monkeypatch):
    torch.set_num_threads(2)  # the run's own is 1
    folder = shutil.copytree(OLD, tmp_path / "old")

    def refuse(path, text):
        raise nesbs.NesbsError(f"cannot write {path}: Read-only file system")

    with monkeypatch.context() as patch:
        patch.setattr("nesbs.files.write_text", refuse)
        unwritten = nesbs.load(folder)
    assert not (folder / "members" / "classifier.json").exists()
    classifier = nesbs.load(folder)
    assert torch.get_num_threads() == 2
    assert unwritten.temperature == classifier.temperature
    record = ClassifierRecord.find(folder / "members")
    assert record.preprocessing.resize == "interpolate"
    assert not (folder / ".lock.json").exists()
    run = Run.open(folder)
    expected = MetricsRecord.find(folder).ensemble.error
    answers = classifier.predict(run.data.test.images)
    right = [run.data.test.class_names[label] for label in run.data.test.labels]
    assert np.mean(np.array(answers) != np.array(right)) == pytest.approx(expected)
    monkeypatch.setattr("nesbs.runs.opened_run.load_dataset", lambda **_: pytest.fail("the data are not needed"))
    assert nesbs.load(folder).temperature == classifier.temperature


def test_a_run_made_before_says_so_where_its_data_are_gone(made, tmp_path):
    folder = shutil.copytree(made[0].folder, tmp_path / "run")
    (folder / "members" / "classifier.json").unlink()
    recipe = (folder / "recipe.yaml").read_text()
    (folder / "recipe.yaml").write_text(recipe.replace(made[0].recipe.data.name, str(tmp_path / "gone")))
    with pytest.raises(nesbs.NesbsError, match="has no members/classifier.json .* its data cannot be opened") as answer:
        nesbs.load(folder)
    assert "\n" not in str(answer.value)


@pytest.mark.parametrize("view", [View("L", 8, "pad"), View("L", 8, "crop", 0.875), None])
def test_the_way_of_resizing_is_read_back(noise, view):
    assert view_of(preprocessing_of(replace(noise, view=view))) == (view or ArrayView("L", (8, 8)))


def test_grey_images_are_answered_by_a_grey_run_and_logits_are_averaged_where_the_recipe_says(tmp_path):
    photos = write_photos(tmp_path / "photos", "L")
    run = tiny(tmp_path / "run", changes=[*FEW, f"data.name={photos}", "ensemble.combine=logits"])
    logits, _ = predictions(run.ensemble(), run.data.test)
    classifier = nesbs.load(tmp_path / "run")
    assert (classifier.view.mode, classifier.temperature) == ("L", 1.0)
    expected = logits.mean(0).softmax(-1)
    grey = run.data.test.images[:, 0]
    torch.testing.assert_close(classifier.predict_proba([*grey]), expected, rtol=1e-5, atol=1e-6)
    colour = grey[:, None].expand(-1, 3, -1, -1).contiguous()  # the same greys in colour
    torch.testing.assert_close(classifier.predict_proba(colour), expected, rtol=1e-5, atol=1e-6)


def test_an_auxiliary_tower_is_left_out(tmp_path):
    changes = [
        *FEW,
        "space.name=darts",
        "ensemble.architectures=[darts-v2]",
        "members.cells=3",
        "members.auxiliary=0.4",
    ]
    run = tiny(tmp_path / "run", changes=[*changes, "members.epochs=1", "ensemble.size=1"])
    ensemble = run.ensemble()
    assert any("auxiliary" in name for name in ensemble.state_dict())
    logits, _ = predictions(ensemble, run.data.test)
    classifier = nesbs.load(tmp_path / "run")
    assert not any("auxiliary" in name for name in classifier.ensemble.state_dict())
    answers = classifier.members(run.data.test.images)
    torch.testing.assert_close(answers, logits.softmax(-1), rtol=1e-5, atol=1e-6)


def test_a_temperature_that_was_measured_is_kept_after_a_kill(made, tmp_path):
    """The record is brought up to date also where the measuring had ended before."""
    folder = shutil.copytree(made[0].folder, tmp_path / "run")
    path = folder / "members" / "classifier.json"
    edit(path, lambda record: record.update(temperature=7.0))
    assert call("evaluate", folder, "--quiet") == 0
    assert path.read_bytes() == (made[0].folder / "members" / "classifier.json").read_bytes()


def test_a_gpu_that_is_named_becomes_the_current_one(monkeypatch):
    """Else what is recorded there would be recorded of another GPU."""
    chosen = []
    monkeypatch.setattr("torch.empty", lambda *_, device: device)  # as if they were there
    monkeypatch.setattr("torch.cuda.set_device", lambda device: chosen.append(str(device)))
    for name in ("cpu", "cuda", "cuda:1"):
        assert str(usable_device(name)) == name
    assert chosen == ["cuda:1"]
    Run(Path("nowhere"), Recipe(), device="cuda:2")
    assert chosen == ["cuda:1", "cuda:2"]
