"""Monte Carlo and SVGD-RD by the truth: how accurate the drawn members are, and how much they differ.

    python -m benchmarks.samplers --table tests/nasbench201_sample.csv --json FILE results/searches/*/posterior.json

Nothing is judged and nothing is trained: ensembles are drawn from posteriors that searches left, and their members'
accuracy is looked up (`benchmarks.truth`).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import machine
from benchmarks.truth import COLUMN, Truth
from nesbs import files, rng
from nesbs.posterior import Posterior
from nesbs.records.provenance import provenance
from nesbs.samplers import MonteCarlo, Sampler, SvgdRd
from nesbs.spaces import differing

SIZE, ROUNDS = 3, 100
DELTAS = (-0.75, 0.0, 0.5, 1.0, 2.0)
VARIANCES = (5.0, 2.0, 1.0, 0.3)  # the first is |O|, the paper's


def samplers() -> list[tuple[dict[str, Any], Sampler]]:
    """What is compared, each with its settings."""
    found: list[tuple[dict[str, Any], Sampler]] = [({"sampler": "monte-carlo"}, MonteCarlo())]
    for variance in VARIANCES:
        for delta in DELTAS:
            settings = {"sampler": "svgd-rd", "delta": delta, "variance": variance}
            found.append((settings, SvgdRd(delta=delta, variance=variance)))
    return found


def measure(sampler: Sampler, posterior: Posterior, truth: Truth, seed: int) -> dict[str, float]:
    """Draw ensembles, as they come, and describe them; accuracies in per cent."""
    random = rng.generator(seed, "samplers")
    proposals = sampler.propose(posterior, size=SIZE, rounds=ROUNDS, duplicates="allow", generator=random)
    drawn = [proposal.architectures for proposal in proposals]
    members = [member for ensemble in drawn for member in ensemble]
    accuracies = truth.of(members).reshape(len(drawn), SIZE)
    return {
        "ensembles": len(drawn),
        "accuracy": float(accuracies.mean()),
        "weakest": float(accuracies.min(1).mean()),
        "differing": float(np.mean([differing(ensemble) for ensemble in drawn])),
        "log_p": float(posterior.log_prob(members).mean()),
        "in_table": float(np.mean([truth.holds(member) for member in members])),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.samplers", description=__doc__)
    parser.add_argument("posteriors", type=Path, nargs="+", help="posterior.json of searches in NAS-Bench-201")
    parser.add_argument("--table", type=Path, required=True, help="rows of NAS-Bench-201 as a CSV file")
    parser.add_argument("--column", default=COLUMN, help="of accuracies in per cent")
    parser.add_argument("--json", type=Path, help="the record")
    chosen = parser.parse_args(arguments)
    started, truth, rows = time.monotonic(), Truth(chosen.table, chosen.column), []
    for number, path in enumerate(chosen.posteriors):
        posterior = Posterior.from_json(json.loads(path.read_text()))
        for settings, sampler in samplers():
            found = measure(sampler, posterior, truth, seed=number)
            rows.append({"posterior": path.parent.name, **settings, **found})
            print(
                " ".join(
                    f"{key} {value:.4g}" if isinstance(value, float) else f"{value}" for key, value in rows[-1].items()
                )
            )
    record = {
        **provenance(),
        "machine": machine(),
        "column": chosen.column,
        "regression": truth.cross_validated(),
        "size": SIZE,
        "rounds": ROUNDS,
        "seconds": time.monotonic() - started,
        "rows": rows,
    }
    if chosen.json:
        files.write_json(chosen.json, record)


if __name__ == "__main__":
    main()
