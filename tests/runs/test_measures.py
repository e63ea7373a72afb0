"""People's labels, unseen data and corrupted images, of real networks and by hand."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import confusion_matrix
from torchmetrics.functional.classification import binary_auroc

from nesbs import metrics, rng
from nesbs.data import Split, load_dataset
from nesbs.ensemble import Ensemble, train_ensemble
from nesbs.errors import NesbsError
from nesbs.evaluation import EvaluationSettings, evaluate
from nesbs.evaluation.calibration import calibrate, fit_temperature
from nesbs.evaluation.corruptions import corrupt
from nesbs.evaluation.human import load_human
from nesbs.evaluation.unseen import brought_to
from nesbs.records.metrics import EnsembleMetrics
from nesbs.runs import measures
from nesbs.runs.measures import MEASURES, answers_to_keep, gather, measure, missing_measures, units
from nesbs.runs.predictions import show
from nesbs.spaces import toy_edges


@pytest.fixture(scope="module")
def ensemble(noise):
    settings = {"epochs": 1, "cells": 1, "channels": 2, "batch_size": 16}
    return train_ensemble(toy_edges(), list(toy_edges())[-3:], noise.train, **settings)


def made(ensemble, data, parts, held_out=None, **settings):
    return measure(None, ensemble, gather(data, EvaluationSettings.of(settings), held_out), parts).to_json()


def saved(path, **arrays):
    np.savez(path, **arrays)
    return path


def votes_for(data, seed=0):
    votes = np.random.default_rng(seed).integers(0, 5, (len(data.test), data.test.classes))
    votes[:, 0] += 1
    return votes


def test_the_test_images_are_predicted_once(ensemble, noise, monkeypatch):
    asked = []
    plain = measures.predictions
    monkeypatch.setattr(measures, "predictions", lambda *a, **k: asked.append(a) or plain(*a, **k))
    material = gather(noise, EvaluationSettings(map=1))
    show(ensemble, material)
    answers_to_keep(ensemble, material)
    measure(None, ensemble, material, missing_measures(None, material.settings))
    assert asked == [(ensemble, noise.test)]
    measure(None, Ensemble(ensemble.members[:2]), material, ("scores",))
    assert len(asked) == 2  # another ensemble has answers of its own


def test_class_by_class(ensemble, noise):
    entry = made(ensemble, noise, ("scores", "per_class"))
    rows, table = entry["per_class"]["classes"], entry["per_class"]["confusion"]
    answers = ensemble.combined(ensemble.predict(noise.test)).argmax(-1).tolist()
    assert table == confusion_matrix(noise.test.labels.tolist(), answers, labels=[0, 1, 2]).tolist()
    assert [row["name"] for row in rows] == ["a", "b", "c"]
    assert [row["train_images"] for row in rows] == [22, 21, 21]
    assert [row["predicted"] for row in rows] == [answers.count(place) for place in range(3)]
    wrong = sum(row["error"] * row["test_images"] for row in rows)
    assert wrong / 32 == pytest.approx(entry["error"])


def test_images_set_aside_serve_for_calibration_and_all_test_images_are_measured(ensemble, noise):
    aside, rest = noise.train.subset(torch.arange(24)), noise.train.subset(torch.arange(24, 64))
    data = replace(noise, train=rest, calibration=aside)
    entry = made(ensemble, data, ("scores", "temperature", "abstention"), noise.search_valid)
    held, test = (ensemble.combined(ensemble.predict(split)) for split in (aside, noise.test))
    assert entry["temperature"]["ensemble"]["temperatures"] == [pytest.approx(fit_temperature(held, aside.labels))]
    assert (entry["temperature"]["fitted_on"], entry["temperature"]["images"]) == ("calibration", 24)
    part = entry["abstention"]
    assert (part["fitted_on"], part["fitted_images"], part["measured_images"]) == ("calibration", 24, len(test))
    kept = answers_to_keep(ensemble, gather(data, EvaluationSettings()))
    assert (kept.images, len(kept.right)) == ("calibration", 24)
    assert sum(kept.right) == int((held.argmax(-1) == aside.labels).sum())


def test_an_entry_has_scores_gains_and_temperature(ensemble, noise):
    entry = made(ensemble, noise, ("scores", "temperature", "intervals"))
    scores = evaluate(ensemble, noise.test)
    assert entry["error"] == scores.error
    for name in ("error", "nll", "brier", "ece", "top5_error"):
        own = [member[name] for member in entry["members"]]
        assert entry["gain_over_best"][name] == pytest.approx(min(own) - entry[name])
        assert entry["gain_over_mean"][name] == pytest.approx(sum(own) / 3 - entry[name])
    assert len(entry["architectures"]) == len(entry["parameters"]) == 3
    part = entry["temperature"]
    assert (part["fitted_on"], part["images"], len(part["members"])) == ("test halves", 32, 3)
    assert part["ensemble"]["before"] == pytest.approx({name: entry[name] for name in ("nll", "brier", "ece")})
    for row, member in zip(part["members"], entry["members"], strict=True):
        assert row["before"]["nll"] == pytest.approx(member["nll"])
    # The ECE is the mean gap of the diagram's bins.
    for when in ("before", "after"):
        columns = [part["reliability"][when][name] for name in ("images", "confidence", "accuracy")]
        gaps = [held * abs(confidence - right) for held, confidence, right in zip(*columns, strict=True) if held]
        assert sum(gaps) / sum(columns[0]) == pytest.approx(part["ensemble"][when]["ece"], abs=1e-5)
        assert sum(columns[0]) == 32
    low, high = entry["intervals"]["ensemble"]["error"]
    assert low <= entry["error"] <= high
    assert entry["intervals"]["best"]["error"]["gain"] == pytest.approx(entry["gain_over_best"]["error"])
    json.dumps(entry, allow_nan=False)


def test_a_held_out_split_is_used_where_there_is_one(ensemble, noise):
    part = made(ensemble, noise, ("temperature",), held_out=noise.search_valid)["temperature"]
    assert (part["fitted_on"], part["images"]) == ("search_valid", len(noise.search_valid))
    held, test = (ensemble.predict(split).double() for split in (noise.search_valid, noise.test))
    combined = ensemble.combined(held)
    assert part["ensemble"]["temperatures"][0] == pytest.approx(fit_temperature(combined, noise.search_valid.labels))
    own = calibrate(held[1], noise.search_valid.labels, test[1], noise.test.labels)
    assert part["members"][1]["after"]["nll"] == pytest.approx(own.after["nll"])


def test_one_test_image_has_no_temperature(ensemble, noise):
    one = noise.test.subset(torch.tensor([0]))
    data = type(noise)("one", noise.train, one)
    assert made(ensemble, data, ("scores", "temperature"))["temperature"] is None


def test_one_member_has_no_mutual_information(ensemble, noise):
    alone = Ensemble([ensemble.members[0]])
    entry = made(alone, noise, ("scores", "temperature", "unseen"), unseen="fashion-mini")
    assert entry["disagreement"] == 0
    assert set(entry["gain_over_best"].values()) == {0.0}
    assert list(entry["unseen"]["ensemble"]) == ["max_probability", "entropy"]
    assert entry["unseen"]["ensemble"] == entry["unseen"]["members"][0]


def test_certain_and_wrong_networks_have_finite_measures(noise):
    class Certain(torch.nn.Module):
        def forward(self, images):
            return torch.tensor([3e38, -3e38, 0.0]).expand(len(images), 3)

    certain = Ensemble([Certain(), Certain()])
    scores = evaluate(certain, noise.test)
    assert scores.error == pytest.approx(float((noise.test.labels != 0).double().mean()))
    assert math.isfinite(scores.nll)
    assert scores.nll > 1e37


# People


@pytest.mark.parametrize("key", ["counts", "probs", "anything", "npy"])
def test_human_labels_are_read_as_they_come(key, noise, tmp_path):
    votes = votes_for(noise)
    array = votes / votes.sum(1, keepdims=True) if key == "probs" else votes
    path = tmp_path / "human.npy"
    if key == "npy":
        np.save(path, array)
    else:
        path = saved(tmp_path / "human.npz", **{key: array, "names": np.array(["a", "b"])})
    human = load_human(path, noise.test)
    assert human.numpy() == pytest.approx(votes / votes.sum(1, keepdims=True))


def test_agreement_with_people(ensemble, noise, tmp_path):
    votes = votes_for(noise)
    path = saved(tmp_path / "human.npz", counts=votes)
    part = made(ensemble, noise, ("human",), human=str(path))["human"]
    people = votes / votes.sum(1, keepdims=True)
    logits = ensemble.predict(noise.test).double()
    networks = [ensemble.combined(logits), *logits.log_softmax(-1)]
    for row, network in zip([part["ensemble"], *part["members"]], networks, strict=True):
        q = network.exp().numpy()
        assert row["cross_entropy"] == pytest.approx(-(people * np.log(q)).sum(1).mean())
        kl = np.where(people > 0, people * np.log(np.maximum(people, 1e-300) / q), 0).sum(1).mean()
        assert row["kl_divergence"] == pytest.approx(kl)
        assert row["total_variation"] == pytest.approx(np.abs(people - q).sum(1).mean() / 2)
    assert part["file"] == "human.npz"
    assert part["people"]["error"] == pytest.approx((people.argmax(1) != noise.test.labels.numpy()).mean())


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"counts": np.ones((31, 3))}, r"= \(32, 3\), found \(31, 3\): take all test images"),
        ({"counts": np.ones((32, 4))}, r"found \(32, 4\)"),
        ({"counts": np.eye(32, 3)}, "row 3 is not"),
        ({"counts": -np.ones((32, 3))}, "none negative"),
        ({"counts": np.full((32, 3), np.nan)}, "must be numbers"),
        ({"counts": np.full((32, 3), "a")}, "must be counts or probabilities, found <U1"),
        ({"a": np.ones((32, 3)), "b": np.ones((32, 3))}, "needs an array counts or probs, found a, b"),
        ({"a": np.ones(3)}, "needs an array counts or probs, found a"),
    ],
)
def test_human_labels_that_do_not_fit_are_refused(arrays, message, noise, tmp_path):
    with pytest.raises(NesbsError, match=message):
        load_human(saved(tmp_path / "human.npz", **arrays), noise.test)


def test_a_file_that_is_none_is_refused(noise, tmp_path):
    with pytest.raises(NesbsError, match="there is no file .*nowhere.npz: evaluation.human names"):
        load_human(tmp_path / "nowhere.npz", noise.test)
    (tmp_path / "text.csv").write_text("file,label\n")
    with pytest.raises(NesbsError, match="text.csv is no .npz or .npy file$"):
        load_human(tmp_path / "text.csv", noise.test)
    whole = saved(tmp_path / "whole.npz", counts=np.ones((32, 3))).read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[:100])
    with pytest.raises(NesbsError, match="cut.npz is not a whole .npz file"):
        load_human(tmp_path / "cut.npz", noise.test)
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(NesbsError, match="objects.npy is no .npz file of numbers .it holds Python objects"):
        load_human(tmp_path / "objects.npy", noise.test)


# Unseen data


def split_of(images):
    return Split(images, torch.zeros(len(images)).long(), ("a",), torch.zeros(1), torch.ones(1))


def test_channels_and_sizes_are_brought_together():
    g = torch.Generator().manual_seed(0)
    colour = torch.randint(0, 256, (4, 3, 12, 10), generator=g, dtype=torch.uint8)
    grey = brought_to(split_of(colour), split_of(torch.zeros(1, 1, 12, 10, dtype=torch.uint8)))
    theirs = np.stack([np.asarray(Image.fromarray(image.permute(1, 2, 0).numpy()).convert("L")) for image in colour])
    assert np.abs(grey.images[:, 0].numpy().astype(int) - theirs).max() <= 1
    back = brought_to(grey, split_of(torch.zeros(1, 3, 12, 10, dtype=torch.uint8)))
    assert torch.equal(back.images, grey.images.repeat(1, 3, 1, 1))
    small = brought_to(split_of(colour), split_of(torch.zeros(1, 3, 6, 5, dtype=torch.uint8)))
    assert small.images.shape == (4, 3, 6, 5)
    assert float(small.images.float().mean()) == pytest.approx(float(colour.float().mean()), abs=2)


def _noise_files(folder):
    random = np.random.default_rng(0)
    for place in range(20):
        path = folder / "ab"[place % 2] / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (150, 100), dtype=np.uint8)).save(path)


def test_unseen_image_files_are_read_as_the_runs_own(tmp_path):
    """Images of the same folder are the same, though a folder's images go to at most 64×64 unless asked for."""
    _noise_files(tmp_path)
    own = load_dataset(tmp_path, size=96, resize="pad")
    other = gather(own, EvaluationSettings(unseen=str(tmp_path))).unseen
    assert torch.equal(brought_to(other.test, own.test).images, own.test.images)


def test_unseen_image_files_beside_imagenet_are_cut_as_its_test_images(tmp_path):
    """Of those the middle 87.5 % is shown: the whole middle square would be told apart by its scale alone."""
    _noise_files(tmp_path / "train")
    _noise_files(tmp_path / "val")
    own = load_dataset("imagenet", root=tmp_path, size=96)
    other = gather(own, EvaluationSettings(unseen=str(tmp_path))).unseen
    assert torch.equal(brought_to(other.test, own.test).images, own.test.bytes())


def test_detection_of_unseen_images(ensemble, noise):
    part = made(ensemble, noise, ("unseen",), unseen="fashion-mini")["unseen"]
    assert (part["data"], part["images"], part["seen_images"]) == ("fashion-mini", 2000, 32)
    assert list(part["ensemble"]) == ["max_probability", "entropy", "mutual_information"]
    assert all(list(member) == ["max_probability", "entropy"] for member in part["members"])
    # The same by hand: members on the second data set's images at 8×8.
    other = brought_to(gather(noise, EvaluationSettings(unseen="fashion-mini")).unseen.test, noise.test)
    seen, unseen = (ensemble.predict(split).double().softmax(-1) for split in (noise.test, other))
    truth = torch.cat([torch.ones(32), torch.zeros(2000)]).long()

    def area(certainty):
        values = torch.cat([certainty(seen), certainty(unseen)])
        return float(binary_auroc((values - values.min()) / (values.max() - values.min()), truth))

    def entropy(p):
        return -(p * p.log()).sum(-1)

    expected = {
        "max_probability": area(lambda p: p.mean(0).amax(-1)),
        "entropy": area(lambda p: -entropy(p.mean(0))),
        "mutual_information": area(lambda p: entropy(p).mean(0) - entropy(p.mean(0))),
    }
    assert {name: row["auroc"] for name, row in part["ensemble"].items()} == pytest.approx(expected, abs=1e-6)
    assert part["members"][2]["entropy"]["auroc"] == pytest.approx(area(lambda p: -entropy(p[2])), abs=1e-6)
    kept = (seen[0].amax(-1)).sort(descending=True).values[31 - 1]  # 31 of 32 is the first share above 95 %
    assert part["members"][0]["max_probability"]["fpr95"] == float((unseen[0].amax(-1) >= kept).double().mean())


def test_a_data_set_cannot_be_told_from_itself(ensemble, noise, tmp_path):
    images, labels = noise.test.images[:, 0].numpy(), noise.test.labels.numpy()
    path = saved(tmp_path / "same.npz", x_train=images, y_train=labels, x_test=images, y_test=labels)
    part = made(ensemble, noise, ("unseen",), unseen=str(path))["unseen"]
    assert part["data"] == "same.npz"
    assert {row["auroc"] for row in part["ensemble"].values()} == {0.5}


def test_unseen_data_that_are_not_there_are_named(noise):
    with pytest.raises(NesbsError, match="evaluation.unseen: no data set, folder, .npz or .csv file fashion-maxi"):
        gather(noise, EvaluationSettings(unseen="fashion-maxi"))
    with pytest.raises(NesbsError, match="evaluation.unseen: data set cifar10 needs evaluation.unseen_root"):
        gather(noise, EvaluationSettings(unseen="cifar10"))


# Corruptions


def test_errors_under_corruption(ensemble, noise):
    part = made(ensemble, noise, ("corruptions",), corruptions="fog,saturation,gaussian-noise", severities=[5, 2])[
        "corruptions"
    ]
    assert part["severities"] == [2, 5]
    assert part["skipped"] == ["saturation"]
    assert list(part["ensemble"]["by_corruption"]) == ["gaussian-noise", "fog"]
    assert len(part["members"]) == 3
    images = corrupt(
        noise.test.pixels(), "gaussian-noise", 5, generator=rng.generator(0, "corruption", "gaussian-noise")
    )
    with torch.no_grad():
        logits = ensemble(images).double()
    labels = noise.test.labels
    combined = ensemble.combined(logits)
    noisy = part["ensemble"]["by_corruption"]["gaussian-noise"]
    assert noisy["error"][1] == float(metrics.error(combined, labels))
    assert noisy["nll"][1] == pytest.approx(float(metrics.nll(combined, labels)))
    assert noisy["ece"][1] == pytest.approx(float(metrics.ece(combined, labels)))
    own = part["members"][1]["by_corruption"]["gaussian-noise"]["nll"][1]
    assert own == pytest.approx(float(metrics.nll(logits[1].log_softmax(-1), labels)))
    for row in [part["ensemble"], *part["members"]]:
        by_corruption = row["by_corruption"]
        for name in ("error", "nll", "ece"):
            means = [(by_corruption["fog"][name][i] + by_corruption["gaussian-noise"][name][i]) / 2 for i in (0, 1)]
            assert row["by_severity"][name] == pytest.approx(means)
            assert row["mean"][name] == pytest.approx(sum(means) / 2)


def test_every_run_sees_the_same_corrupted_images(ensemble, noise):
    one, again = (made(ensemble, noise, ("corruptions",), corruptions=["gaussian-noise"]) for _ in range(2))
    assert one == again


def test_settings_of_corruptions():
    assert EvaluationSettings.of({"corruptions": "jpeg, fog"}).corruption_names == ("fog", "jpeg")
    assert EvaluationSettings().corruption_names == ()
    assert len(EvaluationSettings.of({"corruptions": "all"}).corruption_names) == 14
    with pytest.raises(NesbsError, match="corruptions: unknown corruption fogg: did you mean fog"):
        EvaluationSettings.of({"corruptions": ["fogg"]})
    with pytest.raises(NesbsError, match="severities.*greater than or equal to 1, found 0"):
        EvaluationSettings.of({"severities": [0, 1]})


def test_grey_images_have_no_saturation(noise):
    with pytest.raises(NesbsError, match="saturation needs colour images, those of noise are grey"):
        gather(noise, EvaluationSettings.of({"corruptions": "saturation"}))


# Together


def test_parts_are_made_once_and_replaced_when_asked(ensemble, noise):
    settings = EvaluationSettings(corruptions=("fog",), unseen="fashion-mini")

    def to_make(entry, *asked):
        return missing_measures(EnsembleMetrics.from_json(entry), *asked)

    first = ("scores", "temperature", "intervals", "abstention", "per_class")
    assert to_make({}, settings) == (*first, "unseen", "corruptions")
    made = {"error": 0.5, "temperature": {"reliability": {}}, "intervals": {}, "abstention": {}, "unseen": {}}
    assert to_make(made, settings) == ("corruptions",)
    assert to_make({**made, "corruptions": {}}, settings, ["unseen"]) == ("unseen",)
    # A record of before there were intervals and reliability diagrams.
    assert to_make({"error": 0.5, "temperature": {"images": 9}}, EvaluationSettings()) == ("temperature", "intervals")
    assert to_make({**made, "abstention": None}, EvaluationSettings(), ["abstention"]) == ()
    del made["abstention"]
    assert to_make(made, EvaluationSettings()) == ()
    assert to_make(made, EvaluationSettings(), ["abstention"]) == ("abstention",)
    assert to_make(made, EvaluationSettings(), ["per_class"]) == ("per_class",)
    heard = []
    parts, material = ("scores", "corruptions"), gather(noise, settings)
    first = measure(None, ensemble, material, parts, heard.append)
    entry = first.to_json()
    assert heard == ["scores", *(f"fog, severity {severity}" for severity in range(1, 6))]
    assert units(parts, material) == 6
    later = measure(first, ensemble, gather(noise, settings), ("unseen",)).to_json()
    assert {key: later[key] for key in entry} == entry
    assert [key for key in later if key in MEASURES] == ["unseen", "corruptions"]


@pytest.mark.gpu
def test_on_a_gpu_the_same_is_measured(ensemble, noise, tmp_path):
    path = saved(tmp_path / "human.npz", counts=votes_for(noise))
    asked = {"human": str(path), "unseen": "fashion-mini", "corruptions": "contrast"}
    parts = ("scores", "temperature", *asked)
    here = made(ensemble, noise, parts, **asked)
    there = made(ensemble.cuda(), noise.to("cuda"), parts, **asked)
    again = made(ensemble, noise.to("cuda"), parts, **asked)
    ensemble.cpu()
    assert there == again
    assert there["nll"] == pytest.approx(here["nll"], rel=1e-3)
    assert there["human"]["ensemble"] == pytest.approx(here["human"]["ensemble"], rel=1e-3)
    assert there["temperature"]["ensemble"]["after"]["nll"] == pytest.approx(
        here["temperature"]["ensemble"]["after"]["nll"], rel=1e-3
    )
