"""Judges by the truth: how accurate the members are that each chooses, beside all candidates and an unjudged draw.

    python -m benchmarks.judges --table tests/nasbench201_sample.csv --device cuda --json FILE RUN…

A run is a folder of `nesbs search` in NAS-Bench-201, whose supernet and posterior every judge is given; nothing else of
it is changed. Members' accuracy is looked up (`benchmarks.truth`). The judge `trained` is left out: it trains.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import machine
from benchmarks.truth import COLUMN, Truth
from nesbs import files
from nesbs.ensemble import SearchSettings, Selection, search
from nesbs.posterior import Posterior
from nesbs.records.provenance import provenance
from nesbs.runs import Run
from nesbs.samplers import Proposal, get_sampler
from nesbs.spaces import Architecture, differing

GAINS = (0.0, 0.5, 1.0, 2.0)  # weights of what an ensemble adds
METHODS = ("rounds", "forward")


def judges(gains: Sequence[float]) -> list[dict[str, Any]]:
    """What is compared; what an ensemble adds is compared with uniform ensembles too, where it weighs 1."""
    found: list[dict[str, Any]] = [{"judge": "likelihood"}]
    for judge in ("posterior", "evidence"):
        found += [{"judge": judge, "gain": gain, "gain_pool": "posterior"} for gain in gains]
        found += [{"judge": judge, "gain": 1.0, "gain_pool": "uniform"}] if 1.0 in gains else []
    return found


def described(ensemble: Sequence[Architecture], posterior: Posterior, truth: Truth) -> dict[str, float]:
    """An ensemble by its members: accuracies in per cent, edges that differ, probability."""
    accuracies = truth.of(ensemble)
    return {
        "accuracy": float(accuracies.mean()),
        "weakest": float(accuracies.min()),
        "differing": differing(ensemble),
        "log_p": float(posterior.log_prob(list(ensemble)).mean()),
        "in_table": float(np.mean([truth.holds(member) for member in ensemble])),
    }


def mean_of(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    """The mean of each figure."""
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


def what_is_drawn(drawn: Sequence[Proposal], posterior: Posterior, truth: Truth) -> list[dict[str, Any]]:
    """What there is to choose from: all ensembles drawn, and those at δ = 0."""
    every = [described(one.architectures, posterior, truth) for one in drawn]
    plain = [row for row, one in zip(every, drawn, strict=True) if one.delta == 0]
    return [
        {"chosen": "candidates", "ensembles": len(every), **mean_of(every)},
        {"chosen": "unjudged", "ensembles": len(plain), **mean_of(plain)},
    ]


def chosen_by(run: Run, settings: SearchSettings, variance: float | None) -> Selection:
    """What a judge chooses from the run's own sampler."""
    sampler = get_sampler(run.recipe.sampler.model_copy(update={"name": "svgd-rd", "variance": variance}))
    return search(
        run.supernet(),
        run.posterior(),
        run.data.search_valid,
        size=run.recipe.ensemble.size,
        sampler=sampler,
        seed=run.recipe.seed,
        ranks=run.ranks() if settings.judge == "evidence" else None,
        **settings.model_dump(),
    )


def measure(run: Run, truth: Truth, variance: float | None, gains: Sequence[float]) -> list[dict[str, Any]]:
    """What every judge chooses in a run; first what it has to choose from: candidates, and the draws at δ = 0."""
    posterior = run.posterior()
    rows: list[dict[str, Any]] = []
    about: dict[str, Any] = {"seed": run.recipe.seed, "variance": variance}
    for method in METHODS:
        for judge in judges(gains):
            settings = run.recipe.search.model_copy(update={"method": method, **judge})
            started = time.perf_counter()
            choice = chosen_by(run, settings, variance)
            seconds = time.perf_counter() - started
            if not rows:
                drawn = [proposal for proposal, _ in choice.proposals]
                rows += [{**about, **row} for row in what_is_drawn(drawn, posterior, truth)]
            found = described(choice.architectures, posterior, truth)
            architectures = [str(one) for one in choice.architectures]
            cost = {"seconds": seconds, "judge_seconds": choice.judge_seconds}
            rows.append({**about, "chosen": method, **judge, **found, **cost, "architectures": architectures})
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judges", description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of searches in NAS-Bench-201")
    parser.add_argument("--table", type=Path, required=True, help="rows of NAS-Bench-201 as a CSV file")
    parser.add_argument("--column", default=COLUMN, help="of accuracies in per cent")
    parser.add_argument("--variances", type=float, nargs="*", default=[5.0], help="of SVGD-RD's Gaussians; |O| is 5")
    parser.add_argument("--gains", type=float, nargs="*", default=GAINS, help="weights of what an ensemble adds")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path, help="the record")
    asked = parser.parse_args(arguments)
    truth, rows = Truth(asked.table, asked.column), []
    for folder in asked.runs:
        run = Run.open(folder, device=asked.device)
        for variance in asked.variances:
            for row in measure(run, truth, variance, asked.gains):
                rows.append(row)
                shown = {key: value for key, value in row.items() if key != "architectures"}
                print(" ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in shown.items()))
        if asked.json:  # what has been measured is kept, whatever comes
            about = {**provenance(), "machine": machine(), "column": asked.column}
            files.write_json(asked.json, {**about, "regression": truth.cross_validated(), "rows": rows})


if __name__ == "__main__":
    main()
