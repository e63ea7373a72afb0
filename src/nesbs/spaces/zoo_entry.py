"""A published architecture: where it stands, what it is, and what was checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nesbs.spaces.architecture import Architecture
from nesbs.spaces.darts import darts
from nesbs.spaces.nasbench201 import nasbench201

SPACES = {"darts": darts, "nasbench201": nasbench201}


@dataclass(frozen=True)
class Entry:
    """A published architecture: its name, where it was published, its size, its text in its space.

    `size` is the number of parameters in millions of the evaluation network with 10 classes (DARTS: 20 cells, 36
    channels, no auxiliary tower), `published` the size that its authors print where ours rounds to it; `note` says
    what differs and why where it does not.
    """

    name: str
    source: str
    size: float
    text: str
    space: str = "darts"  # whose networks it is trained in; the cells of some lie outside the space itself
    published: float | None = None
    note: str = ""

    @property
    def architecture(self) -> Architecture:
        """The entry as an architecture."""
        return SPACES[self.space]().parse(self.text)

    @property
    def checked(self) -> str:
        """What its size was held against."""
        return self.note if self.published is None else f"published as {self.published}"


def genotype(normal: str, reduce: str, outputs: tuple[Sequence[int], Sequence[int]] | None = None) -> str:
    """The text of two cells, each `operation~input` for every edge, two a node; inputs 0 and 1 are cells before.

    `outputs` are the nodes that leave each cell, all four by default.

    >>> genotype("skip_connect~0 sep_conv_3x3~1", "skip_connect~0 skip_connect~0", ([2], [2]))[:62]
    "normal=[('skip_connect', 0), ('sep_conv_3x3', 1)] normal_conca"
    """
    parts = []
    for kind, cell, out in zip(("normal", "reduce"), (normal, reduce), outputs or (None, None), strict=True):
        edges = [(op, int(source)) for op, source in (edge.split("~") for edge in cell.split())]
        parts.append(f"{kind}={edges}" + ("" if out is None else f" {kind}_concat={list(out)}"))
    return " ".join(parts)


def robnet(codes: str) -> str:
    """The text of RobNet's cells from their codes, a space between two.

    >>> robnet("11 01")
    "robnet=['11', '01']"
    """
    return f"robnet={codes.split()}"
