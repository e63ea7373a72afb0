"""Training and prediction see the same pixels; images come in many forms, those that could mean two are refused."""

import numpy as np
import pytest
import torch
from PIL import Image

import nesbs
from nesbs.data.conversion import ArrayView
from nesbs.data.images import View
from nesbs.deploy.inputs import listed

TURNED = Image.Exif()
TURNED[0x0112] = 6  # the camera was held upright


def noise(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def write_photos(root):
    """Images of many sizes and modes in train/ and test/, with their files in the order of loading."""
    files = {}
    for part in ("train", "test"):
        for name in ("猫", "собака"):
            (root / part / name).mkdir(parents=True)
        images = {
            "猫/1.jpg": (Image.fromarray(noise(37, 50, 3)), {"exif": TURNED}),
            "猫/2.png": (Image.fromarray(noise(20, 90, 4)), {}),
            "собака/1.png": (Image.fromarray(noise(64, 31)), {}),
            "собака/2.png": (Image.fromarray(noise(24, 24).astype(np.uint16) * 200), {}),
            "собака/3.gif": (Image.fromarray(noise(41, 40)).convert("P"), {}),
        }
        for name, (image, options) in images.items():
            image.save(root / part / name, **options)
        files[part] = [str(root / part / name) for name in sorted(images)]
    return files


@pytest.mark.parametrize("resize", ["crop", "stretch", "pad"])
@pytest.mark.parametrize("stream", ["never", "always"])
def test_training_and_prediction_see_the_same_pixels_of_the_same_files(tmp_path, resize, stream):
    files = write_photos(tmp_path)
    data = nesbs.load_dataset(tmp_path, size=24, resize=resize, stream=stream, workers=0)
    assert data.view == View("RGB", 24, resize)
    for part, split in (("train", data.train), ("test", data.test)):
        seen = np.stack([read(data.view) for read in listed(files[part])])
        assert np.array_equal(seen, split.images.numpy())
        opened = [Image.open(file) for file in files[part]]
        assert np.array_equal(np.stack([read(data.view) for read in listed(opened)]), seen)
        for image in opened:
            image.close()


@pytest.mark.parametrize("shape", [(28, 28), (20, 30, 3)])
@pytest.mark.parametrize("size", [None, 20])
def test_training_and_prediction_see_the_same_pixels_of_arrays(tmp_path, shape, size):
    images = noise(40, *shape)
    np.savez(tmp_path / "data.npz", x_train=images, y_train=np.arange(40) % 2, x_test=images, y_test=np.arange(40) % 2)
    data = nesbs.load_dataset(tmp_path / "data.npz", size=size)
    assert data.view is None
    view = ArrayView("L" if len(shape) == 2 else "RGB", data.train.size)
    for place, image in enumerate(images[:5]):
        Image.fromarray(image).save(tmp_path / f"{place}.png")
    files = [tmp_path / f"{place}.png" for place in range(5)]
    for given in (images[:5], files):
        seen = np.stack([read(view) for read in listed(given)])
        assert np.array_equal(seen, data.train.images[:5].numpy())


GREY, COLOUR = noise(30, 20), noise(30, 20, 3, seed=1)
FIRST = torch.from_numpy(COLOUR).permute(2, 0, 1)


@pytest.mark.parametrize(
    ("images", "count"),
    [
        (GREY, 1),
        (GREY[..., None], 1),
        (np.stack([GREY] * 5), 5),
        (np.stack([GREY] * 4)[..., None], 4),
        (GREY[None], 1),
        (torch.from_numpy(GREY), 1),
        (torch.from_numpy(GREY)[None], 1),
        (torch.from_numpy(np.stack([GREY] * 5)), 5),
        (torch.from_numpy(np.stack([GREY] * 3))[:, None], 3),
        (Image.fromarray(GREY), 1),
        ([GREY, torch.from_numpy(GREY), Image.fromarray(GREY), GREY[..., None], torch.from_numpy(GREY)[None]], 5),
    ],
)
def test_every_form_of_a_grey_image_is_the_same_image(images, count):
    view = View("L", 16)
    expected = view.pixels(Image.fromarray(GREY))
    seen = [read(view) for read in listed(images)]
    assert len(seen) == count
    assert all(np.array_equal(one, expected) for one in seen)


@pytest.mark.parametrize(
    ("images", "count"),
    [
        (COLOUR, 1),
        (np.concatenate([COLOUR, noise(30, 20, 1)], -1), 1),  # with transparency
        (np.stack([COLOUR] * 3), 3),
        (FIRST[None], 1),
        (torch.stack([FIRST] * 3), 3),
        ([FIRST, COLOUR, Image.fromarray(COLOUR)], 3),
        ((FIRST,), 1),
    ],
)
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_every_form_of_a_colour_image_is_the_same_image(images, count, mode):
    view = View(mode, 16)
    expected = view.pixels(Image.fromarray(COLOUR))
    seen = [read(view) for read in listed(images)]
    assert len(seen) == count
    assert all(np.array_equal(one, expected) for one in seen)


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (COLOUR / 255, r"must hold bytes from 0 to 255 \(uint8\), found float64 \(for floats from 0 to 1: multiply"),
        (COLOUR.astype(np.float32), "found float32"),
        (FIRST[None].float(), "a tensor of an image must hold bytes .*found float32"),
        (GREY > 3, "found bool"),
        (GREY.astype(np.uint16), "found uint16"),
        (
            FIRST,
            r"found \(3, 30, 20\), which may be one image or several grey ones: give \[image\] or images\[:, None\]",
        ),
        (
            FIRST.numpy(),
            r"may be one image or several grey ones: give image.transpose\(1, 2, 0\) or images\[..., None\]",
        ),
        (torch.from_numpy(COLOUR), r"found \(30, 20, 3\), which may be"),
        (torch.cat([FIRST, FIRST[:1]]), r"found \(4, 30, 20\), which may be"),
        (torch.from_numpy(np.stack([COLOUR] * 2)), r"\(channels, height, width\) .*found \(2, 30, 20, 3\)"),
        (torch.stack([FIRST] * 2).numpy(), r"\(height, width, channels\) .*found \(2, 3, 30, 20\)"),
        (noise(2, 3, 20, 3), r"found \(2, 3, 20, 3\)"),  # channels first or last?
        ([np.stack([GREY] * 5)], r"found \(5, 30, 20\)"),
        ([torch.from_numpy(COLOUR)], r"found \(30, 20, 3\)"),
        (noise(7), r"found \(7,\)"),
        (np.zeros((0, 8, 8), dtype=np.uint8), "there are no images"),
        (np.zeros((0, 8), dtype=np.uint8), r"found \(0, 8\)"),
        ([], "the list is empty"),
        (3, "images must be a path, a Pillow image, .*found 3"),
        ([GREY.tolist()], "images must be a path, .*found a list"),
        ({"a": GREY}, "found a dict"),
        (b"a.png", "images must be"),
        ("missing.png", "missing.png cannot be read as an image"),
        ("", "cannot be read as an image"),
        (".", "is a folder"),
    ],
)
def test_what_can_be_read_in_two_ways_or_in_none_is_refused(images, message):
    with pytest.raises(nesbs.NesbsError, match=message) as answer:
        _ = [read(View("RGB", 16)) for read in listed(images)]
    assert "\n" not in str(answer.value)


def test_a_truncated_pillow_image_is_named(tmp_path):
    Image.fromarray(noise(80, 80, 3)).save(tmp_path / "a.png")
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(whole[: len(whole) // 2])
    good = Image.fromarray(COLOUR)
    with Image.open(tmp_path / "a.png") as broken, pytest.raises(nesbs.NesbsError, match="image 1 cannot be read"):
        _ = [read(View("RGB", 16)) for read in listed([good, broken])]
