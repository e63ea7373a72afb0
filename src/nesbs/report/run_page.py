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
from nesbs.report.missing import EVALUATE, SEARCH, TRAIN, missing
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
    recipe = run.recipe
    names = (run.data or (recipe and recipe.data.name), run.space, _sampler(run))
    values = {
        "names": [name for name in names if name],
        "fixed": run.fixed,
        "uniform_wanted": recipe is not None and recipe.evaluation.uniform,
        "missing": missing(run),
        "contents": contents(run),
        "commands": {"search": SEARCH, "train": TRAIN, "evaluate": EVALUATE},
        "glossary": glossary(recipe.evaluation.bins if recipe else 15),
        **_measured(run),
        **_searched(run),
        **_trained(run),
        "recipe": recipe.to_yaml() if recipe else None,
        "changes": changes(recipe) if recipe else [],
        "method": papers_method(recipe) if recipe else None,
        "additions": recipe.additions() if recipe else (),
        "facts": facts(run),
    }
    return rendered("run_page.html", values)


def _sampler(run: RunRecords) -> str | None:
    """The name of the sampler that drew the ensembles, or that will."""
    return (run.selection and run.selection.sampler) or (run.recipe and run.recipe.sampler.name) or None


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
    uniform = run.metrics.uniform if run.metrics else None
    judged = rounds(run.selection) if run.selection else None
    points = [
        (row["delta"], row["loss"], row["chosen"])
        for row in (judged["rows"] if judged else ())
        if row["delta"] is not None and row["loss"] is not None
    ]
    search, stage = (run.recipe or Recipe()).search, (run.record or RunRecord()).stage("selection")
    return {
        "members": chosen_cells(run.space, run.chosen),
        "uniform_texts": (uniform and uniform.architectures) or (),
        "legend": cells.legend(used_operations(run.space, run.chosen)),
        "dead_sample": cells.dead_sample(),
        "posterior": posterior_tables(run.posterior) if run.posterior else None,
        "selection": judged,
        "delta": choice_of_delta(points, search, stage),
        "quality": quality(run.quality),
    }


def _trained(run: RunRecords) -> dict[str, Any]:
    """How the stages went."""
    record, stages = run.record or RunRecord(), stage_rows(run)
    return {
        "curves": learning_curves(record, run.fixed),
        "updates": update_tables(record),
        "stages": stages,
        "stage_bars": stage_bars(stages),
        "total_seconds": record.seconds(),
    }


def contents(run: RunRecords) -> list[tuple[str, str]]:
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
        ("posterior", "Posterior", not run.fixed),
        ("rounds", "Rounds", not run.fixed),
        ("quality", "Estimate", not run.fixed or run.quality),
        ("curves", "Curves", True),
        ("stages", "Time and memory", True),
        ("method", "Method", run.recipe),
        ("recipe", "Recipe", True),
        ("versions", "Versions", True),
        ("glossary", "Glossary", True),
    ]
    return [(place, name) for place, name, there in sections if there]
