"""Run an experiment: from its file in `experiments/` to its record, which is written after every step."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TypeVar

from nesbs.compare.curves import CurveGrid, curves
from nesbs.compare.harness import Harness
from nesbs.compare.over_seeds import train_chosen, train_searched
from nesbs.records import ExperimentRecord
from nesbs.records.attacks import EnsembleAttacks
from nesbs.records.experiment import AttackRow, DiscrepancyRow, MethodEntry, MethodRow
from nesbs.reproduce.gaussians import run_gaussians
from nesbs.reproduce.paper_methods import best_response_of, hand_over, measured_row, paper_method, trained_ensemble
from nesbs.reproduce.spec import BEST_RESPONSE, DataPart
from nesbs.reproduce.tradeoff import run_tradeoff
from nesbs.reproduce.work import Work
from nesbs.rivals import discrepancy
from nesbs.runs.attack import attack_ensembles, attack_settings
from nesbs.runs.folder_lock import locked
from nesbs.runs.quality import measure_quality
from nesbs.runs.resumable_run import Run
from nesbs.supernet import Estimator

ATTACK_FIGURES = ("attack", "attack_std", "defence", "defence_std", "images")
Row = TypeVar("Row", MethodRow, DiscrepancyRow)


def run(work: Work) -> ExperimentRecord:
    """Run what is missing of an experiment; return its record."""
    work.check_folder()
    with locked(work.out):  # experiments share the runs in it
        work.begin()
        KINDS[work.experiment.kind](work)
        work.save(complete=True)
    return work.record


def run_methods(work: Work) -> None:
    """Run Tables 1, 2, 3 and 5: methods on data sets over seeds."""
    searched: dict[str, list[Harness]] = {}
    for label, part, harnesses in work.all_seeds():
        searched[label] = harnesses
        sources = searched.get(part.searched_on or "")
        methods = work.methods(label, harnesses[0])
        _train_ahead(work, part, harnesses, sources, methods)
        for place, harness in enumerate(() if part.search_only else harnesses):
            source = None if sources is None else sources[place]
            for method in methods:
                _save_row(work, label, method, measured_row(method, harness, source))


def _train_ahead(
    work: Work, part: DataPart, harnesses: Sequence[Harness], sources: Sequence[Harness] | None, names: Sequence[str]
) -> None:
    """Have workers, where there are several, train what the methods of all seeds of a part need."""
    if work.workers is None or not work.workers.take(2):
        return
    methods = [paper_method(name) for name in names]
    if sources is None:
        train_searched(harnesses, methods, work.workers, work.progress)
    for harness, source in zip(harnesses, sources or (), strict=False):
        for name in names:
            hand_over(name, harness, source)
    if not part.search_only:
        train_chosen(harnesses, methods, work.workers, work.progress)


def run_attacks(work: Work) -> None:
    """Run Table 4: attack each ensemble."""
    settings = attack_settings(None, None, work.scale.attack)
    searched: dict[str, list[Harness]] = {}
    for label, part, harness in work.one_seed():
        searched[label] = [harness]
        sources, methods = searched.get(part.searched_on or ""), work.methods(label, harness)
        _train_ahead(work, part, [harness], sources, methods)
        ensembles = {}
        for method in methods:
            measured_row(method, harness, None if sources is None else sources[0])
            ensembles[method] = trained_ensemble(method, harness)
            work.save()
        attacked = attack_ensembles(harness.run, ensembles, settings, on_unit=work.save)
        for answer in attacked.values():
            work.leave_out(answer.skipped or {})
        entries = {method: _attack_entry(answer) for method, answer in attacked.items()}
        work.save_part(label, attack=work.scale.attack, methods=entries)


def _attack_entry(found: EnsembleAttacks) -> MethodEntry:
    """A method's figures under all attacks."""
    rows = {}
    for attack, result in (found.attacks or {}).items():
        figures = {name: getattr(result, name) for name in ATTACK_FIGURES}
        rows[attack] = AttackRow(**figures, adaptive=result.adaptive and result.adaptive.attack)
    return MethodEntry(clean=found.clean, attacks=rows)


def run_quality(work: Work) -> None:
    """Run Table 6: estimated against true performance."""
    for label, _, harness in work.one_seed():
        answer = measure_quality(harness.run, **work.scale.quality)
        work.save_part(label, truth=answer.truth, rankings=answer.rankings, verdict=answer.verdict)


def run_posteriors(work: Work) -> None:
    """Run Table 7: NESBS with either posterior."""
    for label, part, harnesses in work.all_seeds():
        names = [name + end for name in work.methods(label, harnesses[0]) for end in ("", BEST_RESPONSE)]
        _train_ahead(work, part, harnesses, None, names)
        for harness in harnesses:
            for name in names:
                _save_row(work, label, name, measured_row(name, harness))


def run_discrepancy(work: Work) -> None:
    """Run Figure 4: the likeliest architecture against the best, under either posterior."""
    for label, _, harnesses in work.all_seeds():
        if work.workers is not None and work.workers.take(2):
            methods = [paper_method(name) for name in ("nesbs", "nesbs" + BEST_RESPONSE)]
            train_searched(harnesses, methods, work.workers, work.progress)
        for harness in harnesses:
            _save_discrepancies(work, label, harness.run)


def _save_discrepancies(work: Work, label: str, run: Run) -> None:
    """Write the figures of both posteriors under one seed into a part."""
    draws, seed = work.scale.draws, run.recipe.seed
    posterior = run.posterior()
    pairs = {"post-training": (run.supernet(), posterior), "best-response": best_response_of(run)}
    for name, (supernet, posterior) in pairs.items():
        estimator = Estimator(supernet, run.data.test, batch_size=run.recipe.search.batch_size)
        gap = discrepancy(estimator, posterior, count=draws, seed=seed)
        posteriors = work.record.part(label).posteriors or {}
        rows = in_order(posteriors.get(name, ()), DiscrepancyRow(seed=seed, **asdict(gap), draws=draws))
        work.save_part(label, posteriors={**posteriors, name: rows})


def run_curves(work: Work) -> None:
    """Run Figures 5, 6 and 7: test error with the supernet's weights, over budgets, τ and δ."""
    scale = work.scale
    for label, part, harness in work.one_seed():
        grid = CurveGrid(work.methods(label, harness), scale.budgets, scale.sizes, scale.temperatures, scale.deltas)
        drawn = curves(
            work.recipe(part),
            harness.run.folder.parent,
            grid,
            seeds=scale.seeds,
            device=work.device,
            progress=work.progress,
            workers=work.workers,
        )
        work.save_part(label, points=drawn.points, seeds=drawn.seeds)


def _save_row(work: Work, label: str, method: str, row: MethodRow) -> None:
    """Write a method's figures under one seed into a part."""
    part = work.record.part(label)
    work.save_part(label, methods={**(part.methods or {}), method: in_order(part.rows(method), row)})


def in_order(rows: Sequence[Row], new: Row) -> tuple[Row, ...]:
    """Return rows by seed with a new one among them, which replaces an earlier one of its seed.

    >>> [row.seed for row in in_order([MethodRow(seed=0), MethodRow(seed=2)], MethodRow(seed=1))]
    [0, 1, 2]
    """
    return tuple(sorted([row for row in rows if row.seed != new.seed] + [new], key=lambda row: row.seed or 0))


KINDS: dict[str, Callable[[Work], None]] = {
    "methods": run_methods,
    "attacks": run_attacks,
    "quality": run_quality,
    "posteriors": run_posteriors,
    "discrepancy": run_discrepancy,
    "tradeoff": run_tradeoff,
    "curves": run_curves,
    "gaussians": run_gaussians,
}
