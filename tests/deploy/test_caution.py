"""A run knows when not to answer: what it keeps for that, and what `nesbs predict` makes of it."""

import csv
import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from toys import call, tiny

import nesbs
from nesbs.evaluation import conformal
from nesbs.evaluation.calibration import halves
from nesbs.evaluation.scores import predictions
from nesbs.records import HeldOutAnswers
from nesbs.runs.abstention import measure_abstention


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("caution") / "run"
    run = tiny(folder, changes=["evaluation.uniform=false", "ensemble.size=2"])
    return run, run.scores()


@pytest.fixture
def photo(tmp_path):
    path = tmp_path / "a.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (28, 28), dtype=np.uint8)).save(path)
    return path


def test_answers_to_one_half_of_the_test_images_are_kept_beside_the_members(made):
    run, measured = made
    kept = HeldOutAnswers.find(run.folder / "members")
    _, combined = predictions(run.ensemble(), run.data.test)
    first, second = halves(run.data.test.labels)
    labels = run.data.test.labels
    assert kept.whole()
    assert kept.images == "half of the test images"
    assert kept.score == pytest.approx(conformal.label_scores(combined[first], labels[first]).tolist(), abs=1e-5)
    assert kept.right == tuple((combined[first].argmax(-1) == labels[first]).long().tolist())
    # What metrics.json says was measured on the other half, with what predicting uses.
    [row] = [each for each in measured.ensemble.abstention.sets if each.wanted == 0.8]
    inside = conformal.sets(combined[second], conformal.quantile(torch.tensor(kept.score), 0.8))
    assert row.covered == pytest.approx(float(inside.gather(-1, labels[second, None]).double().mean()))
    assert row.size == pytest.approx(float(inside.sum(-1).double().mean()))
    assert measured.ensemble.abstention.risk[-1] == pytest.approx(measured.ensemble.error, abs=1e-6)
    assert len(measured.ensemble.abstention.member_aurc) == 2
    assert "Knowing when not to answer" in nesbs.report.render(nesbs.records.RunRecords.read(run.folder))


def test_a_lost_file_is_made_anew_by_evaluating(made, tmp_path):
    folder = shutil.copytree(made[0].folder, tmp_path / "run")
    path = folder / "members" / HeldOutAnswers.FILE
    before = path.read_bytes()
    path.unlink()
    with pytest.raises(
        nesbs.NesbsError, match=r"has no members/held_out_answers.json, .* `nesbs evaluate RUN` makes it"
    ):
        nesbs.load(folder).sets(np.zeros((28, 28), dtype=np.uint8), coverage=0.8)
    assert call("evaluate", folder, "--quiet") == 0
    assert path.read_bytes() == before
    path.write_text(path.read_text().replace('"right": [', '"right": [null,', 1))
    with pytest.raises(nesbs.NesbsError, match=r"has a damaged members/held_out_answers.json"):
        nesbs.load(folder).sets(np.zeros((28, 28), dtype=np.uint8), coverage=0.8)
    for text in (path.read_text(), '{"right": ['):
        path.write_text(text)
        assert call("evaluate", folder, "--quiet") == 0
        assert path.read_bytes() == before
    photo = np.zeros((28, 28), dtype=np.uint8)
    with pytest.raises(nesbs.NesbsError, match="coverage must be a number between 0 and 1, found None"):
        nesbs.load(folder).sets(photo, coverage=None)
    with pytest.raises(nesbs.NesbsError, match="error must be a number between 0 and 1, found 'a'"):
        nesbs.load(folder).sure(photo, error="a")


def test_images_that_members_did_not_learn_from_are_fitted_to_where_there_are_such():
    test = torch.tensor([[[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]]]).log()
    held_out = (torch.tensor([[0.7, 0.3]] * 4).log(), torch.tensor([0, 0, 0, 1]))
    found = measure_abstention(test, torch.tensor([0, 1, 1]), held_out, fitted_on="search_valid")
    assert (found.fitted_on, found.fitted_images, found.measured_images) == ("search_valid", 4, 3)
    assert [row.covered for row in found.sets] == [1.0, None, None, None]  # 0.9 needs nine
    assert found.aurc == pytest.approx((0 + 0 + 1 / 3) / 3)
    assert measure_abstention(test[:, :1], torch.tensor([0])) is None


def test_predict_abstains_and_names_sets(made, photo, tmp_path, capsys):
    folder = shutil.copytree(made[0].folder, tmp_path / "run")
    classifier = nesbs.load(folder)
    plain = classifier.ensemble.combined(classifier.logits(photo))
    confidence = float(plain.exp().max())
    for shift, answered in ((-0.01, True), (0.01, False)):  # the threshold lies just below, just above
        rows = {"confidence": [confidence + shift] * 60, "right": [1] * 60, "score": [0.999] * 60}
        HeldOutAnswers(images="some", **rows).write(folder / "members" / HeldOutAnswers.FILE)
        assert call("predict", folder, photo, "--abstain", "0.02", "--coverage", "0.95") == 0
        text = capsys.readouterr().out
        assert ("no answer; likeliest " in text) == (not answered)
        assert nesbs.load(folder).sure(photo, error=0.02) == [answered]
        assert (
            call("predict", folder, photo, "--abstain", "0.02", "--coverage", "0.95", "--json", tmp_path / "a.json")
            == 0
        )
        [entry] = json.loads((tmp_path / "a.json").read_text())["images"]
        [expected] = nesbs.load(folder).sets(photo, coverage=0.95)
        assert entry["answered"] is answered
        assert tuple(entry["set"]) == expected
        assert len(expected) > 1
        assert f"{{{', '.join(expected)}}}" in text
        inside = conformal.sets(plain, 0.999)[0]
        assert set(expected) == {name for name, held in zip(classifier.class_names, inside, strict=True) if held}
        assert (
            call("predict", folder, photo, "--abstain", "0.02", "--coverage", "0.95", "--csv", tmp_path / "a.csv") == 0
        )
        with open(tmp_path / "a.csv", newline="", encoding="utf-8") as file:
            [row] = csv.DictReader(file)
        assert (row["answered"], tuple(json.loads(row["set"]))) == ("yes" if answered else "no", expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--coverage", "0.99"], "a coverage of 0.99 needs 99 held-out images or more, there are 20: ask for less"),
        (
            ["--abstain", "0.01"],
            "no threshold keeps the error at 0.01 on the held-out images: it takes 99 right answers",
        ),
        (["--coverage", "1"], "a wanted coverage lies between 0 and 1"),
        (["--abstain", "0"], "a wanted error lies between 0 and 1"),
        (["--abstain", "2"], "--abstain"),
    ],
)
def test_what_cannot_be_kept_is_said(options, message, made, photo, capsys):
    assert call("predict", made[0].folder, photo, *options) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_a_broken_file_is_no_answer(made, photo, tmp_path, capsys):
    folder = shutil.copytree(made[0].folder, tmp_path / "run")
    for broken in ({"confidence": [0.5], "right": [1], "score": ["x"]}, {"confidence": [0.5, 0.6], "right": [1]}, {}):
        (folder / "members" / HeldOutAnswers.FILE).write_text(json.dumps(broken))
        assert call("predict", folder, photo, "--coverage", "0.5") == 2
        assert "nesbs evaluate RUN" in capsys.readouterr().err
        assert call("predict", folder, photo) == 0
