"""The whole Fashion-MNIST from small files in its own layout; fewer labels, and classes made rare."""

import gzip

import pytest
import torch
from data.layouts import write_fashion_mnist

from nesbs.data import download, load_dataset
from nesbs.errors import NesbsError
from nesbs.runs import load_recipe

IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"

CUT = gzip.compress(bytes([0, 0, 8, 1, 0, 0, 0, 20, *range(20)]), mtime=0)[:-12]  # the same bytes in every process


@pytest.mark.parametrize(("place", "packed"), [("", True), ("fashion-mnist", False), ("FashionMNIST/raw", True)])
def test_the_four_files_are_read_packed_or_not(tmp_path, place, packed):
    pixels = write_fashion_mnist(tmp_path / place, packed=packed)
    data = load_dataset("fashion-mnist", root=tmp_path)
    assert data.train.images.tolist() == pixels[:, None].tolist()
    assert (data.train.labels.tolist(), len(data.test)) == ([*range(10)] * 2, 10)
    assert (data.name, data.train.class_names[9]) == ("fashion-mnist", "ankle boot")
    assert data.train.mean.item() == pytest.approx(pixels.mean() / 255, abs=1e-6)
    assert torch.equal(data.test.mean, data.train.mean)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (IMAGES, None, "has no file train-images-idx3-ubyte or train-images-idx3-ubyte.gz: put the four files"),
        (IMAGES, b"", "is not what Fashion-MNIST has there .found the bytes ."),
        (IMAGES, bytes([0, 0, 8, 1, 0, 0, 0, 9]) + bytes(9), "is not what Fashion-MNIST has there .found the bytes 00"),
        (IMAGES, bytes([0, 0, 8, 3, *[0, 0, 0, 9] * 3]) + bytes(9**3), "is not what Fashion-MNIST has there"),
        (LABELS, bytes([0, 0, 8, 1, 255, 255, 255, 255, 1]), "holds 4,294,967,295 bytes and does not"),
        (LABELS, bytes([0, 0, 8, 1, 0, 0, 0, 2, 1]), "holds 2 bytes and does not: it is cut short"),
        (LABELS, bytes([0, 0, 8, 1, 0, 0, 0, 1, 1]), "training part: 20 images but 1 labels"),
        (LABELS, bytes([0, 0, 8, 1, 0, 0, 0, 20]) + bytes([10] * 20), "labels must lie between 0 and 9"),
        (f"{LABELS}.gz", b"no gzip file", "cannot be read .Not a gzipped file.*: copy it again"),
        (
            f"{LABELS}.gz",
            CUT,
            "cannot be read .*: copy it again",
        ),
    ],
)
def test_a_broken_copy_is_refused(tmp_path, name, content, message):
    write_fashion_mnist(tmp_path, packed=False)
    (tmp_path / name.removesuffix(".gz")).unlink()
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(NesbsError, match=message):
        load_dataset("fashion-mnist", root=tmp_path)


def test_it_is_not_fetched_and_needs_its_folder(tmp_path):
    with pytest.raises(NesbsError, match=r"fashion-mnist needs data\.root: the folder that holds its four files"):
        load_dataset("fashion-mnist")
    with pytest.raises(NesbsError, match="fashion-mnist is given out at github.com/zalandoresearch/fashion-mnist"):
        download("fashion-mnist", tmp_path)


def test_fewer_labels_are_drawn_by_the_split_seed():
    ten, same, other = (load_dataset(train_limit=600, split_seed=seed) for seed in (0, 0, 1))
    assert ten.train.labels.bincount().tolist() == [60] * 10
    assert torch.equal(ten.train.images, same.train.images)
    assert not torch.equal(ten.train.images, other.train.images)
    assert len(other.test) == 2000


def test_classes_made_rare_keep_a_share_of_their_training_images_alone():
    whole, rare = load_dataset(), load_dataset(rare_classes=("coat", "bag"), rare_fraction=0.05)
    assert rare.train.labels.bincount().tolist() == [600] * 4 + [30] + [600] * 3 + [30, 600]
    assert rare.test.labels.bincount().tolist() == [200] * 10
    bags = {image.numpy().tobytes() for image in whole.train.images[whole.train.labels == 8]}
    assert {image.numpy().tobytes() for image in rare.train.images[rare.train.labels == 8]} < bags
    other = load_dataset(rare_classes=("coat", "bag"), rare_fraction=0.05, split_seed=1)
    assert not torch.equal(rare.train.images, other.train.images)
    assert load_dataset(rare_classes=["bag"], train_limit=500).train.labels.bincount()[8] == 5  # in proportion
    with pytest.raises(NesbsError, match=r'rare_classes: .*quotes: \["yes"\]'):
        load_recipe("toy", ["data.rare_classes=[yes]"])
    assert load_recipe("toy", ["data.rare_classes=[0, 1]"]).data.rare_classes == ("0", "1")  # those of an .npz file
    with pytest.raises(NesbsError, match=r"data\.rare_classes: there is no class coats: did you mean coat"):
        load_dataset(rare_classes=["coats"])
