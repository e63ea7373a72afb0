"""Methods held against each other over seeds (`nesbs compare`).

    OUT/recipe.yaml  comparison.json  comparison.md  comparison.svg  seed-0/ seed-1/ …

Each seed has a run folder of its own, in which every method finds the same data, splits, supernet and trained
networks; nothing is trained twice, and the same command goes on where it stopped. More methods or more seeds in
the same folder find what is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from nesbs import files
from nesbs.compare.methods import REFERENCE, Contest, images_of
from nesbs.compare.one_shot import MIXTURES
from nesbs.data import Dataset, load_dataset
from nesbs.ensemble import design_member
from nesbs.errors import NesbsError
from nesbs.evaluation import over_images, paired, summarise
from nesbs.records.recipe import Recipe
from nesbs.rivals.snapshot import cycles
from nesbs.runs import folder as folders
from nesbs.runs.checks import check_recipe
from nesbs.runs.run import Run
from nesbs.runs.stage import RECORD, Progress, device_name
from nesbs.samplers import SvgdRd, get_sampler
from nesbs.spaces import Space, get_space, named_architecture

FILE = "comparison.json"
MEASURES = ("error", "nll", "brier", "ece", "member_error", "disagreement")
PER_IMAGE = ("error", "nll")
COSTS = ("search_seconds", "training_seconds", "evaluations")


def budgeted(recipe: Recipe, budget: int) -> Recipe:
    """The recipe in which every method may judge `budget` architectures: as pool, or as rounds of ensembles.

    >>> from nesbs.runs.recipe import load_recipe
    >>> recipe = budgeted(load_recipe("toy"), 12)
    >>> recipe.rivals.pool, recipe.search.rounds, recipe.ensemble.size, len(recipe.sampler.delta)
    (12, 3, 2, 2)
    >>> recipe.rivals.rounds, recipe.rivals.samples
    (6, 12)
    """
    sampler = get_sampler(recipe.sampler)
    values = len(sampler.deltas) if isinstance(sampler, SvgdRd) else 1
    if recipe.search.tune == "bayesian":
        values = recipe.search.trials
    rounds = budget // (recipe.ensemble.size * values)
    if rounds < 1:
        raise NesbsError(
            f"--budget {budget} is less than one ensemble of {recipe.ensemble.size} for each δ ({values}): raise it, "
            "or set fewer values of sampler.delta (of search.trials)"
        )
    population = recipe.rivals.population
    own = {
        "pool": budget,
        "rounds": budget // recipe.ensemble.size,
        "samples": budget,
        "population": None if population is None else min(population, budget),
    }
    return recipe.model_copy(
        update={
            "search": recipe.search.model_copy(update={"rounds": rounds}),
            "rivals": recipe.rivals.model_copy(update=own),
        }
    )


def timed(recipe: Recipe, seconds: float) -> Recipe:
    """The recipe in which the search of every method may take so many seconds.

    >>> from nesbs.runs.recipe import load_recipe
    >>> timed(load_recipe("toy"), 60).rivals.seconds
    60.0
    """
    if recipe.search.tune != "grid":
        raise NesbsError("--budget in seconds needs search.tune=grid: the rounds are what fits")
    return recipe.model_copy(update={"rivals": recipe.rivals.model_copy(update={"seconds": float(seconds)})})


def compare(
    recipe: Recipe,
    folder: Path,
    methods: Sequence[str],
    *,
    seeds: int = 3,
    device: str = "cpu",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Run every method under every seed (the recipe's and the next ones) and compare; also `comparison.json`."""
    recipe = begin(recipe, folder, methods, seeds)
    outcomes: dict[str, list[dict[str, Any]]] = {method: [] for method in methods}
    numbers = [recipe.seed + offset for offset in range(seeds)]
    for seed in numbers:
        own = recipe.model_copy(update={"seed": seed})
        contest = Contest(Run.create(folder / f"seed-{seed}", own, device=device, progress=progress))
        for method in methods:
            outcomes[method].append({"seed": seed, **contest.outcome(method)})
    runs = [folder / f"seed-{seed}" for seed in numbers]
    value = {
        "data": recipe.data.name,
        "space": recipe.space.name,
        "size": recipe.ensemble.size,
        "seeds": numbers,
        "device": device_name(device),
        "reference": REFERENCE,
        "sampler": recipe.sampler.name,
        "rivals": recipe.rivals.model_dump(mode="json"),
        "methods": {
            method: {**_entry(found, outcomes[REFERENCE]), "images": _over_images(runs, method)}
            for method, found in outcomes.items()
        },
    }
    files.write_json(folder / FILE, value)
    return value


def begin(recipe: Recipe, folder: Path, methods: Sequence[str], seeds: int) -> Recipe:
    """Begin a comparison in a folder or go on with it; the recipe with whole paths."""
    if seeds < 1:
        raise NesbsError(f"--seeds must be 1 or more, found {seeds}")
    recipe = recipe.model_copy(update={"data": recipe.data.resolved(), "evaluation": recipe.evaluation.resolved()})
    if folders.begun(folder):
        if (folder / RECORD).is_file() and not folders.is_comparison(folder):
            raise NesbsError(f"--out {folder} holds a run, not a comparison: name another folder")
        return folders.same_recipe(folder, recipe)
    data, space = load_dataset(**recipe.data.model_dump()), get_space(recipe.space.name)
    check(recipe, data, space, methods)  # one that cannot work leaves no folder behind
    files.write_text(folder / folders.RECIPE, recipe.to_yaml())
    return recipe


def check(recipe: Recipe, data: Dataset, space: Space, methods: Sequence[str]) -> None:
    """Raise where a method cannot work under the recipe."""
    if recipe.ensemble.architectures is not None:
        raise NesbsError("compare searches: leave ensemble.architectures out (rivals.architecture is that of deep)")
    if recipe.evaluation.images != "test":
        raise NesbsError(f"compare measures on the test images: leave evaluation.images={recipe.evaluation.images} out")
    if recipe.supernet.affine and "none" in space.operations and (mixed := set(methods) & set(MIXTURES)):
        raise NesbsError(f"{', '.join(sorted(mixed))} needs supernet.affine=false on space {space.name}")
    check_recipe(recipe, data, space)
    rivals, size = recipe.rivals, recipe.ensemble.size
    if set(methods) - {REFERENCE, "nesbs-mc"} and rivals.seconds is None:
        if rivals.pool > len(space):
            raise NesbsError(f"rivals.pool={rivals.pool} is larger than space {space.name} ({len(space)}): lower it")
        if rivals.pool < size and {"urs", "nes-rs", "nes-re"} & set(methods):
            raise NesbsError(f"rivals.pool={rivals.pool} is less than one ensemble of {size}: raise it")
    if "snapshot" in methods:
        cycles(recipe.members, size)
    if rivals.architecture is not None:
        with torch.device("meta"):
            design_member(space, named_architecture(space, rivals.architecture), data.train, recipe.members)


def _over_images(runs: Sequence[Path], method: str) -> dict[str, Any] | None:
    """Bootstrap intervals over the test images, of means over the seeds; None where images were not kept."""
    own, reference = (_per_image([images_of(run, name) for run in runs]) for name in (method, REFERENCE))
    if own is None:
        return None
    table = own if method == REFERENCE or reference is None else np.concatenate([own, own - reference], 1)
    found = [asdict(each) for each in over_images(table)]
    measured, differences = (dict(zip(PER_IMAGE, part, strict=False)) for part in (found, found[len(PER_IMAGE) :]))
    return {**measured, "difference": differences or None}


def _per_image(paths: Sequence[Path]) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Mean error and NLL over the seeds, (images, 2); None where a seed's are missing or not numbers."""
    if not all(path.is_file() for path in paths):
        return None
    seeds = [files.read_tensors(path)[0] for path in paths]
    table = np.stack([np.mean([seed[name].double().numpy() for seed in seeds], 0) for name in PER_IMAGE], 1)
    return table if np.isfinite(table).all() else None


def _entry(found: Sequence[dict[str, Any]], reference: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One method over all seeds: what it found each time, means, and differences to the reference."""

    def values(outcomes: Sequence[dict[str, Any]], name: str) -> list[float]:
        return [float(outcome["scores"][name]) for outcome in outcomes]

    own = found[0]["method"] == REFERENCE
    return {
        "seeds": list(found),
        "mean": {name: summarise(values(found, name)).to_json() for name in MEASURES},
        "cost": {name: summarise([float(outcome[name]) for outcome in found]).to_json() for name in COSTS},
        "difference": None
        if own
        else {name: paired(values(found, name), values(reference, name)).to_json() for name in MEASURES},
    }
