"""How the stages of a run went: learning curves, updates of the supernet, times and memory."""

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from nesbs.records import RunRecord, RunRecords
from nesbs.records.run import StageRecord
from nesbs.report import charts
from nesbs.report.missing import EVALUATE, SEARCH, STAGES, TRAIN, interrupted

Series = Sequence[tuple[str, Sequence[float | None]]]
LOSS = "mean training loss in nats"


def learning_curves(record: RunRecord, fixed: bool = False) -> list[dict[str, Any]]:
    """Charts of what was recorded while stages ran, each with the command that makes it.

    A run whose architectures were `fixed` by the user has members alone.
    """
    shown = [_curve("Members", "epoch", LOSS, _members(record.stage("members")), TRAIN)]
    if not fixed:
        supernet = [("supernet", record.stage("supernet").history)]
        shown = [
            _curve("Supernet", "epoch", LOSS, supernet, SEARCH),
            _curve("Posterior", "step", "entropy in nats", _fits(record.stage("posterior")), SEARCH),
            *shown,
        ]
    if "uniform" in (record.stages or {}):
        shown.append(_curve("Uniform-random members", "epoch", LOSS, _members(record.stage("uniform")), EVALUATE))
    return shown


def _fits(posterior: StageRecord) -> Series:
    """The entropies of every fit of the posterior with its name; they were recorded one after the other."""
    entropies, starts = posterior.entropies or (), posterior.starts or 1
    if starts < 2:
        return [("posterior", entropies)]
    length = max(1, len(entropies) // starts)
    return [(f"fit {i + 1}", entropies[i * length : (i + 1) * length]) for i in range(starts)]


def _members(stage: StageRecord) -> Series:
    """Each member's losses with its name."""
    return [(f"member {index}", losses) for index, losses in enumerate(stage.histories, start=1)]


def _curve(name: str, x_name: str, y_name: str, series: Series, command: str) -> dict[str, Any]:
    """One chart, or the command that makes it where nothing was recorded."""
    texts, shown = [], []
    for label, values in series:
        numbers = [value for value in values if value is not None]
        if numbers:
            shown.append((label, values))
            texts.append(f"{label} from {numbers[0]:.3g} to {numbers[-1]:.3g}")
    title = f"{name}, {y_name} by {x_name}: {'; '.join(texts)}"
    chart = charts.lines(title, x_name, y_name, shown) if shown else None
    return {"name": name, "chart": chart, "command": command}


def update_tables(record: RunRecord) -> list[dict[str, Any]]:
    """How often each operation of each edge was trained in the supernet, edges with the same operations together."""
    groups: dict[tuple[str, ...], list[tuple[str, list[float | None]]]] = {}
    for edge, counts in (record.stage("supernet").updates or {}).items():
        groups.setdefault(tuple(counts), []).append((edge, list(counts.values())))
    return [{"choices": choices, "rows": rows} for choices, rows in groups.items()]


def stage_rows(run: RunRecords) -> list[tuple[str, StageRecord, str | None, str | None]]:
    """Each stage in the order they run: (name, record, command that makes it, command that resumes it).

    A stage that is not asked for is left out: the search of fixed architectures, the uniform-random ensemble.
    """
    record = run.record or RunRecord()
    rows, stages, unfinished = [], record.stages or {}, interrupted(run)
    uniform_wanted = run.recipe is not None and run.recipe.evaluation.uniform
    for name in dict.fromkeys((*STAGES, *stages)):
        unasked = (name == "uniform" and not uniform_wanted) or (run.fixed and STAGES.get(name) == SEARCH)
        if name in stages or not unasked:
            command = None if name in stages else STAGES[name]
            rows.append((name, record.stage(name), command, STAGES[name] if name == unfinished else None))
    return rows


def stage_bars(rows: Sequence[tuple[str, StageRecord, str | None, str | None]]) -> list[tuple[str, Markup]]:
    """Time and memory of every stage that ran: (name, chart)."""
    drawn = []
    for key, name, axis, text in (
        ("seconds", "Time", "time in s", lambda value: f"{value:,.1f} s"),
        ("peak_memory", "Peak memory", "peak memory in MiB", lambda value: f"{value / 2**20:,.0f} MiB"),
    ):
        bars = [(label, value, False) for label, stage, *_ in rows if (value := getattr(stage, key)) is not None]
        if bars:
            title = f"{name}: " + ", ".join(f"{label} {text(value)}" for label, value, _ in bars)
            drawn.append((name, charts.bars(title, axis, bars, text=text)))
    return drawn
