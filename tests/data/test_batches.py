"""Batches: every image once, augmentation that moves and mirrors and does nothing else."""

import colorsys
from dataclasses import replace
from importlib import import_module

import pytest
import torch

from nesbs.data import augment, batches, cut_out, steps_per_epoch
from nesbs.data.batches import Share, jitter_colours, lightness, turn_hue
from nesbs.data.sample_weights import shown
from nesbs.errors import NesbsError


def test_an_epoch_shows_images_once_in_batches_of_one_size(noise, random):
    split = noise.train
    seen = list(batches(split, 10, generator=random))
    assert len(seen) == steps_per_epoch(split, 10) == 6
    assert all(images.shape == (10, 1, 8, 8) and labels.shape == (10,) for images, labels in seen)
    rows = torch.cat([images for images, _ in seen]).flatten(1)
    assert len(rows.unique(dim=0)) == 60
    assert 0 <= float(rows.min()) <= float(rows.max()) <= 1


def test_weights_say_how_often_an_image_is_shown(noise, random):
    weights = torch.rand(64, generator=random, dtype=torch.float64)
    weights[::7] = 0
    wanted = 64 * weights / weights.sum()
    epochs = [shown(torch.randperm(64), weights, generator=random) for _ in range(400)]
    counts = torch.stack([epoch.bincount(minlength=64) for epoch in epochs])
    assert ((counts >= wanted.floor()) & (counts <= wanted.ceil())).all()
    assert counts[:, ::7].sum() == 0
    assert (counts.double().mean(0) - wanted).abs().max() < 4 * 0.5 / 400**0.5  # four standard errors of a coin
    weighted = replace(noise.train, sample_weights=(noise.train.labels == 1).double())
    for part in (weighted, weighted.subset(torch.arange(50))):
        [(images, labels)] = batches(part, 1000, generator=random)
        assert len(images) == len(part)
        assert labels.unique().tolist() == [1]
    even = replace(noise.train, sample_weights=torch.full((64,), 0.3))
    [(images, _)] = batches(even, 64, generator=random)
    assert sorted(images.flatten(1).sum(1).tolist()) == sorted(noise.train.pixels().flatten(1).sum(1).tolist())


def test_a_balanced_split_shows_every_class_as_often(noise, random):
    rare = noise.train.subset(torch.cat([torch.arange(0, 48, 3), torch.tensor([1, 4]), torch.arange(2, 20, 3)]))
    [(_, labels)] = batches(rare.balanced(), 24, generator=random)
    assert labels.bincount().tolist() == [8, 8, 8]
    nothing = replace(noise.train, sample_weights=torch.zeros(64))
    with pytest.raises(NesbsError, match="sample_weights are 0 for all images to train on"):
        next(batches(nothing, 24, generator=random))
    for wrong, message in (
        (torch.ones(3), r"for each training image \(64\), found shape \(3,\)"),
        (torch.full((64,), -1.0), "0 or more, for each training image, found -1.0 to -1.0"),
        (torch.full((64,), torch.nan), "for each training image, found nan"),
    ):
        with pytest.raises(NesbsError, match=message):
            replace(noise.train, sample_weights=wrong)


def test_a_small_split_is_one_batch(noise, random):
    [(images, _)] = batches(noise.train, 1000, generator=random)
    assert len(images) == 64


def test_labels_stay_with_their_images(noise, random):
    split = noise.train
    for images, labels in batches(split, 16, generator=random):
        for image, label in zip(images, labels, strict=True):
            match = (split.pixels() - image).abs().amax((1, 2, 3)).argmin()
            assert split.labels[match] == label


def test_augmentation_is_a_shift_and_a_mirror(random):
    images = torch.rand(200, 2, 6, 6, generator=random)
    out = augment(images, crop=2, flip=True, generator=random)
    padded = torch.nn.functional.pad(images, (2, 2, 2, 2))
    shifts, mirrored = set(), 0
    for before, after in zip(padded, out, strict=True):
        found = [
            (top, left, flip)
            for flip in (False, True)
            for top in range(5)
            for left in range(5)
            if torch.equal(_window(before, top, left, flip), after)
        ]
        assert len(found) >= 1
        shifts.add(found[0][:2])
        mirrored += found[0][2]
    assert len(shifts) == 25
    assert 60 < mirrored < 140


def _window(image, top, left, flip):
    window = image[:, top : top + 6, left : left + 6]
    return window.flip(-1) if flip else window


def test_without_crop_and_flip_nothing_changes(random):
    images = torch.rand(3, 1, 4, 4, generator=random)
    assert torch.equal(augment(images, crop=0, flip=False, generator=random), images)


def test_cutout_covers_one_square_of_mean_colour_anywhere(random):
    images = torch.full((400, 2, 6, 6), 0.5)
    fill = torch.tensor([0.1, 0.2])
    covered = cut_out(images, 4, fill=fill, generator=random) != images
    assert torch.equal(covered[:, 0], covered[:, 1])
    rows, columns = covered[:, 0].any(2), covered[:, 0].any(1)
    assert torch.equal(covered[:, 0], rows[:, :, None] & columns[:, None, :])  # a square, whole
    # A square of 4 with its centre at 0 … 5 covers 2, 3, 4, 4, 4, 3 of 6 rows.
    assert set(rows.sum(1).tolist()) == set(columns.sum(1).tolist()) == {2, 3, 4}
    assert 1160 < int(rows.sum()) < 1500  # 400 × 20/6 = 1333
    assert torch.equal(cut_out(images, 4, fill=fill, generator=random)[:, 1].unique(), torch.tensor([0.2, 0.5]))


def test_batches_cut_out_with_the_data_sets_mean(noise, random):
    [(images, _)] = batches(noise.train, 64, generator=random, cutout=20)
    assert torch.equal(images, noise.train.mean.expand_as(images))


def test_a_part_of_a_split_is_a_view(noise):
    train = noise.train
    part = train.subset(torch.tensor([5, 2, 9, 5]))
    assert part.stored is train.stored
    assert torch.equal(part.images, train.stored[[5, 2, 9, 5]])
    assert part.labels.tolist() == train.labels[[5, 2, 9, 5]].tolist()
    assert torch.equal(part.pixels(slice(1, 3)), train.pixels(torch.tensor([2, 9])))
    again = part.subset(torch.tensor([2, 0]))  # a view of a view
    assert torch.equal(again.images, train.stored[[9, 5]])
    assert noise.search_train.stored is noise.search_valid.stored is train.stored
    own = again.compact()
    assert own.index is None
    assert torch.equal(own.stored, again.images)


def test_moving_a_part_moves_all_of_it(noise):
    moved = noise.search_train.to("meta")
    assert {getattr(moved, name).device.type for name in ("stored", "labels", "mean", "std", "index")} == {"meta"}
    assert len(moved) == len(noise.search_train)


def jittered(images, *strengths):
    return jitter_colours(images, strengths, generator=torch.Generator().manual_seed(0))


def test_each_strength_changes_its_own_measure_of_each_image_within_its_bounds(random):
    images = 0.3 + 0.1 * torch.rand(300, 3, 4, 4, generator=random)  # so that nothing is cut off
    torch.testing.assert_close(jittered(images, 0.0, 0.0, 0.0, 0.0), images)
    grey = lightness(images)
    spread = images - grey.mean((2, 3), keepdim=True)
    for place, before, after in (
        (0, images, jittered(images, 0.4, 0.0, 0.0, 0.0)),
        (1, spread, jittered(images, 0.0, 0.4, 0.0, 0.0) - grey.mean((2, 3), keepdim=True)),
        (2, images - grey, jittered(images, 0.0, 0.0, 0.4, 0.0) - grey),
    ):
        # One factor an image, the same for all its pixels, anywhere from 0.6 to 1.4.
        factors = (after * before).sum((1, 2, 3)) / before.square().sum((1, 2, 3))
        torch.testing.assert_close(after, before * factors.view(-1, 1, 1, 1), rtol=0, atol=1e-5)
        assert 0.6 <= float(factors.min()) < 0.62, place
        assert 1.38 < float(factors.max()) <= 1.4001, place


def test_the_hue_is_turned_as_colorsys_turns_it(random):
    pixels = torch.rand(200, 3, generator=random)
    pixels[:20] = pixels[:20, :1]  # greys
    pixels[20:40, 1] = pixels[20:40, 0]  # two that are equal
    turns = torch.rand(200, generator=random) - 0.5
    found = turn_hue(pixels.view(200, 3, 1, 1), turns.view(200, 1, 1, 1)).view(200, 3)
    for pixel, turn, after in zip(pixels.tolist(), turns.tolist(), found.tolist(), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*pixel)
        assert after == pytest.approx(colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value), abs=1e-5)


def test_the_hue_turns_by_up_to_its_strength_both_ways():
    red = torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1).expand(300, 3, 1, 1)
    hues = [colorsys.rgb_to_hsv(*pixel)[0] for pixel in jittered(red, 0.0, 0.0, 0.0, 0.2).view(300, 3).tolist()]
    turns = [hue - 1 if hue > 0.5 else hue for hue in hues]
    assert -0.2 <= min(turns) < -0.19
    assert 0.19 < max(turns) <= 0.2001


def test_jittered_images_stay_in_range_and_grey_ones_have_no_colour(random):
    images = torch.rand(50, 3, 4, 4, generator=random)
    out = jittered(images, 0.4, 0.4, 0.4, 0.2)
    assert 0 <= float(out.min()) <= float(out.max()) <= 1
    grey = torch.rand(50, 1, 4, 4, generator=random)
    assert torch.equal(jittered(grey, 0.4, 0.4, 0.4, 0.2), jittered(grey, 0.4, 0.4, 0.0, 0.0))


def test_batches_are_jittered_where_it_is_asked_for_and_others_are_as_they_were(noise):
    def drawn(**more):
        return next(iter(batches(noise.train, 64, generator=torch.Generator().manual_seed(0), crop=2, **more)))[0]

    plain, changed = drawn(), drawn(colour_jitter=(0.4, 0.4, 0.4, 0.2))
    assert torch.equal(drawn(colour_jitter=(0.0, 0.0, 0.0, 0.0)), plain)
    assert not torch.equal(changed, plain)
    # The same images at the same places: pixels that were lighter than others of their image still are.
    alike = [torch.corrcoef(torch.stack(pair))[0, 1] for pair in zip(plain.flatten(1), changed.flatten(1), strict=True)]
    assert min(alike) > 0.9


@pytest.mark.parametrize("ahead", [1, 3])  # batches made at once, as on a GPU
def test_the_shares_of_several_processes_make_up_the_batches_of_one(ahead, noise, monkeypatch):
    monkeypatch.setattr(import_module("nesbs.data.batches"), "_ahead", lambda split, size: ahead)
    changes = {"crop": 2, "flip": True, "colour_jitter": (0.4, 0.4, 0.4, 0.2), "cutout": 3}
    colour = replace(noise.train, stored=noise.train.stored.repeat(1, 3, 1, 1), mean=torch.rand(3), std=torch.ones(3))
    weighted = replace(colour, sample_weights=torch.rand(64))

    def epoch(share):
        return batches(weighted, 12, generator=torch.Generator().manual_seed(0), share=share, **changes)

    shares = [epoch(Share(number, 3, batch_size=12)) for number in range(3)]
    for (images, labels), *parts in zip(epoch(Share()), *shares, strict=True):
        assert torch.equal(torch.cat([part for part, _ in parts]), images)
        assert torch.equal(torch.cat([part for _, part in parts]), labels)
