"""Broken recipes: cut short, bits flipped, nested too deep, keys twice, and files that are none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

from nesbs.runs.recipe import recipe_text
from soak.commands import OUT, SMALL, settings
from soak.inputs import MARK, Input, nothing

NAME = "bad.yaml"


def make(random: Random, number: int) -> Input:
    """One broken recipe: all kinds in turn."""
    names = list(KINDS)
    name = names[number % len(names)]
    content, refused = KINDS[name](random)
    path, prepare = PLACES.get(name, (NAME, lambda folder: (folder / NAME).write_bytes(content)))
    command = ("search", path, "--out", OUT, *settings(*SMALL))
    mended = ("search", "toy", "--out", OUT, *settings(*SMALL))
    return Input(f"a recipe: {name}", command, refused, prepare, mended)


def flip(content: bytes, random: Random, bits: int = 1) -> bytes:
    """The same bytes with some bits turned over."""
    changed = bytearray(content)
    for _ in range(bits):
        place = random.randrange(len(changed))
        changed[place] ^= 1 << random.randrange(8)
    return bytes(changed)


def cut(content: bytes, random: Random) -> bytes:
    """The first part of the bytes."""
    return content[: random.randrange(len(content))]


def toy() -> bytes:
    """A good recipe."""
    return recipe_text("toy").encode()


def laughs(random: Random) -> bytes:
    """A few lines that stand for millions of values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, random.randrange(7, 10))]
    return "\n".join(lines).encode()


def nested(random: Random) -> bytes:
    """Brackets in brackets in brackets."""
    depth = random.choice((500, 5_000, 100_000))
    opening, closing = random.choice((("[", "]"), ("{a: ", "}")))
    return f"data: {opening * depth}{closing * depth}".encode()


def digits(random: Random) -> bytes:
    """A number of thousands of digits."""
    return f"supernet: {{epochs: {random.choice(('', '-'))}{'7' * random.choice((4_299, 5_000, 100_000))}}}".encode()


def twice(random: Random) -> bytes:
    """A section or a key that is there twice."""
    section, inner = random.choice(
        (("supernet: {epochs: 1}\nsupernet: {cells: 3}", 0), ("supernet: {epochs: 1, epochs: 3}", 1))
    )
    return section.encode() if inner else b"data: {name: fashion-mini}\n" + section.encode()


def tagged(random: Random) -> bytes:
    """A value that asks for code to be run."""
    return random.choice(
        (
            f'seed: !!python/object/apply:os.system ["touch {MARK}"]',
            f'data: !!python/object/new:subprocess.Popen [["touch", "{MARK}"]]',
            "data: {name: !!python/name:os.system }",
            "seed: !!binary aGVsbG8=",
            "seed: !unknown 3",
        )
    ).encode()


def shape(random: Random) -> bytes:
    """A file in YAML that is no recipe."""
    return random.choice(
        (
            *(
                "[1, 2, 3]",
                "just words",
                "42",
                "null",
                "",
                "---\n---\n",
                "# nothing",
                "1: 2",
                "data: [1]",
                "data: 7",
                "seed: {}",
            ),
            *(
                "? [a, b]\n: c",
                "data: {1: 2}",
                "unknown: {a: 1}",
                "data: {nmae: cifar10}",
                "supernet: null",
                "seed: yes",
            ),
            *(
                "seed: 2024-01-15",
                "seed: 1e3000",
                "seed: 0x",
                "supernet: {epochs: 1:30:00}",
                "threads: on",
                "data: !!set {a}",
            ),
        )
    ).encode()


def encoded(random: Random) -> bytes:
    """Text in other encodings, and no text."""
    text = toy().decode()
    return random.choice(
        (
            text.encode("utf-16-be"),
            b"\xff\xfe\x00" + text.encode("utf-16-be"),
            text.encode().replace(b"toy", b"t\x00y").replace(b"data", b"da\x00ta"),
            random.randbytes(3000),
            b"\x00" * 100,
            text.replace("data", "d\udc80ta").encode("utf-8", "surrogateescape"),
            ("seed: 3 # " + "\x1b[31m\x07").encode(),
        )
    )


KINDS: dict[str, Callable[[Random], tuple[bytes, bool]]] = {
    "cut short": lambda random: (cut(toy(), random), False),
    "a bit flipped": lambda random: (flip(toy(), random), False),
    "bits flipped": lambda random: (flip(toy(), random, random.randrange(2, 40)), False),
    "nested deep": lambda random: (nested(random), True),
    "thousands of digits": lambda random: (digits(random), True),
    "a key twice": lambda random: (twice(random), True),
    "code in a tag": lambda random: (tagged(random), True),
    "references that multiply": lambda random: (laughs(random), True),
    "not of a recipe's form": lambda random: (shape(random), False),
    "not text": lambda random: (encoded(random), False),
    "indented with tabs": lambda random: (b"data:\n\tname: fashion-mini\n", True),
    "a long line": lambda random: (b"data: {name: " + b"x" * random.choice((5_000, 3_000_000)) + b"}", True),
    "a folder": lambda random: (b"", True),
    "a pipe": lambda random: (b"", True),
    "a device": lambda random: (b"", True),
    "a link to itself": lambda random: (b"", True),
    "a name with odd characters": lambda random: (b"", True),
}
PLACES: dict[str, tuple[str, Callable[[Path], object]]] = {
    "a folder": (NAME, lambda folder: (folder / NAME).mkdir()),
    "a pipe": (NAME, lambda folder: os.mkfifo(folder / NAME)),
    "a device": ("/dev/zero", nothing),
    "a link to itself": (NAME, lambda folder: (folder / NAME).symlink_to(NAME)),
    "a name with odd characters": ("no\x1b[31m such\n\x07 recipe", nothing),
}
