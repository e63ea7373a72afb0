"""One table for everybody: as text for a terminal, as Markdown, as LaTeX and as CSV."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nesbs.report import formats

LATEX = {
    formats.NOTHING: "--",
    "±": "$\\pm$",
    "−": "$-$",
    "τ": "$\\tau$",
    "δ": "$\\delta$",
    "Δ": "$\\Delta$",
    "ε": "$\\epsilon$",
    "×": "$\\times$",
}


@dataclass(frozen=True)
class Quantity:
    """A value with its spread (±) or its interval; `written` is how a source prints it, where that is to be kept."""

    value: float
    spread: float | None = None
    low: float | None = None
    high: float | None = None
    written: str | None = None

    def text(self, places: int, *, signed: bool = False) -> str:
        """Write the value with so many decimal places; `signed` writes a plus before what is above zero.

        >>> Quantity(5.834, spread=0.3).text(2), Quantity(0.5, low=-0.1, high=0.8).text(1)
        ('5.83 ± 0.30', '0.5 [−0.1, 0.8]')
        """
        if self.written is not None:
            return self.written.replace("-", "−")

        def one(value: float) -> str:
            return formats.signed(value, places) if signed else formats.decimal(value, places).replace("-", "−")

        if self.spread is not None:
            return f"{one(self.value)} ± {formats.decimal(self.spread, places)}"
        if self.low is not None and self.high is not None:
            return f"{one(self.value)} [{one(self.low)}, {one(self.high)}]"
        return one(self.value)

    @property
    def reach(self) -> tuple[float, float]:
        """Return how far it reaches down and up, for a drawing."""
        if self.low is not None and self.high is not None:
            return max(self.value - self.low, 0.0), max(self.high - self.value, 0.0)
        return self.spread or 0.0, self.spread or 0.0


def shown(quantity: Quantity | None, places: int, *, signed: bool = False) -> str:
    """Write a quantity as a table shows it, a dash where there is none.

    >>> shown(Quantity(0.5), 1, signed=True), shown(None, 1)
    ('+0.5', '–')
    """
    return formats.NOTHING if quantity is None else quantity.text(places, signed=signed)


def draw_quantities(
    axes: Any, places: Sequence[float | None], quantities: Sequence[Quantity | None], **style: Any
) -> None:
    """Draw the quantities that there are at their places on the horizontal axis, with bars as far as they reach."""
    points = [(x, quantity) for x, quantity in zip(places, quantities, strict=True) if quantity is not None]
    reach = [[quantity.reach[side] for _, quantity in points] for side in (0, 1)]
    axes.errorbar([x for x, _ in points], [quantity.value for _, quantity in points], yerr=reach, **style)


@dataclass(frozen=True)
class Table:
    """Rows of text under headings, with a title above and notes below; a heading may have two lines."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    notes: Sequence[str] = ()

    def as_text(self, *formats: str) -> str:
        """Write the table for a terminal; each column has a format as Python writes it: "<24", ">9".

        >>> print(Table(["", "error %"], [["ensemble", "8.10"]]).as_text("<12", ">9"))
                      error %
        ensemble         8.10
        """
        return "\n".join("".join(map(format, row, formats)).rstrip() for row in (self.headings, *self.rows))

    def as_markdown(self) -> str:
        """Write the table in Markdown, with even columns.

        >>> print(Table(["n", "error"], [["3", "5 %"]]).as_markdown())
        | n | error |
        | - | ----- |
        | 3 | 5 %   |
        """
        rows = [[cell.replace("|", "\\|") for cell in row] for row in (self._flat_headings(), *self.rows)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        rows.insert(1, ["-" * width for width in widths])
        lines = [f"| {' | '.join(map(str.ljust, row, widths))} |" for row in rows]
        return "\n\n".join([*([f"## {self.title}"] if self.title else []), "\n".join(lines), *self.notes])

    def as_latex(self) -> str:
        """Write the table for a document that loads booktabs; title and notes are comments above it."""
        needs = "Needs \\usepackage{booktabs}; a dash: not measured or not given."
        stacked = ("\\\\".join(map(_escaped, heading.split("\n"))) for heading in self.headings)
        heads = [f"\\shortstack{{{text}}}" if "\\\\" in text else text for text in stacked]
        lines = [f"% {line}" for line in (self.title, *self.notes, needs) if line]
        lines += [f"\\begin{{tabular}}{{l{'c' * (len(heads) - 1)}}}", "\\toprule", f"{' & '.join(heads)} \\\\"]
        lines += ["\\midrule", *(f"{' & '.join(map(_escaped, row))} \\\\" for row in self.rows)]
        return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"])

    def as_csv(self) -> str:
        """Write the headings and the rows, without title and notes.

        >>> Table(["n", "error"], [["3", "5,2"]]).as_csv()
        'n,error\\n3,"5,2"\\n'
        """
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([self._flat_headings(), *self.rows])
        return text.getvalue()

    def _flat_headings(self) -> list[str]:
        return [heading.replace("\n", ": ") for heading in self.headings]


def _escaped(text: str) -> str:
    """Escape text for LaTeX."""
    text = text.replace("\\", "\\textbackslash ")
    text = re.sub(r"([&%$#_{}])", r"\\\1", text).replace("~", "\\textasciitilde ").replace("^", "\\textasciicircum ")
    for sign, command in LATEX.items():
        text = text.replace(sign, command)
    return text
