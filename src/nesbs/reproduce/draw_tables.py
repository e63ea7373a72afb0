"""Tables 1 to 7 from their records: the paper's figure beside ours, and a chart of both."""

from typing import Any

from nesbs.records.experiment import AttackRow
from nesbs.records.quality import IntervalRecord, RankingRecord, Truth
from nesbs.report import canvas, formats
from nesbs.report.table import Quantity, draw_quantities
from nesbs.reproduce.exhibit import (
    CIFAR10,
    OURS,
    Cell,
    Exhibit,
    Heading,
    PaperTable,
    over_seeds,
    parse_quantity,
    points_above,
    titled,
    told_apart,
)
from nesbs.reproduce.spec import BEST_RESPONSE

# Ours: the paper's name, and ours where that does not say it. The paper gives no ε for AutoAttack.
ATTACKS = {
    "fgsm": ("FGSM", "FGSM"),
    "pgd": ("PGD-40", "PGD-40"),
    "cw": ("CW", "CW"),
    "autoattack": ("AutoAttack", "AutoAttack, ours at ε = 0.01"),
    "autoattack8": ("AutoAttack", "AutoAttack, ours at its authors' ε = 8/255"),
}
OVER_SEEDS = "Ours: mean ± standard error over seeds (none with one seed)."
SIZES = (1, 3, 5, 7)  # of Table 6


def methods_tables(exhibit: Exhibit) -> list[PaperTable]:
    """Make Tables 1, 2, 3 and 5: a row for each of the paper's, in its order."""
    columns = {name: one for name, one in exhibit.experiment.columns.items() if exhibit.shows(one.part)}
    headings = [
        Heading(column.name, column.unit, exhibit.data_name(column.part), column.part, column.places)
        for column in columns.values()
    ]
    rows = []
    for label in exhibit.paper.rows:
        cells = []
        for name, column in columns.items():
            part = exhibit.record.part(column.part)
            methods = exhibit.experiment.methods(label, column.part)
            measured = [row for method in methods for row in part.rows(method)]
            cells.append(exhibit.beside(over_seeds(measured, column.measure), label, name))
        rows.append((label, cells))
    return [exhibit.table("architecture(s)", headings, rows, spread=OVER_SEEDS), *_differences(exhibit)]


def _differences(exhibit: Exhibit) -> list[PaperTable]:
    """Make a table of how far the others are above NESBS (SVGD-RD), of what was run under three seeds or more."""
    asked, paper, record = exhibit.experiment, exhibit.paper.rows, exhibit.record
    columns = {name: one for name, one in asked.columns.items() if one.unit == "%" and record.part(one.part).data}
    headings = [
        Heading(f"Δ {column.name}", "points", exhibit.data_name(column.part), column.part, column.places)
        for column in columns.values()
    ]
    rows = []
    for label, method in asked.rows.items():
        cells = []
        for name, column in columns.items():
            part = record.part(column.part)
            ours = told_apart(part.rows(method), part.rows(asked.rows[OURS]), column.measure)
            theirs = [one.value for row in (label, OURS) if (one := parse_quantity(paper.get(row, {}).get(name)))]
            cells.append(Cell(ours, Quantity(theirs[0] - theirs[1]) if len(theirs) == 2 else None))
        rows.append((label, cells))
    return exhibit.differences("architecture(s)", headings, rows)


def attacks_tables(exhibit: Exhibit) -> list[PaperTable]:
    """Make Table 4: one table for each data set, a row for each method under each attack."""
    tables = []
    for label in filter(exhibit.shows, (CIFAR10, "CIFAR-100")):
        part, on = exhibit.record.part(label), exhibit.data_name(label)
        headings = [Heading(name, "accuracy %", on, label) for name in ("Attack", "Defence", "Adaptive")]
        rows = []
        for row, method in exhibit.experiment.rows.items():
            attacks = part.entry(method).attacks or {}
            for attack, (theirs, name) in ATTACKS.items():
                measured, key = attacks.get(attack) or AttackRow(), f"{label}, {row}, {theirs}"
                cells = (
                    exhibit.beside(_accuracy(measured.attack, measured.attack_std), key, "Attack"),
                    exhibit.beside(_accuracy(measured.defence, measured.defence_std), key, "Defence"),
                    Cell(_accuracy(measured.adaptive)),
                )
                rows.append((f"{row}, {name}", cells))
        spread = "Mean ± standard deviation over the members attacked in turn; accuracies on the perturbed images."
        # Attacks of other sizes and pictures are no part of these figures.
        if settings := [one for one in part.attack or () if not one.startswith(("epsilons=", "pictures="))]:
            spread += f" Ours under the settings {', '.join(settings)}."
        tables.append(exhibit.table("method, attack", headings, rows, spread=spread, title=exhibit.title(label)))
    return tables


def quality_tables(exhibit: Exhibit) -> list[PaperTable]:
    """Make Table 6: by error, as the paper's performance is, and by loss."""
    part = exhibit.part
    headings = [Heading(f"n = {size}", "", exhibit.data_name(), CIFAR10) for size in SIZES]
    rows = []
    for kind in ("error", "loss"):
        rankings = {ranking.size: ranking for ranking in (part.rankings or {}).get(kind, ())}
        measured = [rankings.get(size) or RankingRecord() for size in SIZES]
        for name, intervals, factor in (
            ("Spearman", [one.spearman for one in measured], 1),
            ("Pearson", [one.pearson for one in measured], 1),
            ("Agreement-30 %", [one.agreement for one in measured], 100),
        ):
            ours = [_interval(interval, factor) for interval in intervals]
            cells = [
                exhibit.beside(one, name, f"n = {size}") if kind == "error" else Cell(one)
                for one, size in zip(ours, SIZES, strict=True)
            ]
            rows.append((f"{name}, by {kind}" + (" (in %)" if factor == 100 else ""), cells))
    epochs = (part.truth or Truth()).epochs
    shown = formats.NOTHING if epochs is None else epochs
    spread = f"Truth: trained for {shown} epochs. {part.verdict or ''}".strip()
    return [exhibit.table("measure", headings, rows, spread=spread)]


def posteriors_tables(exhibit: Exhibit) -> list[PaperTable]:
    """Make Table 7: either posterior, and how far post-training is below best-response, paired over seeds."""
    units = {"best-response": "test error %", "post-training": "test error %", "Δ": "points"}
    headings = [Heading(name, unit, exhibit.data_name(), CIFAR10) for name, unit in units.items()]
    rows = []
    for row, method in exhibit.experiment.rows.items():
        after, during = exhibit.part.rows(method), exhibit.part.rows(method + BEST_RESPONSE)
        ours = (over_seeds(during, "error"), over_seeds(after, "error"), points_above(during, after, "error"))
        rows.append((row, [exhibit.beside(one, row, name) for one, name in zip(ours, units, strict=True)]))
    spread = (
        f"{OVER_SEEDS} Δ: best-response less post-training, paired over seeds; a 95 % t interval from three seeds on."
    )
    return [exhibit.table("method", headings, rows, spread=spread)]


def draw_tables(title: str, tables: list[PaperTable]) -> tuple[str, bytes]:
    """Draw a panel for each column of the tables: ours as discs, the paper's as open diamonds, with their spreads."""
    with canvas.styled() as new:
        across = max(len(table.headings) for table in tables)
        rows = sum(len(table.rows) for table in tables)
        figure = new(2.6 + 2.5 * across, 1.3 + 0.22 * rows + 0.6 * len(tables))
        ratios = [len(table.rows) for table in tables]
        grid = figure.subplots(len(tables), across, squeeze=False, sharey="row", height_ratios=ratios)
        for table, panels in zip(tables, grid, strict=True):
            for place, axes in enumerate(panels):
                if place < len(table.headings) and any(cells[place] != Cell() for _, cells in table.rows):
                    _column(axes, table, place)
                else:
                    axes.remove()
            panels[0].set_yticks(range(len(table.rows)), [label for label, _ in table.rows])
            panels[0].set_ylim(len(table.rows) - 0.5, -0.5)
        _legend(figure)
        return titled(figure, title)


def draw_quality(tables: list[PaperTable]) -> tuple[str, bytes]:
    """Draw Table 6 as three panels over the size of ensembles."""
    [table] = tables
    sizes = [int(heading.name.removeprefix("n = ")) for heading in table.headings]
    with canvas.styled() as new:
        figure = new(9.5, 3.4)
        for axes, name, unit in zip(
            figure.subplots(1, 3),
            ("Spearman", "Pearson", "Agreement-30 %"),
            ("rank correlation", "linear correlation", "%"),
            strict=True,
        ):
            rows = [cells for label, cells in table.rows if label.startswith(name)]
            for number, (kind, cells) in enumerate(zip(("error", "loss"), rows, strict=True)):
                style = {"fmt": canvas.MARKS[2 * number], "color": canvas.COLOURS[2 * number], "ms": 5, "capsize": 2}
                places, ours = [size + 0.12 * number for size in sizes], [cell.ours for cell in cells]
                if any(ours):
                    draw_quantities(axes, places, ours, lw=1.2, label=f"ours, by {kind}", **style)
            style = {"fmt": "D", "mfc": "none", "color": canvas.PAPER, "ms": 6, "label": "the paper's (CIFAR-10)"}
            draw_quantities(axes, [size - 0.12 for size in sizes], [cell.paper for cell in rows[0]], lw=1.2, **style)
            axes.set_title(name)
            axes.set_xlabel("ensemble size n")
            axes.set_ylabel(unit)
            axes.set_xticks(sizes)
            axes.axhline(30 if unit == "%" else 0, color="0.6", lw=0.8, ls=":")
            axes.grid(lw=0.3)
        canvas.legend_below(figure, axes)
        return titled(figure, table.title, "bars: 95 % intervals; dotted: chance")


def _column(axes: Any, table: PaperTable, place: int) -> None:
    heading = table.headings[place]
    for row, (_, cells) in enumerate(table.rows):
        cell = cells[place]
        for value, shift, style in (
            (cell.ours, -0.12, {"fmt": "o", "color": canvas.COLOURS[0], "lw": 1.4, "capsize": 2}),
            (cell.paper, 0.12, {"fmt": "D", "mfc": "none", "color": canvas.PAPER, "lw": 1.0}),
        ):
            if value is not None:
                axes.errorbar(value.value, row + shift, xerr=[[reach] for reach in value.reach], ms=5, **style)
    axes.set_title(heading.name)
    mine = "ours: not run" if heading.ours == formats.NOTHING else f"ours: {heading.ours}"
    values = [number.value for _, cells in table.rows for number in (cells[place].ours, cells[place].paper) if number]
    if min(values) > 0 and max(values) > 100 * min(values):
        axes.set_xscale("log")
        canvas.logarithmic(axes.xaxis)
    theirs = heading.paper if any(cells[place].paper for _, cells in table.rows) else formats.NOTHING
    axes.set_xlabel(f"{heading.name} {heading.unit}\n{mine}\nthe paper's: {theirs}")
    axes.grid(axis="x", lw=0.3)


def _legend(figure: Any) -> None:
    from matplotlib.lines import Line2D

    ours = Line2D([], [], color=canvas.COLOURS[0], marker="o", ls="none")
    paper = Line2D([], [], color=canvas.PAPER, marker="D", mfc="none", ls="none")
    labels = ["ours, with its spread", "the paper's own figures, with their spread"]
    figure.legend([ours, paper], labels, loc="outside lower center", ncols=2, frameon=False)


def _accuracy(share: float | None, deviation: float | None = None) -> Quantity | None:
    return None if share is None else Quantity(100 * share, None if deviation is None else 100 * deviation)


def _interval(interval: IntervalRecord | None, factor: float) -> Quantity | None:
    if interval is None or interval.value is None:
        return None
    if interval.low is None or interval.high is None:
        return Quantity(factor * interval.value)
    return Quantity(factor * interval.value, low=factor * interval.low, high=factor * interval.high)
