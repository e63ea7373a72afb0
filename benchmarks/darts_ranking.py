"""What ranks architectures of DARTS: estimates of several supernets, untrained networks, sizes; judged by trained ones.

    python -m benchmarks.darts_ranking --root DATA --table results/quality-darts/sixty.csv --json FILE

The table has the columns `architecture` and `accuracy` (in per cent; empty where it is still to be measured), of
networks of eight cells and 16 channels. Every lever trains a supernet and estimates the table's architectures on images
it has not seen; untrained networks and sizes are those of the table's networks. A value is better when it is lower.
`--merge FILE…` trains nothing: it ranks what these records hold.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.levers import estimates
from benchmarks.timing import machine
from nesbs import files
from nesbs.data import Dataset, load_dataset
from nesbs.ensemble import MemberSettings
from nesbs.ensemble.members import design_member
from nesbs.evaluation import rank
from nesbs.posterior import PosteriorSettings, reference_ranks
from nesbs.posterior.evidence import share_below
from nesbs.records.provenance import provenance
from nesbs.spaces import Architecture, Space, darts
from nesbs.spaces.network_size import multiply_adds, parameters
from nesbs.supernet import train_supernet

CELLS, CHANNELS = 8, 16  # of the table's networks
RECIPE: dict[str, Any] = {
    "epochs": 50,
    "cells": 8,
    "channels": 16,
    "partial": 2,
    "batch_size": 128,
    "learning_rate": 0.1,
    "weight_decay": 3e-4,
    "precision": "auto",
}
SHALLOW = {**RECIPE, "cells": 3, "partial": 1}
LEVERS: dict[str, dict[str, Any]] = {
    "recipe": RECIPE,
    "recipe, 12 epochs": {**RECIPE, "epochs": 12},
    "recipe, 25 epochs": {**RECIPE, "epochs": 25},
    "all channels": {**RECIPE, "partial": 1},
    "three cells": SHALLOW,
    "three cells, decay 1e-3": {**SHALLOW, "weight_decay": 1e-3},
    "three cells, mixed": {**SHALLOW, "paths": "mixed", "epochs": 10, "weight_decay": 1e-3},
    "three cells, fair": {**SHALLOW, "paths": "fair", "epochs": 10, "weight_decay": 1e-3},
}
UNTRAINED: dict[str, dict[str, int]] = {  # sizes of untrained networks; without words the table's networks' own
    "untrained": {},
    "untrained, 8 channels": {"untrained_channels": 8},
    "untrained, 5 cells, 8 channels": {"untrained_cells": 5, "untrained_channels": 8},
    "untrained, 3 cells": {"untrained_cells": 3},
}
WEIGHTS = {1: "untrained", 3: "3 × untrained"}  # of untrained networks beside a supernet's share
TOY = {"epochs": 1, "channels": 4, "batch_size": 64}
REFERENCE = PosteriorSettings(reference=64, untrained=1.0)


def sizes(space: Space, architectures: Sequence[Architecture], data: Dataset) -> dict[str, list[float]]:
    """Parameters and multiply-adds, each with a minus: more is taken for better."""
    split, settings = data.train, MemberSettings(cells=CELLS, channels=CHANNELS)
    found: dict[str, list[float]] = {"parameters": [], "multiply-adds": []}
    for architecture in architectures:
        member = design_member(space, architecture, split, settings)
        found["parameters"].append(-float(parameters(member)))
        found["multiply-adds"].append(-float(multiply_adds(member, (split.channels, *split.size))))
    return found


def by_untrained(
    name: str, space: Space, architectures: Sequence[Architecture], data: Dataset, seed: int
) -> dict[str, Any]:
    """Rank shares of untrained networks, with a minus, and the seconds for all."""
    started = time.perf_counter()
    settings = REFERENCE.model_copy(update=UNTRAINED[name])
    ranks = reference_ranks(space, data.search_valid, settings, seed=seed, members=(CELLS, CHANNELS))
    assert ranks is not None
    values = (-ranks.untrained(architectures).double()).tolist()
    return {"values": {"untrained": values}, "seconds": time.perf_counter() - started}


def by_supernet(
    name: str, space: Space, architectures: Sequence[Architecture], data: Dataset, seed: int, toy: bool
) -> dict[str, Any]:
    """What a supernet judges them by, its loss also as a rank share among the reference, with a minus."""
    settings = {**LEVERS[name], **(TOY if toy else {})}
    started = time.perf_counter()
    supernet = train_supernet(space, data.search_train, seed=seed, **settings)
    trained = time.perf_counter() - started
    ranks = reference_ranks(
        space, data.search_valid, REFERENCE.model_copy(update={"untrained": 0.0}), seed=seed, members=(CELLS, CHANNELS)
    )
    assert ranks is not None
    batch = 50 if toy else 1000
    found = estimates(supernet, data, architectures, batch=batch)
    others = estimates(supernet, data, ranks.reference, batch=batch)
    values = {kind: column.tolist() for kind, column in found.items()}
    for kind in ("loss", "noise 0.5"):
        share = share_below(torch.tensor(-found[kind]), torch.tensor(-others[kind]))
        values[f"{kind}, share"] = (-share.double()).tolist()
    about = {"settings": settings, "training_loss": supernet.losses[-1], "seconds": trained}
    return {**about, "values": values}


def rankings(record: dict[str, Any], accuracies: Sequence[float | None]) -> dict[str, Any]:
    """How every column ranks the architectures that have been trained; also shares, with the untrained's added."""
    known = [place for place, accuracy in enumerate(accuracies) if accuracy is not None]
    truth = np.array([1 - float(accuracies[place] or 0) / 100 for place in known])
    columns: dict[str, np.ndarray] = {}
    for row in record["rows"]:
        for kind, values in row["values"].items():
            columns[f"{row['name']}: {kind} ({row['seed']})"] = np.array(values)
    for row in record["rows"]:
        other = columns.get(f"untrained: untrained ({row['seed']})")
        for kind, values in row["values"].items():
            if kind.endswith("share") and other is not None:
                for weight, words in WEIGHTS.items():
                    columns[f"{row['name']}: {kind} + {words} ({row['seed']})"] = np.array(values) + weight * other
    singles = [(place,) for place in range(len(known))]
    return {name: asdict(rank(values[known], truth, singles)) for name, values in columns.items()}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.darts_ranking", description=__doc__)
    parser.add_argument("--data", default="cifar10")
    parser.add_argument("--root", type=Path, help="the folder it is in")
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=["sizes", *UNTRAINED, *LEVERS], help="these alone")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument("--merge", nargs="*", type=Path, default=[], help="records of earlier calls")
    parser.add_argument("--toy", action="store_true", help="tiny supernets, to see that it runs")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(arguments)
    space = darts()
    with asked.table.open() as opened:
        table = list(csv.DictReader(opened))
    architectures = [space.parse(row["architecture"]) for row in table]
    accuracies = [float(row["accuracy"]) if row["accuracy"] else None for row in table]
    rows: list[dict[str, Any]] = [row for path in asked.merge for row in json.loads(path.read_text())["rows"]]
    record: dict[str, Any] = {**provenance(), "machine": machine(), "rows": rows}
    if not asked.merge:
        device = "cuda" if torch.cuda.is_available() else "cpu"
        more: dict[str, Any] = {"train_limit": 200} if asked.toy else {"root": asked.root}
        data = load_dataset(asked.data, **more).to(device)
        for seed in asked.seeds:
            for name in asked.only:
                if name == "sizes":
                    found: dict[str, Any] = {"values": sizes(space, architectures, data)}
                elif name in UNTRAINED:
                    found = by_untrained(name, space, architectures, data, seed)
                else:
                    found = by_supernet(name, space, architectures, data, seed, asked.toy)
                rows.append({"name": name, "seed": seed, **found})
                print(name, seed, f"{found.get('seconds', 0):.1f} s", flush=True)
                if asked.json:  # what has been measured is kept, whatever comes
                    files.write_json(asked.json, record)
    record["rankings"] = rankings(record, accuracies)
    for name, found in record["rankings"].items():
        value = found["spearman"]
        print(f"{name:<50}{value['value']:6.2f} [{value['low']:.2f}, {value['high']:.2f}]")
    if asked.json:
        files.write_json(asked.json, record)


if __name__ == "__main__":
    main()
