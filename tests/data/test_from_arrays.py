"""Arrays in memory become a data set, or an error that says what was wrong; never nonsense."""

import numpy as np
import pytest
import torch

import nesbs

IMAGES = np.random.default_rng(0).integers(0, 256, (20, 12, 8), dtype=np.uint8)
COLOUR = np.random.default_rng(1).integers(0, 256, (20, 12, 8, 3), dtype=np.uint8)
LABELS = np.arange(20) % 3


@pytest.mark.parametrize(
    "images",
    [
        COLOUR,
        COLOUR.astype(np.int64),
        torch.from_numpy(COLOUR).permute(0, 3, 1, 2),
        torch.from_numpy(COLOUR).permute(0, 3, 1, 2).to(torch.int16),
    ],
)
@pytest.mark.parametrize("labels", [LABELS, LABELS.tolist(), torch.from_numpy(LABELS), LABELS.astype(np.uint8)])
def test_the_same_images_in_every_form(images, labels):
    data = nesbs.from_arrays(images, labels, images, labels, class_names=["a", "b", "c"])
    for split in (data.train, data.test):
        assert torch.equal(split.images, torch.from_numpy(COLOUR).permute(0, 3, 1, 2))
        assert split.labels.tolist() == LABELS.tolist()
        assert split.class_names == ("a", "b", "c")
    torch.testing.assert_close(data.train.mean.double(), torch.from_numpy(COLOUR / 255).mean((0, 1, 2)))


@pytest.mark.parametrize(
    "images", [IMAGES, IMAGES[..., None], torch.from_numpy(IMAGES), torch.from_numpy(IMAGES)[:, None]]
)
def test_grey_images_with_and_without_their_axis(images):
    data = nesbs.from_arrays(images, LABELS, images, LABELS, size=16)
    assert data.train.images.shape == (20, 1, 16, 16)
    assert data.train.class_names == ("0", "1", "2")


def test_a_test_part_is_held_out_and_the_images_are_copied():
    images = IMAGES.copy()
    data = nesbs.from_arrays(images, LABELS, valid_fraction=0.5, split_seed=3)
    assert (len(data.train), len(data.test)) == (17, 3)  # of 7, 7 and 6 images a fifth is one each
    images[:] = 0
    assert data.train.images.float().mean() > 50
    both = torch.cat([data.train.images, data.test.images])[:, 0]
    assert sorted(both.flatten(1).tolist()) == sorted(IMAGES.reshape(20, -1).tolist())
    assert abs(len(data.search_train) - len(data.search_valid)) <= 2


@pytest.mark.parametrize("kind", [list, np.array, lambda names: np.array(names, dtype=object)])
def test_labels_may_be_names(kind):
    names = ["猫", "dog", "ant"]
    labels = kind([names[label] for label in LABELS])
    assert nesbs.from_arrays(IMAGES, labels).train.class_names == ("ant", "dog", "猫")
    data = nesbs.from_arrays(IMAGES, labels, IMAGES, labels, class_names=names)
    assert data.test.class_names == tuple(names)
    assert data.test.labels.tolist() == LABELS.tolist()


def test_a_data_set_from_arrays_trains():
    data = nesbs.from_arrays(IMAGES, LABELS)
    space = nesbs.nasbench201()
    members = [space.sample(generator=torch.Generator().manual_seed(0))]
    ensemble = nesbs.train_ensemble(space, members, data.train, epochs=1, cells=1, channels=2)
    assert 0 <= nesbs.evaluate(ensemble, data.test).error <= 1


WRONG = {
    "floats from 0 to 1": ((IMAGES / 255, LABELS), "images must be whole numbers from 0 to 255, found float64 "),
    "floats to 255": ((IMAGES.astype(np.float32), LABELS), "found float32"),
    "half floats": ((torch.from_numpy(IMAGES).bfloat16(), LABELS), "found bfloat16"),
    "booleans": ((IMAGES > 9, LABELS), "found bool"),
    "too large": ((IMAGES.astype(int) * 2, LABELS), "from 0 to 255, found 0 to 510"),
    "negative": ((IMAGES.astype(int) - 1, LABELS), "from 0 to 255, found -1 to 254"),
    "channels first in an array": ((COLOUR.transpose(0, 3, 1, 2), LABELS), r"channels last|found \(20, 3, 12, 8\)"),
    "channels last in a tensor": ((torch.from_numpy(COLOUR), LABELS), r"channels, height, width\), .*found \(20, 12"),
    "one image": ((IMAGES[0], LABELS), r"found \(12, 8\)"),
    "a list": ((IMAGES.tolist(), LABELS), "images must be an array or a tensor, found a list"),
    "no images": ((IMAGES[:0], LABELS[:0]), "no images|two classes"),
    "20 images, 5 labels": ((IMAGES, LABELS[:5]), "20 images but 5 labels"),
    "a test part of other lengths": ((IMAGES, LABELS, IMAGES, LABELS[:5]), "20 images but 5 labels"),
    "a test part of another size": ((IMAGES, LABELS, IMAGES[:, :8], LABELS), "images are .*, the training images"),
    "a test part without labels": ((IMAGES, LABELS, IMAGES), "go together"),
    "labels as floats": ((IMAGES, LABELS / 1), "labels must be whole numbers or names, .*found float64"),
    "labels of truth": ((IMAGES, LABELS > 1), "found bool"),
    "labels on two axes": ((IMAGES, np.eye(20, dtype=int)), r"found int64 of shape \(20, 20\)"),
    "labels of lists": ((IMAGES, [[1], [1, 2]]), "labels must be"),
    "labels mixed": ((IMAGES, [1, "cat"] * 10), "labels must be"),
    "labels in words": ((IMAGES, "abc"), "labels must be .*found 'abc'"),
    "a gap in the labels": ((IMAGES, LABELS * 2), "no training image has label 1"),
    "negative labels": ((IMAGES, LABELS - 1), "labels must lie between 0 and 2"),
    "one class": ((IMAGES, LABELS * 0), "two classes or more are needed"),
    "names and numbers": ((IMAGES, list("abca") * 5, IMAGES, LABELS), "both names or both numbers, or give"),
    "an unknown test label": ((IMAGES, list("abc" * 6 + "ab"), IMAGES, ["d"] * 20), "a label is called 'd'"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_said(wrong):
    arguments, message = WRONG[wrong]
    with pytest.raises(nesbs.NesbsError, match=message):
        nesbs.from_arrays(*arguments)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a", "b"], "labels must lie between 0 and 1"),
        (["a", "a", "b"], "two classes are called a"),
        ("abc", "class_names must be a list of names"),
        (["a", "b", 3], "class_names must be a list of names, found 3"),
        (["a", "b", "\x1b"], "characters that can be printed"),
    ],
)
def test_wrong_class_names_are_refused(names, message):
    with pytest.raises(nesbs.NesbsError, match=message):
        nesbs.from_arrays(IMAGES, LABELS, class_names=names)


def test_floats_in_a_split_and_bytes_in_an_ensemble_are_refused(noise):
    with pytest.raises(nesbs.NesbsError, match=r"must be bytes, uint8 .*found float32 of shape \(2, 1, 8, 8\)"):
        nesbs.Split(torch.rand(2, 1, 8, 8), torch.arange(2), ("a", "b"), torch.zeros(1), torch.ones(1))
    space = nesbs.nasbench201()
    network = space.network(
        space.sample(generator=torch.Generator().manual_seed(0)), in_channels=1, channels=2, cells=1
    )
    with pytest.raises(nesbs.NesbsError, match="an ensemble takes floats from 0 to 1, found torch.uint8"):
        nesbs.Ensemble([network])(noise.test.images)


def test_weights_stay_with_their_images(tmp_path):
    weights = IMAGES.sum((1, 2)).astype(float)  # each image's own

    def own(data):
        return torch.equal(data.train.sample_weights, data.train.images.sum((1, 2, 3)).double())

    assert own(nesbs.from_arrays(IMAGES, LABELS, sample_weights=weights))
    assert own(nesbs.from_arrays(IMAGES, LABELS, IMAGES, LABELS, sample_weights=weights.tolist()))
    np.savez(tmp_path / "own.npz", x=IMAGES, y=LABELS, sample_weights=weights)
    assert own(nesbs.load_dataset(tmp_path / "own.npz"))
    resized = nesbs.from_arrays(IMAGES, LABELS, sample_weights=weights, size=16)
    assert torch.equal(resized.search_train.sample_weights, resized.train.sample_weights[resized.search_train.index])
    for wrong, message in (([1.0], r"for each training image \(20\), found"), (["a"] * 20, "numbers, found <U1")):
        with pytest.raises(nesbs.NesbsError, match=f"sample_weights must be .*{message}"):
            nesbs.from_arrays(IMAGES, LABELS, sample_weights=wrong)


def test_balanced_classes_and_no_test_part():
    labels = [0] * 16 + [1] * 4
    data = nesbs.from_arrays(IMAGES, labels, class_weights="balanced", test_fraction=0)
    assert (len(data.train), len(data.test)) == (20, 0)
    expected = torch.tensor([20 / 32, 20 / 8], dtype=torch.float64)[data.train.labels]
    torch.testing.assert_close(data.train.sample_weights, expected)
    for wrong in (1, -0.1, "half"):
        with pytest.raises(nesbs.NesbsError, match="test_fraction must be a number from 0 to below 1, found"):
            nesbs.from_arrays(IMAGES, labels, test_fraction=wrong)
