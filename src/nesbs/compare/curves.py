"""Search efficiency (paper, app. C.3 and C.4; Figs. 5 to 7): test error against architectures judged, without training.

    OUT/curves.json  curves.md  curves.svg  seed-0/curves.json …

Every ensemble is judged and measured with the weights of one supernet a seed, or of the first seed's alone
(`seed-0/curves-1.json` is then what seed 1 drew from it). A larger budget begins with what a smaller one drew
(NES-RE alone evolves anew, since its population depends on the budget). All budgets of a method that samples are parts
of one draw, as many rounds as the largest holds: a larger one asked for later draws them all again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from nesbs import files, metrics, rng
from nesbs.compare.methods import REFERENCE
from nesbs.compare.over_seeds import begin
from nesbs.ensemble import decide, scorer
from nesbs.errors import NesbsError
from nesbs.evaluation import paired, summarise
from nesbs.records.recipe import Recipe
from nesbs.rivals import nes_re, nes_rs, single_best, uniform_pool, urs
from nesbs.runs.run import Run
from nesbs.runs.stage import Progress, device_name
from nesbs.samplers import MonteCarlo, NoEnsembleError, Proposal, Sampler, SvgdRd, get_sampler
from nesbs.spaces import Architecture
from nesbs.supernet import Estimator

FILE = "curves.json"
Ensembled = tuple[Architecture, ...] | None  # None where the budget holds no ensemble


@dataclass(frozen=True)
class Point:
    """One ensemble to be found: by a method, of a size, within a budget; δ where it is set apart (Fig. 7)."""

    method: str
    size: int
    budget: int
    temperature: float | None = None  # τ, of methods that draw from the posterior
    delta: float | None = None

    @property
    def name(self) -> str:
        """The point in a record."""
        return " ".join(str(value) for value in asdict(self).values())


def points(
    methods: Sequence[str],
    budgets: Sequence[int],
    sizes: Sequence[int],
    temperatures: Sequence[float],
    deltas: Sequence[float],
) -> Iterator[Point]:
    """All points of the curves; those of single δ at the largest budget alone.

    >>> [point.name for point in points(["nesbs", "urs"], [6], [3], [0.1, 1.0], [])]
    ['nesbs 3 6 0.1 None', 'nesbs 3 6 1.0 None', 'urs 3 6 None None']
    """
    for method, size, budget in product(methods, sizes, budgets):
        for temperature in temperatures if method.startswith(REFERENCE) else [None]:
            yield Point(method, size, budget, temperature)
    for size, temperature, delta in product(sizes, temperatures, deltas):
        yield Point(REFERENCE, size, max(budgets), temperature, delta)


class Finder:
    """Finds the ensemble of a point in one run; candidates are estimated once, whoever asks.

    What is random comes from the run's seed, or from another with the same supernet (`with_seed`).
    """

    def __init__(self, run: Run, largest: int) -> None:
        self.run = run
        self.largest = largest
        self.combine = run.recipe.ensemble.combine
        supernet, size = run.supernet(), run.recipe.search.batch_size
        self.posterior = run.posterior()
        self.score = scorer(Estimator(supernet, run.data.search_valid, batch_size=size), self.combine)
        self.test = Estimator(supernet, run.data.test, batch_size=size)
        self._begin(run.recipe.seed)

    def with_seed(self, seed: int) -> Finder:
        """One that draws anew and shares the estimates."""
        other = copy.copy(self)
        other._begin(seed)
        return other

    def _begin(self, seed: int) -> None:
        self.seed = seed
        self._drawn: dict[Point, list[Proposal]] = {}
        random, space = rng.generator(seed, "rivals", "pool"), self.run.space
        self.pool = uniform_pool(space, min(self.largest, len(space)), generator=random)

    def find(self, point: Point) -> Ensembled:
        """The ensemble, or None where the budget holds none."""
        if point.method.startswith(REFERENCE):
            return self._sampled(point)
        pool, size = self.pool[: point.budget], point.size
        if point.method != "single-best" and len(pool) < size:
            return None
        rivals = self.run.recipe.rivals.model_copy(update={"pool": len(pool)})
        found: dict[str, Callable[[], Any]] = {
            "urs": lambda: urs(pool, size, self.score),
            "nes-rs": lambda: nes_rs(pool, size, self.score),
            "single-best": lambda: single_best(pool, self.score),
            "nes-re": lambda: nes_re(
                self.run.space,
                pool[: min(rivals.first, len(pool))],
                size,
                self.score,
                budget=len(pool),
                parents=rivals.parents,
                generator=rng.generator(self.seed, "rivals", "nes-re"),
            ),
        }
        return tuple(found[point.method]().architectures)

    def measure(self, architectures: Sequence[Architecture]) -> dict[str, float]:
        """Error and NLL on the test images with the supernet's weights."""
        log_probs = metrics.combine(self.test.log_probs(architectures), self.combine)
        labels = self.run.data.test.labels
        return {"error": float(metrics.error(log_probs, labels)), "nll": float(metrics.nll(log_probs, labels))}

    def _sampled(self, point: Point) -> Ensembled:
        sampler = self._sampler(point)
        values = len(sampler.deltas) if isinstance(sampler, SvgdRd) else 1
        rounds = point.budget // (point.size * values)
        if rounds < 1:
            return None
        drawn = replace(point, budget=0)
        if drawn not in self._drawn:
            self._drawn[drawn] = self._proposals(point, sampler, self.largest // (point.size * values))
        proposals = [proposal for proposal in self._drawn[drawn] if proposal.round <= rounds]
        if not proposals:
            return None
        return decide(proposals, self.score, self.run.recipe.search.method)[0]

    def _proposals(self, point: Point, sampler: Sampler, rounds: int) -> list[Proposal]:
        """Ensembles of as many rounds as the largest budget holds."""
        try:
            return sampler.propose(
                self.posterior.tempered(point.temperature or 1.0),
                size=point.size,
                rounds=rounds,
                duplicates=self.run.recipe.search.duplicates,
                generator=rng.generator(self.seed, "curves", sampler.name, point.size),
            )
        except NoEnsembleError:
            return []  # attraction so strong that all members are one

    def _sampler(self, point: Point) -> Sampler:
        if point.method == "nesbs-mc":
            return MonteCarlo()
        sampler = get_sampler(self.run.recipe.sampler)
        if not isinstance(sampler, SvgdRd):
            return sampler
        sampler = replace(sampler, device=str(self.run.data.test.device))
        return sampler if point.delta is None else replace(sampler, delta=point.delta)


def curves(
    recipe: Recipe,
    folder: Path,
    methods: Sequence[str],
    *,
    budgets: Sequence[int],
    sizes: Sequence[int] | None = None,
    temperatures: Sequence[float] | None = None,
    deltas: Sequence[float] = (),
    seeds: int = 3,
    one_supernet: bool = False,
    device: str = "cpu",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Find and measure the ensembles of all points under every seed; also `curves.json`.

    Every seed trains a supernet of its own, or with `one_supernet` draws from that of the first.
    """
    sizes = list(sizes or [recipe.ensemble.size])
    temperatures = list(temperatures or [recipe.posterior.temperature])
    if min(*budgets, *sizes, 1) < 1 or min(temperatures) <= 0:
        raise NesbsError("--budgets and --sizes are 1 or more, --temperatures above 0")
    if deltas and recipe.sampler.name != "svgd-rd":
        raise NesbsError(f"--deltas are those of svgd-rd; sampler {recipe.sampler.name} has none")
    asked = list(points(methods, sorted(set(budgets)), sizes, temperatures, deltas))
    recipe = begin(recipe, folder, methods, seeds)
    found: dict[str, list[dict[str, Any]]] = {point.name: [] for point in asked}
    numbers = [recipe.seed + offset for offset in range(seeds)]
    costs: list[dict[str, Any]] = []
    run: Run | None = None
    finder: Finder | None = None
    for seed in numbers:
        home = recipe.model_copy(update={"seed": recipe.seed if one_supernet else seed})
        if run is None or run.recipe.seed != home.seed:
            run = Run.create(folder / f"seed-{home.seed}", home, device=device, progress=progress)
            finder = None
        name = "curves" if seed == home.seed else f"curves-{seed}"
        path = run.folder / f"{name}.json"
        known, largest = _known(path, max(budgets))
        missing = [point for point in asked if point.name not in known]
        if missing:
            if finder is None or finder.largest != largest:
                finder = Finder(run, largest)
            own = finder.with_seed(seed)
            with run.stage(name, len(missing), fresh=not known) as stage:
                for number, point in enumerate(missing, start=1):
                    known[point.name] = _found(own, point)
                    files.write_json(path, known)
                    stage.write()
                    stage.advance(number, point.name)
        for point in asked:
            found[point.name].append({"seed": seed, **(known[point.name] or {})})
        costs.append({"seed": seed, **_seconds(run, name, shared=seed != home.seed)})
    value = {
        "data": recipe.data.name,
        "space": recipe.space.name,
        "seeds": numbers,
        "one_supernet": one_supernet,
        "device": device_name(device),
        "seconds": costs,
        "reference": REFERENCE,
        "sampler": recipe.sampler.name,
        "search": recipe.search.method,
        "points": [_entry(point, found, recipe.posterior.temperature) for point in asked],
    }
    files.write_json(folder / FILE, value)
    return value


def _known(path: Path, largest: int) -> tuple[dict[str, Any], int]:
    """The points that are there, sampled ones where they are of one draw with the largest budget, and that budget."""
    known = files.read_mapping(path) if path.is_file() else {}
    before = max((int(name.split()[2]) for name in known), default=largest)
    if largest > before:
        known = {name: entry for name, entry in known.items() if not name.startswith(REFERENCE)}
    return known, max(largest, before)


def _seconds(run: Run, name: str, *, shared: bool) -> dict[str, float | None]:
    """What a seed took on the device: its supernet and posterior, unless it shares them, and all its points."""
    stages = run.record["stages"]
    made = {stage: None if shared else stages[stage]["seconds"] for stage in ("supernet", "posterior")}
    return {**made, "points": stages[name]["seconds"]}


def _found(finder: Finder, point: Point) -> dict[str, Any] | None:
    architectures = finder.find(point)
    if architectures is None:
        return None
    return {"architectures": [str(each) for each in architectures], **finder.measure(architectures)}


def _entry(point: Point, found: dict[str, list[dict[str, Any]]], usual: float) -> dict[str, Any]:
    """A point over all seeds; None for what a budget does not hold, and the difference to the reference.

    A method without τ is held against the reference at the recipe's `usual` one.
    """
    outcomes = found[point.name]
    whole = all("error" in outcome for outcome in outcomes)
    temperature = usual if point.temperature is None else point.temperature
    reference = Point(REFERENCE, point.size, point.budget, temperature)
    rivals = found.get(reference.name, []) if reference != point else []
    compared = whole and bool(rivals) and all("error" in outcome for outcome in rivals)
    return {
        **asdict(point),
        "seeds": outcomes,
        "mean": {
            name: summarise([o[name] for o in outcomes]).to_json() if whole else None for name in ("error", "nll")
        },
        "difference": paired([o["error"] for o in outcomes], [o["error"] for o in rivals]).to_json()
        if compared
        else None,
    }
