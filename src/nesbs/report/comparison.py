"""A comparison of methods: one table in Markdown and one figure, from its record alone."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from nesbs import files
from nesbs.records.comparison import (
    ComparisonRecord,
    DifferenceRecord,
    ImagesRecord,
    MethodRecord,
    RivalsRecord,
    SummaryRecord,
)
from nesbs.report import canvas, formats
from nesbs.report.table import Quantity, Table, shown

IMAGES = (
    "In brackets 95 % bootstrap intervals over the test images: what other images might have said about these very "
    "networks. Whether another search and training would end alike is what the seeds say above."
)
BUDGET = (
    "Budget: {} s of search for every method, measured on this device; training what was chosen does not count. "
    "!: the search took over a tenth longer all the same."
)
PAPER_ROWS = ("nesbs", "nesbs-mc")  # the rows that are the paper's method
COLUMNS = (
    *("method", "error %", "NLL", "ECE", "ATE %", "PPD %", "error − {0}, points", "winner", "NLL − {0}", "winner"),
    *("search s", "training s", "judged", "paper, GPU h*"),
)
# Search costs in the paper's Tables 1 and 2 (days × 24), by space and method.
PAPER_HOURS = {
    "nasbench201": {
        "svgd-rd": 1.2,
        "nesbs-mc": 1.1,
        "nes-rs": 5.1,
        "rsps": 2.1,
        "darts-2nd": 8.3,
        "gdas": 8.0,
        "setn": 8.6,
        "enas": 3.7,
    },
    "darts": {"svgd-rd": 4.8, "nesbs-mc": 4.8, "nes-rs": 16.8, "darts-2nd": 24.0, "gdas": 7.2, "enas": 12.0},
}


def write_comparison(folder: Path, record: ComparisonRecord) -> tuple[str, Path]:
    """Write `comparison.md` and `comparison.svg`; return the table and the figure's path."""
    table, figure = comparison_as_markdown(record), folder / "comparison.svg"
    files.write_text(folder / "comparison.md", table + "\n")
    files.write_text(figure, draw_comparison(record))
    return table, figure


def comparison_as_markdown(record: ComparisonRecord) -> str:
    """Write the methods one a row: means ± standard errors, paired differences with intervals, winners, costs.

    A winner is printed only where the interval excludes zero.
    """
    parts = [comparison_table(record).as_markdown(), "\n".join(comparison_notes(record))]
    images = images_table(record)
    return "\n\n".join(parts if images is None else [*parts, images.as_markdown()])


def comparison_table(record: ComparisonRecord) -> Table:
    """Put the methods one a row; what the figures are is in `comparison_notes`."""
    reference = str(record.reference)
    hours = PAPER_HOURS.get(str(record.space), {})
    rows = []
    for name, method in (record.methods or {}).items():
        mean, cost, difference = method.mean or {}, method.cost or {}, method.difference or {}
        rows.append(
            [
                name,
                shown(mean_of(mean.get("error"), 100), 2),
                shown(mean_of(mean.get("nll")), 4),
                shown(mean_of(mean.get("ece")), 4),
                _mean(mean, "member_error", 2, 100),
                _mean(mean, "disagreement", 2, 100),
                shown(_interval(difference.get("error"), 100), 2, signed=True),
                _winner(difference.get("error"), name, reference),
                shown(_interval(difference.get("nll")), 4, signed=True),
                _winner(difference.get("nll"), name, reference),
                _mean(cost, "search_seconds", 1) + _over_budget(method),
                _mean(cost, "training_seconds", 1),
                _mean(cost, "evaluations", 0),
                formats.decimal(hours.get(str(record.sampler) if name == reference else name), 1),
            ]
        )
    return Table([name.format(reference) for name in COLUMNS], rows)


def images_table(record: ComparisonRecord) -> Table | None:
    """Make a second table with intervals over the test images; None where they were not kept."""
    rows = []
    for name, method in (record.methods or {}).items():
        images = method.images or ImagesRecord()
        difference = images.difference or {}
        rows.append(
            [
                name,
                shown(_interval(images.error, 100), 2),
                shown(_interval(difference.get("error"), 100), 2, signed=True),
                shown(_interval(images.nll), 4),
                shown(_interval(difference.get("nll")), 4, signed=True),
            ]
        )
    if all(row[1] == formats.NOTHING for row in rows):
        return None
    headings = ["method", "error %", f"error − {record.reference}, points", "NLL", f"NLL − {record.reference}"]
    return Table(headings, rows, notes=(IMAGES,))


def comparison_notes(record: ComparisonRecord) -> list[str]:
    """Say what the table's figures are, and what in them is the paper's."""
    seeds = record.seeds or ()
    rivals = record.rivals or RivalsRecord()
    how = {"trained": "trained on their own", "supernet": "with the supernet's weights"}
    few = "" if len(seeds) >= 3 else " With fewer than three seeds there is no interval and no winner."
    return [
        f"{record.data}, space {record.space}, ensembles of {record.size}, seeds "
        f"{', '.join(str(seed) for seed in seeds)}, {record.device}.",
        *added_note(record.added, [name for name in PAPER_ROWS if name in (record.methods or {})]),
        f"Mean ± standard error over seeds; in brackets the paired 95 % t interval of the difference.{few}",
        f"Candidates judged {how.get(str(rivals.judge), '?')}; chosen networks measured "
        f"{'after full training' if rivals.measure == 'trained' else 'with the supernet’s weights'}. "
        "Seconds are measured here, and each method pays for what it used, also where it was made for another.",
        "* What the paper reports for its searches on CIFAR-10 (DARTS: its days × 24), on an Nvidia 1080 Ti or taken "
        "over from other authors: another machine and other settings than here.",
        *([] if rivals.seconds is None else [BUDGET.format(formats.short(rivals.seconds))]),
    ]


def added_note(added: Sequence[str] | None, rows: Sequence[str]) -> list[str]:
    """Say which rows are the paper's method and what is ours on top of it (`Recipe.additions`).

    Nothing where an older record does not tell, or no such row is there.

    >>> added_note([], ["nesbs"])
    ["nesbs here is the paper's method, nothing added."]
    >>> added_note(["forward selection over all candidates"], ["nesbs", "nesbs-mc"])
    ["nesbs and nesbs-mc here are the paper's method plus ours: forward selection over all candidates."]
    """
    if added is None or not rows:
        return []
    subject = f"{' and '.join(rows)} here {'is' if len(rows) == 1 else 'are'} the paper's method"
    return [f"{subject} plus ours: {'; '.join(added)}." if added else f"{subject}, nothing added."]


def draw_comparison(record: ComparisonRecord) -> str:
    """Draw the figure as SVG: error and NLL of every method, a ring for each seed, a bar for mean ± standard error."""
    methods = record.methods or {}
    with canvas.styled() as new:
        figure = new(8, 1.2 + 0.32 * len(methods))
        panels = figure.subplots(1, 2, sharey=True)
        for axes, (measure, label, factor) in zip(
            panels, (("error", "test error %", 100), ("nll", "test NLL", 1)), strict=True
        ):
            for row, (name, method) in enumerate(methods.items()):
                values = [factor * value for value in method.values(measure)]
                axes.plot(values, [row] * len(values), "o", mfc="none", mec="0.55", ms=5)
                mean = mean_of((method.mean or {}).get(measure), factor)
                if mean is not None:
                    colour = "C3" if name == record.reference else "C0"
                    reach = mean.spread or 0.0
                    axes.errorbar(mean.value, row, xerr=reach, fmt="|", color=colour, ms=12, capsize=3, lw=1.8)
                    if name == record.reference:
                        axes.axvline(mean.value, color=colour, lw=0.8, ls=":")
            axes.set_xlabel(label)
            axes.grid(axis="x", lw=0.4)
        panels[0].set_yticks(range(len(methods)), list(methods))
        panels[0].invert_yaxis()
        figure.suptitle(
            f"{record.data}, {record.space}, ensembles of {record.size}: rings are seeds, bars mean ± standard error"
        )
        return canvas.as_svg(figure)


def mean_of(summary: SummaryRecord | None, factor: float = 1) -> Quantity | None:
    """Return a mean over seeds with its standard error, times a factor; None where there is none."""
    if summary is None or summary.mean is None:
        return None
    error = summary.standard_error
    return Quantity(factor * summary.mean, None if error is None else factor * error)


def _interval(difference: DifferenceRecord | None, factor: float = 1) -> Quantity | None:
    if difference is None or difference.mean is None:
        return None
    low, high = (None if end is None else factor * end for end in (difference.low, difference.high))
    return Quantity(factor * difference.mean, low=low, high=high)


def _winner(difference: DifferenceRecord | None, method: str, reference: str) -> str:
    verdict = difference and difference.verdict
    return {"lower": method, "higher": reference}.get(str(verdict), formats.NOTHING)


def _mean(summaries: Mapping[str, SummaryRecord], name: str, places: int, factor: float = 1) -> str:
    mean = summaries[name].mean if name in summaries else None
    return formats.decimal(None if mean is None else factor * mean, places)


def _over_budget(method: MethodRecord) -> str:
    """Return a mark where a search took longer than its budget under some seed."""
    return " !" if any(outcome.over_budget for outcome in method.seeds or ()) else ""
