"""`nesbs predict` as its user meets it."""

import csv
import json
import os

import numpy as np
import pytest
from PIL import Image
from toys import call, tiny

import nesbs
from nesbs.deploy import PredictedImage, UnreadImage, predict_files


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predict") / "run"
    tiny(folder).ensemble()
    return folder


@pytest.fixture
def photos(tmp_path):
    """Five images in a folder and below, a broken one, and one with a hostile name."""
    root = tmp_path / "photos"
    random = np.random.default_rng(0)
    for name in ("a.png", "b/b.png", "b/c/猫.png", "d.JPG", "e\x1b[2J\n.png"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (30, 40, 3), dtype=np.uint8)).save(root / name)
    (root / "broken.png").write_bytes(b"no image")
    (root / "notes.txt").write_text("no image either, and nobody asks")
    return root


def expected(run, files):
    classifier = nesbs.load(run)
    return classifier, classifier.predict_proba([str(file) for file in files])


def test_a_line_for_each_image_and_what_cannot_be_read_is_named(run, photos, capsys):
    assert call("predict", run, photos, photos / "a.png") == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    classifier, probabilities = expected(run, [photos / "a.png"])
    value, place = probabilities[0].max(-1)
    label = f"{photos}/a.png: {classifier.class_names[place]} {value:.3f} (entropy "
    assert lines[0].startswith(label)
    assert lines[-1] == lines[0]  # named on its own, too
    assert [line.split(": ")[0].removeprefix(f"{photos}/") for line in lines] == [
        *("a.png", "d.JPG", "e\\x1b[2J\\n.png", "b/b.png", "b/c/猫.png", "a.png"),
    ]
    assert len(captured.err.splitlines()) == 1
    assert f"{photos}/broken.png cannot be read as an image" in captured.err


def test_answers_as_json(run, photos, tmp_path, capsys):
    out = tmp_path / "answers.json"
    assert call("predict", run, photos, "--json", out, "--top", "3") == 0
    assert f"5 predicted, 1 could not be read: {out}" in capsys.readouterr().out
    answers = json.loads(out.read_text())
    assert [entry["file"] for entry in answers["unread"]] == [f"{photos}/broken.png"]
    files = [entry["file"] for entry in answers["images"]]
    assert f"{photos}/e\x1b[2J\n.png" in files  # the very name
    assert "\x1b" not in out.read_text()
    assert "猫" in out.read_text()
    classifier, probabilities = expected(run, files)
    explained = classifier.explain(files)
    for place, entry in enumerate(answers["images"]):
        values, classes = probabilities[place].sort(descending=True)
        names = [classifier.class_names[one] for one in classes[:3]]
        assert entry["label"] == names[0]
        assert [one["label"] for one in entry["top"]] == names
        assert [one["probability"] for one in entry["top"]] == pytest.approx(values[:3].tolist(), abs=1e-5)
        for name in ("entropy", "disagreement", "mutual_information"):
            assert entry[name] == pytest.approx(float(getattr(explained, name)[place]), abs=1e-5)


def test_answers_as_a_table(run, photos, tmp_path):
    out = tmp_path / "answers.csv"
    assert call("predict", run, photos, "--csv", out, "--top", "99", "--quiet") == 0
    with open(out, newline="", encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    assert len(rows) == 6
    [broken] = [row for row in rows if row["unread"]]
    assert broken["file"] == f"{photos}/broken.png"
    assert broken["label"] == ""
    [hostile] = [row for row in rows if "x1b" in row["file"]]
    assert hostile["file"] == f"{photos}/e\\x1b[2J\\n.png"
    for row in rows:
        if row is not broken:
            shares = [float(row["probability"]), *(float(row[f"probability_{place}"]) for place in range(2, 11))]
            assert sum(shares) == pytest.approx(1, abs=1e-4)
            assert shares == sorted(shares, reverse=True)
    assert "label_11" not in rows[0]  # there are ten classes


def test_a_large_folder_is_read_in_batches(run, tmp_path, monkeypatch):
    """No more than a batch is asked for before the first answer comes."""
    Image.new("L", (8, 8)).save(tmp_path / "a.png")
    asked = []

    def endless():
        while True:
            asked.append(1)
            yield tmp_path / "a.png"

    monkeypatch.setattr("nesbs.deploy.predict.BATCH_SIZE", 4)
    answers = predict_files(nesbs.load(run), endless())
    assert [type(next(answers)) for _ in range(6)] == [PredictedImage] * 6
    assert len(asked) == 8
    answers.close()


def test_a_folder_that_cannot_be_listed_and_names_that_are_no_text_are_answered(run, tmp_path, monkeypatch):
    folder = tmp_path / "photos"
    folder.mkdir()
    name = os.fsencode(folder) + b"/\xff.png"
    with open(name, "wb") as file:
        Image.new("L", (8, 8)).save(file, "PNG")
    assert call("predict", run, folder, "--json", tmp_path / "a.json") == 0
    [entry] = json.loads((tmp_path / "a.json").read_text())["images"]
    assert os.fsencode(entry["file"]) == name
    assert call("predict", run, folder, "--csv", tmp_path / "a.csv") == 0
    assert "\\udcff.png" in (tmp_path / "a.csv").read_text()

    def closed(place, onerror):
        onerror(PermissionError(13, "Permission denied", str(place)))
        return iter(())

    monkeypatch.setattr("nesbs.data.image_files.os.walk", closed)
    [answer] = predict_files(nesbs.load(run), [folder])
    assert answer == UnreadImage(str(folder), f"{folder} cannot be listed (Permission denied)")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["predict"], "Missing argument 'RUN'"),
        (["predict", "RUN"], "Missing argument 'FILE|FOLDER…'"),
        (["predict", "EMPTY", "EMPTY"], "is not a run: `nesbs run RECIPE"),
        (["predict", "RUN", "EMPTY"], "there is no image in"),
        (["predict", "RUN", "missing.png"], "missing.png cannot be read as an image (No such file or directory)"),
        (["predict", "RUN", "missing.png", "--json", "EMPTY/a.json"], "no image could be read"),
        (["predict", "RUN", "IMAGE", "--json", "EMPTY"], "it is not a file"),
        (["predict", "RUN", "IMAGE", "--csv", "IMAGE/a.csv"], "cannot write"),
        (["predict", "RUN", "IMAGE", "--json", "a", "--csv", "b"], "give one of them"),
        (["predict", "RUN", "IMAGE", "--json", "other.JPG"], "not other.JPG: answers.json"),
        (["predict", "RUN", "IMAGE", "--json", "RUN/record.json"], "name a file elsewhere"),
        (["predict", "RUN", "IMAGE", "--csv", "--top"], "not --top: answers.csv"),
        (["predict", "RUN", "IMAGE", "--top", "0"], "--top"),
        (["predict", "RUN", "IMAGE", "--device", "tpu"], "--device"),
        (["predict", "RUN", "IMAGE", "--seed", "1"], "No such option"),
    ],
)
def test_bad_input_is_a_line_or_two_and_code_2(arguments, message, run, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    Image.new("L", (8, 8)).save(tmp_path / "image.png")
    words = {"RUN": str(run), "EMPTY": str(tmp_path / "empty"), "IMAGE": str(tmp_path / "image.png")}
    filled = []
    for argument in arguments:
        first, slash, rest = argument.partition("/")
        filled.append(words.get(first, first) + slash + rest)
    assert call(*filled) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert 1 <= len(captured.err.splitlines()) <= 2
    assert captured.out == ""
    assert list((tmp_path / "empty").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "image.png"]


def test_what_is_interrupted_leaves_nothing_behind(run, photos, tmp_path, monkeypatch):
    out = tmp_path / "answers.json"
    out.write_text("of before")

    def stopped(*_, **__):
        yield PredictedImage("a.png", (("cat", 1.0),), 0.0, 0.0, 0.0)
        raise KeyboardInterrupt

    monkeypatch.setattr("nesbs.cli.predict.predict_files", stopped)
    assert call("predict", run, photos, "--json", out) == 130
    assert out.read_text() == "of before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["answers.json", "photos"]
