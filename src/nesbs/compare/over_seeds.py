"""Methods compared over seeds (`nesbs compare`).

    OUT/recipe.yaml  comparison.json  comparison.md  comparison.svg  seed-0/ seed-1/ …

Each seed has a run folder of its own, in which every method has the same data, splits, supernet and trained networks;
nothing is trained twice, and the same command resumes. More methods or more seeds in the same folder use what is there.
The networks that were trained for `nesbs` are also the run's members, so that it predicts as any other run does.
"""

from collections.abc import Sequence
from pathlib import Path

from nesbs import files
from nesbs.cluster import Workers
from nesbs.compare.ahead import Ahead, supernet_ahead, train_ahead
from nesbs.compare.harness import Harness
from nesbs.compare.method import Method
from nesbs.compare.methods import REFERENCE, methods_of
from nesbs.compare.rows import Row, comparison_of
from nesbs.data import Dataset, load_dataset
from nesbs.errors import NesbsError, expect_whole
from nesbs.records import RunRecord, is_comparison
from nesbs.records.comparison import ComparisonRecord
from nesbs.records.recipe import RECIPE, Recipe
from nesbs.runs import folder as folders
from nesbs.runs.checks import check_recipe
from nesbs.runs.resumable_run import Run
from nesbs.runs.stage_progress import Progress, device_name
from nesbs.settings import MAX_SEEDS
from nesbs.spaces import Architecture, Space, get_space


def compare(
    recipe: Recipe,
    folder: str | Path,
    methods: Sequence[str],
    *,
    seeds: int = 3,
    device: str = "cpu",
    progress: Progress | None = None,
    workers: Workers | None = None,
) -> ComparisonRecord:
    """Run every method under every seed (the recipe's and the next ones) and compare; also `comparison.json`."""
    chosen, place = methods_of(methods, measure=recipe.rivals.measure), Path(folder)
    resumes = (place / RECIPE).is_file()
    recipe, progress = begin(recipe, place, chosen, seeds), progress or Progress()
    numbers = [recipe.seed + offset for offset in range(seeds)]
    if resumes:
        _check_added(recipe, [place / f"seed-{seed}" for seed in numbers], chosen)

    def run_of(seed: int) -> Run:
        own = recipe.model_copy(update={"seed": seed})
        return Run.create(place / f"seed-{seed}", own, device=device, progress=progress, workers=workers)

    harnesses: list[Harness] = []  # of all seeds, where workers train for them together
    if workers is not None and workers.take(2):
        harnesses = [Harness(run_of(seed)) for seed in numbers]
        train_searched(harnesses, chosen, workers, progress)
        train_chosen(harnesses, chosen, workers, progress)
    for number, seed in enumerate(numbers, start=1):
        progress.plan((), seeds_left=seeds - number)
        harness = harnesses.pop(0) if harnesses else Harness(run_of(seed))
        for method in chosen:
            outcome = method.outcome(harness)
            for measure, value in outcome.scores.plain() if outcome.scores else ():
                progress.figure(harness.run.folder, f"test/{measure} of {method.name}", value, 0)
    runs = tuple(place / f"seed-{seed}" for seed in numbers)
    rows = {method.name: Row(method.name, runs) for method in chosen}
    record = comparison_of(rows, REFERENCE, recipe, device_name(device))
    record.write(place / ComparisonRecord.FILE)
    return record


def train_searched(
    harnesses: Sequence[Harness], methods: Sequence[Method], workers: Workers, progress: Progress
) -> None:
    """Have workers train what methods search with that have not chosen yet, of all seeds together.

    That is supernets and pools. What ends with a budget in seconds waits for its seed.
    """
    networks: list[Ahead] = []
    for harness in harnesses:
        run, unlimited = harness.run, harness.settings.seconds is None
        searching = [method for method in methods if not method.has_chosen(run.folder)]
        networks += supernet_ahead(run) if _uses_supernet(harness, searching) else []
        own = [each for method in searching for each in method.trains_ahead(harness)] if unlimited else []
        networks += {each.network.checkpoint: each for each in own}.values()  # some are several methods' at once
        judged = [each for method in searching for each in method.judged_ahead(harness)] if unlimited else []
        networks += harness.judged.to_train(harness.judged.missing(list(dict.fromkeys(judged))))
    train_ahead(networks, workers, progress)


def _uses_supernet(harness: Harness, methods: Sequence[Method]) -> bool:
    """Whether any of the methods asks for the supernet: a folder kept without it would train it again."""
    judging = ("supernet" in each.stages and not each.trains_pool(harness.run.recipe) for each in methods)
    return any(judging) or (harness.settings.measure == "supernet" and bool(methods))


def train_chosen(harnesses: Sequence[Harness], methods: Sequence[Method], workers: Workers, progress: Progress) -> None:
    """Have workers train what methods chose that are not measured yet, of all seeds together."""
    networks = []
    for harness in harnesses if harnesses[0].settings.measure == "trained" else ():
        missing: dict[str, Architecture] = {}
        for method in methods:
            if method.in_pool and not method.is_measured(harness.run.folder):
                missing |= harness.trained.missing(method.selection(harness).architectures)
        networks += harness.trained.to_train(missing)
    train_ahead(networks, workers, progress)


def begin(recipe: Recipe, folder: Path, methods: Sequence[Method], seeds: int) -> Recipe:
    """Begin a comparison in a folder, or resume it; the recipe with whole paths."""
    expect_whole(seeds, "--seeds")
    if seeds > MAX_SEEDS:
        raise NesbsError(f"--seeds lie between 1 and {MAX_SEEDS:,}, found {seeds}")
    Recipe.of({"seed": recipe.seed + seeds - 1})  # raises where the last one is too large
    recipe = recipe.model_copy(update={"data": recipe.data.resolved(), "evaluation": recipe.evaluation.resolved()})
    if folders.begun(folder) and (folder / RunRecord.FILE).is_file() and not is_comparison(folder):
        raise NesbsError(f"--out {folder} holds a run, not a comparison: name another folder")
    earlier = folders.to_resume(folder, recipe)
    if earlier is not None:
        return earlier
    check(recipe, *_data_and_space(recipe), methods)  # one that cannot work leaves no folder behind
    folders.clear(folder)
    files.write_text(folder / RECIPE, recipe.to_yaml())
    return recipe


def _check_added(recipe: Recipe, runs: Sequence[Path], methods: Sequence[Method]) -> None:
    """Raise where a method that a comparison gets later cannot work, before any of the others is run."""
    missing = [one for one in methods if not all(map(one.is_measured, runs))]
    if missing:  # else the data are not needed
        check(recipe, *_data_and_space(recipe), missing)


def _data_and_space(recipe: Recipe) -> tuple[Dataset, Space]:
    return load_dataset(**recipe.data.model_dump()), get_space(recipe.space.name)


def check(recipe: Recipe, data: Dataset, space: Space, methods: Sequence[Method]) -> None:
    """Raise where a method cannot work under the recipe."""
    if recipe.ensemble.architectures is not None:
        raise NesbsError("compare searches: leave ensemble.architectures out (rivals.architecture is that of deep)")
    if recipe.evaluation.images != "test":
        raise NesbsError(f"compare measures on the test images: leave evaluation.images={recipe.evaluation.images} out")
    if recipe.rivals.seconds is not None and recipe.search.tune != "grid":
        raise NesbsError("rivals.seconds needs search.tune=grid: the rounds are what fits")
    mixed = sorted(method.name for method in methods if method.mixes_operations)
    if mixed and recipe.supernet.affine and "none" in space.operations:
        raise NesbsError(f"{', '.join(mixed)} needs supernet.affine=false on space {space.name}")
    check_recipe(recipe, data, space)
    for method in methods:
        method.check(recipe, data, space)
