"""A whole search as a recipe asks for it, timed stage by stage.

    python -m benchmarks.whole cifar10-darts --set data.root=DATA --json FILE

What is timed is what `nesbs search` does, compiling and recording included.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.timing import machine
from nesbs import files
from nesbs.records import RunRecord
from nesbs.runs.recipe import load_recipe
from nesbs.runs.resumable_run import Run


def measure(recipe: str, changes: list[str], *, seed: int, device: str, folder: Path) -> dict[str, Any]:
    """Seconds of every stage and in all, and what was chosen."""
    asked = load_recipe(recipe, changes, seed=seed)
    started = time.perf_counter()
    chosen = Run.create(folder, asked, device=device).selection()
    seconds = time.perf_counter() - started
    stages = {name: stage["seconds"] for name, stage in files.read_json(folder / RunRecord.FILE)["stages"].items()}
    about = {"recipe": recipe, "changes": changes, "seed": seed}
    return {**about, "seconds": seconds, "stages": stages, "chosen": chosen.to_json()}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.whole", description=__doc__.split("\n\n")[0])
    parser.add_argument("recipes", nargs="+")
    parser.add_argument("--set", action="append", default=[], metavar="a.b=c", help="a setting of all of them")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="keep the runs here, each under its recipe's name")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    chosen = parser.parse_args(arguments)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    rows = []
    for recipe in chosen.recipes:
        with tempfile.TemporaryDirectory() as temporary:
            folder = (chosen.out or Path(temporary)) / recipe
            row = measure(recipe, chosen.set, seed=chosen.seed, device=device, folder=folder)
        rows.append(row)
        parts = ", ".join(f"{name} {seconds:.1f}" for name, seconds in row["stages"].items())
        print(f"{recipe}: {row['seconds']:.1f} s ({parts})", flush=True)
        if chosen.json:  # what has been measured is kept, whatever comes
            files.write_json(chosen.json, {"machine": machine(), "rows": rows})


if __name__ == "__main__":
    main()
