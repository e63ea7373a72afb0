"""Batches: every image once, augmentation that moves and mirrors and does nothing else."""

import torch

from nesbs.data import augment, batches, steps_per_epoch


def test_an_epoch_shows_images_once_in_batches_of_one_size(noise, random):
    split = noise.train
    seen = list(batches(split, 10, generator=random))
    assert len(seen) == steps_per_epoch(split, 10) == 6
    assert all(images.shape == (10, 1, 8, 8) and labels.shape == (10,) for images, labels in seen)
    rows = torch.cat([images for images, _ in seen]).flatten(1)
    assert len(rows.unique(dim=0)) == 60
    assert 0 <= float(rows.min()) <= float(rows.max()) <= 1


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
