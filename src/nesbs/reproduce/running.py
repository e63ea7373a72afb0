"""Running an experiment: from its file in `experiments/` to its record, unit by unit, each kept when it is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nesbs.compare.curves import curves
from nesbs.compare.methods import REFERENCE
from nesbs.reproduce.contest import stem
from nesbs.reproduce.gaussians import run_gaussians
from nesbs.reproduce.spec import BEST_RESPONSE
from nesbs.reproduce.tradeoff import run_tradeoff
from nesbs.reproduce.work import Work
from nesbs.rivals import discrepancy
from nesbs.runs.attack import attack_ensemble, attack_settings
from nesbs.runs.quality import measure_quality
from nesbs.supernet import Estimator


def run(work: Work) -> dict[str, Any]:
    """Run what is missing of an experiment; its record."""
    work.begin()
    KINDS[work.experiment.kind](work)
    work.record["complete"] = True
    work.save()
    return work.record


def run_methods(work: Work) -> None:
    """Tables 1, 2, 3 and 5: methods on data sets over seeds."""
    searched = {}
    count = any(column.measure == "multiply_adds" for column in work.experiment.columns.values())
    for label, part, recipe in work.parts():
        for seed in work.seeds(recipe):
            contest = searched[label, seed] = work.contest(recipe, seed)
            place = work.about(label, contest)
            if part.search_only:
                continue
            found = place.setdefault("methods", {})
            source = searched.get((part.searched_on or "", seed))
            for method in work.methods(contest).values():
                _put(found.setdefault(method, []), contest.row(method, source, count=count))
                work.save()


def run_attacks(work: Work) -> None:
    """Table 4: each ensemble attacked."""
    settings = attack_settings(None, None, work.scale.attack)
    searched = {}
    for label, part, recipe in work.parts():
        contest = searched[label] = work.contest(recipe, recipe.seed)
        place = work.about(label, contest)
        place["attack"] = list(work.scale.attack)
        for method in work.methods(contest).values():
            contest.row(method, searched.get(part.searched_on or ""))
            attacked = attack_ensemble(contest.run, stem(method), contest.ensemble(method), settings)
            place.setdefault("methods", {})[method] = {
                "clean": attacked["clean"],
                "attacks": {
                    name: {
                        **{key: result[key] for key in ("attack", "attack_std", "defence", "defence_std", "images")},
                        "adaptive": result["adaptive"]["attack"],
                    }
                    for name, result in attacked["attacks"].items()
                },
            }
            work.record["left_out"].update(attacked["skipped"])
            work.save()


def run_quality(work: Work) -> None:
    """Table 6: estimated against true performance."""
    for label, _, recipe in work.parts():
        contest = work.contest(recipe, recipe.seed)
        found = measure_quality(contest.run, **work.scale.quality)
        work.about(label, contest).update({key: found[key] for key in ("truth", "rankings", "verdict")})
        work.save()


def run_posteriors(work: Work) -> None:
    """Table 7: NESBS with either posterior."""
    for label, _, recipe in work.parts():
        for seed in work.seeds(recipe):
            contest = work.contest(recipe, seed)
            found = work.about(label, contest).setdefault("methods", {})
            for method in work.methods(contest).values():
                for name in (method, method + BEST_RESPONSE):
                    _put(found.setdefault(name, []), contest.row(name))
                    work.save()


def run_discrepancy(work: Work) -> None:
    """Figure 4: the likeliest architecture against the best, under either posterior."""
    for label, _, recipe in work.parts():
        for seed in work.seeds(recipe):
            contest = work.contest(recipe, seed)
            found = work.about(label, contest).setdefault("posteriors", {})
            own = contest.run
            posterior = own.posterior()
            for name, pair in (
                ("post-training", (own.supernet(), posterior)),
                ("best-response", contest.best_response),
            ):
                estimator = Estimator(pair[0], own.data.test, batch_size=recipe.search.batch_size)
                gap = discrepancy(estimator, pair[1], count=work.scale.draws, seed=seed)
                entry = {"seed": seed, "mode": gap.mode, "best": gap.best, "gap": gap.gap, "draws": work.scale.draws}
                _put(found.setdefault(name, []), entry)
                work.save()


def run_curves(work: Work) -> None:
    """Figures 5, 6 and 7: test error with the supernet's weights, over budgets, τ and δ."""
    for label, _, recipe in work.parts():
        scale = work.scale
        contest = work.contest(recipe, recipe.seed)
        methods = list(dict.fromkeys([REFERENCE, *work.methods(contest).values()]))
        found = curves(
            recipe,
            work.place(recipe),
            methods,
            budgets=scale.budgets,
            sizes=scale.sizes,
            temperatures=scale.temperatures or None,
            deltas=scale.deltas,
            seeds=scale.seeds,
            device=work.device,
            progress=work.progress,
        )
        work.about(label, contest).update({"points": found["points"], "seeds": found["seeds"]})
        work.save()


def _put(entries: list[dict[str, Any]], entry: dict[str, Any]) -> None:
    """Put a seed's entry into its place."""
    entries[:] = sorted([e for e in entries if e["seed"] != entry["seed"]] + [entry], key=lambda e: int(e["seed"]))


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
