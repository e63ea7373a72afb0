"""What an experiment costs on a GPU, before it starts: counted from its recipes, at speeds that were measured.

Only networks whose speed was measured are counted; everything else is named as not counted. Nothing is taken for
granted that experiments share, so a later name in the same folder costs less.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from nesbs.records.recipe import Recipe
from nesbs.report import formats
from nesbs.reproduce.paper_methods import paper_method
from nesbs.reproduce.spec import Experiment, ScaleName

MACHINE = "one NVIDIA H200, docs/speed.md"
TRAINING_IMAGES = {"cifar10": 50_000, "cifar100": 50_000, "imagenet16-120": 151_700}
# Milliseconds a step, by (space, cells, channels, batch), of supernets also by paths and K of partial channels.
MEMBER_STEP = {("nasbench201", 5, 16, 256): 9.37, ("darts", 20, 36, 96): 29.14}
SUPERNET_STEP = {("nasbench201", 5, 16, 128, "one", 1): 3.44, ("darts", 8, 16, 128, "one", 2): 8.97}
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
        searched = [] if part.searched_on else [_supernet(recipe), _posterior(recipe)]
        costs += [
            Cost(f"{times}: {cost.what}", cost.hours and chosen.seeds * cost.hours)
            for cost in (*searched, *_networks(experiment, scale, label, recipe))
        ]
    asked = {name for label in chosen.parts for names in experiment.asked(scale, label).values() for name in names}
    one_shot = sorted(name for name in asked if paper_method(name).own_supernet)
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


def _networks(experiment: Experiment, scale: ScaleName, label: str, recipe: Recipe) -> Iterator[Cost]:
    """Yield the networks trained on a part under one seed."""
    chosen = experiment.scales[scale]
    part = chosen.parts[label]
    methods = [paper_method(name) for names in experiment.asked(scale, label).values() for name in names]
    if experiment.kind == "quality":
        yield _members(recipe, int(chosen.quality["architectures"]), int(chosen.quality["epochs"]))
    if experiment.kind in ("quality", "curves", "discrepancy", "gaussians"):
        return
    if part.searched_on is None and any(method.trains_pool(recipe) for method in methods):
        epochs = min(recipe.rivals.pool_epochs, recipe.members.epochs)
        yield _members(recipe, recipe.rivals.pool, epochs, " (NES-RS's pool)")
    if not part.search_only:
        count = sum(1 if method.one_network else max(recipe.ensemble.size, 3) for method in methods)
        posteriors = 2 if experiment.kind == "posteriors" else 1
        yield _members(recipe, posteriors * count * chosen.repeats, recipe.members.epochs)


def _members(recipe: Recipe, count: int, epochs: int, what: str = "") -> Cost:
    own = recipe.members
    step = MEMBER_STEP.get((recipe.space.name, own.cells or 0, own.channels or 0, own.batch_size))
    hours = _training_hours(recipe, epochs, own.batch_size, step)
    return Cost(f"{count} networks for {epochs} epochs{what}", hours and count * hours)


def _supernet(recipe: Recipe) -> Cost:
    own = recipe.supernet
    size = (recipe.space.name, own.cells or 0, own.channels or 0, own.batch_size)
    step = SUPERNET_STEP.get((*size, own.paths, own.partial))
    hours = _training_hours(recipe, own.epochs, own.batch_size, step, 1 - recipe.data.valid_fraction)
    return Cost(f"supernet for {own.epochs} epochs", hours)


def _posterior(recipe: Recipe) -> Cost:
    own = recipe.posterior
    step = POSTERIOR_STEP.get((recipe.space.name, own.estimator, own.batch_size))
    return Cost("posterior", step and own.starts * own.steps * step / 3.6e6)


def _training_hours(
    recipe: Recipe, epochs: int, batch_size: int, step: float | None, share: float = 1.0
) -> float | None:
    """Count the hours of one training on a share of the training images; None where its speed was never measured."""
    images = TRAINING_IMAGES.get(recipe.data.name)
    if step is None or images is None or recipe.data.train_limit is not None:
        return None
    return epochs * math.ceil(images * share / batch_size) * step / 3.6e6


def _hours(hours: float) -> str:
    """Write hours as a person says them.

    >>> _hours(0.25), _hours(30.2), _hours(300.0)
    ('15 min 0 s', '30.2 h', '300 h (12.5 days)')
    """
    if hours < 1:
        return formats.duration(3600 * hours)
    return f"{hours:.1f} h" if hours < 48 else f"{hours:.0f} h ({hours / 24:.1f} days)"
