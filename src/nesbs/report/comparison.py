"""A comparison of methods: one table in Markdown and one figure, from its record alone."""

from __future__ import annotations

from pathlib import Path

from nesbs import files
from nesbs.report import canvas, words
from nesbs.report.reading import Record, mapping, sequence
from nesbs.report.table import Number, Table, figure

IMAGES = (
    "In brackets 95 % bootstrap intervals over the test images: what other images might have said about these very "
    "networks. Whether another search and training would end alike is what the seeds say above."
)
COLUMNS = (
    "method",
    "error %",
    "NLL",
    "ECE",
    "ATE %",
    "PPD %",
    "error − {0}, points",
    "winner",
    "NLL − {0}",
    "winner",
    "search s",
    "training s",
    "judged",
    "paper, GPU h*",
)
# Search costs in the paper's Tables 1 and 2, by space and method.
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
    # Table 2 has days.
    "darts": {
        "svgd-rd": 0.2 * 24,
        "nesbs-mc": 0.2 * 24,
        "nes-rs": 0.7 * 24,
        "darts-2nd": 1 * 24,
        "gdas": 0.3 * 24,
        "enas": 0.5 * 24,
    },
}


def write_comparison(folder: Path, record: Record) -> tuple[str, Path]:
    """Write `comparison.md` and `comparison.svg`; the table and the figure's path."""
    table, figure = comparison_as_markdown(record), folder / "comparison.svg"
    files.write_text(folder / "comparison.md", table + "\n")
    files.write_text(figure, draw_comparison(record))
    return table, figure


def comparison_as_markdown(record: Record) -> str:
    """The methods one a row: means ± standard errors, paired differences with intervals, winners, costs.

    A winner is printed only where the interval excludes zero.
    """
    parts = [comparison_table(record).as_markdown(), "\n".join(comparison_notes(record))]
    images = images_table(record)
    return "\n\n".join(parts if images is None else [*parts, images.as_markdown()])


def comparison_table(record: Record) -> Table:
    """The methods one a row; what the figures are is in `comparison_notes`."""
    reference = str(record.get("reference"))
    hours = PAPER_HOURS.get(str(record.get("space")), {})
    rows = []
    for name, entry in mapping(record.get("methods")).items():
        mean, cost, difference = (mapping(mapping(entry).get(key)) for key in ("mean", "cost", "difference"))
        rows.append(
            [
                name,
                figure(_number(mean.get("error"), 100), 2),
                figure(_number(mean.get("nll")), 4),
                figure(_number(mean.get("ece")), 4),
                words.decimal(_times(mapping(mean.get("member_error")).get("mean"), 100), 2),
                words.decimal(_times(mapping(mean.get("disagreement")).get("mean"), 100), 2),
                figure(_number(difference.get("error"), 100), 2, signed=True),
                _winner(difference.get("error"), name, reference),
                figure(_number(difference.get("nll")), 4, signed=True),
                _winner(difference.get("nll"), name, reference),
                words.decimal(mapping(cost.get("search_seconds")).get("mean"), 1) + _over(entry),
                words.decimal(mapping(cost.get("training_seconds")).get("mean"), 1),
                words.decimal(mapping(cost.get("evaluations")).get("mean"), 0),
                words.decimal(hours.get(str(record.get("sampler")) if name == reference else name), 1),
            ]
        )
    return Table([name.format(reference) for name in COLUMNS], rows)


def images_table(record: Record) -> Table | None:
    """A second table with intervals over the test images; None where they were not kept."""
    reference = str(record.get("reference"))
    rows = []
    for name, entry in mapping(record.get("methods")).items():
        images = mapping(mapping(entry).get("images"))
        difference = mapping(images.get("difference"))
        rows.append(
            [
                name,
                figure(_number(images.get("error"), 100), 2),
                figure(_number(difference.get("error"), 100), 2, signed=True),
                figure(_number(images.get("nll")), 4),
                figure(_number(difference.get("nll")), 4, signed=True),
            ]
        )
    if all(row[1] == words.NOTHING for row in rows):
        return None
    return Table(
        ["method", "error %", f"error − {reference}, points", "NLL", f"NLL − {reference}"], rows, notes=(IMAGES,)
    )


def comparison_notes(record: Record) -> list[str]:
    """What the table's figures are."""
    seeds, rivals = sequence(record.get("seeds")), mapping(record.get("rivals"))
    how = {"trained": "trained on their own", "supernet": "with the supernet's weights"}
    few = "" if len(seeds) >= 3 else " With fewer than three seeds there is no interval and no winner."
    return [
        f"{record.get('data')}, space {record.get('space')}, ensembles of {record.get('size')}, seeds "
        f"{', '.join(str(seed) for seed in seeds)}, {record.get('device')}.",
        f"Mean ± standard error over seeds; in brackets the paired 95 % t interval of the difference.{few}",
        f"Candidates judged {how.get(str(rivals.get('judge')), '?')}; chosen networks measured "
        f"{'after full training' if rivals.get('measure') == 'trained' else 'with the supernet’s weights'}. "
        "Seconds are measured here, and each method pays for what it used, also where it was made for another.",
        "* What the paper reports for its searches on CIFAR-10 (DARTS: its days × 24), on an Nvidia 1080 Ti or taken "
        "over from other authors: another machine and other settings than here.",
        *_budget(rivals),
    ]


def _budget(rivals: Record) -> list[str]:
    if not words.is_number(rivals.get("seconds")):
        return []
    return [
        f"Budget: {words.short(rivals.get('seconds'))} s of search for every method, measured on this device; training "
        "what was chosen does not count. !: the search took over a tenth longer all the same."
    ]


def _over(entry: object) -> str:
    """A mark where a search took longer than its budget under some seed."""
    seeds = [mapping(seed) for seed in sequence(mapping(entry).get("seeds"))]
    return " !" if any(seed.get("over_budget") for seed in seeds) else ""


def draw_comparison(record: Record) -> str:
    """The figure as SVG: error and NLL of every method, a ring for each seed, a bar for mean ± standard error."""
    methods = {name: mapping(entry) for name, entry in mapping(record.get("methods")).items()}
    with canvas.styled() as new:
        drawing = new(8, 1.2 + 0.32 * len(methods))
        panels = drawing.subplots(1, 2, sharey=True)
        for axes, (measure, label, factor) in zip(
            panels, (("error", "test error %", 100), ("nll", "test NLL", 1)), strict=True
        ):
            for row, (name, entry) in enumerate(methods.items()):
                values = [mapping(mapping(seed).get("scores")).get(measure) for seed in sequence(entry.get("seeds"))]
                known = [factor * value for value in values if words.is_number(value)]
                axes.plot(known, [row] * len(known), "o", mfc="none", mec="0.55", ms=5)
                mean = mapping(mapping(entry.get("mean")).get(measure))
                if words.is_number(mean.get("mean")):
                    reach = factor * (mean.get("standard_error") or 0.0)
                    colour = "C3" if name == record.get("reference") else "C0"
                    axes.errorbar(
                        factor * mean["mean"], row, xerr=reach, fmt="|", color=colour, ms=12, capsize=3, lw=1.8
                    )
                    if name == record.get("reference"):
                        axes.axvline(factor * mean["mean"], color=colour, lw=0.8, ls=":")
            axes.set_xlabel(label)
            axes.grid(axis="x", lw=0.4)
        panels[0].set_yticks(range(len(methods)), list(methods))
        panels[0].invert_yaxis()
        drawing.suptitle(
            f"{record.get('data')}, {record.get('space')}, ensembles of {record.get('size')}: rings are seeds, "
            "bars mean ± standard error"
        )
        return canvas.as_svg(drawing)


def _number(summary: object, factor: float = 1) -> Number | None:
    """A mean with its standard error, or a difference with its interval."""
    value = mapping(summary)
    mean, spread, low, high = (_times(value.get(key), factor) for key in ("mean", "standard_error", "low", "high"))
    return None if mean is None else Number(mean, spread, low, high)


def _winner(difference: object, method: str, reference: str) -> str:
    verdict = mapping(difference).get("verdict")
    return {"lower": method, "higher": reference}.get(str(verdict), words.NOTHING)


def _times(value: object, factor: float) -> float | None:
    return factor * value if words.is_number(value) else None
