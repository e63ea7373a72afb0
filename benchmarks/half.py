"""What rounding weights to float16 changes: a run and the folder that `nesbs export --to half` made of it.

    python -m benchmarks.half RUN HALF --root DATA --json FILE

Both answer all test images; `same` is the share of images to which both give the same class.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from benchmarks.timing import machine
from nesbs import files, metrics
from nesbs.runs import Run

BOTH = ("run", "half")


def measure(whole: Path, half: Path, *, root: str | None, device: str) -> dict[str, object]:
    """Error and NLL of both on the test images, the share of equal answers, and the smaller one's bytes."""
    runs = [Run.open(folder, device=device, root=root) for folder in (whole, half)]
    test = runs[0].data.test
    answers = []
    for run in runs:
        ensemble = run.ensemble()
        answers.append(ensemble.combined(ensemble.predict(test).double()))
    return {
        "images": len(test),
        "same": float((answers[0].argmax(-1) == answers[1].argmax(-1)).double().mean()),
        "error": {name: float(metrics.error(each, test.labels)) for name, each in zip(BOTH, answers, strict=True)},
        "nll": {name: float(metrics.nll(each, test.labels)) for name, each in zip(BOTH, answers, strict=True)},
        "bytes": sum(path.stat().st_size for path in half.rglob("*") if path.is_file()),
    }


def main(arguments: list[str] | None = None) -> None:
    """Measure the two folders of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.half", description=__doc__.split("\n\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("half", type=Path)
    parser.add_argument("--root", help="where the data are, instead of the run's data.root")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    asked = parser.parse_args(arguments)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found = measure(asked.run, asked.half, root=asked.root, device=device)
    print(found)
    files.write_json(asked.json, {"machine": machine(), **found})


if __name__ == "__main__":
    main()
