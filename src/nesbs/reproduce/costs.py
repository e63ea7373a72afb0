"""What an experiment costs on a GPU, before it starts: counted from its recipes, at speeds that were measured.

Only networks whose speed was measured are counted; everything else is named as not counted. Nothing is taken for
granted that experiments share, so a later name in the same folder costs less.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from nesbs.compare.one_shot import ONE_SHOT
from nesbs.records.recipe import Recipe
from nesbs.report import formats
from nesbs.reproduce.spec import BEST_RESPONSE, Experiment, ScaleName

ONE_SHOT_NAMES = {method.name for method in ONE_SHOT}
MACHINE = "one NVIDIA H200, docs/speed.md"
TRAINING_IMAGES = {"cifar10": 50_000, "cifar100": 50_000, "imagenet16-120": 151_700}
# Milliseconds a step, by (space, cells, channels, batch), of supernets also by paths.
MEMBER_STEP = {("nasbench201", 5, 16, 256): 9.37, ("darts", 20, 36, 96): 29.14}
SUPERNET_STEP = {("nasbench201", 5, 16, 128, "one"): 3.44, ("darts", 8, 16, 128, "one"): 8.97}
# Of the posterior's fit by (space, estimator, batch): 68 s for the 117 steps of an epoch (cifar10-darts-paper).
POSTERIOR_STEP = {("darts", "straight-through", 128): 68e3 / 117}
# What the paper itself reports for the search, by the experiment that shows it.
PAPER_SEARCH = {
    "table1": "1.1 to 1.2 GPU hours for NESBS's search, 5.1 for NES-RS's, on an Nvidia 1080 Ti (its Table 1)",
    "table2": "0.2 GPU days for NESBS's search, 0.7 for NES-RS's, on an Nvidia 1080 Ti (its Table 2)",
}


@dataclass(frozen=True)
class Cost:
    """Something that takes time: how many hours, None where its speed was never measured."""

    what: str
    hours: float | None


def costs_of(experiment: Experiment, scale: ScaleName, changes: tuple[str, ...] = ()) -> list[Cost]:
    """List everything an experiment trains at a scale."""
    chosen = experiment.scales[scale]
    costs: list[Cost] = []
    for label, part in chosen.parts.items():
        recipe = part.resolved(changes)
        times = f"{label}, {chosen.seeds} seed{'s' if chosen.seeds > 1 else ''}"
        if part.searched_on is None:
            costs += [_supernet(recipe, chosen.seeds, times), _posterior(recipe, chosen.seeds, times)]
        for count, epochs, what in _networks(
            experiment, scale, recipe, searched=part.searched_on is None, trained=not part.search_only
        ):
            costs.append(_members(recipe, count * chosen.seeds, epochs, f"{times}: {what}"))
    one_shot = sorted(set(experiment.asked(scale).values()) & ONE_SHOT_NAMES - {"rsps"})
    if one_shot:
        costs.append(Cost(f"supernets of {', '.join(one_shot)}", None))
    if experiment.kind in ("posteriors", "discrepancy"):
        costs.append(Cost("the best-response supernets", None))
    if experiment.kind == "attacks":
        costs.append(Cost("the attacks", None))
    if experiment.kind != "gaussians":
        costs.append(Cost("choosing and measuring", None))
    return costs


def statement(experiment: Experiment, scale: ScaleName, changes: tuple[str, ...] = ()) -> str:
    """Say the cost in words, with where each figure comes from."""
    costs = costs_of(experiment, scale, changes)
    counted = [(cost.what, cost.hours) for cost in costs if cost.hours is not None]
    uncounted = [cost.what for cost in costs if cost.hours is None]
    lines = [f"{experiment.name} at scale {scale}: {experiment.scales[scale].about}"]
    if experiment.kind == "gaussians":
        return "\n".join([*lines, "  cost: seconds on a CPU"])
    if counted:
        total = math.fsum(hours for _, hours in counted)
        lines.append(f"  estimate: {_hours(total)} of GPU time and more, at speeds measured on {MACHINE}")
        lines += [f"    {what}: {_hours(hours)}" for what, hours in counted]
    if uncounted:
        lines.append(f"  not counted, since never measured: {'; '.join(uncounted)}")
    if experiment.name in PAPER_SEARCH:
        lines.append(f"  the paper's own figure: {PAPER_SEARCH[experiment.name]}")
    return "\n".join(lines)


def _networks(
    experiment: Experiment, scale: ScaleName, recipe: Recipe, *, searched: bool, trained: bool
) -> Iterator[tuple[int, int, str]]:
    """Yield the networks trained under one seed: (how many, epochs, what)."""
    chosen, size = experiment.scales[scale], recipe.ensemble.size
    methods = list(experiment.asked(scale).values())
    if experiment.kind == "quality":
        count, epochs = int(chosen.quality["architectures"]), int(chosen.quality["epochs"])
        yield count, epochs, f"{count} networks for {epochs} epochs"
        return
    if experiment.kind in ("curves", "discrepancy", "gaussians"):
        return
    if experiment.kind == "posteriors":
        methods += [method + BEST_RESPONSE for method in methods]
    if {"nes-rs", "deep"} & set(methods) and searched:
        pool, epochs = recipe.rivals.pool, min(recipe.rivals.pool_epochs, recipe.members.epochs)
        yield pool, epochs, f"{pool} networks for {epochs} epochs (NES-RS's pool)"
    if trained:
        each = [1 if m.startswith(("single:", "mc-droppath")) or m in ONE_SHOT_NAMES else max(size, 3) for m in methods]
        count = sum(each) * chosen.repeats
        yield count, recipe.members.epochs, f"{count} networks for {recipe.members.epochs} epochs"


def _members(recipe: Recipe, count: int, epochs: int, what: str) -> Cost:
    own, images = recipe.members, TRAINING_IMAGES.get(recipe.data.name)
    step = MEMBER_STEP.get((recipe.space.name, own.cells or 0, own.channels or 0, own.batch_size))
    if step is None or images is None or recipe.data.train_limit is not None:
        return Cost(what, None)
    return Cost(what, count * epochs * math.ceil(images / own.batch_size) * step / 3.6e6)


def _supernet(recipe: Recipe, count: int, times: str) -> Cost:
    own, images = recipe.supernet, TRAINING_IMAGES.get(recipe.data.name)
    what = f"{times}: supernet for {own.epochs} epochs"
    step = SUPERNET_STEP.get((recipe.space.name, own.cells or 0, own.channels or 0, own.batch_size, own.paths))
    if step is None or images is None or recipe.data.train_limit is not None:
        return Cost(what, None)
    steps = math.ceil(images * (1 - recipe.data.valid_fraction) / own.batch_size)
    return Cost(what, count * own.epochs * steps * step / 3.6e6)


def _posterior(recipe: Recipe, count: int, times: str) -> Cost:
    own = recipe.posterior
    step = POSTERIOR_STEP.get((recipe.space.name, own.estimator, own.batch_size))
    return Cost(f"{times}: posterior", None if step is None else count * own.starts * own.steps * step / 3.6e6)


def _hours(hours: float) -> str:
    """Write hours as a person says them.

    >>> _hours(0.25), _hours(30.2), _hours(300.0)
    ('15 min 0 s', '30.2 h', '300 h (12.5 days)')
    """
    if hours < 1:
        return formats.duration(3600 * hours)
    return f"{hours:.1f} h" if hours < 48 else f"{hours:.0f} h ({hours / 24:.1f} days)"
