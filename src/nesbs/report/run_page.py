"""The page of a run, section by section, from its records alone; any of them may be missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nesbs import files
from nesbs.records import MetricsRecord, Recipe, RunRecord, RunRecords
from nesbs.report import cells
from nesbs.report.attacks import attacks
from nesbs.report.choice_of_delta import choice_of_delta
from nesbs.report.further_measures import calibration, corruptions, human, not_asked, unseen
from nesbs.report.glossary import glossary
from nesbs.report.members import accuracies, disagreed, disagreement, prediction_map
from nesbs.report.missing import EVALUATE, SEARCH, TRAIN, interrupted, missing
from nesbs.report.posterior_tables import posterior_tables
from nesbs.report.provenance import facts
from nesbs.report.quality import quality
from nesbs.report.recipe import changes, papers_method
from nesbs.report.scores import error_bars, gains, headline, lowest_values, score_rows
from nesbs.report.selection import chosen_cells, rounds, used_operations
from nesbs.report.templates import rendered
from nesbs.report.training import learning_curves, stage_bars, stage_rows, update_tables


def write_report(folder: Path) -> Path:
    """Write `report.html` into a run folder from the records there, and return its path."""
    page = folder / "report.html"
    files.write_text(page, render(RunRecords.read(folder)))
    return page


def render(run: RunRecords) -> str:
    """The page as text; the same records give the same bytes."""
    fixed = run.selection is not None and run.selection.fixed
    uniform_wanted = run.recipe is not None and run.recipe.evaluation.uniform
    values = {
        "names": _names(run),
        "fixed": fixed,
        "uniform_wanted": uniform_wanted,
        "missing": missing(run),
        "contents": contents(run, fixed),
        "commands": {"search": SEARCH, "train": TRAIN, "evaluate": EVALUATE},
        "glossary": glossary(run.recipe.evaluation.bins if run.recipe else 15),
        **_measured(run),
        **_searched(run),
        **_trained(run, uniform_wanted, fixed),
        "recipe": run.recipe.to_yaml() if run.recipe else None,
        "changes": changes(run.recipe) if run.recipe else [],
        "method": papers_method(run.recipe) if run.recipe else None,
        "additions": run.recipe.additions() if run.recipe else (),
        "facts": facts(run),
    }
    return rendered("run_page.html", values)


def _names(run: RunRecords) -> list[str]:
    """The data, the space and the sampler, as far as they are known."""
    data = [
        run.metrics and run.metrics.data,
        run.record and run.record.data and run.record.data.name,
        run.recipe and run.recipe.data.name,
    ]
    samplers = [run.selection and run.selection.sampler, run.recipe and run.recipe.sampler.name]
    names = (next(filter(None, data), None), space_name(run), next(filter(None, samplers), None))
    return [str(name) for name in names if name]


def space_name(run: RunRecords) -> str:
    """The name of the space of a run; empty where it is not known."""
    return run.recipe.space.name if run.recipe else (run.posterior and run.posterior.space) or ""


def _measured(run: RunRecords) -> dict[str, Any]:
    """What was measured of the ensemble, its members and their answers."""
    metrics = run.metrics or MetricsRecord()
    scores = score_rows(metrics)
    return {
        "headline": headline(metrics),
        "scores": scores,
        "lowest": lowest_values(scores),
        "error_bars": error_bars(scores),
        "gains": gains(metrics.ensemble),
        "not_asked": not_asked(metrics.ensemble),
        "disagreement": disagreement(metrics.ensemble),
        "accuracies": accuracies(metrics),
        "map": prediction_map(run.predictions),
        "disagreed": disagreed(run.predictions),
        "looked": run.predictions is not None,
        "calibration": calibration(metrics),
        "human": human(metrics),
        "unseen": unseen(metrics),
        "corruptions": corruptions(metrics),
        "attacks": attacks(run.attacks),
    }


def _searched(run: RunRecords) -> dict[str, Any]:
    """The chosen cells, and the search that ended with them."""
    space, texts = space_name(run), (run.selection and run.selection.architectures) or ()
    uniform = run.metrics.uniform if run.metrics else None
    judged = rounds(run.selection) if run.selection else None
    points = [
        (row["delta"], row["loss"], row["chosen"])
        for row in (judged["rows"] if judged else ())
        if row["delta"] is not None and row["loss"] is not None
    ]
    search, stage = (run.recipe or Recipe()).search, (run.record or RunRecord()).stage("selection")
    return {
        "members": chosen_cells(space, texts),
        "uniform_texts": (uniform and uniform.architectures) or (),
        "legend": cells.legend(used_operations(space, texts)),
        "dead_sample": cells.dead_sample(),
        "posterior": posterior_tables(run.posterior) if run.posterior else None,
        "selection": judged,
        "delta": choice_of_delta(points, search, stage),
        "quality": quality(run.quality),
    }


def _trained(run: RunRecords, uniform_wanted: bool, fixed: bool) -> dict[str, Any]:
    """How the stages went."""
    record = run.record or RunRecord()
    stages = stage_rows(record, uniform_wanted, fixed, interrupted=interrupted(run))
    return {
        "curves": learning_curves(record, fixed),
        "updates": update_tables(record),
        "stages": stages,
        "stage_bars": stage_bars(stages),
        "total_seconds": record.seconds(),
    }


def contents(run: RunRecords, fixed: bool) -> list[tuple[str, str]]:
    """The sections of the page in their order: (id, short name)."""
    measured = run.metrics.ensemble if run.metrics else None
    corrupted = measured.corruptions if measured else None
    sections = [
        ("measures", "Measures", True),
        ("disagreement", "Members", True),
        ("images", "Images", True),
        ("calibration", "Calibration", measured and measured.temperature),
        ("human", "People", measured and measured.human),
        ("unseen", "Unseen data", measured and measured.unseen),
        ("corruptions", "Corruptions", corrupted and corrupted.ensemble),
        ("attacks", "Attacks", True),
        ("cells", "Cells", True),
        ("posterior", "Posterior", not fixed),
        ("rounds", "Rounds", not fixed),
        ("quality", "Estimate", not fixed or run.quality),
        ("curves", "Curves", True),
        ("stages", "Time and memory", True),
        ("method", "Method", run.recipe),
        ("recipe", "Recipe", True),
        ("versions", "Versions", True),
        ("glossary", "Glossary", True),
    ]
    return [(place, name) for place, name, there in sections if there]
