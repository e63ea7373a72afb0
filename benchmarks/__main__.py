"""Time everything, print a table of ratios, write JSON: `python -m benchmarks [--toy] [--json FILE]`."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks import scoring, svgd
from benchmarks.timing import machine
from nesbs import files


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--toy", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    chosen = parser.parse_args(arguments)
    if chosen.toy:
        results = [
            scoring.measure(ensembles=50, candidates=5, images=100, repeats=1),
            svgd.measure(rounds=2, deltas=2, size=3, steps=10, repeats=1),
        ]
    else:
        results = [scoring.measure(), svgd.measure()]
    about = machine()
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print(f"{'':<64}{'seconds':>10}{'plain':>10}{'ratio':>9}")
    for row in results:
        print(f"{row['name']:<64}{row['seconds']:>10.3f}{row['reference_seconds']:>10.3f}{row['ratio']:>8.1f}×")
    print("medians; the plain loop is timed on a part and scaled up")
    if chosen.json:
        files.write_json(chosen.json, {"machine": about, "results": results})


if __name__ == "__main__":
    main()
