"""The posterior fitted after the supernet's training against the one learned during it (paper, app. C.2).

    python -m benchmarks.responses --root DATA --table nasbench201.csv --column valid_acc_cifar10 --json FILE

Both train a supernet of NAS-Bench-201 one path a step, for as many epochs. During it, the best-response posterior draws
the paths it is fitted to, by the likelihood alone; after it, a posterior is fitted by each estimator, in as many steps
unless `--steps` says, with evidence of 100 and with as much as makes it as undecided. Each is judged by its own
supernet (how far the mode is behind the best of a hundred draws of it and a hundred uniform ones) and by the table of
true accuracies.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.levers import ESTIMATORS
from benchmarks.timing import machine
from nesbs import files
from nesbs.data import Dataset, load_dataset, steps_per_epoch
from nesbs.evaluation import mass
from nesbs.posterior import Posterior, PosteriorSettings, fit_posterior
from nesbs.rivals import SearchRequest, best_response, discrepancy
from nesbs.runs.accuracy_table import read_table
from nesbs.spaces import Architecture, nasbench201
from nesbs.supernet import Estimator, Supernet, SupernetSettings, train_supernet

EVIDENCE = 100.0  # of the posteriors fitted afterwards


def measure(
    data: Dataset,
    architectures: list[Architecture],
    accuracies: np.ndarray,
    *,
    seed: int,
    steps: int | None,
    toy: bool,
    **settings: Any,
) -> Iterator[dict[str, Any]]:
    """A row for each posterior of one seed, as it is measured."""
    space = nasbench201()
    size = {"channels": 4, "batch_size": 64} if toy else {"channels": 16, "batch_size": 128}
    shared = {"cells": 1, "learning_rate": 0.1, "skip_dead": True, **size, **settings}
    chosen = SupernetSettings.of(shared)
    steps = steps or chosen.epochs * steps_per_epoch(data.search_train, chosen.batch_size)
    fitting: dict[str, Any] = {"evidence": EVIDENCE, "batch_size": 20 if toy else 128, "steps": steps}

    def judged(name: str, supernet: Supernet, posterior: Posterior, started: float) -> dict[str, Any]:
        seconds = time.perf_counter() - started
        estimator = Estimator(supernet, data.search_valid, batch_size=50 if toy else 1000)
        return {
            "name": name,
            "seed": seed,
            "seconds": seconds,
            "entropy": float(posterior.entropy()),
            "errors": asdict(discrepancy(estimator, posterior, count=10 if toy else 100, seed=seed)),
            **mass(posterior.log_prob(architectures).double().numpy(), accuracies),
            "mode_architecture": str(posterior.mode()),
        }

    started = time.perf_counter()
    request = SearchRequest(space, data.search_train, data.search_valid, chosen, seed=seed)
    supernet, learned = best_response(request, PosteriorSettings.of({**fitting, "estimator": "straight-through"}))
    yield judged("during (best response)", supernet, learned, started)
    started = time.perf_counter()
    uniform = train_supernet(space, data.search_train, seed=seed, **shared)
    trained = time.perf_counter() - started
    undecided = {"evidence": "auto", "entropy": float(learned.entropy()) / math.log(len(space))}
    for estimator, (said, weighed) in itertools.product(ESTIMATORS, {"": {}, ", as undecided": undecided}.items()):
        started = time.perf_counter() - trained
        how = {**fitting, **weighed, "estimator": estimator}
        posterior = fit_posterior(uniform, data.search_valid, seed=seed, **how)
        yield judged(f"after, {estimator}{said}", uniform, posterior, started)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.responses", description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", default="cifar10", help="a data set of NAS-Bench-201's kind")
    parser.add_argument("--root", type=Path, help="the folder it is in")
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--column", required=True)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--steps", type=int, help="of fitting afterwards; by default as many as the training has")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--limit", type=int, help="so many training images")
    parser.add_argument("--toy", action="store_true", help="tiny supernets, to see that it runs")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    chosen = parser.parse_args(arguments)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = load_dataset(chosen.data, root=chosen.root, train_limit=chosen.limit).to(device)
    texts, accuracies = read_table(chosen.table, chosen.column)
    architectures = [nasbench201().parse(text) for text in texts]
    columns = f"{'seconds':>8}{'entropy':>9}{'mode':>8}{'best':>8}{'gap':>8}{'expected':>10}"
    print(f"{'':<42}{columns}  rank of the likeliest row")
    rows: list[dict[str, Any]] = []
    for seed in chosen.seeds:
        lengths = {"steps": chosen.steps, "epochs": chosen.epochs}
        for row in measure(data, architectures, np.array(accuracies), seed=seed, toy=chosen.toy, **lengths):
            rows.append(row)
            errors = "".join(f"{100 * value:>8.2f}" for value in row["errors"].values())
            print(
                f"{row['name'] + f' ({seed})':<42}{row['seconds']:>8.1f}{row['entropy']:>9.2f}{errors}"
                f"{row['expected']:>10.2f}  {row['mode_rank']} of {row['architectures']}",
                flush=True,
            )
            if chosen.json:  # what has been measured is kept, whatever comes
                about = {"machine": machine(), "data": chosen.data, "epochs": chosen.epochs}
                files.write_json(chosen.json, {**about, "rows": rows})
    print("errors in % with each supernet's own weights, of the mode and of the best found; true accuracy expected")


if __name__ == "__main__":
    main()
