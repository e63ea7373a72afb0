"""Folders of images: broken ones, shapes, and ImageNet's own layout."""

import contextlib
import shutil

import numpy as np
import pytest
import torch
from data.layouts import write_folder
from PIL import Image

from nesbs.data import load_dataset
from nesbs.data.images import View, random_box
from nesbs.errors import NesbsError


def truncate(path):
    """Leave an image's header and cut its content."""
    blob = path.read_bytes()
    path.write_bytes(blob[: len(blob) * 2 // 3])


def test_broken_images_are_listed_and_left_out(tmp_path):
    write_folder(tmp_path, count=10, size=(40, 40))
    (tmp_path / "ant" / "3.png").write_text("not an image")
    truncate(tmp_path / "bee" / "7.png")
    data = load_dataset(tmp_path)
    assert len(data.train) + len(data.test) == 18
    first, second = data.broken
    assert "3.png cannot be read as an image (cannot identify its format" in first
    assert "7.png cannot be read as an image" in second
    assert "truncated" in second
    # The rest is what it would be if they had never been there.
    (tmp_path / "ant" / "3.png").unlink()
    assert len(load_dataset(tmp_path).broken) == 1


def test_what_is_left_keeps_its_labels(tmp_path):
    for name, value in (("ant", 10), ("bee", 200)):
        for part, count in (("train", 6), ("test", 3)):
            (tmp_path / part / name).mkdir(parents=True)
            for i in range(count):
                Image.fromarray(np.full((8, 8), value, np.uint8)).save(tmp_path / part / name / f"{i}.png")
    (tmp_path / "train" / "ant" / "0.png").write_bytes(b"")
    (tmp_path / "train" / "bee" / "2.png").write_bytes(b"")
    truncate(tmp_path / "train" / "ant" / "5.png")
    truncate(tmp_path / "test" / "ant" / "2.png")
    data = load_dataset(tmp_path)
    assert len(data.broken) == 4
    assert data.train.labels.tolist() == [0] * 4 + [1] * 5
    assert data.test.labels.tolist() == [0] * 2 + [1] * 3
    for split in (data.train, data.test):
        assert torch.equal(split.images[:, 0, 0, 0], torch.tensor([10, 200], dtype=torch.uint8)[split.labels])


def test_more_broken_images_than_the_limit_are_an_error(tmp_path):
    write_folder(tmp_path, count=12, size=(40, 40))
    for i in range(4):
        (tmp_path / "ant" / f"{i}.png").write_text("not an image")
        truncate(tmp_path / "bee" / f"{i}.png")
    with pytest.raises(NesbsError, match="4 images cannot be read, more than data.broken_limit=3: .*0.png cannot be"):
        load_dataset(tmp_path, broken_limit=3)
    with pytest.raises(NesbsError, match="raise data.broken_limit"):
        load_dataset(tmp_path, broken_limit=7)
    assert len(load_dataset(tmp_path, broken_limit=8).broken) == 8


def test_a_class_without_a_readable_image_is_an_error(tmp_path):
    write_folder(tmp_path, count=4, size=(40, 40))
    for i in range(4):
        truncate(tmp_path / "bee" / f"{i}.png")
    with pytest.raises(NesbsError, match="no image of class bee can be read: .*truncated"):
        load_dataset(tmp_path)
    for i in range(4):
        (tmp_path / "bee" / f"{i}.png").write_text("not an image")
    with pytest.raises(NesbsError, match="no image of class bee can be read: .*cannot identify"):
        load_dataset(tmp_path)


def test_photos_in_a_format_that_cannot_be_read_are_named_not_passed_over(tmp_path):
    write_folder(tmp_path, count=6, size=(12, 12))
    (tmp_path / "ant" / "photo.HEIC").write_bytes(b"\0\0\0\x18ftypheic" + bytes(200))
    data = load_dataset(tmp_path)
    assert len(data.train) + len(data.test) == 12
    [reason] = data.broken
    assert "photo.HEIC cannot be read as an image" in reason
    assert "saved as .png or .jpg" in reason
    (tmp_path / "cat").mkdir()
    (tmp_path / "ant" / "photo.HEIC").rename(tmp_path / "cat" / "photo.heic")
    with pytest.raises(NesbsError, match="no image of class cat can be read: .*photo.heic"):
        load_dataset(tmp_path)


def test_a_class_may_be_called_as_programs_call_their_own_names(tmp_path):
    write_folder(tmp_path)
    shutil.copytree(next(tmp_path.rglob("*.png")).parent, tmp_path / "__none__")
    assert "__none__" in load_dataset(tmp_path).train.class_names


def test_folders_that_programs_make_for_themselves_are_passed_over(tmp_path):
    write_folder(tmp_path)
    before = load_dataset(tmp_path)
    one = next(tmp_path.rglob("*.png"))
    for name in (".ipynb_checkpoints", "@eaDir", "__MACOSX"):
        for place in (one.parent / name, tmp_path / name):
            place.mkdir()
            shutil.copy(one, place)
    after = load_dataset(tmp_path)
    assert (len(after.train), len(after.test)) == (len(before.train), len(before.test))
    assert after.train.class_names == before.train.class_names


def test_sub_folders_without_an_image_are_named(tmp_path):
    write_folder(tmp_path, count=6, size=(12, 12))
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "photo").write_bytes((tmp_path / "ant" / "0.png").read_bytes())
    with pytest.warns(UserWarning, match=r"sub-folders are left out, no file name there ends .*: 'cat, dog'"):
        assert load_dataset(tmp_path).train.class_names == ("ant", "bee")


def test_a_class_called_train_is_to_be_renamed(tmp_path):
    write_folder(tmp_path, classes=("bus", "train"))
    with pytest.raises(NesbsError, match="10 images and no sub-folder: `train` holds the training part; rename it"):
        load_dataset(tmp_path)


@pytest.mark.parametrize(
    ("folders", "sizes", "warning"),
    [
        (("training", "testing"), (20, 4), None),
        (("Train", "val"), (20, 4), None),
        (("train", "test", "val"), (20, 4), "train/ and test/ are used, not 'val'$"),
        (("train", "dev"), (16, 4), "train/ alone is used, not 'dev'$"),
    ],
)
def test_parts_are_found_by_their_names_and_others_are_named(tmp_path, folders, sizes, warning):
    write_folder(tmp_path / folders[0], count=10)
    write_folder(tmp_path / folders[1], count=2)
    for other in folders[2:]:
        write_folder(tmp_path / other, count=3)
    (tmp_path / "notes").mkdir()  # without images: nothing to say of it
    with contextlib.nullcontext() if warning is None else pytest.warns(UserWarning, match=warning):
        data = load_dataset(tmp_path)
    assert (len(data.train), len(data.test)) == sizes
    assert data.train.class_names == ("ant", "bee")


def test_a_class_may_be_called_training(tmp_path):
    write_folder(tmp_path, classes=("resting", "training"))
    assert load_dataset(tmp_path).train.class_names == ("resting", "training")


def test_a_training_folder_without_a_test_part_is_split(tmp_path):
    write_folder(tmp_path / "train", count=10)
    data = load_dataset(tmp_path)
    assert data.train.class_names == ("ant", "bee")
    assert (len(data.train), len(data.test)) == (16, 4)


@pytest.mark.parametrize(
    ("resize", "columns"),
    [
        ("crop", [50, 50, 200, 200]),  # the middle half of 0 50 200 250
        ("stretch", [0, 50, 200, 250]),
    ],
)
def test_how_an_image_becomes_square(tmp_path, resize, columns):
    wide = np.repeat(np.array([0, 50, 200, 250], np.uint8), 16)[None].repeat(32, 0)  # 64 × 32
    Image.fromarray(wide).save(tmp_path / "wide.png")
    pixels = View("L", 32, resize).read(str(tmp_path / "wide.png"))
    assert pixels.shape == (1, 32, 32)
    middle_of_quarters = pixels[0, 16, [4, 12, 20, 28]]
    assert middle_of_quarters.tolist() == columns


def test_black_bars(tmp_path):
    Image.fromarray(np.full((32, 64, 3), 90, np.uint8)).save(tmp_path / "wide.png")
    pixels = View("RGB", 32, "pad").read(str(tmp_path / "wide.png"))
    assert pixels.shape == (3, 32, 32)
    assert (pixels[:, [0, 6, 25, 31]] == 0).all()
    assert (pixels[:, 9:23] == 90).all()


def test_the_way_to_square_is_a_setting(tmp_path):
    write_folder(tmp_path, size=(40, 20))
    sets = [load_dataset(tmp_path, resize=way).train.images for way in ("crop", "stretch", "pad")]
    assert all(images.shape == (16, 3, 20, 20) for images in sets)
    assert not any(torch.equal(sets[i], sets[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
    with pytest.raises(NesbsError, match="resize: input should be 'crop', 'stretch' or 'pad', found 'fit'"):
        load_dataset(tmp_path, resize="fit")


def test_random_parts_follow_the_published_areas_and_ratios():
    boxes = np.array([random_box(400, 400, seed=seed) for seed in range(2000)])
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    assert boxes.min() == 0
    assert boxes.max() == 400
    area, ratio = width * height / 400**2, width / height
    assert 0.079 < area.min() < 0.09
    assert 0.95 < area.max() <= 1
    assert 0.74 < ratio.min() < 0.78
    assert 1.28 < ratio.max() < 1.35
    assert abs(np.log(ratio).mean()) < 0.02
    assert random_box(400, 400, seed=3) == tuple(boxes[3])
    assert random_box(1000, 10, seed=0) == (495, 0, 505, 10)  # nothing fits: the middle square


def write_imagenet(root, count=4):
    for part in ("train", "val"):
        write_folder(root / part, classes=("n01440764", "n01443537"), count=count, size=(80, 64))
    return root


def test_imagenets_test_folder_without_labels_is_left_alone(tmp_path):
    write_imagenet(tmp_path)
    (tmp_path / "test").mkdir()
    shutil.copy(tmp_path / "val" / "n01440764" / "0.png", tmp_path / "test")
    with pytest.warns(UserWarning, match="train/ and val/ are used, not 'test'$"):
        assert len(load_dataset("imagenet", root=tmp_path).test) == 8


def test_imagenet_is_streamed_at_224_with_the_published_statistics(tmp_path):
    write_imagenet(tmp_path / "imagenet")
    data = load_dataset("imagenet", root=tmp_path)
    assert data.train.streamed
    assert data.test.streamed
    assert data.train.size == (224, 224)
    assert data.train.stored.random_crop
    assert data.train.mean.tolist() == pytest.approx([0.485, 0.456, 0.406])
    assert data.test.std.tolist() == pytest.approx([0.229, 0.224, 0.225])
    assert data.train.class_names == ("n01440764", "n01443537")
    with Image.open(tmp_path / "imagenet" / "val" / "n01440764" / "0.png") as image:
        middle = image.crop((12, 4, 68, 60)).resize((224, 224), Image.Resampling.BILINEAR)  # 56 of 64
    assert torch.equal(data.test.bytes(slice(0, 1))[0], torch.from_numpy(np.array(middle).transpose(2, 0, 1)))


def test_imagenet_can_be_kept_small(tmp_path):
    write_imagenet(tmp_path)
    data = load_dataset("imagenet", root=tmp_path, size=32, stream="never")
    assert not data.train.streamed
    assert data.train.images.shape == (8, 3, 32, 32)
    assert data.train.mean.tolist() == pytest.approx([0.485, 0.456, 0.406])
    assert load_dataset("imagenet", root=tmp_path, random_crop=False).train.stored.random_crop is False


def test_an_imagenet_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(NesbsError, match=r"imagenet needs data\.root: the folder that holds train/ and val/"):
        load_dataset("imagenet")
    with pytest.raises(NesbsError, match="has no folders train and val"):
        load_dataset("imagenet", root=tmp_path)
    (tmp_path / "train").mkdir()
    with pytest.raises(NesbsError, match="has no folders train and val"):
        load_dataset("imagenet", root=tmp_path)


def write_csv(path, rows, head="path,label"):
    path.write_text("\n".join([head, *(",".join(row) for row in rows)]) + "\n", encoding="utf-8-sig")
    return path


def test_a_csv_of_a_folder_is_the_folder(tmp_path):
    write_folder(tmp_path / "photos", count=10, size=(12, 12))
    rows = [(f"photos/{name}/{i}.png", name, "x") for i in range(10) for name in ("bee", "ant")]
    listed = load_dataset(write_csv(tmp_path / "labels.csv", rows, head=" path, label,weather"), stream="never")
    folder = load_dataset(tmp_path / "photos")
    for own, other in ((listed.train, folder.train), (listed.test, folder.test)):
        assert torch.equal(own.images, other.images)
        assert torch.equal(own.labels, other.labels)
        assert own.class_names == other.class_names == ("ant", "bee")
    assert listed.name == "labels.csv"
    streamed = load_dataset(tmp_path / "labels.csv", stream="always", workers=0)
    assert torch.equal(streamed.test.images, folder.test.images)


def rows_in_parts(parts):
    return [(f"{name}/{i}.png", name, part) for i, part in enumerate(parts) for name in ("ant", "bee")]


def test_a_csv_with_a_column_split_is_a_folder_with_parts(tmp_path):
    write_folder(tmp_path / "apart" / "train", count=4, size=(12, 12))
    write_folder(tmp_path / "apart" / "TEST", count=2, size=(24, 24))
    folder = load_dataset(tmp_path / "apart")
    counts = {"TEST": 2, "train": 4}
    places = [(part, name, i) for part, count in counts.items() for name in ("bee", "ant") for i in range(count)]
    rows = [(f"apart/{part}/{name}/{i}.png", name, part) for part, name, i in places]
    listed = load_dataset(write_csv(tmp_path / "labels.csv", rows, head="path,label,Split"))
    for own, other in ((listed.train, folder.train), (listed.test, folder.test)):
        assert torch.equal(own.images, other.images)
        assert torch.equal(own.labels, other.labels)


def test_rows_of_a_csv_beside_both_parts_are_named_and_left_out(tmp_path):
    write_folder(tmp_path, count=9, size=(12, 12))
    csv = write_csv(
        tmp_path / "labels.csv", rows_in_parts(["train"] * 4 + ["val"] * 3 + ["test"] * 2), head="path,label,split"
    )
    with pytest.warns(UserWarning, match="the rows of train and test are used, not those of val"):
        data = load_dataset(csv)
    assert (len(data.train), len(data.test)) == (8, 4)
    csv = write_csv(csv, rows_in_parts(["training"] * 6 + ["val"] * 3), head="path,label,split")
    data = load_dataset(csv)
    assert (len(data.train), len(data.test)) == (12, 6)
    csv = write_csv(csv, rows_in_parts(["train"] * 5), head="path,label,split")
    data = load_dataset(csv)  # a fifth of each class is held out
    assert (len(data.train), len(data.test)) == (8, 2)


def test_a_class_of_test_images_alone_is_named(tmp_path):
    write_folder(tmp_path, ("ant", "bee", "cat"), count=3, size=(12, 12))
    rows = [(f"{name}/{i}.png", name, "test" if i == 2 or name == "cat" else "train")
            for i in range(3) for name in ("ant", "bee", "cat")]  # fmt: skip
    with pytest.raises(NesbsError, match="class cat is in .* for testing alone"):
        load_dataset(write_csv(tmp_path / "labels.csv", rows, head="path,label,split"))


def test_a_csv_column_that_looks_like_a_split_is_named(tmp_path):
    write_folder(tmp_path, count=6, size=(12, 12))
    with pytest.warns(UserWarning, match="the column fold is not used, a fifth of each class is held out"):
        load_dataset(write_csv(tmp_path / "labels.csv", rows_in_parts("012345"), head="path,label,Fold"))


def test_images_that_a_csv_names_and_that_are_not_there_are_listed_and_left_out(tmp_path):
    write_folder(tmp_path, count=6, size=(12, 12))
    rows = [(f"{name}/{i}.png", name) for i in range(7) for name in ("ant", "bee")]
    data = load_dataset(write_csv(tmp_path / "labels.csv", rows))
    assert (len(data.train) + len(data.test), len(data.broken)) == (12, 2)
    assert "ant/6.png cannot be read as an image (No such file or directory)" in data.broken[0]
    with pytest.raises(NesbsError, match="more than data.broken_limit=1"):
        load_dataset(tmp_path / "labels.csv", broken_limit=1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "labels.csv: needs the columns path and label with a comma between, found ''"),
        ("file,label\na.png,ant\n", "needs the columns path and label with a comma between, found 'file, label'"),
        ("path;label\na.png;ant\n", "needs the columns path and label with a comma between, found 'path;label'"),
        ("path,label\n", "needs images of two classes or more to train with, found no image"),
        ("path,label,split\na.png,ant,train\nb.png,bee,\n", "labels.csv, line 3: there is no split"),
        (
            "path,label,split\na.png,ant,train\nb.png,bee,dev\n",
            "a row's split is 'dev'; it can be train, training,",
        ),
        ("path,label,split\na.png,ant,test\nb.png,bee,test\n", "images of two classes or more to train with, found no"),
        ("path,label,split\na.png,ant,train\nb.png,bee,test\n", "of two classes or more to train with, found 'ant'"),
        ("path,label\na.png,ant\n", "needs images of two classes or more to train with, found 'ant'"),
        ("path,label\na.png,ant\nb.png\n", "labels.csv, line 3: there is no label"),
        ("path,label\n,ant\n", "labels.csv, line 2: there is no path"),
        ("path,label\na.png,ant\n./a.png,bee\n", "labels.csv, line 3: './a.png' is there twice"),
        ("path,label\na.png,ant\nb.png,\x1b[2J\n", "a class name is 1 to 255 characters that can be printed"),
        ("path,label\na\0.png,ant\nb.png,bee\n", "no image of class ant can be read: .*a"),
        (f"path,label\n{'a' * 200_000},ant\n", "labels.csv is no CSV file .field larger than field limit"),
    ],
)
def test_a_csv_that_is_none_is_one_line(tmp_path, text, message):
    (tmp_path / "labels.csv").write_text(text)
    with pytest.raises(NesbsError, match=message) as error:
        load_dataset(tmp_path / "labels.csv")
    assert "\n" not in str(error.value)


def test_a_csv_that_is_not_there_or_no_text_is_named(tmp_path):
    with pytest.raises(NesbsError, match=r"there is no file .*none.csv"):
        load_dataset(tmp_path / "none.csv")
    (tmp_path / "latin.csv").write_bytes("path,label\nä.png,ant\n".encode("latin-1"))
    with pytest.raises(NesbsError, match=r"latin.csv is not text in UTF-8"):
        load_dataset(tmp_path / "latin.csv")
