"""BatchNorm in a supernet's estimate: statistics of the batch at hand, or recalibrated for each architecture.

    python -m benchmarks.batchnorm RUN --table nasbench201.csv --column valid_acc_cifar10 --json FILE

`RUN` is a run whose supernet is trained. Recalibrated means: training images go through an architecture first, the mean
of their batches' statistics is kept, and images held out are judged with it, each for itself. Both ways are judged on
the same images by a table of true accuracies.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.timing import machine
from nesbs import files, metrics
from nesbs.data import Split
from nesbs.evaluation import rank
from nesbs.runs.accuracy_table import read_table
from nesbs.runs.resumable_run import Run
from nesbs.spaces import Architecture
from nesbs.supernet import Estimator, Supernet


def keep_statistics(supernet: Supernet) -> list[nn.BatchNorm2d]:
    """Let every BatchNorm average what it sees while in training, and use the averages else; the list of them."""
    norms = [module for module in supernet.modules() if isinstance(module, nn.BatchNorm2d)]
    for norm in norms:
        norm.track_running_stats, norm.momentum = True, None  # None: the mean of all batches
        norm.running_mean, norm.running_var = torch.zeros(norm.num_features), torch.ones(norm.num_features)
        norm.num_batches_tracked = torch.tensor(0)
    return norms


@torch.no_grad()
def recalibrated(
    supernet: Supernet,
    norms: Sequence[nn.BatchNorm2d],
    architecture: Architecture,
    train: Split,
    held: Split,
    batch: int,
) -> Tensor:
    """Log-probabilities of an architecture with statistics of the training images: (images held out, classes)."""
    for norm in norms:
        norm.reset_running_stats()
    supernet.train()
    for index in torch.arange(len(train)).split(batch):
        supernet(train.pixels(index), architecture)
    supernet.eval()
    found = [supernet(held.pixels(index), architecture) for index in torch.arange(len(held)).split(batch)]
    return torch.cat(found).log_softmax(-1)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.batchnorm", description=__doc__.split("\n\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--column", required=True)
    parser.add_argument("--rows", type=int, default=300, help="so many of the table's rows, the first")
    parser.add_argument("--images", type=int, default=5000, help="so many training images, and as many held out")
    parser.add_argument("--batch", type=int, default=1000)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    chosen = parser.parse_args(arguments)
    run = Run.open(chosen.run, device="cpu")
    texts, accuracies = read_table(chosen.table, chosen.column)
    architectures = [run.space.parse(text) for text in texts[: chosen.rows]]
    train, held = (
        split.subset(torch.arange(min(chosen.images, len(split))))
        for split in (run.data.search_train, run.data.search_valid)
    )
    estimator = Estimator(run.supernet(), held, batch_size=chosen.batch)
    other = run.supernet()
    norms = keep_statistics(other)
    losses: dict[str, list[float]] = {"of the batch": [], "recalibrated": []}
    for number, architecture in enumerate(architectures, start=1):
        own = recalibrated(other, norms, architecture, train, held, chosen.batch)[None]
        for name, log_probs in (("of the batch", estimator.log_probs([architecture])), ("recalibrated", own)):
            losses[name] += metrics.nll(log_probs, held.labels).tolist()
        estimator.forget()
        print(f"\r{number} of {len(architectures)}", end="", flush=True)
    truth, singles = 1 - np.array(accuracies[: chosen.rows]) / 100, [(place,) for place in range(len(architectures))]
    rankings: dict[str, Any] = {name: asdict(rank(np.array(own), truth, singles)) for name, own in losses.items()}
    print()
    for name, found in rankings.items():
        print(f"{name:<16}{found['spearman']['value']:.3f}, the better half {found['better_half']:.3f}")
    if chosen.json:
        about = {"machine": machine(), "rows": len(architectures), "images": len(held), "batch": chosen.batch}
        files.write_json(chosen.json, {**about, "rankings": rankings, "losses": losses})


if __name__ == "__main__":
    main()
