"""A table in which the paper's figures stand beside ours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nesbs.report import formats
from nesbs.report.table import Quantity, Table, shown


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
            what = f"{heading.name} {heading.unit}".strip()
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
