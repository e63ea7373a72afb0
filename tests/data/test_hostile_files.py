"""Files that were made to do harm, or by accident: each is one line about the file, and takes no memory of note."""

import os
import socket
import struct
import tracemalloc
import warnings
import zipfile
import zlib

import numpy as np
import pytest
from data.layouts import write_folder
from data.test_sources import write_npz
from PIL import Image
from toys import call

from nesbs.data import describe, images, load_dataset
from nesbs.data.arrays import load_npz
from nesbs.data.images import View
from nesbs.errors import NesbsError

MEGABYTE = 2**20


def png(path, width, height, value=0):
    """An even grey PNG of any size, written row by row: long ones are a few hundred bytes."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    row = b"\0" + bytes([value]) * width
    content = zlib.compress(row * height, 9)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", content) + chunk(b"IEND", b""))
    return path


def one_line(error):
    text = str(error.value)
    assert "\n" not in text
    assert text.isprintable()
    return text


class Sizes:
    """The largest image that Pillow is asked to make meanwhile, in pixels."""

    def __init__(self, monkeypatch):
        self.largest = 0
        for name in ("crop", "resize", "convert"):
            monkeypatch.setattr(Image.Image, name, self.watched(getattr(Image.Image, name)))

    def watched(self, method):
        def call(image, *arguments, **keywords):
            made = method(image, *arguments, **keywords)
            across_first = made.width * image.height if method.__name__ == "resize" else 0  # as Pillow goes
            self.largest = max(self.largest, made.width * made.height, across_first)
            return made

        return call


@pytest.mark.parametrize("resize", ["pad", "stretch", "crop"])
@pytest.mark.parametrize("size", [(1, 20_000), (20_000, 1), (3, 100_000)])
def test_long_images_take_no_more_memory_than_they_are(tmp_path, monkeypatch, resize, size):
    file = str(png(tmp_path / "long.png", *size, value=200))
    sizes = Sizes(monkeypatch)
    pixels = View("L", 32, resize).read(file)
    assert sizes.largest <= max(size[0] * size[1], 32 * 32 * 4)
    assert pixels.shape == (1, 32, 32)
    if resize == "pad":  # a line through the middle, black beside it
        assert (pixels == 200).sum() == 32
        assert (pixels[0, 15:17] == 200).any()
        assert (pixels[0, :, 15:17] == 200).any()
    else:
        assert (pixels == 200).all()


def old_padding(file, side):
    """Padding as it always was: a square as long as the longer way, then resized."""
    with Image.open(file) as image:
        longer = max(image.size)
        left, top = (int((length - longer) / 2) for length in image.size)
        square = image.convert("RGB").crop((left, top, left + longer, top + longer))
        return np.asarray(square.resize((side, side), Image.Resampling.BILINEAR)).transpose(2, 0, 1)


@pytest.mark.parametrize("size", [(40, 20), (33, 100), (7, 300), (1, 4096), (4200, 2100)])
def test_ordinary_images_are_padded_as_ever(tmp_path, size):
    tile = np.random.default_rng(0).integers(0, 256, (50, 50, 3), dtype=np.uint8)
    pixels = np.tile(tile, (size[1] // 50 + 1, size[0] // 50 + 1, 1))[: size[1], : size[0]]
    file = str(tmp_path / "a.ppm")
    Image.fromarray(pixels).save(file)
    assert np.array_equal(View("RGB", 32, "pad").read(file), old_padding(file, 32))


@pytest.mark.parametrize("size", [(640, 160), (160, 640)])
def test_a_strip_becomes_the_same_picture_but_for_rounding(tmp_path, monkeypatch, size):
    ramp = np.add.outer(np.arange(size[1]), np.arange(size[0])) * 255 // sum(size)
    Image.fromarray(ramp.astype(np.uint8)).convert("RGB").save(tmp_path / "a.png")
    file = str(tmp_path / "a.png")
    before = View("RGB", 32, "pad").read(file).astype(int)
    assert np.array_equal(before, old_padding(file, 32))
    monkeypatch.setattr(images, "LONG", 0)
    after = View("RGB", 32, "pad").read(file).astype(int)
    difference = np.abs(after - before)
    across = 1 if size[0] > size[1] else 2
    inside = np.take(difference, range(13, 19), axis=across)  # an eighth of a pixel from the bars' edges, and more
    assert inside.max() <= 2
    assert np.take(after, [*range(12), *range(20, 32)], axis=across).max() == 0  # the bars


@pytest.mark.parametrize("size", [(6000, 1000), (1000, 6000)])
def test_a_strip_is_stretched_as_ever_but_for_rounding(tmp_path, size):
    ramp = np.add.outer(np.arange(size[1]), np.arange(size[0])) * 255 // sum(size)
    picture = Image.fromarray(ramp.astype(np.uint8))
    picture.save(tmp_path / "a.png", compress_level=1)
    before = np.asarray(picture.resize((32, 32), Image.Resampling.BILINEAR)).astype(int)
    after = View("L", 32, "stretch").read(str(tmp_path / "a.png"))[0].astype(int)
    assert np.abs(after - before).max() <= 1


HUGE = {
    "a.ppm": b"P6 100000 100000 255\n" + bytes(100),
    "a.bmp": b"BM" + struct.pack("<IHHI", 1000, 0, 0, 54)
    + struct.pack("<IiiHHIIiiII", 40, 100_000, 100_000, 1, 24, 0, 0, 0, 0, 0, 0) + bytes(100),
    "a.gif": b"GIF89a" + struct.pack("<HHBBB", 65535, 65535, 0, 0, 0)
    + b"," + struct.pack("<HHHHB", 0, 0, 65535, 65535, 0) + b"\x02\0;",
}  # fmt: skip


@pytest.mark.parametrize("name", [*HUGE, "a.png", "a.tif"])
def test_an_image_of_too_many_pixels_is_left_out_by_name(tmp_path, name):
    write_folder(tmp_path)
    file = tmp_path / "ant" / name
    if name in HUGE:
        file.write_bytes(HUGE[name])
    elif name == "a.png":
        png(file, 1, 1)
        content = file.read_bytes().replace(struct.pack(">II", 1, 1), struct.pack(">II", 20_000, 20_000))
        header = content[12:29]
        file.write_bytes(content.replace(content[29:33], struct.pack(">I", zlib.crc32(header))))
    else:
        entries = [
            (256, 4, 100_000),
            (257, 4, 100_000),
            (258, 3, 8),
            (259, 3, 1),
            (262, 3, 1),
            (273, 4, 8),
            (279, 4, 8),
        ]
        body = struct.pack("<H", len(entries)) + b"".join(
            struct.pack("<HHII", tag, kind, 1, v) for tag, kind, v in entries
        )
        file.write_bytes(b"II*\0" + struct.pack("<I", 8) + body + bytes(4))
    tracemalloc.start()
    [reason] = load_dataset(tmp_path).broken
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "\n" not in reason
    assert f"{name} cannot be read as an image (" in reason
    assert "pixels" in reason
    assert peak < 50 * MEGABYTE
    with pytest.raises(NesbsError, match=f"{name} cannot be read as an image .*pixels") as error:
        load_dataset(tmp_path, broken_limit=0)
    one_line(error)


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def socket_file(path):
    here = os.getcwd()
    os.chdir(path.parent)  # the path of a socket may be 100 characters long
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


def loop(path):
    path.symlink_to(path.name)


def broken_link(path):
    path.symlink_to("nowhere")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (pipe, "it is not a file"),
        (device, "it is not a file"),
        (socket_file, "it is not a file"),
        (loop, "Too many levels of symbolic links"),
        (broken_link, "No such file or directory"),
        (lambda path: path.write_bytes(b""), "cannot identify its format: damaged, or to be saved as .png or .jpg"),
    ],
)
def test_what_is_no_file_is_never_opened(tmp_path, make, reason):
    write_folder(tmp_path)
    make(tmp_path / "ant" / "x.png")
    data = load_dataset(tmp_path)
    assert len(data.train) + len(data.test) == 20
    [left_out] = data.broken
    assert f"x.png cannot be read as an image ({reason}" in left_out


def test_folders_called_like_images_and_links_in_a_circle_do_no_harm(tmp_path):
    write_folder(tmp_path)
    (tmp_path / "ant" / "x.png").mkdir()
    (tmp_path / "ant" / "again").symlink_to(tmp_path)
    (tmp_path / "bee" / "itself.png").symlink_to(tmp_path / "bee")
    data = load_dataset(tmp_path)
    assert len(data.train) + len(data.test) == 20
    assert data.broken == ()


def test_a_file_and_a_folder_without_permission_are_named(tmp_path, monkeypatch):
    write_folder(tmp_path)
    real_open, real_scan = Image.open, os.scandir

    def open_image(file, *rest):
        if str(file).endswith("3.png"):
            raise PermissionError(13, "Permission denied", file)
        return real_open(file, *rest)

    monkeypatch.setattr(Image, "open", open_image)
    first, second = load_dataset(tmp_path).broken
    assert "3.png cannot be read as an image (Permission denied)" in first
    assert "3.png" in second

    def scan(path="."):
        if str(path).endswith("bee"):
            raise PermissionError(13, "Permission denied", path)
        return real_scan(path)

    monkeypatch.setattr(os, "scandir", scan)
    with pytest.raises(PermissionError, match="Permission denied: .*bee"):
        load_dataset(tmp_path)


ODD = [b"two\nlines.png", b"\x1b[2Jclear.png", b"not-text-\xff\xfe.png", b"a" * 251 + b".png", "über 🐜 .png".encode()]


def test_odd_names_are_read_and_shown_escaped(tmp_path, capsys):
    write_folder(tmp_path)
    picture = (tmp_path / "ant" / "0.png").read_bytes()
    for name in ODD:
        (tmp_path / "bee" / os.fsdecode(name)).write_bytes(picture)
    assert load_dataset(tmp_path).broken == ()
    for name in ODD:
        (tmp_path / "bee" / os.fsdecode(name)).write_bytes(b"not an image")
    data = load_dataset(tmp_path)
    assert len(data.broken) == 5
    assert all(reason.isprintable() for reason in data.broken)
    assert any(r"two\nlines.png cannot" in reason for reason in data.broken)
    assert any(r"\x1b[2Jclear.png cannot" in reason for reason in data.broken)
    assert any(r"not-text-\udcff\udcfe.png cannot" in reason for reason in data.broken)
    assert any("über 🐜 .png cannot" in reason for reason in data.broken)
    assert "\x1b" not in describe(data)
    assert call("datasets", tmp_path) == 0
    assert call("datasets", tmp_path, "--set", "data.broken_limit=1") == 2
    printed = capsys.readouterr()
    assert r"\x1b[2Jclear.png" in printed.out + printed.err
    assert "\x1b" not in printed.out + printed.err
    assert printed.err.count("\n") == 1


def test_streamed_images_with_odd_names_warn_in_one_line(tmp_path):
    write_folder(tmp_path, size=(40, 40))
    file = tmp_path / "ant" / "\x1b[2J\n0.png"
    blob = (tmp_path / "ant" / "0.png").read_bytes()
    file.write_bytes(blob[: len(blob) * 2 // 3])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        data = load_dataset(tmp_path, stream="always", workers=0)
        _ = data.test.images, data.train.images
    texts = [str(warning.message) for warning in caught] + list(data.broken)
    assert any(r"\x1b[2J\n0.png" in text for text in texts)
    assert all(text.isprintable() for text in texts)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_tiff_with_pixels_that_are_no_numbers_is_left_out(tmp_path, bad):
    write_folder(tmp_path, mode="L")
    values = np.full((10, 10), 100, np.float32)
    Image.fromarray(values).save(tmp_path / "ant" / "good.tif")
    values[3, 4] = bad
    Image.fromarray(values).save(tmp_path / "ant" / "bad.tif")
    data = load_dataset(tmp_path)
    assert len(data.train) + len(data.test) == 21
    [reason] = data.broken
    assert "bad.tif cannot be read as an image (some of its pixels are not numbers)" in reason


def test_an_error_without_a_message_is_named_by_its_kind(tmp_path, monkeypatch):
    write_folder(tmp_path)

    def fail(file):
        raise EOFError

    monkeypatch.setattr(Image, "open", fail)
    with pytest.raises(NesbsError, match=r"0\.png cannot be read as an image \(EOFError\)"):
        load_dataset(tmp_path)


def npy_header(shape, kind="|u1"):
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()


def write_members(path, compression=zipfile.ZIP_STORED, **members):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return path


@pytest.mark.parametrize(
    ("member", "message"),
    [
        (
            npy_header((10**9, 100, 100)) + bytes(100),
            r"not a whole \.npz file .an array of 10,000,000,000,000 bytes in",
        ),
        (npy_header((10**30, 8, 8)) + bytes(100), r"not a whole \.npz file"),
        (npy_header((0, 10**30, 8)) + bytes(100), r"not a whole \.npz file|no images"),
        (npy_header((-1, 8, 8)) + bytes(100), r"not a whole \.npz file"),
        (npy_header((3,), "<U99999999") + bytes(100), r"not a whole \.npz file .an array of"),
        (npy_header((True, 8, 8)) + bytes(100), r"not a whole \.npz file|images but"),
        (b"\x93NUMPY\x01\x00\xff\xff" + b"(" * 65535, r"not a whole \.npz file"),
        (b"\x93NUMPY\x09\x00" + bytes(100), r"not a whole \.npz file"),
        (b"", r"not a whole \.npz file"),
        (b"cos\nsystem\n(S'true'\ntR.", r"not a whole \.npz file"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_an_npz_that_claims_too_much_takes_no_memory(tmp_path, member, message):
    path = write_members(tmp_path / "a.npz", x=member, y=npy_header((3,), "<i8") + bytes(24))
    tracemalloc.start()
    with pytest.raises(NesbsError, match=message) as error:
        load_dataset(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "a.npz" in one_line(error)
    assert "batch_size" not in str(error.value)
    assert peak < 20 * MEGABYTE


def test_an_npz_that_inflates_is_answered_before_memory_is_taken(tmp_path):
    images = npy_header((1024, 256, 64)) + bytes(16 * MEGABYTE)  # 16 MiB in 16 KiB
    path = write_members(tmp_path / "a.npz", zipfile.ZIP_DEFLATED, x=images, y=npy_header((1024,), "<i8") + bytes(8192))
    assert path.stat().st_size < MEGABYTE
    tracemalloc.start()
    with pytest.raises(
        NesbsError, match="a.npz: its arrays take more than 0.01 GiB .*raise data.memory_limit"
    ) as error:
        load_dataset(path, memory_limit=0.01)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    one_line(error)
    assert peak < 8 * MEGABYTE
    half = write_members(tmp_path / "b.npz", zipfile.ZIP_DEFLATED, x=images, z=images)
    with pytest.raises(NesbsError, match="its arrays take more than 0.02 GiB"):  # the second is one too many
        load_dataset(half, memory_limit=0.02)


def test_an_encrypted_or_strange_archive_is_refused(tmp_path):
    path = write_members(tmp_path / "a.npz", x=npy_header((3, 8, 8)) + bytes(192))
    blob = bytearray(path.read_bytes())
    blob[6] |= 1
    blob[blob.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(blob)
    with pytest.raises(NesbsError, match=r"not a whole \.npz file .*(encrypted|password)"):
        load_npz(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": np.array(["x", "\x1b[31mred", "z"])}, r"characters that can be printed, found '\\x1b\[31mred'"),
        ({"classes": np.array(["x", "two\nlines", "z"])}, r"found 'two\\nlines'"),
        ({"classes": np.array(["x", "", "z"])}, "a class name is 1 to 255 characters"),
        ({"classes": np.array(["x", "y" * 10_000, "z"])}, "a class name is 1 to 255 characters"),
        ({"classes": np.array(["x", "y", "x"])}, "two classes are called x"),
        ({"y_train": np.zeros(30, int), "y_test": np.zeros(9, int)}, "two classes or more are needed, found 1"),
        (
            {"y_train": np.ones(30, int), "classes": np.array(["x", "y", "z"])},
            "all training images are of class y: two classes or more are needed",
        ),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_class_names_are_different_texts_that_can_be_printed(tmp_path, changes, message):
    with pytest.raises(NesbsError, match=message) as error:
        load_dataset(write_npz(tmp_path / "a.npz", **changes))
    one_line(error)


def test_an_empty_npz_has_no_images(tmp_path):
    none = dict.fromkeys(("x_train", "y_train", "x_test", "y_test"))
    empty = write_npz(tmp_path / "a.npz", **none, x=np.zeros((0, 8, 8), np.uint8), y=np.zeros(0, int))
    with pytest.raises(NesbsError, match=r"a\.npz: no images$"):
        load_dataset(empty)


def test_names_of_arrays_are_shown_escaped_and_cut(tmp_path):
    path = write_members(tmp_path / "a.npz", **{"\x1b[2J" + "x" * 1000: npy_header((3,)) + bytes(3)})
    with pytest.raises(NesbsError, match=r"found \\x1b\[2Jxxx") as error:
        load_dataset(path)
    assert len(one_line(error)) < 600


def test_an_error_is_printed_without_escape_sequences(tmp_path, capsys):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text('data: {name: "\\e[2J\\e]0;title\\a"}\n')
    assert call("run", recipe, "--out", tmp_path / "run") == 2
    printed = capsys.readouterr().err
    assert r"\x1b[2J" in printed
    assert "\x1b" not in printed
    assert "\a" not in printed
