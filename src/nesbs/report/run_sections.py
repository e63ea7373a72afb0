"""From records to what the template shows, section by section; any part of a record may be missing."""

from __future__ import annotations

from typing import Any

import yaml

from nesbs.report import cells, words
from nesbs.report.attacks import attacks
from nesbs.report.choice_of_delta import choice_of_delta
from nesbs.report.further_measures import calibration, corruptions, human, not_asked, unseen
from nesbs.report.glossary import glossary
from nesbs.report.members import accuracies, disagreed, disagreement, prediction_map
from nesbs.report.posterior_tables import posterior_tables
from nesbs.report.quality import quality
from nesbs.report.reading import Record, mapping, sequence
from nesbs.report.recipe import changes
from nesbs.report.scores import error_bars, gains, headline, score_rows
from nesbs.report.selection import chosen_cells, rounds, used_operations
from nesbs.report.stages import (
    EVALUATE,
    SEARCH,
    TRAIN,
    begun,
    facts,
    learning_curves,
    missing,
    stage_bars,
    stage_rows,
    update_tables,
)


def context(
    recipe: Record,
    record: Record,
    posterior: Record,
    selection: Record,
    metrics: Record,
    estimates: Record | None = None,
    attacked: Record | None = None,
    predictions: Record | None = None,
) -> dict[str, Any]:
    """Everything on the page; an empty record stands for a missing file."""
    stages = mapping(record.get("stages"))
    uniform_wanted = mapping(recipe.get("evaluation")).get("uniform") is True
    space = str(mapping(recipe.get("space")).get("name") or posterior.get("space") or "")
    data = mapping(record.get("data"))
    names = {
        "data": metrics.get("data") or data.get("name") or mapping(recipe.get("data")).get("name"),
        "space": space,
        "sampler": selection.get("sampler") or mapping(recipe.get("sampler")).get("name"),
    }
    given = selection.get("sampler") == "given"  # architectures that nobody had to search
    unfinished = begun(stages, recipe, posterior, selection, metrics)
    times = stage_rows(stages, uniform_wanted, given, unfinished=unfinished)
    looks = predictions or {}
    members = chosen_cells(space, selection)
    judged = rounds(selection)
    search, selected = mapping(recipe.get("search")), mapping(stages.get("selection"))
    return {
        "given": given,
        "quality": quality(estimates or {}),
        "attacks": attacks(attacked or {}),
        "names": {key: str(name) for key, name in names.items() if name},
        "missing": missing(recipe, record, posterior, selection, metrics, uniform_wanted, looks),
        "headline": headline(metrics),
        "scores": score_rows(metrics),
        "uniform_wanted": uniform_wanted,
        "error_bars": error_bars(metrics),
        "gains": gains(metrics),
        "calibration": calibration(metrics),
        "human": human(metrics),
        "unseen": unseen(metrics),
        "corruptions": corruptions(metrics),
        "not_asked": not_asked(metrics),
        "members": members,
        "uniform_texts": [str(text) for text in sequence(mapping(metrics.get("uniform")).get("architectures"))],
        "legend": cells.legend(used_operations(space, selection)),
        "dead_sample": cells.dead_sample(),
        "posterior": posterior_tables(posterior),
        "selection": judged,
        "delta": choice_of_delta(judged["rows"], search, selected) if judged else None,
        "disagreement": disagreement(metrics),
        "accuracies": accuracies(metrics),
        "map": prediction_map(looks),
        "disagreed": disagreed(looks),
        "looked": bool(looks),
        "curves": learning_curves(stages, given),
        "updates": update_tables(stages),
        "stages": times,
        "stage_bars": stage_bars(times),
        "total_seconds": sum(
            stage["seconds"] for stage in map(mapping, stages.values()) if words.is_number(stage.get("seconds"))
        ),
        "recipe": yaml.safe_dump(dict(recipe), sort_keys=False, allow_unicode=True) if recipe else None,
        "changes": changes(recipe),
        "facts": facts(record),
        "glossary": glossary(mapping(recipe.get("evaluation")).get("bins", 15)),
        "contents": contents(metrics, given, bool(estimates)),
        "commands": {"search": SEARCH, "train": TRAIN, "evaluate": EVALUATE},
    }


def contents(metrics: Record, given: bool, judged: bool) -> list[tuple[str, str]]:
    """The sections of the page in their order: (id, short name)."""
    measured = mapping(metrics.get("ensemble"))
    searched = not given
    sections = [
        ("measures", "Measures", True),
        ("disagreement", "Members", True),
        ("images", "Images", True),
        ("calibration", "Calibration", measured.get("temperature")),
        ("human", "People", measured.get("human")),
        ("unseen", "Unseen data", measured.get("unseen")),
        ("corruptions", "Corruptions", mapping(measured.get("corruptions")).get("ensemble")),
        ("attacks", "Attacks", True),
        ("cells", "Cells", True),
        ("posterior", "Posterior", searched),
        ("rounds", "Rounds", searched),
        ("quality", "Estimate", searched or judged),
        ("curves", "Curves", True),
        ("stages", "Time and memory", True),
        ("recipe", "Recipe", True),
        ("versions", "Versions", True),
        ("glossary", "Glossary", True),
    ]
    return [(place, name) for place, name, there in sections if there]
