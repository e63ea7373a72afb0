"""How the stages of a run went: what is missing, learning curves, times, memory, the machine."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from nesbs.report import charts, words
from nesbs.report.reading import Record, mapping, sequence

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


def missing(
    recipe: Record,
    record: Record,
    posterior: Record,
    selection: Record,
    metrics: Record,
    uniform_wanted: bool,
    predictions: Record,
) -> list[tuple[str, str]]:
    """The parts that are not there, in the order they are made: (what, command that makes it)."""
    stages = mapping(record.get("stages"))
    given = selection.get("sampler") == "given"
    done, size = trained(stages, "members"), members_wanted(recipe, selection)
    training = f"the training of {size - done} of {size} members" if done else "the members' training"
    measured = mapping(metrics.get("ensemble"))
    scaled = measured.get("temperature")
    parts = [
        ("the resolved recipe (recipe.yaml)", SEARCH, recipe),
        ("the record of versions, times and memory (record.json)", SEARCH, record),
        ("the supernet's training", SEARCH, given or mapping(stages.get("supernet")).get("losses")),
        ("the posterior (posterior.json)", SEARCH, given or posterior),
        ("the choice of architectures (selection.json)", SEARCH, selection),
        (training, TRAIN, done and done >= size),
        ("the measures on the test images (metrics.json)", EVALUATE, metrics),
        ("the uniform-random ensemble", EVALUATE, not uniform_wanted or not metrics or metrics.get("uniform")),
        ("intervals over the test images (metrics.json)", EVALUATE, not measured or measured.get("intervals")),
        ("the reliability diagram (metrics.json)", EVALUATE, not scaled or mapping(scaled).get("reliability")),
        ("predictions to look at (predictions.json)", EVALUATE, not metrics or predictions),
    ]
    return [(what, command) for what, command, there in parts if not there]


def trained(stages: Record, stage: str) -> int:
    """How many members have been trained to the end."""
    return len(sequence(mapping(stages.get(stage)).get("losses")))


def members_wanted(recipe: Record, selection: Record) -> int:
    """How many members there should be."""
    chosen = len(sequence(selection.get("architectures")))
    size = mapping(recipe.get("ensemble")).get("size")
    return chosen or (size if isinstance(size, int) else 1)


def learning_curves(stages: Record, given: bool = False) -> list[dict[str, Any]]:
    """Charts of what was recorded while stages ran, each with what to run where there is none.

    A run whose architectures were `given` has members alone.
    """
    supernet = sequence(mapping(stages.get("supernet")).get("losses"))
    searched = [
        _curve("Supernet", "epoch", "mean training loss in nats", [("supernet", supernet)], SEARCH),
        _curve("Posterior", "step", "entropy in nats", _fits(mapping(stages.get("posterior"))), SEARCH),
    ]
    members = _curve("Members", "epoch", "mean training loss in nats", _histories(stages, "members"), TRAIN)
    shown = [members] if given else [*searched, members]
    if "uniform" in stages:
        uniform = _histories(stages, "uniform")
        shown.append(_curve("Uniform-random members", "epoch", "mean training loss in nats", uniform, EVALUATE))
    return shown


def _fits(posterior: Record) -> list[tuple[str, list[Any]]]:
    """The entropies of every fit of the posterior with its name; they were recorded one after the other."""
    entropies, starts = sequence(posterior.get("entropies")), posterior.get("starts")
    if not isinstance(starts, int) or starts < 2:
        return [("posterior", entropies)]
    length = max(1, len(entropies) // starts)
    return [(f"fit {i + 1}", entropies[i * length : (i + 1) * length]) for i in range(starts)]


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


def stage_rows(
    stages: Record, uniform_wanted: bool, given: bool = False, *, unfinished: Collection[str] = ()
) -> list[dict[str, Any]]:
    """Seconds and peak memory of each stage, in the order they run; a command where a stage has not run.

    A run whose architectures were `given` has no stage of a search. `unfinished` stages began and have not ended.
    """
    rows = []
    for name in [*STAGES, *(name for name in stages if name not in STAGES)]:
        unasked = (name == "uniform" and not uniform_wanted) or (given and STAGES.get(name) == SEARCH)
        if name not in stages and unasked:
            continue
        stage = mapping(stages.get(name))
        sizes = stage.get("parameters")  # of one network, or of each member
        rows.append(
            {
                "name": name,
                "seconds": stage.get("seconds"),
                "memory": stage.get("peak_memory"),
                "parameters": sum(sizes) if isinstance(sizes, list) and all(map(words.is_number, sizes)) else sizes,
                "command": None if name in stages else STAGES[name],
                "go_on": STAGES[name] if name in stages and name in unfinished else None,
            }
        )
    return rows


def begun(stages: Record, recipe: Record, posterior: Record, selection: Record, metrics: Record) -> list[str]:
    """The stages that have begun, not left what they should, and were not followed by another: an interrupted run's.

    >>> begun({"supernet": {"seconds": 3.0}, "members": {"losses": [[0.1]]}}, {"ensemble": {"size": 2}}, {}, {}, {})
    ['members']
    """
    wanted = members_wanted(recipe, selection)
    ended = {
        "supernet": mapping(stages.get("supernet")).get("losses"),
        "posterior": posterior,
        "selection": selection,
        "members": trained(stages, "members") >= wanted,
        "uniform": trained(stages, "uniform") >= wanted,
        "evaluation": metrics,
    }
    last = [name for name in ended if name in stages][-1:]
    return [name for name in last if not ended[name]]


def stage_bars(rows: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Time and memory of every stage that ran: (name, chart)."""
    drawn = []
    for key, name, axis, said in (
        ("seconds", "Time", "time in s", lambda value: f"{value:,.1f} s"),
        ("memory", "Peak memory", "peak memory in MiB", lambda value: f"{value / 2**20:,.0f} MiB"),
    ):
        bars = [(row["name"], row[key], False) for row in rows if words.is_number(row[key])]
        if bars:
            title = f"{name}: " + ", ".join(f"{label} {said(value)}" for label, value, _ in bars)
            drawn.append((name, charts.bars(title, axis, bars, said=said)))
    return drawn


def facts(record: Record) -> list[tuple[str, str]]:
    """Versions, machine, seed and data: (name, value)."""
    if not record:
        return []
    names = ("started", "nesbs", "torch", "python", "platform", "device", "threads", "seed")
    shown = [(name, str(record[name])) for name in names if record.get(name) is not None]
    data = mapping(record.get("data"))
    if data:
        size = " × ".join(str(side) for side in sequence(data.get("size")))
        classes = [str(name) for name in sequence(data.get("classes"))]
        left_out = sequence(data.get("left_out"))
        shown += [
            ("data", str(data.get("name"))),
            (
                "training images",
                f"{words.count(data.get('train_images'))}, of which {words.count(data.get('search_train'))} train the "
                f"supernet and {words.count(data.get('search_valid'))} fit the posterior and judge ensembles",
            ),
            ("test images", words.count(data.get("test_images"))),
            *([("left out", f"{len(left_out)} images that cannot be read")] if left_out else []),
            ("image size", f"{size}, channels {data.get('channels', words.NOTHING)}"),
            (f"classes ({len(classes)})", ", ".join(classes)),
        ]
    return shown
