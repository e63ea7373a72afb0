"""Images and arrays that nobody should trust: bombs, loops of links, pipes, odd names, and pickles that run code."""

from __future__ import annotations

import io
import os
import pickle
import socket
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from PIL import Image

from soak.bad_recipes import cut, flip
from soak.commands import OUT, SMALL, References, settings
from soak.inputs import MARK, Input, copy_of

FOLDER, FILE = "images", "images.npz"


class Hostile:
    """An object whose pickle runs a command."""

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {MARK}",)


def make(random: Random, number: int, references: References) -> Input:
    """One bad source of images: all kinds in turn, listed or trained on."""
    names = list(KINDS)
    name = names[number % len(names)]
    build, refused = KINDS[name]
    if name[:5] in BESIDE:
        base, words = BESIDE[name[:5]]
        both = (copy_of(references, base), lambda folder: build(folder / FILE, random))
        return Input(name, words, refused, lambda folder: [step(folder) for step in both])
    root = name.startswith("cifar")
    place = "cifar10" if root else FILE if name.startswith("npz") else FOLDER
    changes = (*(("data.root=.",) if root else ()), *CHANGES.get(name, ()), "data.train_limit=60", "data.test_limit=20")
    command = ("datasets", place, *settings(*changes))
    if random.random() < 0.7:
        small = [change for change in SMALL if not change.startswith("data.")]
        command = ("search", "toy", "--out", OUT, *settings(*small, f"data.name={place}", *changes))
    return Input(name, command, refused, lambda folder: build(folder if root else folder / place, random))


BESIDE = {  # files that a finished run is measured with: the run's command, and the command that reads them
    "human": ("train", ("evaluate", OUT, "--human", FILE)),
    "table": ("search", ("quality", OUT, "--table", FILE, "--column", "accuracy")),
}
CHANGES = {
    "a long thin picture, padded": ("data.resize=pad",),
    "a pipe, streamed": ("data.stream=always",),
    "links in a circle, streamed": ("data.stream=always",),
}


def picture(side: tuple[int, int] = (12, 12), kind: str = "PNG", mode: str = "L", shade: int = 90) -> bytes:
    """A picture of one colour, as a file."""
    made = io.BytesIO()
    Image.new(mode, side, shade if mode == "L" else (shade,) * len(mode)).save(made, kind)
    return made.getvalue()


def good(folder: Path, count: int = 12, classes: tuple[str, ...] = ("cat", "dog")) -> Path:
    """Two classes of pictures."""
    for shade, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for i in range(count):
            (folder / name / f"{i}.png").write_bytes(picture(shade=(40 + 90 * shade + i) % 256))
    return folder


def png_header(width: int, height: int) -> bytes:
    """A PNG file that says how large it is and holds next to nothing."""

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    body = zlib.compress(b"\0" * 64)
    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def put(content: Callable[[Random], bytes], ending: str = "png") -> Callable[[Path, Random], object]:
    """A good folder with one bad file in it."""
    return lambda folder, random: (good(folder) / "cat" / f"bad.{ending}").write_bytes(content(random))


def only(content: Callable[[Random], bytes]) -> Callable[[Path, Random], object]:
    """A folder with nothing but bad files in it."""

    def build(folder: Path, random: Random) -> None:
        for name in ("cat", "dog"):
            (folder / name).mkdir(parents=True)
            for i in range(12):
                (folder / name / f"{i}.png").write_bytes(content(random))

    return build


def special(make_it: Callable[[Path], object]) -> Callable[[Path, Random], object]:
    """A good folder with something in it that is no file."""
    return lambda folder, random: make_it(good(folder) / "cat" / "bad.png")


def circle(path: Path) -> None:
    """Links that lead back to where they are."""
    path.symlink_to(path.name)
    (path.parent / "inside").symlink_to("..", target_is_directory=True)
    (path.parent.parent / "round").symlink_to(".", target_is_directory=True)


def bind(path: Path) -> None:
    """A socket; its path must be short, so it is made from inside."""
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


ODD = (b"\x1b[31mred\x07", b"new\nline", b"\xff\xfe not utf-8", b"x" * 250, b"-rf", "‮right to left".encode(), b"a b\tc")


def odd_names(folder: Path, random: Random) -> None:
    """Classes and files with names that steer a terminal, are no text or look like options."""
    good(folder)
    for name in random.sample(ODD, 3):
        inside = os.path.join(os.fsencode(folder), name)
        os.mkdir(inside)
        for i in range(12):
            with open(os.path.join(inside, name[:200] + b"%d.png" % i), "wb") as handle:
                handle.write(picture(shade=10 * i))


def odd_broken(folder: Path, random: Random) -> None:
    """Files with such names that are no pictures."""
    good(folder)
    with open(os.path.join(os.fsencode(folder), b"cat", random.choice(ODD) + b".png"), "wb") as handle:
        handle.write(b"no picture")


def arrays(random: Random) -> dict[str, Any]:
    """What a good .npz file holds."""
    numbers = np.random.default_rng(random.randrange(2**32))
    images, test_images = (numbers.integers(0, 256, (count, 12, 12), np.uint8) for count in (60, 20))
    return {"x_train": images, "x_test": test_images, "y_train": np.arange(60) % 3, "y_test": np.arange(20) % 3}


def npz(**changed: Any) -> Callable[[Path, Random], object]:
    """A good .npz file with some arrays changed; None leaves one out."""

    def build(path: Path, random: Random) -> None:
        values = {**arrays(random), **changed}
        np.savez(path, **{name: value for name, value in values.items() if value is not None})

    return build


def npz_bytes(change: Callable[[bytes, Random], bytes]) -> Callable[[Path, Random], object]:
    """The bytes of a good .npz file, changed."""

    def build(path: Path, random: Random) -> None:
        np.savez(path, **arrays(random))
        path.write_bytes(change(path.read_bytes(), random))

    return build


def npz_bomb(path: Path, random: Random) -> None:
    """A small archive that says it holds terabytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in arrays(random).items():
            made = io.BytesIO()
            np.lib.format.write_array(made, value)
            content = made.getvalue()
            if name == "x_train":
                large = random.choice(
                    ("(60000000, 512, 512), }", "(1000000000000, 12, 12), }", f"({'9' * 30}, 2, 2), }}")
                )
                head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {large}"
                head = head.ljust(np.lib.format.ARRAY_ALIGN * 4 - 11) + "\n"
                content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + b"\0" * 4096
            archive.writestr(f"{name}.npy", content)


def pickled(content: Callable[[Random], bytes]) -> Callable[[Path, Random], object]:
    """CIFAR-10 as pickles, all of which hold this."""

    def build(folder: Path, random: Random) -> None:
        inside = folder / "cifar-10-batches-py"
        inside.mkdir(parents=True)
        for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta"):
            (inside / name).write_bytes(content(random))

    return build


def batch(random: Random, **changed: Any) -> bytes:
    """A good batch of CIFAR-10, or one with an entry changed."""
    values = {
        "data": np.frombuffer(random.randbytes(20 * 3072), np.uint8).reshape(20, 3072),
        "labels": [i % 10 for i in range(20)],
    }
    return pickle.dumps({**values, **changed}, protocol=random.choice((2, 4, 5)))


def binary(folder: Path, random: Random) -> None:
    """CIFAR-10 in its binary layout, cut short."""
    inside = folder / "cifar-10-batches-bin"
    inside.mkdir(parents=True)
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        (inside / f"{name}.bin").write_bytes(cut(random.randbytes(3073 * 20), random))


def raw(content: Callable[[Random], bytes]) -> Callable[[Path, Random], object]:
    """A file of these bytes."""
    return lambda path, random: path.write_bytes(content(random))


def people(value: Any) -> Callable[[Path, Random], object]:
    """People's labels that are none."""
    return lambda path, random: np.savez(path, counts=value)


OBJECTS = np.array([Hostile(), 3], dtype=object)
RANDOM = np.random.default_rng(0)
KINDS: dict[str, tuple[Callable[[Path, Random], object], bool]] = {
    "a picture that claims to be huge": (put(lambda random: png_header(2**31 - 1, random.choice((1, 100_000)))), False),
    "nothing but pictures that claim to be huge": (only(lambda random: png_header(60_000, 60_000)), True),
    "a long thin picture, padded": (put(lambda random: picture((1, random.choice((20_000, 60_000))))), False),
    "a picture of one pixel": (put(lambda random: picture((1, 1))), False),
    "a picture cut short": (put(lambda random: cut(picture((90, 90), "JPEG"), random), "jpg"), False),
    "a picture with bits flipped": (put(lambda random: flip(picture(mode="RGB"), random, 9)), False),
    "nothing but pictures cut short": (only(lambda random: picture()[: random.randrange(40)]), True),
    "a picture of NaN": (
        put(lambda random: _tiff(np.full((12, 12), random.choice((np.nan, np.inf, -1e30)), np.float32)), "tif"),
        False,
    ),
    "a pipe": (special(os.mkfifo), False),
    "a pipe, streamed": (special(os.mkfifo), False),
    "a socket": (special(bind), False),
    "a link to a device": (special(lambda path: path.symlink_to("/dev/zero")), False),
    "links in a circle": (special(circle), False),
    "links in a circle, streamed": (special(circle), False),
    "a folder called like a picture": (special(Path.mkdir), False),
    "odd names": (odd_names, False),
    "broken pictures with odd names": (odd_broken, False),
    "no pictures": (lambda folder, random: (folder / "cat").mkdir(parents=True), True),
    "one class": (lambda folder, random: good(folder, classes=("cat",)), True),
    "one picture a class": (lambda folder, random: good(folder, count=1), True),
    "npz: hostile objects as images": (npz(x_train=OBJECTS), True),
    "npz: hostile objects as labels": (npz(y_train=OBJECTS), True),
    "npz: hostile objects as names": (npz(classes=OBJECTS), True),
    "npz: a bomb": (npz_bomb, True),
    "npz: cut short": (npz_bytes(cut), True),
    "npz: bits flipped": (npz_bytes(lambda content, random: flip(content, random, 30)), False),
    "npz: no archive": (raw(lambda random: pickle.dumps(Hostile())), True),
    "npz: images of NaN": (npz(x_train=np.full((60, 12, 12), np.nan)), True),
    "npz: labels of NaN": (npz(y_train=np.full(60, np.nan)), True),
    "npz: no labels": (npz(y_train=None), True),
    "npz: too few labels": (npz(y_train=np.arange(7) % 3), True),
    "npz: negative labels": (npz(y_train=np.arange(60) % 3 - 1), True),
    "npz: huge labels": (npz(y_train=np.arange(60) % 3 + 2**40), True),
    "npz: labels as text": (npz(y_train=np.array(["a", "b", "c"] * 20)), True),
    "npz: one class": (npz(y_train=np.zeros(60, int), y_test=np.zeros(20, int)), True),
    "npz: names twice": (npz(classes=np.array(["a", "a", "b"])), True),
    "npz: names that steer a terminal": (npz(classes=np.array(["\x1b[31mred", "a\nb", "\x9b31m"])), False),
    "npz: no images": (npz(x_train=np.zeros((0, 12, 12), np.uint8), y_train=np.zeros(0, int)), True),
    "npz: images without extent": (npz(x_train=np.zeros((60, 0, 12), np.uint8)), True),
    "npz: five axes": (npz(x_train=np.zeros((60, 2, 2, 2, 2), np.uint8)), True),
    "npz: records": (npz(x_train=np.zeros(60, [("a", "u1"), ("b", "f4")])), True),
    "npz: a single number": (npz(x_train=np.uint8(3)), True),
    "npz: test images of another size": (npz(x_test=np.zeros((20, 16, 16), np.uint8)), True),
    "cifar: hostile pickles": (pickled(lambda random: pickle.dumps(Hostile())), True),
    "cifar: hostile labels": (pickled(lambda random: batch(random, labels=Hostile())), True),
    "cifar: a pickle cut short": (pickled(lambda random: cut(batch(random), random)), True),
    "cifar: a pickle with bits flipped": (pickled(lambda random: flip(batch(random), random, 20)), False),
    "cifar: labels out of range": (pickled(lambda random: batch(random, labels=[99] * 20)), True),
    "cifar: data of another width": (pickled(lambda random: batch(random, data=np.zeros((20, 7), np.uint8))), True),
    "cifar: nested deep": (pickled(lambda random: b"\x80\x02" + b"]" * 50_000 + b"a" * 49_999 + b"."), True),
    "cifar: a binary file cut short": (binary, True),
    "human: hostile objects": (people(OBJECTS), True),
    "human: of another shape": (people(np.ones((3, 3))), True),
    "human: no numbers": (people(np.full((40, 10), np.nan)), True),
    "human: no archive": (raw(lambda random: pickle.dumps(Hostile())), True),
    "table: no table": (raw(lambda random: random.randbytes(900)), True),
    "table: no rows": (raw(lambda random: b"architecture,accuracy\n"), True),
    "table: no numbers": (raw(lambda random: b"architecture,accuracy\n|none~0|+|none~0|none~1|,nan\n"), True),
    "table: unknown architectures": (raw(lambda random: b"architecture,accuracy\nnonsense,90.0\n"), True),
}


def _tiff(values: np.ndarray[Any, Any]) -> bytes:
    made = io.BytesIO()
    Image.fromarray(values).save(made, "TIFF")
    return made.getvalue()
