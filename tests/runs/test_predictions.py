"""Predictions to look at: the images that members disagree on, a t-SNE map, and what is made when."""

import base64
import importlib.util
import io

import numpy as np
import pytest
import torch
from PIL import Image

from nesbs.data.split import make_split
from nesbs.records import PredictionsRecord
from nesbs.runs import predictions


def disagreed(*arguments):
    return [entry.to_json() for entry in predictions.disagreed(*arguments)]


def prediction_map(*arguments):
    found = predictions.prediction_map(*arguments)
    return found and found.to_json()


def to_show(earlier):
    return predictions.to_show(earlier if earlier is None else PredictionsRecord.from_json(earlier))


def images(count, side=6):
    g = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, 1, side, side), generator=g, dtype=torch.uint8)
    return make_split(pixels, torch.zeros(count, dtype=torch.long), ("cat", "dog", "eel"), source="made")


def sure(*answers, by=0.9):
    """Log-probabilities (images, 3) of a network that gives each answer the probability `by`."""
    probs = torch.full((len(answers), 3), (1 - by) / 2, dtype=torch.float64)
    probs[torch.arange(len(answers)), torch.tensor(answers)] = by
    return probs.log()


def test_images_are_ordered_by_how_many_pairs_differ():
    # All three differ on image 2, two of three pairs on images 1 and 3, none on image 0.
    members = torch.stack([sure(0, 0, 0, 0), sure(0, 0, 1, 0), sure(0, 1, 2, 1)])
    members[2, 3] = sure(1, by=0.99)[0]  # the same labels as image 1, and surer of them
    split = images(4)
    found = disagreed(members, members[0], split, 9)
    assert [entry["place"] for entry in found] == [2, 3, 1]
    assert [entry["differ"] for entry in found] == pytest.approx([1, 2 / 3, 2 / 3])
    assert [row["answer"] for row in found[0]["members"]] == ["cat", "dog", "eel"]
    assert found[0]["ensemble"] == {"answer": "cat", "probability": 0.9}
    assert found[0]["label"] == "cat"
    picture = Image.open(io.BytesIO(base64.b64decode(found[0]["picture"])))
    assert (np.asarray(picture) == split.images[2, 0].numpy()).all()
    assert [entry["place"] for entry in disagreed(members, members[0], split, 1)] == [2]
    assert disagreed(members[:1], members[0], split, 9) == []


def test_large_pictures_are_made_smaller():
    members = torch.stack([sure(0), sure(1)])
    [entry] = disagreed(members, members[0], images(1, side=200), 1)
    assert Image.open(io.BytesIO(base64.b64decode(entry["picture"]))).size == (64, 64)


@pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="needs the extra sklearn")
def test_the_map_puts_alike_answers_together():
    # Two members who agree on ten images of class 0 and ten of class 1.
    g = torch.Generator().manual_seed(0)
    logits = sure(*[0] * 10, *[1] * 10).repeat(2, 1, 1) + 0.1 * torch.randn(2, 20, 3, generator=g)
    found = prediction_map(logits.log_softmax(-1), 100)
    assert found["places"] == list(range(20))
    points = np.array(found["points"])
    assert points.shape == (2, 20, 2)
    first, second = points[:, :10].reshape(-1, 2), points[:, 10:].reshape(-1, 2)
    within = max(np.linalg.norm(group - group.mean(0), axis=1).mean() for group in (first, second))
    assert np.linalg.norm(first.mean(0) - second.mean(0)) > 2 * within


def test_a_map_waits_for_scikit_learn(monkeypatch):
    members = torch.stack([sure(*[0, 1] * 10), sure(*[1, 0] * 10)])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert prediction_map(members, 20) is None
    assert not to_show({"map": None})
    assert to_show(None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert to_show({"map": None})
    assert not to_show({"map": {"places": [0], "points": [[[0, 0]]]}})


def test_too_few_points_make_no_map():
    nothing = {"places": [], "points": []}
    assert prediction_map(torch.stack([sure(0, 1), sure(1, 0)]), 60) == nothing
    assert prediction_map(sure(*[0] * 50)[None], 60) == nothing
    assert prediction_map(torch.stack([sure(*[0] * 50)] * 2), 0) == nothing
