"""What an experiment would cost, as text."""

from collections.abc import Sequence

from nesbs.records.cost import CostRecord, StageCost
from nesbs.report import formats
from nesbs.report.table import Table


def cost_as_text(cost: CostRecord) -> str:
    """Write a cost as a table for a terminal, and below it what was measured, what runs side by side, what travels."""
    lines = [f"{cost.of}: an estimate by step times of {cost.device}", ""]
    lines += [_table(cost), "", *_parallel(cost)] if cost.stages else []
    return "\n".join([*lines, *_sources(cost.stages), *_missing(cost), *_travels(cost)])


def _table(cost: CostRecord) -> str:
    """The stages and their sum on each number of GPUs."""
    counts = [f"{each.gpus:,} {cost.unit}{'s' if each.gpus > 1 else ''}" for each in cost.schedules]
    headings = ["stage", "tasks", f"{cost.unit} time", *(f"on {count}" for count in counts)]
    rows = []
    for place, stage in enumerate(cost.stages):
        own = [each.stages[place] for each in cost.schedules]
        times = [formats.duration(each.end - each.start) for each in own]
        rows.append([stage.name, f"{stage.count:,}", formats.duration(stage.count * stage.seconds), *times])
    total = formats.duration(sum(stage.count * stage.seconds for stage in cost.stages))
    rows.append(["all", "", total, *(formats.duration(each.seconds) for each in cost.schedules)])
    held = [formats.duration(each.gpus * each.seconds) for each in cost.schedules]
    rows.append([f"{cost.unit} time held", "", "", *held])
    rows.append(["of it at work", "", "", *(formats.share(each.busy) for each in cost.schedules)])
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    return Table(headings, rows).as_text(f"<{widths[0]}", *(f">{width + 2}" for width in widths[1:]))


def _parallel(cost: CostRecord) -> list[str]:
    """What runs side by side, what does not, and what is compiled before."""
    shared = [f"{stage.name} ({stage.count:,})" for stage in cost.stages if stage.side_by_side and stage.count > 1]
    alone = [stage.name for stage in cost.stages if not stage.side_by_side or stage.count == 1]
    lines = [f"side by side: {', '.join(shared)}"] if shared else []
    lines += [f"one after another: {', '.join(alone)}"] if alone else []
    compiled = [f"{stage.name} {formats.duration(stage.compiling)}" for stage in cost.stages if stage.compiling]
    return [*lines, *([f"of it compiling, before the first step of each: {', '.join(compiled)}"] if compiled else [])]


def _sources(stages: Sequence[StageCost]) -> list[str]:
    """Which steps were measured, and which were scaled."""
    measured = [stage for stage in stages if stage.measured]
    lines = ["measured:"] if measured else []
    lines += [f"  {stage.name}: {stage.source}" for stage in measured]
    scaled = [stage for stage in stages if stage not in measured]
    lines += (
        ["not measured at this size or precision, scaled by multiply-adds, so perhaps two or three times wrong:"]
        if scaled
        else []
    )
    return [*lines, *(f"  {stage.name}: {formats.short(stage.factor, 3)} × {stage.source}" for stage in scaled)]


def _missing(cost: CostRecord) -> list[str]:
    return [f"not counted, since never measured: {', '.join(cost.not_counted)}"] if cost.not_counted else []


def _travels(cost: CostRecord) -> list[str]:
    """What goes from machine to machine where there are several."""
    if not cost.tasks or max(each.gpus for each in cost.schedules) == 1:
        return []
    images = f"{formats.memory(cost.image_bytes)} of images to each of them, once a phase"
    if not cost.image_bytes:
        images = "no images, which each reads from its own files"
    return [
        f"travels between machines: {images}; "
        f"checkpoints in {cost.tasks:,} tasks, there and back, {formats.memory(cost.checkpoint_bytes)}"
    ]
