"""One of the paper's tables or figures with our figures in it, and what is said about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nesbs.evaluation import summarise
from nesbs.records import ExperimentRecord, Record
from nesbs.records.experiment import Asked, PartRecord
from nesbs.report import formats
from nesbs.report.comparison import added_note
from nesbs.report.table import Quantity
from nesbs.reproduce.spec import SCALES, Experiment, PaperFigures
from nesbs.reproduce.tables import Cell, Heading, PaperTable, parse_quantity

CITED = "Shu et al., Neural Ensemble Search via Bayesian Sampling, UAI 2022"
CIFAR10 = "CIFAR-10"  # the part that every experiment has
# How a measure in a record becomes the figure in a table.
FACTORS = {
    "parameters": ("parameters", 1e-6),
    "multiply_adds": ("multiply_adds", 1e-6),
    "search_hours": ("search_seconds", 1 / 3600),
    "search_days": ("search_seconds", 1 / 86400),
}


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

    def beside(self, ours: Quantity | None, row: str, column: str) -> Cell:
        """Return our figure with the paper's for that row and column."""
        return Cell(ours, parse_quantity(self.paper.rows.get(row, {}).get(column)))

    def notes(self, spread: str) -> tuple[str, ...]:
        """Return what is said below a table."""
        lines = [*self._made_on(), spread, *self.experiment.notes]
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
        about = "".join(f": {self.experiment.scales[scale].about}" for scale in SCALES if scale == name)
        lines = [f"Scale {name}{about}; computed on {self.record.device}."]
        for label, part in (self.record.parts or {}).items():
            if part.data:
                lines.append(
                    f"Ours in the place of {label}: {part.data}, {formats.count(part.train_images)} training and "
                    f"{formats.count(part.test_images)} test images of {'×'.join(map(str, part.size or ()))} pixels, "
                    f"space {part.space}; {_trained(part)}."
                )
        added = [part.added for part in (self.record.parts or {}).values() if part.added is not None]
        nesbs = [row for row in self.experiment.rows if row.startswith("NESBS")]
        lines += dict.fromkeys(note for each in added for note in added_note(each, nesbs))
        if name == "smoke":
            lines.append("This scale shows that everything works; its figures are worth nothing beside the paper's.")
        return lines


def two_lines(text: str, more: str = "") -> str:
    """Break a title for a figure, and add a line.

    >>> two_lines("table1: ours on cifar10, beside the paper's Table 1 (NAS)")
    "table1: ours on cifar10, beside the paper's Table 1\\n(NAS)"
    """
    return text.replace(" (", "\n(", 1) + (f"\n{more}" if more else "")


def over_seeds(rows: Sequence[Record], measure: str) -> Quantity | None:
    """Return mean and standard error of a measure over rows, one a seed, as a table shows it."""
    name, factor = FACTORS.get(measure, (measure, 100.0))
    values = [factor * value for row in rows if (value := getattr(row, name)) is not None]
    if not values:
        return None
    summary = summarise(values)
    return Quantity(summary.mean, spread=summary.standard_error)


def _trained(part: PartRecord) -> str:
    """Say what was trained there, and for how long."""
    epochs = part.epochs or {}
    phrases = [f"cells of the search in the place of {part.searched_on}"] if part.searched_on else []
    if epochs.get("supernet") is not None:
        phrases.append(f"supernet {epochs['supernet']} epochs")
    return ", ".join([*phrases, f"members {epochs['members']} epochs" if epochs.get("members") else "the search alone"])
