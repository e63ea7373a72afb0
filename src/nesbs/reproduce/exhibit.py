"""One of the paper's tables or figures with our figures beside its own, and what is said about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nesbs.evaluation import paired, summarise
from nesbs.records import ExperimentRecord, Record
from nesbs.records.curves import PointOutcome
from nesbs.records.experiment import Asked, DiscrepancyRow, MethodRow, PartRecord
from nesbs.report import canvas, formats
from nesbs.report.comparison import added_note
from nesbs.report.table import Quantity, Table, shown
from nesbs.reproduce.spec import SCALES, Experiment, PaperFigures, Scale

CITED = "Shu et al., Neural Ensemble Search via Bayesian Sampling, UAI 2022"
SeedRow = MethodRow | DiscrepancyRow | PointOutcome
CIFAR10 = "CIFAR-10"  # the part that every experiment has
PAIRED = "paired over seeds, with a 95 % t interval; where it holds 0 the two are not told apart."
OURS = "NESBS (SVGD-RD)"  # the paper's row that the others are compared with
WITHOUT_MEMBERS = ("quality", "discrepancy", "curves")  # kinds that train no member by its recipe
# How a measure in a record becomes the figure in a table.
FACTORS = {
    "parameters": ("parameters", 1e-6),
    "multiply_adds": ("multiply_adds", 1e-6),
    "search_hours": ("search_seconds", 1 / 3600),
    "search_days": ("search_seconds", 1 / 86400),
}


def parse_quantity(text: str | None) -> Quantity | None:
    """Read a figure as the paper writes it.

    >>> parse_quantity("5.83 ± 0.33").spread, parse_quantity("-0.12").value, parse_quantity(None)
    (0.33, -0.12, None)
    """
    if text is None:
        return None
    mean, _, spread = text.partition("±")
    return Quantity(float(mean), float(spread) if spread else None, written=text)


@dataclass(frozen=True)
class Heading:
    """A column: what it shows, in which unit, and on which data ours and the paper's figures are."""

    name: str
    unit: str
    ours: str
    paper: str
    places: int = 2


@dataclass(frozen=True)
class Cell:
    """Our figure and the paper's; None where there is none."""

    ours: Quantity | None = None
    paper: Quantity | None = None


@dataclass(frozen=True)
class PaperTable:
    """Rows of our figures and the paper's under headings, and what must be said below them."""

    title: str
    corner: str
    headings: tuple[Heading, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    notes: tuple[str, ...] = ()

    def as_table(self) -> Table:
        """Return the table as it is printed: ours and, where it gives any, the paper's in columns of their own."""
        headings, columns = [self.corner], [[label for label, _ in self.rows]]
        for place, heading in enumerate(self.headings):
            cells = [cells[place] for _, cells in self.rows]
            what = (f"{heading.name} %" if heading.unit == "%" else f"{heading.name}, {heading.unit}").removesuffix(
                ", "
            )
            headings.append(f"{what}\nours{_on(heading.ours)}")
            columns.append([shown(cell.ours, heading.places) for cell in cells])
            if any(cell.paper for cell in cells):
                headings.append(f"{what}\nthe paper's{_on(heading.paper)}")
                columns.append([shown(cell.paper, heading.places) for cell in cells])
        return Table(headings, list(zip(*columns, strict=True)), self.title, self.notes)


def as_markdown(tables: Sequence[PaperTable]) -> str:
    """Write tables with their titles and notes."""
    return "\n\n".join(table.as_table().as_markdown() for table in tables) + "\n"


def as_latex(tables: Sequence[PaperTable]) -> str:
    """Write tables for a document that loads booktabs."""
    return "\n\n".join(table.as_table().as_latex() for table in tables) + "\n"


def as_csv(tables: Sequence[PaperTable]) -> str:
    """Write one line for each figure: ours and the paper's beside each other, a dash for what there is not."""
    ours = ("ours", "ours_spread", "ours_low", "ours_high", "ours_on")
    rows = []
    for table in tables:
        for label, cells in table.rows:
            for heading, cell in zip(table.headings, cells, strict=True):
                mine, paper = cell.ours, cell.paper
                numbers = (None,) * 4 if mine is None else (mine.value, mine.spread, mine.low, mine.high)
                theirs = (None,) * 2 if paper is None else (paper.value, paper.spread)
                figures = [formats.NOTHING if v is None else f"{v:.10g}" for v in (*numbers, *theirs)]
                on = (heading.ours or formats.NOTHING, heading.paper or formats.NOTHING)
                rows.append([table.title, label, heading.name, heading.unit, *figures[:4], on[0], *figures[4:], on[1]])
    return Table(["table", "row", "column", "unit", *ours, "paper", "paper_spread", "paper_on"], rows).as_csv()


def _on(data: str) -> str:
    if data == formats.NOTHING:
        return ", not run"
    return f", {data}" if data else ""


@dataclass(frozen=True)
class Exhibit:
    """What a table or figure is made of: the experiment, what we measured, and what the paper prints."""

    experiment: Experiment
    record: ExperimentRecord
    paper: PaperFigures

    @property
    def part(self) -> PartRecord:
        """Return our part in the place of CIFAR-10; empty where it was not run."""
        return self.record.part(CIFAR10)

    @property
    def scale(self) -> Scale | None:
        """Return the scale of the record; None where it names none."""
        name = (self.record.asked or Asked()).scale
        return next((self.experiment.scales[each] for each in SCALES if each == name), None)

    def shows(self, label: str) -> bool:
        """Whether figures on one of the paper's data sets are shown: those that the record's scale runs."""
        return self.scale is None or label in {*self.scale.parts, *(self.record.parts or {})}

    def data_name(self, label: str = CIFAR10) -> str:
        """Name the data set that ours was made on; a dash where the part was not run."""
        return self.record.part(label).data or formats.NOTHING

    def title(self, label: str | None = None) -> str:
        """Say what is shown: ours on which data, beside what in the paper (on its data set `label`)."""
        labels = list(self.record.parts or {}) if label is None else [label]
        names = list(dict.fromkeys(name for each in labels if (name := self.data_name(each)) != formats.NOTHING))
        without_data = "ours" if self.experiment.kind == "gaussians" else "ours not run"
        mine = f"ours on {', '.join(names)}" if names else without_data
        theirs = f"the paper's {self.experiment.shows}{'' if label is None else f' on {label}'}"
        return f"{self.experiment.name}: {mine}, beside {theirs} ({self.experiment.about})"

    def table(
        self,
        corner: str,
        headings: Sequence[Heading],
        rows: Sequence[tuple[str, Sequence[Cell]]],
        *,
        spread: str,
        title: str | None = None,
    ) -> PaperTable:
        """Make a table with its notes; `spread` says what the figures are."""
        fixed = tuple((label, tuple(cells)) for label, cells in rows)
        return PaperTable(title or self.title(), corner, tuple(headings), fixed, self.notes(spread))

    def differences(
        self, corner: str, headings: Sequence[Heading], rows: Sequence[tuple[str, Sequence[Cell]]]
    ) -> list[PaperTable]:
        """Make a table of how far the others are above ours, of the rows with an interval; none where there is none."""
        others = [(label, tuple(cells)) for label, cells in rows if label != OURS]
        some = tuple(row for row in others if any(cell.ours for cell in row[1]))
        title = f"{self.experiment.name}: how far the others are above {OURS}"
        note = f"Δ of ours: {PAIRED}"
        return [PaperTable(title, f"{corner}, less {OURS}", tuple(headings), some, (note,))] if some else []

    def beside(self, ours: Quantity | None, row: str, column: str) -> Cell:
        """Return our figure with the paper's for that row and column."""
        return Cell(ours, parse_quantity(self.paper.rows.get(row, {}).get(column)))

    def notes(self, spread: str) -> tuple[str, ...]:
        """Return what is said below a table."""
        lines = [*self._made_on(), spread, *self.experiment.notes, *(self.scale.notes if self.scale else ())]
        unseen = [label for label in self.experiment.scales["paper"].parts if not self.shows(label)]
        if unseen:
            lines.append(f"The paper's figures on {' and '.join(unseen)} are not shown: this scale does not run them.")
        lines += [f"Left out: {name} ({why})." for name, why in (self.record.left_out or {}).items()]
        source = self.paper.source
        if self.paper.rows:
            lines.append(f"The paper's figures are those of {source} ({CITED}), made on its own machines and settings.")
        if self.paper.says:
            lines.append(f"What the paper finds ({source}): {self.paper.says}.")
        lines.append(f"{formats.NOTHING}: not run at this scale, not finished, or not given in the paper.")
        if changes := (self.record.asked or Asked()).set:
            lines.append(f"Changed by --set: {', '.join(changes)}.")
        if not self.record.complete:
            lines.append("Unfinished: the same command resumes.")
        return tuple(lines)

    def _made_on(self) -> list[str]:
        """Say the scale and the device, then what every part is made on."""
        name = str((self.record.asked or Asked()).scale)
        about = f": {self.scale.about}" if self.scale else ""
        seconds = self.record.seconds
        took = "" if seconds is None else f" in {formats.duration(seconds)}"
        versions = ", ".join(filter(None, (self.record.torch and f"torch {self.record.torch}", self.record.started)))
        made_on = f"{self.record.device} ({versions})" if versions else self.record.device
        lines = [f"Scale {name}{about}; computed on {made_on}{took}."]
        for label, part in (self.record.parts or {}).items():
            if part.data:
                lines.append(
                    f"Ours in the place of {label}: {part.data}, {formats.count(part.train_images)} training and "
                    f"{formats.count(part.test_images)} test images of {'×'.join(map(str, part.size or ()))} pixels, "
                    f"space {part.space}; {_trained(part, self.experiment.kind)}."
                )
        searches = [part.added for part in (self.record.parts or {}).values() if part.searched_on is None]
        nesbs = [row for row in self.experiment.rows if row.startswith("NESBS")]
        lines += dict.fromkeys(note for added in searches for note in added_note(added, nesbs))
        if name == "smoke" and self.record.parts:
            lines.append("This scale shows that everything works; its figures are worth nothing beside the paper's.")
        return lines


def titled(figure: Any, title: str, more: str = "") -> tuple[str, bytes]:
    """Write a figure as SVG and as PNG, under its title (what is in brackets on a second line) and one more line."""
    figure.suptitle(title.replace(" (", "\n(", 1) + (f"\n{more}" if more else ""), fontsize=9)
    return canvas.saved(figure)


def over_seeds(rows: Sequence[Record], measure: str) -> Quantity | None:
    """Return mean and standard error of a measure over rows, one a seed, as a table shows it."""
    name, factor = FACTORS.get(measure, (measure, 100.0))
    values = [factor * value for row in rows if (value := getattr(row, name)) is not None]
    if not values:
        return None
    summary = summarise(values)
    return Quantity(summary.mean, spread=summary.standard_error)


def points_above(others: Sequence[SeedRow], own: Sequence[SeedRow], measure: str) -> Quantity | None:
    """Return how far others are above our own in points, over the seeds that both have."""
    first, second = (
        {row.seed: 100 * value for row in rows if (value := getattr(row, measure)) is not None}
        for rows in (others, own)
    )
    seeds = [seed for seed in first if seed in second]
    if not seeds:
        return None
    difference = paired([first[seed] for seed in seeds], [second[seed] for seed in seeds])
    if difference.low is not None:
        return Quantity(difference.mean, low=difference.low, high=difference.high)
    return Quantity(difference.mean, summarise([first[seed] - second[seed] for seed in seeds]).standard_error)


def told_apart(others: Sequence[SeedRow], own: Sequence[SeedRow], measure: str) -> Quantity | None:
    """Return the same where the seeds are enough for an interval, else None."""
    above = points_above(others, own, measure)
    return None if above is None or above.low is None else above


def _trained(part: PartRecord, kind: str) -> str:
    """Say what was trained there, and for how long."""
    epochs = part.epochs or {}
    phrases = [f"cells of the search in the place of {part.searched_on}"] if part.searched_on else []
    if epochs.get("supernet") is not None:
        phrases.append(f"supernet {epochs['supernet']} epochs")
    trained = kind not in WITHOUT_MEMBERS and epochs.get("members")
    if kind != "quality":  # which says itself how long its networks were trained
        phrases.append(f"members {trained} epochs" if trained else "the search alone")
    return ", ".join(phrases)
