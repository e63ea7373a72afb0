"""Methods compared over seeds (`nesbs compare`).

    OUT/recipe.yaml  comparison.json  comparison.md  comparison.svg  seed-0/ seed-1/ …

Each seed has a run folder of its own, in which every method has the same data, splits, supernet and trained networks;
nothing is trained twice, and the same command resumes. More methods or more seeds in the same folder use what is there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from nesbs import files
from nesbs.cluster import Workers
from nesbs.compare.ahead import supernet_ahead, train_ahead
from nesbs.compare.harness import Harness, rival_file
from nesbs.compare.method import Method
from nesbs.compare.methods import REFERENCE, methods_of
from nesbs.data import Dataset, load_dataset
from nesbs.errors import NesbsError
from nesbs.evaluation import over_images, paired, summarise
from nesbs.records import RunRecord, is_comparison
from nesbs.records.comparison import (
    ComparisonRecord,
    DifferenceRecord,
    ImagesRecord,
    MethodRecord,
    OutcomeRecord,
    RivalsRecord,
    SummaryRecord,
)
from nesbs.records.recipe import RECIPE, Recipe
from nesbs.runs import folder as folders
from nesbs.runs.checks import check_recipe
from nesbs.runs.resumable_run import Run
from nesbs.runs.stage_progress import Progress, device_name
from nesbs.settings import MAX_SEEDS
from nesbs.spaces import Architecture, Space, get_space

MEASURES = ("error", "nll", "brier", "ece", "member_error", "disagreement")
PER_IMAGE = ("error", "nll")
COSTS = ("search_seconds", "training_seconds", "evaluations")
SIZES = ("parameters", "multiply_adds")


def compare(
    recipe: Recipe,
    folder: Path,
    methods: Sequence[str],
    *,
    seeds: int = 3,
    device: str = "cpu",
    progress: Progress | None = None,
    workers: Workers | None = None,
) -> ComparisonRecord:
    """Run every method under every seed (the recipe's and the next ones) and compare; also `comparison.json`."""
    chosen = methods_of(methods, measure=recipe.rivals.measure)
    recipe, progress = begin(recipe, folder, chosen, seeds), progress or Progress()
    outcomes: dict[str, list[OutcomeRecord]] = {method.name: [] for method in chosen}
    numbers = [recipe.seed + offset for offset in range(seeds)]

    def run_of(seed: int) -> Run:
        own = recipe.model_copy(update={"seed": seed})
        return Run.create(folder / f"seed-{seed}", own, device=device, progress=progress, workers=workers)

    if workers is not None and workers.take(seeds):
        _train_all_seeds([Harness(run_of(seed)) for seed in numbers], chosen, workers, progress)
    for place, seed in enumerate(numbers, start=1):
        progress.plan((), seeds_left=seeds - place)
        harness = Harness(run_of(seed))
        for method in chosen:
            outcomes[method.name].append(outcome := method.outcome(harness).replace(seed=seed))
            for measure, value in outcome.scores.plain() if outcome.scores else ():
                progress.figure(harness.run.folder, f"test/{measure} of {method.name}", value, 0)
    runs = [folder / f"seed-{seed}" for seed in numbers]
    record = ComparisonRecord(
        data=recipe.data.name,
        space=recipe.space.name,
        size=recipe.ensemble.size,
        seeds=tuple(numbers),
        device=device_name(device),
        reference=REFERENCE,
        sampler=recipe.sampler.name,
        rivals=RivalsRecord(**recipe.rivals.model_dump(mode="json")),
        added=recipe.additions(),
        methods={name: _over_seeds(name, outcomes, _over_images(runs, name)) for name in outcomes},
    )
    record.write(folder / ComparisonRecord.FILE)
    return record


def _train_all_seeds(
    harnesses: Sequence[Harness], methods: Sequence[Method], workers: Workers, progress: Progress
) -> None:
    """Have workers train what the seeds need, of all seeds together: supernets and pools, then what was chosen.

    What a method trains in a way of its own, and a pool that ends with a budget in seconds, wait for their seed.
    """
    networks = [each for harness in harnesses for each in supernet_ahead(harness.run)]
    for harness in harnesses:
        recipe = harness.run.recipe
        if recipe.rivals.seconds is None and any(method.trains_pool(recipe) for method in methods):
            networks += harness.judged.to_train(harness.judged.missing(harness.candidates))
    train_ahead(networks, workers, progress)
    networks = []
    for harness in harnesses if harnesses[0].settings.measure == "trained" else ():
        missing: dict[str, Architecture] = {}
        for method in methods:
            if method.in_pool:
                missing |= harness.trained.missing(method.selection(harness).architectures)
        networks += harness.trained.to_train(missing)
    train_ahead(networks, workers, progress)


def begin(recipe: Recipe, folder: Path, methods: Sequence[Method], seeds: int) -> Recipe:
    """Begin a comparison in a folder, or resume it; the recipe with whole paths."""
    if not 1 <= seeds <= MAX_SEEDS:
        raise NesbsError(f"--seeds lie between 1 and {MAX_SEEDS:,}, found {seeds}")
    Recipe.of({"seed": recipe.seed + seeds - 1})  # raises where the last one is too large
    recipe = recipe.model_copy(update={"data": recipe.data.resolved(), "evaluation": recipe.evaluation.resolved()})
    if folders.begun(folder) and (folder / RunRecord.FILE).is_file() and not is_comparison(folder):
        raise NesbsError(f"--out {folder} holds a run, not a comparison: name another folder")
    earlier = folders.to_resume(folder, recipe)
    if earlier is not None:
        return earlier
    data, space = load_dataset(**recipe.data.model_dump()), get_space(recipe.space.name)
    check(recipe, data, space, methods)  # one that cannot work leaves no folder behind
    folders.clear(folder)
    files.write_text(folder / RECIPE, recipe.to_yaml())
    return recipe


def check(recipe: Recipe, data: Dataset, space: Space, methods: Sequence[Method]) -> None:
    """Raise where a method cannot work under the recipe."""
    if recipe.ensemble.architectures is not None:
        raise NesbsError("compare searches: leave ensemble.architectures out (rivals.architecture is that of deep)")
    if recipe.evaluation.images != "test":
        raise NesbsError(f"compare measures on the test images: leave evaluation.images={recipe.evaluation.images} out")
    mixed = sorted(method.name for method in methods if method.mixes_operations)
    if mixed and recipe.supernet.affine and "none" in space.operations:
        raise NesbsError(f"{', '.join(mixed)} needs supernet.affine=false on space {space.name}")
    check_recipe(recipe, data, space)
    for method in methods:
        method.check(recipe, data, space)


def _over_seeds(
    name: str, outcomes: Mapping[str, Sequence[OutcomeRecord]], images: ImagesRecord | None
) -> MethodRecord:
    """One method over all seeds: its outcomes, their means, and differences to the reference."""
    own, reference = (MethodRecord(seeds=tuple(outcomes[each])) for each in (name, REFERENCE))
    return own.replace(
        mean={measure: _mean(own.values(measure)) for measure in MEASURES},
        cost={
            cost: _mean([float(getattr(outcome, cost)) for outcome in outcomes[name]])
            for cost in (*COSTS, *SIZES)
            if all(getattr(outcome, cost) is not None for outcome in outcomes[name])  # older outcomes have no sizes
        },
        difference=None
        if name == REFERENCE
        else {
            measure: DifferenceRecord(**paired(own.values(measure), reference.values(measure)).to_json())
            for measure in MEASURES
        },
        images=images,
    )


def _mean(values: Sequence[float]) -> SummaryRecord:
    return SummaryRecord(**asdict(summarise(values)))


def _over_images(runs: Sequence[Path], name: str) -> ImagesRecord | None:
    """Bootstrap intervals over the test images, of means over the seeds; None where images were not kept."""
    own, reference = (_per_image(runs, each) for each in (name, REFERENCE))
    if own is None:
        return None
    table = own if name == REFERENCE or reference is None else np.concatenate([own, own - reference], 1)
    intervals = [DifferenceRecord(**asdict(interval)) for interval in over_images(table)]
    differences = dict(zip(PER_IMAGE, intervals[len(PER_IMAGE) :], strict=False))
    return ImagesRecord(**dict(zip(PER_IMAGE, intervals, strict=False)), difference=differences or None)


def _per_image(runs: Sequence[Path], name: str) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Mean error and NLL over the seeds, (images, 2); None where a seed's are missing or not numbers."""
    paths = [rival_file(run, name, "images.safetensors") for run in runs]
    if not all(path.is_file() for path in paths):
        return None
    of = [f"the test images of {name} in {run.name}" for run in runs]
    seeds = [files.read_tensors(path, of=each)[0] for path, each in zip(paths, of, strict=True)]
    table = np.stack([np.mean([seed[measure].double().numpy() for seed in seeds], 0) for measure in PER_IMAGE], 1)
    return table if np.isfinite(table).all() else None
