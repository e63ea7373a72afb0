"""What makes a supernet's estimate rank: settings varied one at a time, judged by a table of true accuracies.

    python -m benchmarks.levers --root DATA --table nasbench201.csv --column valid_acc_cifar10 --json levers.json

`DATA` is the folder that holds `cifar-10-batches-bin`; the table has the column `architecture` and accuracies in per
cent. Every lever trains a supernet of NAS-Bench-201, estimates the table's architectures on images it has not seen,
and fits a posterior; the row says how well loss and accuracy rank, and where the posterior puts its mass. With
`--evidences likelihood standing` a second posterior is fitted to what the recipe takes for evidence: the share of
random architectures that one beats by its loss, and untrained at full depth; with `--evidences` and nothing behind it
none is.
"""

from __future__ import annotations

import argparse
import copy
import functools
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from benchmarks.timing import machine
from nesbs import files, metrics
from nesbs.data import Dataset, load_dataset, steps_per_epoch
from nesbs.evaluation import mass, rank
from nesbs.posterior import Posterior, PosteriorSettings, ReferenceRanks, fit_posterior, reference_ranks
from nesbs.runs.accuracy_table import read_table
from nesbs.spaces import Architecture, nasbench201
from nesbs.supernet import Estimator, Supernet, SupernetSettings, build_supernet, train_supernet
from nesbs.supernet.draw_paths import Group
from nesbs.supernet.train import draw_epochs, supernet_training
from nesbs.training import Batch, Epoch, side_by_side, train

BASE: dict[str, Any] = {
    "cells": 1,
    "channels": 16,
    "paths": "fair",
    "epochs": 40,
    "batch_size": 256,
    "learning_rate": 0.1,
    "skip_dead": True,
    "precision": "auto",
}
OWN = ("refine", "average", "split", "warm", "distilled", "posterior")  # settings that are not the supernet's
SPLIT = 3  # the edge from a cell's input to its output
Judge = Callable[[Sequence[Architecture]], dict[str, np.ndarray]]
ESTIMATORS = ["leave-one-out", "straight-through"]
POSTERIOR: dict[str, Any] = {"evidence": "auto", "entropy": 0.55, "steps": 500, "batch_size": 1000, "architectures": 16}
STANDING: dict[str, Any] = {"reference": 256, "untrained": 1.0, "starts": 4}  # the recipe's, beside these
BEST: dict[str, Any] = {"batch_size": 128, "weight_decay": 1e-3}
MIXED: dict[str, Any] = {**BEST, "paths": "mixed", "epochs": 44}  # the recipe's: as many paths in all
PLAIN: dict[str, Any] = {"record": False, "precision": "float32"}  # without our kernels
LEVERS: dict[str, dict[str, Any]] = {
    "base": {},
    "one path": {"paths": "one", "epochs": 200},  # as many paths in all as the fair groups have
    "dense": {"paths": "dense", "epochs": 50},  # likewise
    "two cells": {"cells": 2},
    "three cells": {"cells": 3},
    "full depth": {"cells": 5},
    "32 channels": {"channels": 32},
    "20 epochs": {"epochs": 20},
    "80 epochs": {"epochs": 80},
    "batch 128": {"batch_size": 128},
    "decay 1e-3": {"weight_decay": 1e-3},
    "rate 0.05": {"learning_rate": 0.05},
    "rate 0.2": {"learning_rate": 0.2},
    "falls linearly": {"schedule": "linear"},
    "rises first": {"warm_up": 5},
    "convolutions first": {"warm": 10},
    "affine": {"affine": True},
    "averaged": {"average": 10},
    "20 epochs, distilled": {"epochs": 20, "distilled": True},  # after 20 more for the teacher
    "cutout 8": {"cutout": 8},
    "plain images": {"crop": 0, "flip": False},
    "best": BEST,
    "best, 160 epochs": {**BEST, "epochs": 160},
    "best, dense": {**BEST, "paths": "dense", "epochs": 50},
    "mixed": MIXED,
    "mixed, 20 epochs": {**MIXED, "epochs": 20},
    "mixed, 160 epochs": {**MIXED, "epochs": 160},
    "mixed, two cells": {**MIXED, "cells": 2},
    "mixed, three cells": {**MIXED, "cells": 3},
    "mixed, 32 channels": {**MIXED, "channels": 32},
    "mixed, cutout 8": {**MIXED, "cutout": 8},
    "best, batch 64": {**BEST, "batch_size": 64},
    "best, decay 2e-3": {**BEST, "weight_decay": 2e-3},
    "best, refined": {**BEST, "refine": 60},
    "best, averaged": {**BEST, "average": 10},
    "best, split": {**BEST, "split": 30},
    "best, 32 channels": {**BEST, "channels": 32},
    "the paper's": {
        "paths": "one",
        "cells": 5,
        "epochs": 50,
        "batch_size": 128,
        "posterior": {"batch_size": 128, "evidence": 100.0, "weight_decay": 3e-4},
    },
    "one path, fast": {"paths": "one"},
    "one path, plain": {"paths": "one", **PLAIN},
    "mixed, 20 epochs, plain": {**MIXED, "epochs": 20, **PLAIN},
}


def estimates(
    supernet: Supernet, data: Dataset, architectures: Sequence[Architecture], *, batch: int, others: Sequence[int] = ()
) -> dict[str, np.ndarray]:
    """What the supernet judges architectures by, each (architectures,), on all images held out.

    Fewer blur the better half. `others` are sizes of batches in which the loss is estimated too.
    """
    estimator = Estimator(supernet, data.search_valid, batch_size=batch)
    kinds: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "loss": metrics.nll,
        "error": metrics.error,
        "brier": metrics.brier,
        "noise 0.5": functools.partial(metrics.nll, noise=0.5),
    }
    found: dict[str, list[float]] = {kind: [] for kind in kinds}
    for start in range(0, len(architectures), 64):
        log_probs = estimator.log_probs(architectures[start : start + 64])
        for kind, score in kinds.items():
            found[kind] += score(log_probs, estimator.split.labels).tolist()
        estimator.forget()
    for other in others:
        own = estimates(supernet, data, architectures, batch=other)
        found[f"loss, batches of {other}"] = own["loss"].tolist()
    return {kind: np.array(values) for kind, values in found.items()}


def by_ranks(
    found: dict[str, np.ndarray], ranks: ReferenceRanks, judge: Judge, architectures: Sequence[Architecture]
) -> dict[str, np.ndarray]:
    """What untrained networks judge them by, and both together as the posterior has it; `judge` makes estimates."""
    others = judge(ranks.reference)
    both = ranks.of(torch.tensor(-found["loss"]), torch.tensor(-others["loss"]), architectures)
    return {"untrained": -ranks.untrained(architectures).double().numpy(), "standing": -both.double().numpy()}


def averaged(data: Dataset, *, seed: int, average: int, **settings: Any) -> Supernet:
    """A supernet whose weights are the mean of those after each of the last `average` epochs."""
    chosen = SupernetSettings.of(settings)
    supernet = build_supernet(nasbench201(), data.search_train, chosen, seed=seed)
    paths = draw_epochs(nasbench201(), data.search_train, chosen, seed=seed)
    mean = AveragedModel(supernet)

    def collect(epoch: Epoch) -> None:
        if epoch.number > chosen.epochs - average:
            mean.update_parameters(supernet)

    made = supernet_training(supernet, data.search_train, chosen, paths, seed=seed, on_epoch=collect)
    [losses] = side_by_side([made])
    supernet.load_state_dict(mean.module.state_dict())
    supernet.losses = losses
    return supernet


def draw(
    posterior: Posterior, data: Dataset, settings: SupernetSettings, *, epochs: int, seed: int
) -> list[list[Group]]:
    """Paths for so many epochs, one a step."""
    steps, random = steps_per_epoch(data.search_train, settings.batch_size), torch.Generator().manual_seed(seed)
    return [[(path,) for path in posterior.sample(steps, generator=random)] for _ in range(epochs)]


def warmed(data: Dataset, *, seed: int, warm: int, **settings: Any) -> Supernet:
    """A supernet that trains convolutions alone for the first `warm` epochs, one path a step."""
    space, chosen = nasbench201(), SupernetSettings.of(settings)
    supernet = build_supernet(space, data.search_train, chosen, seed=seed)
    logits = Posterior(space).logits.clone()
    logits[:, [place for place, name in enumerate(space.operations) if "conv" not in name]] = -100.0
    first = draw(Posterior(space, logits), data, chosen, epochs=warm, seed=seed)
    paths = first + draw_epochs(space, data.search_train, chosen, seed=seed)[warm:]
    [supernet.losses] = side_by_side([supernet_training(supernet, data.search_train, chosen, paths, seed=seed)])
    return supernet


def distil(supernet: Supernet, data: Dataset, path: Architecture, *, seed: int, **settings: Any) -> Supernet:
    """A new supernet whose paths learn half from the labels and half from what one path of another answers."""
    chosen = SupernetSettings.of(settings)
    own = build_supernet(nasbench201(), data.search_train, chosen, seed=seed)
    paths = draw_epochs(nasbench201(), data.search_train, chosen, seed=seed)

    def loss(batch: Batch) -> Tensor:
        with torch.no_grad():
            taught = supernet(batch.images, path).softmax(-1)
        group = paths[batch.epoch][batch.step]
        answers = [own(batch.images, one) for one in group]
        each = [(F.cross_entropy(one, batch.labels) + F.cross_entropy(one, taught)) / 2 for one in answers]
        return torch.stack(each).mean()

    own.losses = train(own, data.search_train, loss, chosen, seed=seed, purpose=("supernet",))
    return own


def train_on(supernet: Supernet, data: Dataset, posterior: Posterior, *, seed: int, **settings: Any) -> None:
    """Train further at half the rate, one path a step, drawn from a posterior."""
    chosen = SupernetSettings.of({**settings, "paths": "one", "learning_rate": settings["learning_rate"] / 2})
    paths = draw(posterior, data, chosen, epochs=chosen.epochs, seed=seed)
    [supernet.losses] = side_by_side([supernet_training(supernet, data.search_train, chosen, paths, seed=seed)])


def split(supernet: Supernet, data: Dataset, *, seed: int, **settings: Any) -> list[Supernet]:
    """A supernet for each operation on one edge, from a cell's input to its output, all trained on from one."""
    found = []
    for choice in range(len(supernet.space.operations)):
        own, logits = copy.deepcopy(supernet), Posterior(supernet.space).logits.clone()
        logits[SPLIT, choice] = 100.0  # this operation alone, the other edges uniform
        train_on(own, data, Posterior(supernet.space, logits), seed=seed, **settings)
        found.append(own)
    return found


def split_estimates(
    supernets: Sequence[Supernet], data: Dataset, architectures: Sequence[Architecture], *, batch: int
) -> dict[str, np.ndarray]:
    """Estimates of architectures, each by the supernet of its own operation."""
    choices = nasbench201().encode_all(architectures)[:, SPLIT]
    found: dict[str, np.ndarray] = {}
    for choice, supernet in enumerate(supernets):
        places = (choices == choice).nonzero()[:, 0].tolist()
        if places:
            own = estimates(supernet, data, [architectures[place] for place in places], batch=batch)
            for kind, values in own.items():
                found.setdefault(kind, np.empty(len(architectures)))[places] = values
    return found


def measure(
    name: str,
    data: Dataset,
    architectures: Sequence[Architecture],
    accuracies: np.ndarray,
    *,
    seed: int,
    estimators: Sequence[str],
    noises: Sequence[float],
    evidences: Sequence[str],
    batches: Sequence[int],
    toy: bool,
) -> dict[str, Any]:
    """One lever with one seed: the ranking, and a posterior by each estimator."""
    settings = {**BASE, **LEVERS[name]}
    settings |= {"epochs": 1, "channels": 4, "batch_size": 64} if toy else {}
    fitted = {
        **POSTERIOR,
        **settings.get("posterior", {}),
        **({"steps": 3, "batch_size": 20, "architectures": 2} if toy else {}),
    }
    compared = {**STANDING, **({"reference": 2, "starts": 2} if toy else {})}
    started = time.perf_counter()
    shaping = {key: value for key, value in settings.items() if key not in OWN}
    if "average" in settings:
        supernet = averaged(data, seed=seed, average=settings["average"], **shaping)
    elif "warm" in settings:
        supernet = warmed(data, seed=seed, warm=1 if toy else settings["warm"], **shaping)
    else:
        supernet = train_supernet(nasbench201(), data.search_train, seed=seed, **shaping)
    if "distilled" in settings:
        likeliest = fit_posterior(supernet, data.search_valid, seed=seed, **fitted).mode()
        supernet = distil(supernet, data, likeliest, seed=seed, **shaping)
    if "refine" in settings:  # towards what is likely good
        again = fit_posterior(supernet, data.search_valid, seed=seed, **fitted).tempered(2)
        train_on(supernet, data, again, seed=seed, **{**shaping, "epochs": 1 if toy else settings["refine"]})
    several = []
    if "split" in settings:
        several = split(supernet, data, seed=seed, **{**shaping, "epochs": 1 if toy else settings["split"]})
    trained = time.perf_counter() - started
    batch = 50 if toy else 1000

    def judge(some: Sequence[Architecture], others: Sequence[int] = ()) -> dict[str, np.ndarray]:
        if several:
            return split_estimates(several, data, some, batch=batch)
        return estimates(supernet, data, some, batch=batch, others=others)

    found = judge(architectures, batches)
    ranks, seconds = None, 0.0
    if "standing" in evidences:
        started = time.perf_counter()
        size = (1, 4) if toy else (None, None)
        ranks = reference_ranks(
            nasbench201(), data.search_valid, PosteriorSettings.of(compared), seed=seed, members=size
        )
        assert ranks is not None
        seconds = time.perf_counter() - started
        found |= by_ranks(found, ranks, judge, architectures)
    singles = [(place,) for place in range(len(architectures))]
    truth = 1 - accuracies / 100
    posteriors = {}
    for estimator, noise, evidence in itertools.product(estimators, noises, evidences):
        by = ranks if evidence == "standing" else None
        how = {"estimator": estimator, "noise": noise, **fitted, **(compared if by else {})}
        called = [estimator, *([f"noise {noise:g}"] if noise else []), *([evidence] if by else [])]
        started = time.perf_counter()
        posterior = fit_posterior(supernet, data.search_valid, seed=seed, ranks=by, **how)
        posteriors[", ".join(called)] = {
            "seconds": time.perf_counter() - started + (seconds if by else 0),  # with the reference's, made before
            **mass(posterior.log_prob(architectures).double().numpy(), accuracies),
            "mode": str(posterior.mode()),
        }
    return {
        "name": name,
        "seed": seed,
        "settings": settings,
        "training_loss": supernet.losses[-1],
        "supernet_seconds": trained,
        "estimates": {kind: [round(value, 4) for value in values.tolist()] for kind, values in found.items()},
        "rankings": {kind: asdict(rank(values, truth, singles)) for kind, values in found.items()},
        "posteriors": posteriors,
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.levers", description=__doc__.split("\n\n")[0])
    parser.add_argument("--data", default="cifar10", help="a data set of NAS-Bench-201's kind")
    parser.add_argument("--root", type=Path, help="the folder it is in")
    parser.add_argument("--table", type=Path, required=True)
    parser.add_argument("--column", required=True)
    parser.add_argument("--only", nargs="*", choices=list(LEVERS), default=list(LEVERS), help="these alone")
    parser.add_argument("--seeds", nargs="*", type=int, default=[0])
    parser.add_argument(
        "--estimators", nargs="*", choices=ESTIMATORS, default=["leave-one-out"], help="of the posterior"
    )
    parser.add_argument("--noises", nargs="*", type=float, default=[0.0], help="of labels, in its likelihood")
    parser.add_argument(
        "--evidences", nargs="*", choices=["likelihood", "standing"], default=["likelihood"], help="it is fitted to"
    )
    parser.add_argument("--batches", nargs="*", type=int, default=[], help="estimate the loss in such batches too")
    parser.add_argument("--rows", type=int, help="so many of the table's rows, the first")
    parser.add_argument("--toy", action="store_true", help="tiny supernets, to see that it runs")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    chosen = parser.parse_args(arguments)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    more: dict[str, Any] = {"train_limit": 200} if chosen.toy else {"root": chosen.root}
    data = load_dataset(chosen.data, **more).to(device)
    texts, accuracies = read_table(chosen.table, chosen.column)
    architectures = [nasbench201().parse(text) for text in texts[: chosen.rows]]
    kinds = ["by loss", "by accuracy", "by Brier", "noise 0.5"]
    kinds += [f"batch {size}" for size in chosen.batches]
    kinds += ["untrained", "standing"] if "standing" in chosen.evidences else []
    headings = "".join(f"{name:<14}" for name in kinds)
    print(f"{'':<34}{'seconds':>8}  {headings}{'expected':<10}rank of the likeliest row")
    rows = []
    for seed in chosen.seeds:
        for name in chosen.only:
            truth = np.array(accuracies[: chosen.rows])
            lists = {key: getattr(chosen, key) for key in ("estimators", "noises", "evidences", "batches")}
            row = measure(name, data, architectures, truth, seed=seed, toy=chosen.toy, **lists)
            rows.append(row)
            ranks = list(row["rankings"].values())
            figures = "".join(f"{r['spearman']['value']:.3f}/{r['better_half']:.3f}  ".ljust(14) for r in ranks)
            judged = "; ".join(
                f"{one['expected']:<10.2f}{one['mode_rank']} of {one['architectures']}"
                for one in row["posteriors"].values()
            )
            print(f"{name + f' ({seed})':<34}{row['supernet_seconds']:>8.1f}  {figures}{judged}", flush=True)
            if chosen.json:  # what has been measured is kept, whatever comes
                files.write_json(chosen.json, {"machine": machine(), "data": chosen.data, "rows": rows})
    print("Spearman over all / over the truly better half; accuracy expected under the posterior")


if __name__ == "__main__":
    main()
