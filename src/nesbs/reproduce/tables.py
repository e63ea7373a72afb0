"""A table in which the paper's figure stands beside ours, as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from nesbs.report import words
from nesbs.report.comparison import markdown_table


@dataclass(frozen=True)
class Number:
    """A figure with its spread (±) or its interval, and the paper's own writing of it where it is the paper's."""

    value: float
    spread: float | None = None
    low: float | None = None
    high: float | None = None
    written: str | None = None

    def said(self, places: int) -> str:
        """The figure in words.

        >>> Number(5.834, spread=0.3).said(2), Number(0.5, low=-0.1, high=0.8).said(1)
        ('5.83 ± 0.30', '0.5 [−0.1, 0.8]')
        """
        if self.written is not None:
            return self.written.replace("-", "−")

        def plain(value: float) -> str:
            return words.decimal(value, places).replace("-", "−")

        if self.spread is not None:
            return f"{plain(self.value)} ± {plain(self.spread)}"
        if self.low is not None and self.high is not None:
            return f"{plain(self.value)} [{plain(self.low)}, {plain(self.high)}]"
        return plain(self.value)

    @property
    def reach(self) -> tuple[float, float]:
        """How far the figure reaches down and up, for a drawing."""
        if self.low is not None and self.high is not None:
            return max(self.value - self.low, 0.0), max(self.high - self.value, 0.0)
        return self.spread or 0.0, self.spread or 0.0


def written(text: str | None) -> Number | None:
    """A figure as the paper writes it.

    >>> written("5.83 ± 0.33").spread, written("-0.12").value, written(None)
    (0.33, -0.12, None)
    """
    if text is None:
        return None
    mean, _, spread = text.partition("±")
    return Number(float(mean), float(spread) if spread else None, written=text)


@dataclass(frozen=True)
class Heading:
    """A column: what it shows, in which unit, and on which data ours and the paper's figures are."""

    name: str
    unit: str
    ours: str
    paper: str
    places: int = 2

    def said(self, paper: bool) -> tuple[str, str]:
        """The column's head: what it shows, and whose and on which data."""
        what = f"{self.name} {self.unit}".strip()
        return what, f"the paper's{_on(self.paper)}" if paper else f"ours{_on(self.ours)}"


@dataclass(frozen=True)
class Cell:
    """Our figure and the paper's; None where there is none."""

    ours: Number | None = None
    paper: Number | None = None


@dataclass(frozen=True)
class Table:
    """Rows of cells under headings, and what must be said below them."""

    title: str
    corner: str
    headings: tuple[Heading, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    notes: tuple[str, ...] = ()

    def columns(self) -> list[tuple[int, bool]]:
        """The columns that are written: a heading's place, and whether it is the paper's side (where it has any)."""
        found = []
        for place in range(len(self.headings)):
            found.append((place, False))
            if any(cells[place].paper for _, cells in self.rows):
                found.append((place, True))
        return found

    def said(self, cells: Sequence[Cell], place: int, paper: bool) -> str:
        """One figure, or a dash."""
        number = cells[place].paper if paper else cells[place].ours
        return words.NOTHING if number is None else number.said(self.headings[place].places)


def as_markdown(tables: Sequence[Table]) -> str:
    """Tables with their titles and notes."""
    parts = []
    for table in tables:
        columns = table.columns()
        rows = [[table.corner, *(": ".join(table.headings[place].said(paper)) for place, paper in columns)]]
        rows += [[label, *(table.said(cells, *column) for column in columns)] for label, cells in table.rows]
        rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
        parts.append("\n\n".join([f"## {table.title}", markdown_table(rows), *table.notes]))
    return "\n\n".join(parts) + "\n"


def as_latex(tables: Sequence[Table]) -> str:
    """Tables for a document that loads booktabs."""
    parts = []
    for table in tables:
        columns = table.columns()
        heads = [table.headings[place].said(paper) for place, paper in columns]
        lines = [
            f"% {line}"
            for line in (table.title, *table.notes, "Needs \\usepackage{booktabs}; a dash: not measured or not given.")
        ]
        lines += [f"\\begin{{tabular}}{{l{'c' * len(columns)}}}", "\\toprule", _heads(table.corner, heads), "\\midrule"]
        lines += [_line([label, *(table.said(cells, *c) for c in columns)]) for label, cells in table.rows]
        parts.append("\n".join([*lines, "\\bottomrule", "\\end{tabular}"]))
    return "\n\n".join(parts) + "\n"


def as_csv(tables: Sequence[Table]) -> str:
    """One line for each figure: ours and the paper's beside each other, a dash for what there is not."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ("table", "row", "column", "unit", "ours", "ours_spread", "ours_low", "ours_high", "ours_on")
    writer.writerow([*names, "paper", "paper_spread", "paper_on"])
    for table in tables:
        for label, cells in table.rows:
            for heading, cell in zip(table.headings, cells, strict=True):
                ours, paper = cell.ours, cell.paper
                mine = (None,) * 4 if ours is None else (ours.value, ours.spread, ours.low, ours.high)
                theirs = (None,) * 2 if paper is None else (paper.value, paper.spread)
                figures = [words.NOTHING if v is None else f"{v:.10g}" for v in (*mine, *theirs)]
                on = (heading.ours or words.NOTHING, heading.paper or words.NOTHING)
                writer.writerow(
                    [table.title, label, heading.name, heading.unit, *figures[:4], on[0], *figures[4:], on[1]]
                )
    return text.getvalue()


def _on(data: str) -> str:
    if data == words.NOTHING:
        return ", not run"
    return f", {data}" if data else ""


def _heads(corner: str, heads: Sequence[tuple[str, str]]) -> str:
    stacked = [f"\\shortstack{{{_escaped(what)}\\\\{_escaped(whose)}}}" for what, whose in heads]
    return " & ".join([_escaped(corner), *stacked]) + " \\\\"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(_escaped(cell) for cell in cells) + " \\\\"


def _escaped(text: str) -> str:
    """Text as LaTeX takes it."""
    text = text.replace("\\", "\\textbackslash ")
    text = re.sub(r"([&%$#_{}])", r"\\\1", text).replace("~", "\\textasciitilde ").replace("^", "\\textasciicircum ")
    signs = {
        words.NOTHING: "--",
        "±": "$\\pm$",
        "−": "$-$",
        "τ": "$\\tau$",
        "δ": "$\\delta$",
        "Δ": "$\\Delta$",
        "×": "$\\times$",
    }
    for sign, command in signs.items():
        text = text.replace(sign, command)
    return text
