"""Tables 1 to 7 from their records: the paper's figure beside ours, and a chart of both."""

from __future__ import annotations

from typing import Any

from nesbs.evaluation import paired, summarise
from nesbs.report import canvas, words
from nesbs.report.reading import Record, mapping, sequence
from nesbs.report.table import Number
from nesbs.reproduce import facts
from nesbs.reproduce.spec import BEST_RESPONSE, Experiment
from nesbs.reproduce.tables import Cell, Heading, PaperTable

ATTACKS = {"fgsm": "FGSM", "pgd": "PGD-40", "cw": "CW", "autoattack": "AutoAttack"}  # ours: the paper's name
OVER_SEEDS = "Ours: mean ± standard error over seeds (none with one seed)."


def methods_tables(experiment: Experiment, record: Record, paper: Record) -> list[PaperTable]:
    """Tables 1, 2, 3 and 5: a row for each of the paper's, in its order."""
    headings = [
        Heading(column.name, column.unit, facts.data_name(record, column.part), column.part, column.places)
        for column in experiment.columns.values()
    ]
    rows = []
    for label in mapping(paper.get("rows")):
        cells = []
        for name, column in experiment.columns.items():
            found = mapping(facts.part(record, column.part).get("methods")).get(experiment.rows.get(label, ""))
            cells.append(facts.beside(facts.ours(found, column.measure), paper, label, name))
        rows.append((label, tuple(cells)))
    notes = facts.notes(experiment, record, paper, spread=OVER_SEEDS)
    return [PaperTable(facts.title(experiment, record), "architecture(s)", tuple(headings), tuple(rows), notes)]


def attacks_tables(experiment: Experiment, record: Record, paper: Record) -> list[PaperTable]:
    """Table 4: one table for each data set, a row for each method under each attack."""
    spread = "Mean ± standard deviation over the members attacked in turn; accuracies on the perturbed images."
    tables = []
    for label in ("CIFAR-10", "CIFAR-100"):
        on = facts.data_name(record, label)
        headings = [Heading(name, "accuracy %", on, label) for name in ("Attack", "Defence", "Adaptive")]
        rows = []
        for row, method in experiment.rows.items():
            attacked = mapping(mapping(mapping(facts.part(record, label).get("methods")).get(method)).get("attacks"))
            for attack, name in ATTACKS.items():
                found = mapping(attacked.get(attack))
                key = f"{label}, {row}, {name}"
                cells = (
                    facts.beside(_accuracy(found, "attack"), paper, key, "Attack"),
                    facts.beside(_accuracy(found, "defence"), paper, key, "Defence"),
                    Cell(_accuracy(found, "adaptive")),
                )
                rows.append((f"{row}, {name}", cells))
        settings = [str(change) for change in sequence(facts.part(record, label).get("attack"))]
        said = f"{spread} Ours under the settings {', '.join(settings)}." if settings else spread
        notes = facts.notes(experiment, record, paper, spread=said)
        tables.append(
            PaperTable(
                facts.title(experiment, record, label),
                "method, attack",
                tuple(headings),
                tuple(rows),
                notes,
            )
        )
    return tables


def quality_tables(experiment: Experiment, record: Record, paper: Record) -> list[PaperTable]:
    """Table 6: by error, as the paper's performance is, and by loss."""
    found = facts.part(record, "CIFAR-10")
    sizes = (1, 3, 5, 7)
    on = facts.data_name(record, "CIFAR-10")
    headings = tuple(Heading(f"n = {size}", "", on, "CIFAR-10") for size in sizes)
    rows = []
    for kind in ("error", "loss"):
        rankings = {
            entry.get("size"): entry for entry in map(mapping, sequence(mapping(found.get("rankings")).get(kind)))
        }
        for name, measure, factor in (
            ("Spearman", "spearman", 1),
            ("Pearson", "pearson", 1),
            ("Agreement-30 %", "agreement", 100),
        ):
            numbers = [_interval(mapping(mapping(rankings.get(size)).get(measure)), factor) for size in sizes]
            if kind == "error":
                cells = tuple(
                    facts.beside(n, paper, name, f"n = {size}") for n, size in zip(numbers, sizes, strict=True)
                )
            else:
                cells = tuple(Cell(number) for number in numbers)
            rows.append((f"{name}, by {kind}" + (" (in %)" if factor == 100 else ""), cells))
    truth = mapping(found.get("truth"))
    spread = f"Truth: trained for {truth.get('epochs', words.NOTHING)} epochs. {found.get('verdict') or ''}".strip()
    return [
        PaperTable(
            facts.title(experiment, record),
            "measure",
            headings,
            tuple(rows),
            facts.notes(experiment, record, paper, spread=spread),
        )
    ]


def posteriors_tables(experiment: Experiment, record: Record, paper: Record) -> list[PaperTable]:
    """Table 7: either posterior, and how far post-training is below best-response, paired over seeds."""
    methods = mapping(facts.part(record, "CIFAR-10").get("methods"))
    on = facts.data_name(record, "CIFAR-10")
    headings = (
        Heading("best-response", "test error %", on, "CIFAR-10"),
        Heading("post-training", "test error %", on, "CIFAR-10"),
        Heading("Δ", "points", on, "CIFAR-10"),
    )
    rows = []
    for row, method in experiment.rows.items():
        after, during = (sequence(methods.get(name)) for name in (method, method + BEST_RESPONSE))
        cells = (
            facts.beside(facts.ours(during, "error"), paper, row, "best-response"),
            facts.beside(facts.ours(after, "error"), paper, row, "post-training"),
            facts.beside(_improvement(during, after), paper, row, "Δ"),
        )
        rows.append((row, cells))
    spread = (
        f"{OVER_SEEDS} Δ: best-response less post-training, paired over seeds; a 95 % t interval from three seeds on."
    )
    notes = facts.notes(experiment, record, paper, spread=spread)
    return [PaperTable(facts.title(experiment, record), "method", headings, tuple(rows), notes)]


def draw_tables(title: str, tables: list[PaperTable]) -> tuple[str, bytes]:
    """A panel for each column of the tables: ours as discs, the paper's as open diamonds, with their spreads."""
    with canvas.styled() as new:
        across = max(len(table.headings) for table in tables)
        rows = sum(len(table.rows) for table in tables)
        figure = new(2.6 + 2.5 * across, 1.3 + 0.22 * rows + 0.6 * len(tables))
        ratios = [len(table.rows) for table in tables]
        grid = figure.subplots(len(tables), across, squeeze=False, sharey="row", height_ratios=ratios)
        for table, panels in zip(tables, grid, strict=True):
            for place, axes in enumerate(panels):
                if any(cells[place] != Cell() for _, cells in table.rows):
                    _column(axes, table, place)
                else:
                    axes.remove()
            panels[0].set_yticks(range(len(table.rows)), [label for label, _ in table.rows])
            panels[0].set_ylim(len(table.rows) - 0.5, -0.5)
        _key(figure)
        figure.suptitle(facts.two_lines(title), fontsize=9)
        return canvas.saved(figure)


def draw_quality(tables: list[PaperTable]) -> tuple[str, bytes]:
    """Table 6 as three panels over the size of ensembles."""
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
            shown = [(label, cells) for label, cells in table.rows if label.startswith(name)]
            for number, (_, cells) in enumerate(shown):
                _points(
                    axes,
                    sizes,
                    [cell.ours for cell in cells],
                    0.12 * number,
                    label=f"ours, by {('error', 'loss')[number]}",
                    look=number * 2,
                )
            _points(
                axes, sizes, [cell.paper for cell in shown[0][1]], -0.12, label="the paper's (CIFAR-10)", paper=True
            )
            axes.set_title(name)
            axes.set_xlabel("ensemble size n")
            axes.set_ylabel(unit)
            axes.set_xticks(sizes)
            axes.axhline(30 if unit == "%" else 0, color="0.6", lw=0.8, ls=":")
            axes.grid(lw=0.3)
        canvas.legend_below(figure, axes)
        more = "bars: 95 % intervals; dotted: chance"
        figure.suptitle(facts.two_lines(table.title, more), fontsize=9)
        return canvas.saved(figure)


def _points(
    axes: Any,
    sizes: list[int],
    numbers: list[Number | None],
    shift: float,
    *,
    label: str,
    look: int = 0,
    paper: bool = False,
) -> None:
    known = [(size + shift, number) for size, number in zip(sizes, numbers, strict=True) if number is not None]
    style: dict[str, Any] = (
        {"fmt": "D", "mfc": "none", "color": canvas.PAPER, "ms": 6}
        if paper
        else {"fmt": canvas.MARKS[look], "color": canvas.COLOURS[look], "ms": 5, "capsize": 2}
    )
    if known:
        reach = [[number.reach[side] for _, number in known] for side in (0, 1)]
        axes.errorbar([x for x, _ in known], [n.value for _, n in known], yerr=reach, lw=1.2, label=label, **style)


def _column(axes: Any, table: PaperTable, place: int) -> None:
    heading = table.headings[place]
    for row, (_, cells) in enumerate(table.rows):
        ours, paper = cells[place].ours, cells[place].paper
        if ours is not None:
            reach = [[ours.reach[0]], [ours.reach[1]]]
            axes.errorbar(ours.value, row - 0.12, xerr=reach, fmt="o", color=canvas.COLOURS[0], ms=5, lw=1.4, capsize=2)
        if paper is not None:
            reach = [[paper.reach[0]], [paper.reach[1]]]
            axes.errorbar(paper.value, row + 0.12, xerr=reach, fmt="D", mfc="none", color=canvas.PAPER, ms=5, lw=1.0)
    axes.set_title(heading.name)
    mine = "ours: not run" if heading.ours == words.NOTHING else f"ours: {heading.ours}"
    values = [number.value for _, cells in table.rows for number in (cells[place].ours, cells[place].paper) if number]
    if min(values) > 0 and max(values) > 100 * min(values):
        axes.set_xscale("log")
        canvas.logarithmic(axes.xaxis)
    theirs = heading.paper if any(cells[place].paper for _, cells in table.rows) else words.NOTHING
    axes.set_xlabel(f"{heading.name} {heading.unit}\n{mine}\nthe paper's: {theirs}")
    axes.grid(axis="x", lw=0.3)


def _key(figure: Any) -> None:
    from matplotlib.lines import Line2D

    ours = Line2D([], [], color=canvas.COLOURS[0], marker="o", ls="none")
    paper = Line2D([], [], color=canvas.PAPER, marker="D", mfc="none", ls="none")
    labels = ["ours, with its spread", "the paper's own figures, with their spread"]
    figure.legend([ours, paper], labels, loc="outside lower center", ncols=2, frameon=False)


def _accuracy(found: Record, key: str) -> Number | None:
    value, deviation = found.get(key), found.get(f"{key}_std")
    if not words.is_number(value):
        return None
    return Number(100 * value, spread=100 * deviation if words.is_number(deviation) else None)


def _interval(found: Record, factor: float) -> Number | None:
    value, low, high = (found.get(key) for key in ("value", "low", "high"))
    if not words.is_number(value):
        return None
    ends = (factor * low, factor * high) if words.is_number(low) and words.is_number(high) else (None, None)
    return Number(factor * value, low=ends[0], high=ends[1])


def _improvement(during: list[Any], after: list[Any]) -> Number | None:
    """Best-response less post-training in points, over the seeds that both have."""
    errors = [{mapping(e).get("seed"): 100 * mapping(e)["error"] for e in entries} for entries in (during, after)]
    seeds = [seed for seed in errors[0] if seed in errors[1]]
    if not seeds:
        return None
    found = paired([errors[0][seed] for seed in seeds], [errors[1][seed] for seed in seeds])
    if found.low is not None:
        return Number(found.mean, low=found.low, high=found.high)
    return Number(found.mean, spread=summarise([errors[0][s] - errors[1][s] for s in seeds]).standard_error)
