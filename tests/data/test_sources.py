"""What comes in: named sets, .npz files, folders; and what is refused."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from data.layouts import write_folder
from PIL import Image

from nesbs.data import describe, load_dataset, stratified
from nesbs.data.image_files import walk_images
from nesbs.data.images import View
from nesbs.errors import NesbsError


def write_npz(path, **changes):
    g = np.random.default_rng(0)
    arrays = {
        "x_train": g.integers(0, 256, (30, 8, 8, 3), dtype=np.uint8),
        "y_train": np.arange(30) % 3,
        "x_test": g.integers(0, 256, (9, 8, 8, 3), dtype=np.uint8),
        "y_test": np.arange(9) % 3,
    }
    arrays.update(changes)
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return path


def test_fashion_mini_is_whole_and_balanced():
    data = load_dataset()
    assert data.train.images.shape == (6000, 1, 28, 28)
    assert data.train.labels.bincount().tolist() == [600] * 10
    assert data.test.labels.bincount().tolist() == [200] * 10
    assert data.train.class_names[9] == "ankle boot"
    pixels = data.train.pixels().double()
    assert data.train.mean.item() == pytest.approx(pixels.mean().item(), abs=1e-6)
    assert data.train.std.item() == pytest.approx(pixels.std(unbiased=False).item(), abs=1e-6)
    assert torch.equal(data.test.mean, data.train.mean)


def test_the_search_split_is_70_30_disjoint_and_fixed():
    one, two, other = load_dataset(), load_dataset(), load_dataset(split_seed=1)
    assert len(one.search_train) == 4200
    assert torch.equal(one.search_valid.images, two.search_valid.images)
    assert not torch.equal(one.search_valid.images, other.search_valid.images)
    train, valid = one._search_split
    assert sorted([*train.tolist(), *valid.tolist()]) == list(range(6000))


def test_images_for_calibration_are_set_aside_before_everything_else():
    whole, data = load_dataset(), load_dataset(calibration_fraction=0.2, class_weights="balanced")
    parts = (data.search_train, data.search_valid, data.calibration)
    seen = [{image.numpy().tobytes() for image in part.images} for part in parts]
    assert [len(part) for part in seen] == [len(part) for part in parts] == [3360, 1440, 1200]
    assert set.union(*seen) == {image.numpy().tobytes() for image in whole.train.images}
    assert len(set.union(*seen)) == 6000  # so no two parts share one
    assert data.calibration.labels.bincount().tolist() == [120] * 10
    assert whole.calibration is None
    assert load_dataset(calibration_fraction=0.2, size=12).calibration.size == (12, 12)
    assert "1200 further training images set aside for calibration" in describe(data)


def test_stratified_leaves_something_on_either_side():
    rest, held_out = stratified(torch.tensor([0, 0, 1, 1, 1]), 0.01, seed=0)
    assert len(held_out) == 2
    assert len(rest) == 3
    rest, _ = stratified(torch.tensor([0, 1, 1, 1, 1]), 0.9, seed=0)
    assert 0 in rest  # the only image of its class


def test_the_only_image_of_a_class_stays_where_parts_are_taken(tmp_path):
    labels = np.array([0] + [1] * 10 + [2] * 10)
    images = np.arange(21, dtype=np.uint8)[:, None, None] + np.zeros((21, 8, 8), np.uint8)
    path = tmp_path / "one.npz"
    np.savez(path, x_train=images, y_train=labels, x_test=images, y_test=labels, classes=np.array([b"a", b"b", b"c"]))
    for settings in ({"train_limit": 10}, {"calibration_fraction": 0.6}, {"rare_classes": ("a", "b")}):
        train = load_dataset(path, **settings).train
        assert train.labels.bincount()[0] == 1, settings
    assert train.class_names == ("a", "b", "c")


def test_limits_keep_the_classes_in_proportion():
    data = load_dataset(train_limit=100, test_limit=50)
    assert data.train.labels.bincount().tolist() == [10] * 10
    assert data.test.labels.bincount().tolist() == [5] * 10


def test_an_npz_file(tmp_path):
    data = load_dataset(write_npz(tmp_path / "a.npz", classes=np.array(["x", "y", "z"])))
    assert data.train.images.shape == (30, 3, 8, 8)
    assert data.train.class_names == ("x", "y", "z")
    stored = np.load(tmp_path / "a.npz")["x_train"]
    assert data.train.images[4, 2, 1, 3] == stored[4, 1, 3, 2]


def test_an_npz_file_without_a_test_part_is_split(tmp_path):
    arrays = dict.fromkeys(("x_train", "y_train", "x_test", "y_test"))
    x = np.zeros((50, 8, 8), dtype=np.uint8)
    data = load_dataset(write_npz(tmp_path / "a.npz", **arrays, x=x, y=np.arange(50) % 2))
    assert (len(data.train), len(data.test)) == (40, 10)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y_train": np.arange(30) % 3 - 1}, "labels must lie between 0 and 2 .3 classes., found -1"),
        ({"y_test": np.arange(9)}, "test part: labels must lie between 0 and 2 .3 classes., found 8"),
        ({"classes": np.array(["x", "y"])}, "labels must lie between 0 and 1 .2 classes., found 2"),
        ({"y_train": np.arange(29) % 3}, "30 images but 29 labels"),
        ({"y_train": np.linspace(0, 1, 30)}, "labels must be whole numbers on one axis, found float64"),
        ({"x_train": np.zeros((30, 8, 8, 3))}, "images must be uint8 .0 to 255., found float64"),
        ({"x_train": np.zeros((30, 8, 8, 5), np.uint8)}, "channels last"),
        ({"x_test": np.zeros((9, 4, 4, 3), np.uint8)}, "images are .3, 4, 4., the training images .3, 8, 8."),
        ({"y_train": np.arange(30) % 3 + 1}, "no training image has label 0: number the classes from 0"),
        ({"y_train": np.r_[np.zeros(29, int), 10**9]}, "no training image has label 1"),
        ({"x_test": None}, "needs the arrays x_train, y_train, x_test, y_test"),
        ({"x_train": np.zeros((0, 8, 8), np.uint8), "y_train": np.zeros(0, int)}, "no images"),
        ({"x_train": np.array([{}] * 30)}, "no .npz file of numbers .it holds Python objects"),
    ],
)
def test_a_wrong_npz_file_is_refused(tmp_path, changes, message):
    with pytest.raises(NesbsError, match=message):
        load_dataset(write_npz(tmp_path / "a.npz", **changes))


def test_other_broken_arrays_are_refused(tmp_path):
    none = dict.fromkeys(("x_train", "y_train", "x_test", "y_test"))
    x = np.zeros((5, 8, 8), np.uint8)
    with pytest.raises(NesbsError, match="5 images but 4 labels"):
        load_dataset(write_npz(tmp_path / "a.npz", **none, x=x, y=np.arange(4) % 2))
    np.save(tmp_path / "b.npy", x)
    with pytest.raises(NesbsError, match=r"needs the arrays x_train, .*, found b\.npy"):
        load_dataset(tmp_path / "b.npy")


def test_too_few_images_to_search_with_are_refused(tmp_path):
    arrays = {"x_train": np.zeros((2, 8, 8), np.uint8), "y_train": np.arange(2)}
    arrays |= {"x_test": np.zeros((2, 8, 8), np.uint8), "y_test": np.arange(2)}
    data = load_dataset(write_npz(tmp_path / "a.npz", **arrays))
    with pytest.raises(NesbsError, match="2 training images leave 2 for the supernet and 0 held out"):
        _ = data.search_valid


def test_a_truncated_or_missing_file_is_refused(tmp_path):
    path = write_npz(tmp_path / "a.npz")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(NesbsError, match=r"a\.npz is not a whole \.npz file"):
        load_dataset(path)
    with pytest.raises(NesbsError, match=r"there is no file .*b\.npz"):
        load_dataset(tmp_path / "b.npz")
    with pytest.raises(NesbsError, match="no data set, folder, .npz or .csv file fashion-mni: did you mean fashion-m"):
        load_dataset("fashion-mni")
    with pytest.raises(
        NesbsError, match=r"/cifar \(if it was moved, put a link to it there; .*--root\): did you mean cifar10"
    ):
        load_dataset(tmp_path / "cifar")
    (tmp_path / "labels.tsv").write_text("path\tlabel\n")
    with pytest.raises(NesbsError, match=r"no data set, folder, .npz or .csv file .*labels.tsv: choose"):
        load_dataset(tmp_path / "labels.tsv")


@pytest.mark.parametrize(("size", "expected"), [((10, 10), 12), ((9, 9), 8), ((30, 40), 32), ((200, 150), 64)])
def test_a_folder_goes_to_the_nearest_multiple_of_4(tmp_path, size, expected):
    data = load_dataset(write_folder(tmp_path, size=size))
    assert data.train.size == (expected, expected)
    assert (len(data.train), len(data.test)) == (16, 4)
    assert data.train.class_names == ("ant", "bee")


def test_a_folder_of_grey_images_stays_grey(tmp_path):
    assert load_dataset(write_folder(tmp_path, mode="L")).train.channels == 1


def test_a_folder_with_its_own_test_part(tmp_path):
    write_folder(tmp_path / "train", count=4)
    write_folder(tmp_path / "test", classes=("bee",), count=3)
    data = load_dataset(tmp_path)
    assert len(data.train) == 8
    assert data.test.labels.tolist() == [1, 1, 1]
    write_folder(tmp_path / "test", classes=("cat",), count=1)
    with pytest.raises(NesbsError, match="class cat is in .*test for testing alone"):
        load_dataset(tmp_path)


def test_validation_folders_and_other_cases_count_as_the_test_part(tmp_path):
    write_folder(tmp_path / "Train", count=4)
    write_folder(tmp_path / "Val", count=2)
    data = load_dataset(tmp_path)
    assert data.train.class_names == ("ant", "bee")
    assert (len(data.train), len(data.test)) == (8, 4)


def test_sixteen_bit_and_turned_images_are_read_as_meant(tmp_path):
    ramp = np.linspace(0, 65535, 64).reshape(8, 8).astype(np.uint16)
    for name in ("ant", "bee"):
        (tmp_path / name).mkdir()
        for i in range(3):
            Image.fromarray(ramp).save(tmp_path / name / f"{i}.png")
        (tmp_path / name / "._0.png").write_text("left by another system")
    (tmp_path / "__MACOSX").mkdir()
    pixels = load_dataset(tmp_path).train.images[0, 0]
    assert pixels.flatten().tolist() == pytest.approx((ramp.flatten() / 257).tolist(), abs=1)


def test_floats_from_0_to_1_are_refused(tmp_path):
    """As bytes they would be black."""
    grey = np.linspace(0, 1, 64, dtype=np.float32).reshape(8, 8)
    Image.fromarray(grey).save(tmp_path / "fractions.tif")
    with pytest.raises(NesbsError, match=r"fractions.tif cannot be read .* floats from 0 to 1: save it with bytes"):
        View("L", 8).read(str(tmp_path / "fractions.tif"))
    Image.fromarray(grey * 255).save(tmp_path / "bytes.tif")
    assert View("L", 8).read(str(tmp_path / "bytes.tif")).max() == 255


@pytest.mark.parametrize("largest", [200, 4095])
def test_a_file_of_sixteen_bits_that_uses_few_of_them_is_refused(tmp_path, largest):
    """What it means cannot be told from it alone, and other files of the same kind would be read otherwise."""
    file = str(tmp_path / "faint.png")
    Image.fromarray(np.linspace(0, largest, 64).reshape(8, 8).astype(np.uint16)).save(file)
    with pytest.raises(NesbsError, match=rf"faint.png .* go up to {largest} of 65535: save it with bytes"):
        View("L", 8).read(file)
    Image.fromarray(np.zeros((8, 8), np.uint16)).save(file)
    assert View("L", 8).read(file).max() == 0


@pytest.mark.parametrize(("values", "said"), [((0, 1e6), "0 and 1e"), ((-5000, 5000), "-5000 and 5000")])
def test_a_file_of_more_than_sixteen_bits_is_refused(tmp_path, values, said):
    file = str(tmp_path / "wide.tif")
    Image.fromarray(np.linspace(*values, 64, dtype=np.float32).reshape(8, 8)).save(file)
    with pytest.raises(NesbsError, match=rf"wide.tif .*its pixels lie between {said}"):
        View("L", 8).read(file)


def test_of_a_palette_with_transparent_entries_the_colours_count(tmp_path):
    colours = Image.fromarray(np.random.default_rng(0).integers(0, 256, (8, 8, 3), dtype=np.uint8)).convert("P")
    colours.save(tmp_path / "opaque.png")
    colours.save(tmp_path / "transparent.png", transparency=bytes(range(256)))
    for mode in ("L", "RGB"):
        opaque, transparent = (View(mode, 8).read(str(tmp_path / f"{n}.png")) for n in ("opaque", "transparent"))
        assert (opaque == transparent).all()


def test_links_to_folders_are_followed(tmp_path):
    """In a class as well as to a class, by predicting too; one that leads back is left aside."""
    kept, folder = write_folder(tmp_path / "kept", count=4), tmp_path / "folder"
    folder.mkdir()
    for name in ("ant", "bee"):
        (folder / name).symlink_to(kept / name)
    (kept / "ant" / "more").symlink_to(kept / "bee")
    (kept / "bee" / "back").symlink_to(kept)
    names = [Path(file).relative_to(folder).parts[:2] for file in walk_images(folder, print)]
    assert [name for name in names if name == ("ant", "more")] == [("ant", "more")] * 4
    data = load_dataset(folder)
    assert len(data.train) + len(data.test) == len(names)


def test_training_images_that_are_test_images_are_counted(tmp_path):
    for place, part in enumerate(("train", "test")):
        for name in ("ant", "bee"):
            (tmp_path / part / name).mkdir(parents=True)
            for number in range(4):
                noise = np.random.default_rng([place, len(name) + number, name == "bee"]).integers(0, 256, (8, 8))
                Image.fromarray(noise.astype(np.uint8)).save(tmp_path / part / name / f"{number}.png")
    assert "test image" not in describe(load_dataset(tmp_path)).partition("\n")[2]
    first, second = (tmp_path / "train/ant" / f"{number}.png" for number in (0, 1))
    shutil.copy(first, tmp_path / "test/ant/again.png")
    assert "1 training image is a test image, too: remove" in describe(load_dataset(tmp_path))
    shutil.copy(second, tmp_path / "test/bee/3.png")
    assert "2 training images are test images, too: remove" in describe(load_dataset(tmp_path))


def test_a_size_can_be_asked_for(tmp_path):
    assert load_dataset(write_folder(tmp_path), size=16).train.size == (16, 16)
    assert load_dataset(size=32).train.images.shape == (6000, 1, 32, 32)


def test_a_folder_without_readable_images_is_refused(tmp_path):
    with pytest.raises(NesbsError, match="for each class .2 or more., found no image"):
        load_dataset(tmp_path)
    write_folder(tmp_path, classes=("ant",))
    with pytest.raises(NesbsError, match="found images in ant alone"):
        load_dataset(tmp_path)
    for name in ("ant", "bee"):
        (tmp_path / name).mkdir(exist_ok=True)
        for i in range(10):
            (tmp_path / name / f"{i}.png").write_text("not an image")
    with pytest.raises(NesbsError, match="cannot be read as an image"):
        load_dataset(tmp_path)


def test_one_image_a_class_cannot_be_split(tmp_path):
    with pytest.raises(NesbsError, match="too few images to hold some out"):
        load_dataset(write_folder(tmp_path, count=1))
