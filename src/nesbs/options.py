"""The options of the commands: one kind each, with its help, and what a device's name means."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer

from nesbs.errors import NesbsError, did_you_mean

RecipeName = Annotated[str, typer.Argument(metavar="RECIPE", help="A name from `nesbs recipes`, or a YAML file.")]
Out = Annotated[Path, typer.Option("--out", metavar="RUN", help="The run folder.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
Changes = Annotated[list[str] | None, typer.Option("--set", metavar="SECTION.NAME=VALUE", help="Change a setting.")]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", min=0, help="Instead of the recipe's.")]
Device = Annotated[str, typer.Option("--device", metavar="auto|cpu|cuda", help="Where to compute.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no table; errors only.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show a traceback with an error.")]
Human = Annotated[
    str | None, typer.Option("--human", metavar="FILE", help="Compare with people's labels (.npy, .npz; CIFAR-10H).")
]
Unseen = Annotated[
    str | None, typer.Option("--unseen", metavar="NAME|PATH", help="Tell the test images from another data set's.")
]
UnseenRoot = Annotated[
    str | None, typer.Option("--unseen-root", metavar="FOLDER", help="The data.root of the other data set.")
]
CorruptionNames = Annotated[
    str | None,
    typer.Option(
        "--corruptions", metavar="all|NAME,NAME", help="Measure on corrupted test images (names: nesbs recipes --keys)."
    ),
]


def chosen_device(name: str) -> str:
    """The device that --device names; `auto` is a GPU where there is one."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name not in ("cpu", "cuda"):
        raise NesbsError(f"--device: {did_you_mean(name, ['auto', 'cpu', 'cuda'])}, found {name}")
    if name == "cuda" and not torch.cuda.is_available():
        raise NesbsError("--device cuda: no GPU that torch can use was found; take --device cpu")
    return name
