"""Time everything, print a table of ratios, write JSON: `python -m benchmarks [--toy] [--json FILE]`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from benchmarks import estimation, scoring, steps, svgd
from benchmarks.timing import machine
from nesbs import files
from nesbs.spaces import darts, nasbench201
from nesbs.training.threads import use_threads

PARTS = ["members", "supernets", "small", "estimation", "svgd", "scoring"]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--toy", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--only", nargs="*", choices=PARTS, help="these alone")
    parser.add_argument("--threads", type=int, help="on a CPU so many; as torch sees fit by default")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    chosen = parser.parse_args(arguments)
    if chosen.threads:
        use_threads(chosen.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    small = {"rounds": 2, "deltas": 2, "size": 3, "steps": 10, "repeats": 1} if chosen.toy else {}
    few = {"ensembles": 50, "candidates": 5, "images": 100, "repeats": 1} if chosen.toy else {}
    parts: dict[str, Callable[[], Iterable[dict[str, Any]]]] = {
        "members": lambda: steps.members(toy=chosen.toy, device=device),
        "supernets": lambda: steps.supernets(toy=chosen.toy, device=device),
        "small": lambda: steps.small(toy=chosen.toy, device=device),
        "estimation": lambda: estimation.measure(toy=chosen.toy, device=device),
        "svgd": lambda: [svgd.measure(space, device=device, **small) for space in (nasbench201(), darts())],
        "scoring": lambda: [scoring.measure(**few)],
    }
    about = machine()
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print(f"{'':<64}{'seconds':>10}{'plain':>10}{'ratio':>9}")
    results = []
    for name, part in parts.items():
        for row in part() if not chosen.only or name in chosen.only else ():
            results.append(row)
            print(
                f"{row['name']:<64}{row['seconds']:>10.4f}{row['reference_seconds']:>10.4f}{row['ratio']:>8.1f}×",
                flush=True,
            )
            if chosen.json:  # what has been measured is kept, whatever comes
                files.write_json(chosen.json, {"machine": about, "results": results})
    print("medians: of a step, of an architecture, of the whole; long plain loops are timed on a part and scaled up")


if __name__ == "__main__":
    main()
