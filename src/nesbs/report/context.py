"""From records to what the template shows, section by section; any part of a record may be missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from nesbs.errors import NesbsError
from nesbs.report import cells, charts, words
from nesbs.spaces import get_space

Record = Mapping[str, Any]

SEARCH = "nesbs search RECIPE --out RUN"
TRAIN = "nesbs train RUN"
EVALUATE = "nesbs evaluate RUN"
STAGES = {
    "supernet": SEARCH,
    "posterior": SEARCH,
    "selection": SEARCH,
    "members": TRAIN,
    "uniform": EVALUATE,
    "evaluation": EVALUATE,
}
MEASURES = ("error", "nll", "brier", "ece")


def context(recipe: Record, record: Record, posterior: Record, selection: Record, metrics: Record) -> dict[str, Any]:
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
    curves = learning_curves(stages)
    members = chosen_cells(space, selection)
    return {
        "names": {key: str(name) for key, name in names.items() if name},
        "missing": missing(recipe, record, posterior, selection, metrics, uniform_wanted),
        "headline": headline(metrics),
        "scores": score_rows(metrics),
        "uniform_wanted": uniform_wanted,
        "error_bars": error_bars(metrics),
        "members": members,
        "uniform_texts": [str(text) for text in sequence(mapping(metrics.get("uniform")).get("architectures"))],
        "legend": cells.legend(used_operations(space, selection)),
        "dead_sample": cells.dead_sample(),
        "posterior": posterior_tables(posterior),
        "selection": rounds(selection),
        "disagreement": disagreement(metrics),
        "curves": curves,
        "updates": update_tables(stages),
        "stages": stage_rows(stages, uniform_wanted),
        "total_seconds": sum(
            stage["seconds"] for stage in map(mapping, stages.values()) if words.is_number(stage.get("seconds"))
        ),
        "recipe": yaml.safe_dump(dict(recipe), sort_keys=False, allow_unicode=True) if recipe else None,
        "facts": facts(record),
        "bins": mapping(recipe.get("evaluation")).get("bins", 15),
        "commands": {"search": SEARCH, "train": TRAIN, "evaluate": EVALUATE},
    }


def mapping(value: Any) -> Record:
    """The value where it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def sequence(value: Any) -> list[Any]:
    """The value where it is a list, else an empty one."""
    return list(value) if isinstance(value, list | tuple) else []


def missing(
    recipe: Record, record: Record, posterior: Record, selection: Record, metrics: Record, uniform_wanted: bool
) -> list[tuple[str, str]]:
    """The parts that are not there, in the order they are made: (what, command that makes it)."""
    stages = mapping(record.get("stages"))
    parts = [
        ("the resolved recipe (recipe.yaml)", SEARCH, recipe),
        ("the record of versions, times and memory (record.json)", SEARCH, record),
        ("the supernet's training", SEARCH, mapping(stages.get("supernet")).get("losses")),
        ("the posterior (posterior.json)", SEARCH, posterior),
        ("the choice of architectures (selection.json)", SEARCH, selection),
        ("the members' training", TRAIN, mapping(stages.get("members")).get("losses")),
        ("the measures on the test images (metrics.json)", EVALUATE, metrics),
        ("the uniform-random ensemble", EVALUATE, not uniform_wanted or not metrics or metrics.get("uniform")),
    ]
    return [(what, command) for what, command, there in parts if not there]


def best_member(ensemble: Record) -> dict[str, float | None]:
    """The lowest value among the members for each measure on its own."""
    members = [mapping(member) for member in sequence(ensemble.get("members"))]
    known = {name: [m[name] for m in members if words.is_number(m.get(name))] for name in MEASURES}
    return {name: min(values, default=None) for name, values in known.items()}


def headline(metrics: Record) -> dict[str, Any] | None:
    """The ensemble's error and NLL beside those of its rivals, and the noise of a finite test set."""
    ensemble = mapping(metrics.get("ensemble"))
    error, images = ensemble.get("error"), metrics.get("test_images")
    if not words.is_number(error):
        return None
    uniform = mapping(metrics.get("uniform"))
    noise = math.sqrt(max(error * (1 - error), 0) / images) if words.is_number(images) and images > 0 else None
    return {
        "size": len(sequence(ensemble.get("members"))),
        "error": error,
        "nll": ensemble.get("nll"),
        "best": best_member(ensemble),
        "uniform": uniform if words.is_number(uniform.get("error")) else None,
        "images": images,
        "standard_error": noise,
    }


def score_rows(metrics: Record) -> list[dict[str, Any]]:
    """The table of measures: ensemble, best member, every member, uniform ensemble; the lowest are marked."""
    rows: list[dict[str, Any]] = []
    for key, name in (("ensemble", "Ensemble"), ("uniform", "Uniform-random ensemble")):
        ensemble = mapping(metrics.get(key))
        if not ensemble:
            continue
        sizes = sequence(ensemble.get("parameters"))
        whole = sum(sizes) if sizes and all(map(words.is_number, sizes)) else None
        shown = {measure: ensemble.get(measure) for measure in (*MEASURES, "member_error", "disagreement")}
        rows.append({"name": name, "whole": True, "parameters": whole, **shown})
        if key == "uniform":
            continue
        rows.append({"name": "Best member by each measure", "hindsight": True, **best_member(ensemble)})
        for index, member in enumerate(sequence(ensemble.get("members"))):
            size = sizes[index] if index < len(sizes) else None
            measured = {measure: mapping(member).get(measure) for measure in MEASURES}
            rows.append({"name": f"Member {index + 1}", "parameters": size, **measured})
    real = [row for row in rows if not row.get("hindsight")]
    for measure in MEASURES:
        known = [row for row in real if words.is_number(row[measure])]
        lowest = min((row[measure] for row in known), default=None)
        for row in known:
            if row[measure] == lowest:
                row.setdefault("lowest", set()).add(measure)
    return rows


def error_bars(metrics: Record) -> Any:
    """A bar for the test error of the ensemble, each member and the uniform ensemble."""
    short = {"Uniform-random ensemble": "Uniform ensemble"}
    rows = [
        (short.get(row["name"], row["name"]), row["error"], "whole" in row)
        for row in score_rows(metrics)
        if not row.get("hindsight") and words.is_number(row["error"])
    ]
    said = ", ".join(f"{name} {words.percent(error)}" for name, error, _ in rows)
    return charts.bars(f"Test error: {said}", "test error", rows) if rows else None


def chosen_cells(space_name: str, selection: Record) -> list[dict[str, Any]]:
    """The members' cells as drawings; a text that cannot be read is shown as it is, with the reason."""
    shown: list[dict[str, Any]] = []
    texts = [str(text) for text in sequence(selection.get("architectures"))]
    for index, text in enumerate(texts):
        name, first = f"Member {index + 1}", texts.index(text)
        entry: dict[str, Any] = {"name": name, "text": text, "copy_of": first + 1 if first < index else None}
        try:
            space = get_space(space_name)
            entry.update(drawings=cells.draw(space, space.parse(text), name), problem=None)
        except NesbsError as error:
            entry.update(drawings=[], problem=str(error))
        shown.append(entry)
    return shown


def used_operations(space_name: str, selection: Record) -> list[str]:
    """The operations in the chosen cells, in the space's order."""
    try:
        space = get_space(space_name)
        parsed = [space.parse(str(text)) for text in sequence(selection.get("architectures"))]
    except NesbsError:
        return []
    used = {op for architecture in parsed for cell in architecture.cells for node in cell for op, _ in node}
    return [op for op in space.operations if op in used]


def posterior_tables(posterior: Record) -> dict[str, Any] | None:
    """The heat maps: decisions with the same choices share a table of decisions by choices."""
    if not posterior:
        return None
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for variable in map(mapping, sequence(posterior.get("variables"))):
        choices = tuple(str(choice) for choice in sequence(variable.get("choices")))
        given = sequence(variable.get("probabilities"))
        known = [p if words.is_number(p) else None for p in (given + [None] * len(choices))[: len(choices)]]
        most = max((p for p in known if p is not None), default=None)
        activity = variable.get("activity")
        row = {
            "name": str(variable.get("name")),
            "activity": activity if words.is_number(activity) else None,
            "cells": [(p, p is not None and p == most) for p in known],
        }
        groups.setdefault(choices, []).append(row)
    tables = [
        {
            "choices": choices,
            "rows": rows,
            # 1 up to rounding: the decision always plays a part, and a column saying so would be noise.
            "partial": any(row["activity"] is not None and row["activity"] < 0.9995 for row in rows),
        }
        for choices, rows in groups.items()
    ]
    entropy, uniform = posterior.get("entropy"), posterior.get("log_size")
    gap = uniform - entropy if words.is_number(entropy) and words.is_number(uniform) else None
    return {
        "tables": tables,
        "entropy": entropy,
        "uniform_entropy": uniform,
        "kl": max(gap, 0.0) if gap is not None else None,
        "temperature": posterior.get("temperature"),
    }


def rounds(selection: Record) -> dict[str, Any] | None:
    """Every ensemble that was judged; its members are named by their number in the table of candidates."""
    if not selection:
        return None
    candidates = {
        str(mapping(entry).get("architecture")): mapping(entry).get("loss")
        for entry in sequence(selection.get("candidates"))
    }
    proposals = [mapping(entry) for entry in sequence(selection.get("proposals"))]
    for texts in [selection, *proposals]:
        for text in sequence(texts.get("architectures")):
            candidates.setdefault(str(text), None)
    numbers = {text: f"A{place}" for place, text in enumerate(candidates, start=1)}

    def row(entry: Record, chosen: bool) -> dict[str, Any]:
        """One line of the table."""
        texts = [str(text) for text in sequence(entry.get("architectures"))]
        return {
            "round": entry.get("round"),
            "delta": entry.get("delta"),
            "loss": entry.get("loss"),
            "duplicates": entry.get("duplicates", len(texts) - len(set(texts))),
            "members": ", ".join(numbers[text] for text in texts),
            "chosen": chosen,
        }

    made_by = (selection.get("round"), selection.get("delta"))
    rows = [
        row(entry, made_by[0] is not None and (entry.get("round"), entry.get("delta")) == made_by)
        for entry in proposals
    ]
    # A forward selection picks its members from all rounds, so it is a row of its own.
    if not any(entry["chosen"] for entry in rows):
        rows.append(row(selection, True))
    chosen = next(entry for entry in rows if entry["chosen"])
    return {
        "rows": rows,
        "chosen": chosen,
        "sampler": selection.get("sampler"),
        "with_delta": any(entry["delta"] is not None for entry in rows),
        "judged": len(proposals),
        "highest": max((entry["loss"] for entry in rows if words.is_number(entry["loss"])), default=None),
        "with_duplicates": sum(1 for entry in rows if entry["duplicates"]),
        "candidates": [(numbers[text], text, loss) for text, loss in candidates.items()],
    }


def disagreement(metrics: Record) -> dict[str, Any] | None:
    """The share of test images on which each two members' labels differ."""
    ensemble = mapping(metrics.get("ensemble"))
    matrix = [sequence(row) for row in sequence(ensemble.get("disagreement_matrix"))]
    if not matrix:
        return None
    largest = max((value for row in matrix for value in row if words.is_number(value)), default=0) or 1
    shaded = [[(value, value / largest if words.is_number(value) else None) for value in row] for row in matrix]
    return {"rows": shaded, "mean": ensemble.get("disagreement")}


def learning_curves(stages: Record) -> list[dict[str, Any]]:
    """Charts of what was recorded while stages ran, each with what to run where there is none."""
    supernet = sequence(mapping(stages.get("supernet")).get("losses"))
    entropies = sequence(mapping(stages.get("posterior")).get("entropies"))
    shown = [
        _curve("Supernet", "epoch", "mean training loss", [("supernet", supernet)], SEARCH),
        _curve("Posterior", "step", "entropy in nats", [("posterior", entropies)], SEARCH),
        _curve("Members", "epoch", "mean training loss", _histories(stages, "members"), TRAIN),
    ]
    if "uniform" in stages:
        uniform = _histories(stages, "uniform")
        shown.append(_curve("Uniform-random members", "epoch", "mean training loss", uniform, EVALUATE))
    return shown


def _histories(stages: Record, stage: str) -> list[tuple[str, list[Any]]]:
    """Each member's losses with its name."""
    histories = sequence(mapping(stages.get(stage)).get("losses"))
    return [(f"member {index}", sequence(values)) for index, values in enumerate(histories, start=1)]


def _curve(
    name: str, x_name: str, y_name: str, series: Sequence[tuple[str, Sequence[Any]]], command: str
) -> dict[str, Any]:
    """One chart, or the command that makes it where nothing was recorded."""
    series = [(label, values) for label, values in series if any(map(words.is_number, values))]
    if not series:
        return {"name": name, "chart": None, "command": command}
    ends = [[value for value in values if words.is_number(value)] for _, values in series]
    said = "; ".join(
        f"{label} from {values[0]:.3g} to {values[-1]:.3g}" for (label, _), values in zip(series, ends, strict=True)
    )
    title = f"{name}, {y_name} by {x_name}: {said}"
    return {"name": name, "chart": charts.lines(title, x_name, y_name, series), "command": command}


def update_tables(stages: Record) -> list[dict[str, Any]]:
    """How often each operation of each edge was trained in the supernet, edges with the same operations together."""
    groups: dict[tuple[str, ...], list[tuple[str, list[Any]]]] = {}
    for edge, counts in mapping(mapping(stages.get("supernet")).get("updates")).items():
        row = mapping(counts)
        groups.setdefault(tuple(map(str, row)), []).append((str(edge), list(row.values())))
    return [{"choices": choices, "rows": rows} for choices, rows in groups.items()]


def stage_rows(stages: Record, uniform_wanted: bool) -> list[dict[str, Any]]:
    """Seconds and peak memory of each stage, in the order they run; a command where a stage has not run."""
    rows = []
    for name in [*STAGES, *(name for name in stages if name not in STAGES)]:
        if name == "uniform" and name not in stages and not uniform_wanted:
            continue
        stage = mapping(stages.get(name))
        command = None if name in stages else STAGES[name]
        rows.append(
            {
                "name": name,
                "seconds": stage.get("seconds"),
                "memory": stage.get("peak_memory"),
                "parameters": stage.get("parameters"),
                "command": command,
            }
        )
    return rows


def facts(record: Record) -> list[tuple[str, str]]:
    """Versions, machine, seed and data: (name, value)."""
    if not record:
        return []
    names = ("nesbs", "torch", "python", "platform", "device", "threads", "seed")
    shown = [(name, str(record[name])) for name in names if record.get(name) is not None]
    data = mapping(record.get("data"))
    if data:
        size = " × ".join(str(side) for side in sequence(data.get("size")))
        classes = [str(name) for name in sequence(data.get("classes"))]
        shown += [
            ("data", str(data.get("name"))),
            (
                "training images",
                f"{words.count(data.get('train_images'))}, of which {words.count(data.get('search_train'))} train the "
                f"supernet and {words.count(data.get('search_valid'))} fit the posterior and judge ensembles",
            ),
            ("test images", words.count(data.get("test_images"))),
            ("image size", f"{size}, channels {data.get('channels', words.NOTHING)}"),
            (f"classes ({len(classes)})", ", ".join(classes)),
        ]
    return shown
