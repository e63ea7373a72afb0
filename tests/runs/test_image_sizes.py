"""The search sees images small, members see them large (`supernet.image_size`), and the recipe for photos."""

from collections import defaultdict

import pytest
import torch
from toys import COMPARED, tiny

from nesbs.compare.harness import Harness
from nesbs.compare.methods import METHODS
from nesbs.data import Dataset, converted
from nesbs.data.split import make_split
from nesbs.deploy import load
from nesbs.errors import NesbsError
from nesbs.runs.checks import check_recipe
from nesbs.runs.recipe import load_recipe
from nesbs.runs.resumable_run import Run
from nesbs.spaces import Member, darts, toy_edges
from nesbs.supernet import Estimator, Supernet, train_supernet

SMALL = ["data.size=null", "supernet.image_size=8"]
TRAINED = ["search.judge=trained", "search.judge_candidates=2", "search.judge_epochs=1"]
PHOTOS = [
    *(
        "space.name=toy-pairs",
        "data.train_limit=20",
        "data.test_limit=20",
        "data.size=64",
        "supernet.image_size=8",
        "supernet.epochs=1",
    ),
    *(
        "supernet.channels=2",
        "posterior.steps=1",
        "posterior.architectures=2",
        "sampler.steps=2",
        "sampler.delta=0",
        "search.rounds=1",
        "ensemble.size=2",
    ),
    *("members.epochs=1", "members.channels=2", "members.cells=3", "members.crop=4", "members.workers=1"),
]
MEAN_STD = torch.zeros(3), torch.ones(3)


@pytest.fixture
def sides(monkeypatch):
    """The sides of all images that supernets and members are shown."""
    seen = defaultdict(set)

    def watched(original, known):
        def shown(self, images, *given, **named):
            known.add(images.shape[-1])
            return original(self, images, *given, **named)

        return shown

    ways = {Supernet: ("forward", "mixture", "mixture_of_open"), Member: ("forward", "outputs")}
    for kind, names in ways.items():
        for name in names:
            monkeypatch.setattr(kind, name, watched(getattr(kind, name), seen[kind]))
    return seen


def test_a_supernet_of_small_images_is_one_that_was_given_them_small(mini):
    settings = {"epochs": 1, "channels": 2, "cells": 1, "batch_size": 32, "seed": 0}
    small = [converted(split, channels=1, size=(8, 8)) for split in (mini.search_train, mini.search_valid)]
    one = train_supernet(toy_edges(), mini.search_train, image_size=8, **settings)
    other = train_supernet(toy_edges(), small[0], **settings)
    path = list(toy_edges())[-1]
    logits = Estimator(one, mini.search_valid).logits(path)
    assert torch.equal(logits, Estimator(other, small[1]).logits(path))
    assert not torch.equal(logits, Estimator(other, mini.search_valid).logits(path))
    assert type(small[0]) is type(mini.search_train)


def test_the_search_sees_images_small_and_whatever_is_trained_as_a_member_sees_them_large(tmp_path, sides):
    run = tiny(tmp_path / "small", changes=[*SMALL, *TRAINED])
    run.selection()
    run.ensemble()
    assert (sides[Supernet], sides[Member]) == ({8}, {28})
    # What the supernet learned and what the posterior was fitted to are those of a run on images of that size alone.
    alone = tiny(tmp_path / "alone", changes=["data.size=8"])
    alone.posterior()
    assert (run.folder / "posterior.json").read_bytes() == (alone.folder / "posterior.json").read_bytes()


@pytest.mark.parametrize(("name", "members"), [("gdas", set()), ("enas", set()), ("rsps", set()), ("nes-rs", {28})])
def test_rivals_search_on_small_images_and_train_candidates_on_large_ones(name, members, tmp_path, sides):
    run = tiny(tmp_path, changes=[*COMPARED[-5:], *SMALL])
    METHODS[name].choose(Harness(run))
    assert sides[Supernet] == (set() if members else {8})
    assert sides[Member] == members


def test_a_side_that_the_space_cannot_take_is_refused_before_anything_is_made(mini):
    recipe = load_recipe("toy", ["supernet.image_size=10"])
    with pytest.raises(NesbsError, match="10"):
        check_recipe(recipe, mini, darts())
    check_recipe(load_recipe("toy", ["supernet.image_size=12", "supernet.crop=12"]), mini, darts())
    with pytest.raises(NesbsError, match=r"supernet\.crop=13 shifts images of 12×12"):
        check_recipe(load_recipe("toy", ["supernet.image_size=12", "supernet.crop=13"]), mini, darts())


def test_the_recipe_for_photos_takes_the_sizes_it_names():
    for side in (96, 224):
        images = torch.zeros(20, 3, side, side, dtype=torch.uint8)
        split = make_split(images, torch.arange(20) % 2, ("cat", "dog"), source="photos", mean_std=MEAN_STD)
        check_recipe(load_recipe("photos", [f"data.size={side}"]), Dataset("photos", split, split), darts())


def test_the_recipe_for_photos_searches_trains_and_predicts(tmp_path, sides):
    run = Run.create(tmp_path / "run", load_recipe("photos", PHOTOS, threads=1))
    run.ensemble()
    assert (sides[Supernet], sides[Member]) == ({8}, {64})
    classifier = load(run.folder)
    assert classifier.predict_proba(run.data.test.images[:3]).shape == (3, 10)
