"""Bad options of every command, on a folder that holds a finished run."""

from __future__ import annotations

import inspect
import os
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from PIL import Image
from typer.main import get_command

from nesbs.cli.entry_point import COMMANDS, app
from nesbs.cli.options import with_common_options
from soak.bad_settings import atoms
from soak.commands import OUT, SMALL, References, settings
from soak.inputs import Input

GOOD: dict[str, tuple[str, ...]] = {  # each command as it would work, in a moment
    "run": ("toy", *settings(*SMALL), "--out", "new"),
    "search": ("toy", *settings(*SMALL), "--out", "new"),
    "train": (OUT,),
    "evaluate": (OUT,),
    "quality": (OUT, "--architectures", "4", "--candidates", "6", "--epochs", "1"),
    "attack": (OUT, "--attacks", "fgsm", "--images", "8"),
    "compare": ("toy", "--methods", "deep", "--seeds", "1", *settings(*SMALL), "--out", "new"),
    "curves": ("toy", "--methods", "urs", "--budgets", "2", "--seeds", "1", *settings(*SMALL), "--out", "new"),
    "reproduce": ("fig-delta", "--out", "new"),
    "predict": (OUT, "an-image.png"),
    "export": (OUT, "--out", "new.onnx"),
    "latency": (OUT, "--repeats", "1"),
    "distil": (OUT, "--into", "smallest", "--out", "new"),
    "report": (OUT,),
    "status": (OUT,),
    "cost": ("toy",),
    "recipes": (),
    "datasets": ("fashion-mini",),
    "zoo": ("darts-v2",),
}
VALUES = (
    *(
        "",
        " ",
        "nan",
        "inf",
        "-1",
        "0",
        "1e30",
        str(10**30),
        "9" * 5000,
        "x" * 5000,
        ",",
        "1,,2",
        "1,x",
        "[1",
        "{a: 1}",
    ),
    *("\x1b[31mred\x07", "\x9b31m", "no\nline", "\udc80", "é‮", "%s%n", "--", "-", "a=b", "None", "null", "true", "all"),
    *(OUT, "a-file", "a-pipe", "a-loop", "strangers", "..", "~nobody"),
)
DEVICES = ("/", "/dev/null", "/dev/zero", "/proc/self/mem", "/proc/self/environ")  # never to be written to
NOT_NUMBERS = ("", " ", "nan", "1e30", "1,x", "x", "-", "[1")


LEFT_OUT = ("--debug", "--download")  # the first asks for a traceback, the second for the network


@dataclass(frozen=True)
class Option:
    """A parameter of a command."""

    word: str  # that introduces it; of an argument none
    is_flag: bool
    is_number: bool


@cache
def options(command: str) -> tuple[Option, ...]:
    """The parameters of a command."""
    commands: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    function = with_common_options(next(each for each in COMMANDS if each.__name__ == command))
    kinds = {name: atoms(each.annotation) for name, each in inspect.signature(function).parameters.items()}
    every = (
        Option(
            each.opts[-1] if each.opts[-1].startswith("-") else "", bool in kinds[each.name], int in kinds[each.name]
        )
        for each in commands[command].params
    )
    return tuple(each for each in every if each.word not in LEFT_OUT)


def make(random: Random, number: int, references: References) -> Input:
    """One bad option of one command: all commands in turn."""
    command = list(GOOD)[number % len(GOOD)]
    words = GOOD[command]
    way = random.choice(("value", "value", "value", "value", "number", "unknown", "missing", "given twice"))
    refused, name = False, way
    if way in ("value", "number"):
        numeric = [each for each in options(command) if each.is_number and each.word]
        if way == "number" and numeric:
            word = random.choice(numeric).word
            words, refused, name = (*words, word, random.choice(NOT_NUMBERS)), True, f"{word}: no number"
        else:
            option = random.choice(options(command))
            value = random.choice(VALUES if option.word == "--out" else VALUES + DEVICES)
            given = (option.word,) if option.is_flag else (option.word, value) if option.word else (value,)
            words, name = (*words, *given), f"{option.word or 'another argument'}: a bad value"
    elif way == "unknown":
        unknown = random.choice(("--nonsense", "--see", "-z", "--no-quiet", "--outt=", "--seed="))
        words, refused = (*words, unknown, "3"), True
    elif way == "missing":
        words = words[: random.randrange(len(words))] if words else ("--",)
    else:
        words = (*words, *words)

    def prepare(folder: Path) -> None:
        shutil.copytree(references.made["run"].folder, folder / OUT)
        (folder / "a-file").write_text("mine")
        Image.new("L", (28, 28), 90).save(folder / "an-image.png")
        (folder / "strangers").mkdir()
        (folder / "strangers" / "thesis.safetensors").write_text("mine")
        (folder / "a-loop").symlink_to("a-loop")
        os.mkfifo(folder / "a-pipe")

    return Input(f"{command}, {name}", (command, *words), refused, prepare)
