"""Budget curves (paper, app. C.3 and C.4; Figs. 5 to 7): test error against architectures judged, without training.

    OUT/curves.json  curves.md  curves.svg  seed-0/curves.json …

Every ensemble is judged and measured with the weights of one supernet a seed, or of the first seed's alone
(`seed-0/curves-1.json` is then what seed 1 drew from it). A larger budget begins with what a smaller one drew
(NES-RE alone evolves anew, since its population depends on the budget). All budgets of a method that draws from the
posterior are parts of one draw, as many rounds as the largest holds: a larger one asked for later draws them all again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import product
from pathlib import Path
from statistics import fmean

from nesbs import files
from nesbs.cluster import Workers
from nesbs.compare.ahead import supernet_ahead, train_ahead
from nesbs.compare.harness import CurveHarness, Point
from nesbs.compare.methods import METHODS, REFERENCE, methods_of
from nesbs.compare.over_seeds import begin
from nesbs.errors import NesbsError
from nesbs.evaluation import paired, summarise
from nesbs.records.comparison import DifferenceRecord, SummaryRecord
from nesbs.records.curves import CurvesRecord, PointOutcome, PointRecord, SeedSeconds
from nesbs.records.recipe import Recipe
from nesbs.runs.resumable_run import Run
from nesbs.runs.stage_progress import Progress, device_name
from nesbs.settings import MAX_ARCHITECTURES, MAX_DELTA, MAX_MEMBERS, MAX_TEMPERATURE, MIN_TEMPERATURE

Entries = dict[str, PointOutcome | None]  # of one seed by the points' names; None where a budget holds no ensemble


@dataclass(frozen=True)
class CurveGrid:
    """Which points the budget curves have; sizes and temperatures are by default the recipe's."""

    methods: Sequence[str]
    budgets: Sequence[int]
    sizes: Sequence[int] | None = None
    temperatures: Sequence[float] | None = None
    deltas: Sequence[float] = ()

    def points(self, recipe: Recipe) -> list[Point]:
        """All points; those of single δ at the largest budget alone.

        >>> from nesbs.runs.recipe import load_recipe
        >>> grid = CurveGrid(["urs"], budgets=[6], sizes=[3], temperatures=[0.1, 1.0])
        >>> [point.name for point in grid.points(load_recipe("toy"))]
        ['nesbs 3 6 0.1 None', 'nesbs 3 6 1.0 None', 'urs 3 6 None None']
        """
        if recipe.search.judge == "trained":
            raise NesbsError("curves judge with the supernet's weights: set search.judge to another one than trained")
        if not self.budgets:
            raise NesbsError("--budgets: name at least one")
        sizes = self.sizes or [recipe.ensemble.size]
        temperatures = self.temperatures or [recipe.posterior.temperature]
        for option, values, low, high in (
            ("--budgets", self.budgets, 1, MAX_ARCHITECTURES),
            ("--sizes", sizes, 1, MAX_MEMBERS),
            ("--temperatures", temperatures, MIN_TEMPERATURE, MAX_TEMPERATURE),
            ("--deltas", self.deltas, -MAX_DELTA, MAX_DELTA),
        ):
            if not all(low <= value <= high for value in values):
                raise NesbsError(f"{option} lie between {low:,} and {high:,}")
        if max(self.budgets) < min(sizes):
            raise NesbsError(f"--budgets: {max(self.budgets):,} is less than one ensemble of {min(sizes)}: raise it")
        if self.deltas and recipe.sampler.name != "svgd-rd":
            raise NesbsError(f"--deltas are those of svgd-rd; sampler {recipe.sampler.name} has none")
        methods = methods_of(self.methods, measure="supernet")
        points = [
            Point(method.name, size, budget, temperature)
            for method, size, budget in product(methods, sizes, sorted(set(self.budgets)))
            for temperature in (temperatures if method.draws_from_posterior else [None])
        ]
        largest = max(self.budgets)
        points += [
            Point(REFERENCE, size, largest, temperature, delta)
            for size, temperature, delta in product(sizes, temperatures, self.deltas)
        ]
        return list(dict.fromkeys(points))  # a value given twice is one point, or its seeds would count twice


def curves(
    recipe: Recipe,
    folder: str | Path,
    grid: CurveGrid,
    *,
    seeds: int = 3,
    one_supernet: bool = False,
    device: str = "cpu",
    progress: Progress | None = None,
    workers: Workers | None = None,
) -> CurvesRecord:
    """Find and measure the ensembles of all points under every seed; also `curves.json`.

    Every seed trains a supernet of its own, or with `one_supernet` draws from that of the first.
    """
    points, place = grid.points(recipe), Path(folder)
    recipe = begin(recipe, place, methods_of(grid.methods), seeds)
    numbers = [recipe.seed + offset for offset in range(seeds)]
    outcomes: dict[str, list[PointOutcome]] = {point.name: [] for point in points}
    seconds: list[SeedSeconds] = []

    def run_of(seed: int) -> Run:
        own = recipe.model_copy(update={"seed": seed})
        return Run.create(place / f"seed-{seed}", own, device=device, progress=progress, workers=workers)

    drawn_from = {recipe.seed: numbers} if one_supernet else {seed: [seed] for seed in numbers}
    if workers is not None and workers.take(len(drawn_from)):
        supernets = [each for seed in drawn_from for each in supernet_ahead(run_of(seed))]
        train_ahead(supernets, workers, progress or Progress())
    for home, drawing in drawn_from.items():
        run = run_of(home)
        harness_of = cache(partial(CurveHarness, run))
        for seed in drawing:
            name = "curves" if seed == home else f"curves-{seed}"
            entries = _measured(run, harness_of, points, name, seed)
            for point in points:
                outcomes[point.name].append((entries[point.name] or PointOutcome()).replace(seed=seed))
            seconds.append(_seconds(run, name, seed))
    record = CurvesRecord(
        data=recipe.data.name,
        space=recipe.space.name,
        seeds=tuple(numbers),
        one_supernet=one_supernet,
        device=device_name(device),
        seconds=tuple(seconds),
        reference=REFERENCE,
        sampler=recipe.sampler.name,
        search=recipe.search.method,
        added=recipe.additions(),
        points=tuple(_over_seeds(point, outcomes, recipe.posterior.temperature) for point in points),
    )
    record.write(place / CurvesRecord.FILE)
    return record


def _measured(
    run: Run, harness_of: Callable[[int], CurveHarness], points: Sequence[Point], name: str, seed: int
) -> Entries:
    """What a seed found at every point (`NAME.json`), making what is missing."""
    path = run.folder / f"{name}.json"
    entries, largest = _earlier(path, max(point.budget for point in points))
    missing = [point for point in points if point.name not in entries]
    if not missing:
        return entries
    harness = harness_of(largest).with_seed(seed)
    with run.stage(name, len(missing), fresh=not entries) as stage:
        for number, point in enumerate(missing, start=1):
            architectures = METHODS[point.method].within(harness, point)
            entries[point.name] = None if architectures is None else harness.measure(architectures)
            files.write_json(path, {name: entry and entry.to_json() for name, entry in entries.items()})
            stage.write()
            stage.advance(number, point.name)
    return entries


def _earlier(path: Path, largest: int) -> tuple[Entries, int]:
    """The points that are there, without those of a smaller draw than is asked for now, and the largest budget."""
    values = files.read_mapping(path) if path.is_file() else {}
    try:
        before = max((int(name.split()[2]) for name in values), default=largest)
    except (IndexError, ValueError):
        raise NesbsError(f"{path} is not what `nesbs curves` writes: {files.AGAIN}") from None
    if largest > before:
        drawn = {name for name, method in METHODS.items() if method.draws_from_posterior}
        values = {name: value for name, value in values.items() if name.split()[0] not in drawn}
    entries = {name: None if value is None else PointOutcome.from_json(value) for name, value in values.items()}
    return entries, max(largest, before)


def _seconds(run: Run, name: str, seed: int) -> SeedSeconds:
    """What a seed took on the device: its supernet and posterior, unless it shares them, and all its points."""
    record, shared = run.record, seed != run.recipe.seed
    trained = {stage: None if shared else record.seconds(stage) for stage in ("supernet", "posterior")}
    return SeedSeconds(seed=seed, **trained, points=record.seconds(name))


def _over_seeds(point: Point, outcomes: Mapping[str, Sequence[PointOutcome]], usual: float) -> PointRecord:
    """A point over all seeds; None for what a budget does not hold, and the difference to the reference.

    A method without τ is compared with the reference at the recipe's `usual` one.
    """
    temperature = usual if point.temperature is None else point.temperature
    reference = Point(REFERENCE, point.size, point.budget, temperature)
    errors, nlls = (_values(outcomes[point.name], measure) for measure in ("error", "nll"))
    others = _values(outcomes[reference.name], "error") if reference.name in outcomes and reference != point else None
    error, nll = (None if each is None else SummaryRecord(**asdict(summarise(each))) for each in (errors, nlls))
    return PointRecord(
        **asdict(point),
        seeds=tuple(outcomes[point.name]),
        mean={"error": error, "nll": nll},
        difference=None if errors is None or others is None else DifferenceRecord(**paired(errors, others).to_json()),
    )


def by_table(record: CurvesRecord, accuracies: Mapping[str, float], name: str) -> CurvesRecord:
    """Return the record with the accuracies of members that a table holds, by their text, in per cent.

    So the methods are measured by the truth, whatever they are judged by. An ensemble has the mean of its members.
    Those of a method without τ are compared with the reference at the first τ.
    """
    found = [(point, _looked_up(point.seeds or (), accuracies)) for point in record.points or ()]
    reference: dict[tuple[int | None, int | None, float | None], tuple[PointRecord, list[float] | None]] = {}
    for point, outcomes in found:
        if point.method == record.reference and point.delta is None:
            for temperature in (point.temperature, None):
                own = point, _values(outcomes, "accuracy")
                reference.setdefault((point.size, point.budget, temperature), own)
    points = []
    for point, outcomes in found:
        beside, others = reference.get((point.size, point.budget, point.temperature), (None, None))
        values = _values(outcomes, "accuracy")
        mean = None if values is None else SummaryRecord(**asdict(summarise(values)))
        apart = None if values is None or others is None or beside is point else paired(values, others)
        difference = None if apart is None else DifferenceRecord(**apart.to_json())
        means = {**(point.mean or {}), "accuracy": mean}
        points.append(point.replace(seeds=tuple(outcomes), mean=means, by_table=difference))
    members = [text for point in points for outcome in point.seeds or () for text in outcome.architectures or ()]
    held = sum(text in accuracies for text in members) / max(1, len(members))
    return record.replace(points=tuple(points), table=name, held=held)


def _looked_up(outcomes: Sequence[PointOutcome], accuracies: Mapping[str, float]) -> list[PointOutcome]:
    known = [[accuracies[text] for text in one.architectures or () if text in accuracies] for one in outcomes]
    return [one.replace(accuracy=fmean(some) if some else None) for one, some in zip(outcomes, known, strict=True)]


def _values(outcomes: Sequence[PointOutcome], measure: str) -> list[float] | None:
    """A measure under every seed, None where a seed found no ensemble."""
    values = [value for outcome in outcomes if (value := getattr(outcome, measure)) is not None]
    return values if len(values) == len(outcomes) else None
