"""Bad options of every command, on a folder that holds a finished run."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from typer.main import get_command

from nesbs.cli.entry_point import app
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
    "report": (OUT,),
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
        "a=b",
    ),
    *(
        "\x1b[31mred\x07",
        "\x9b31m",
        "no\nline",
        "../..",
        "/",
        "/dev/null",
        "/dev/zero",
        "/proc/self/mem",
        "/proc/self/environ",
    ),
    *(
        OUT,
        "a-file",
        "a-pipe",
        "a-loop",
        "strangers",
        "None",
        "null",
        "true",
        "--",
        "-",
        "%s%n",
        "\udc80",
        "é‮",
        "~nobody",
        "all",
    ),
)
NOT_NUMBERS = ("", " ", "nan", "1e30", "1,x", "x", "-", "[1")


@cache
def options(command: str) -> tuple[tuple[str, Any], ...]:
    """The parameters of a command: the words that introduce each (none for an argument), and what it takes."""
    commands: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    known = commands.get(command)
    return tuple((p.opts[-1] if p.param_type_name == "option" else "", p) for p in known.params) if known else ()


def make(random: Random, number: int, references: References) -> Input:
    """One bad option of one command: all commands in turn."""
    command = list(GOOD)[number % len(GOOD)]
    words = GOOD[command]
    way = random.choice(("value", "value", "value", "value", "number", "unknown", "missing", "given twice"))
    refused, name = False, way
    if way in ("value", "number"):
        numeric = [(word, p) for word, p in options(command) if p.type.name in ("integer", "integer range") and word]
        if way == "number" and numeric:
            word, _ = random.choice(numeric)
            words, refused, name = (*words, word, random.choice(NOT_NUMBERS)), True, f"{word}: no number"
        else:
            word, parameter = random.choice(options(command))
            value = random.choice(VALUES)
            given = (word,) if getattr(parameter, "is_flag", False) else (word, value) if word else (value,)
            words, name = (*words, *given), f"{word or 'another argument'}: a bad value"
    elif way == "unknown":
        words, refused = (
            (*words, random.choice(("--nonsense", "--see", "-z", "--no-quiet", "--out=", "--seed=")), "3"),
            True,
        )
    elif way == "missing":
        words = words[: random.randrange(len(words))] if words else ("--",)
    else:
        words = (*words, *words)

    def prepare(folder: Path) -> None:
        shutil.copytree(references.made["run"].folder, folder / OUT)
        (folder / "a-file").write_text("mine")
        (folder / "strangers").mkdir()
        (folder / "strangers" / "thesis.txt").write_text("mine")
        (folder / "a-loop").symlink_to("a-loop")
        os.mkfifo(folder / "a-pipe")

    return Input(f"{command}, {name}", (command, *words), refused, prepare)
