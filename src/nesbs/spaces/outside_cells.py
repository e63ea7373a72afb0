"""Cells that the DARTS network takes and the DARTS space does not hold: they are trained, not searched.

Genotypes with any number of nodes, an input used twice, operations of their own or nodes that stay inside
(NASNet, AmoebaNet, PNAS, ENAS, SETN), and RobNet's, in which every cell of the network is another one:

    normal=[('sep_conv_5x5', 1), …] normal_concat=[2, 3, …] reduce=[…] reduce_concat=[…]
    robnet=['1110…', …]    a cell a text, two bits an edge, node by node
"""

import ast
import operator
import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from nesbs.errors import NesbsError, did_you_mean
from nesbs.spaces.architecture import Architecture, Cell, live
from nesbs.spaces.operations import OPERATIONS

KINDS = ("normal", "reduce")
ROBNET = {"00": "none", "01": "sep_conv_3x3", "10": "skip_connect", "11": "res_sep_3x3"}
ROBNET_NODES = 4
AGAIN = "_again"


@dataclass(frozen=True)
class OutsideArchitecture(Architecture):
    """An architecture outside the space: `outputs` are the states that leave each cell, `kinds` the cells' names.

    `affine` says whether BatchNorm inside its cells has weights of its own.
    """

    outputs: tuple[tuple[int, ...], ...] = field(default=(), compare=False, repr=False)
    kinds: tuple[str, ...] = field(default=KINDS, compare=False, repr=False)
    affine: bool = field(default=True, compare=False, repr=False)

    @property
    def live(self) -> tuple[Cell, ...]:
        """The cells without the edges that carry nothing to an output."""
        return tuple(live(cell, 2, out) for cell, out in zip(self.cells, self.outputs, strict=True))


def is_outside_text(text: str) -> bool:
    """Whether a text has one of the two forms read here."""
    return re.search(r"\b(robnet|normal_concat|reduce_concat)\s*=", text) is not None


def parse_outside(text: str) -> OutsideArchitecture:
    """Read either form.

    >>> cell = [("sep_conv_7x7", 0), ("sep_conv_7x7", 0)]
    >>> parse_outside(f"normal={cell} normal_concat=[2] reduce={cell} reduce_concat=[2]").outputs
    ((2,), (2,))
    """
    return _robnet(text) if re.search(r"\brobnet\s*=", text) else _genotype(text)


def read_edges(text: str, kind: str) -> list[tuple[str, int]]:
    """The list of (operation, input) of one kind of cell."""
    written, entries = _read_list(text, kind, "('operation', input), …")
    try:
        return [(str(op), operator.index(source)) for op, source in entries]
    except (ValueError, TypeError):
        raise NesbsError(f"the {kind} cell is not a list of ('operation', input): {written}") from None


def _read_list(text: str, name: str, what: str) -> tuple[str, list[Any]]:
    """The list `name=[…]` in a text, as written and as data, read without trusting it."""
    match = re.search(rf"\b{name}\s*=\s*(\[[^\]]*\]|range\((\d\d?), ?(\d\d?)\))", text)
    if match is None:
        raise NesbsError(f"no list {name}=[{what}] in {text!r}")
    if match[2] is not None:  # as searches print it
        return match[1], list(range(int(match[2]), int(match[3])))
    try:
        return match[1], list(ast.literal_eval(match[1]))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        raise NesbsError(f"{name} is not a list of {what.split(', …')[0]}: {match[1]}") from None


@lru_cache(maxsize=1024)
def distinguish_repeats(cell: Cell) -> Cell:
    """A cell in which an operation that a node applies twice to one input has two names, since it has two weights.

    >>> distinguish_repeats(((("sep_conv_3x3", 1), ("sep_conv_3x3", 1)),))
    ((('sep_conv_3x3', 1), ('sep_conv_3x3_again', 1)),)
    """
    return tuple(
        tuple((op + AGAIN if (op, source) in node[:place] else op, source) for place, (op, source) in enumerate(node))
        for node in cell
    )


def _genotype(text: str) -> OutsideArchitecture:
    cells = [_cell(kind, read_edges(text, kind)) for kind in KINDS]
    outputs = []
    for kind, cell in zip(KINDS, cells, strict=True):
        written, out = _read_list(text, f"{kind}_concat", "2, …")
        if not out or not all(state in range(2, 2 + len(cell)) for state in out) or len(set(out)) < len(out):
            raise NesbsError(f"{kind}_concat must name nodes from 2 to {1 + len(cell)}, each once; found {written}")
        outputs.append(tuple(sorted(int(state) for state in out)))
    text = " ".join(
        f"{kind}={[edge for node in cell for edge in node]} {kind}_concat={list(out)}"
        for kind, cell, out in zip(KINDS, cells, outputs, strict=True)
    )
    return OutsideArchitecture(text, tuple(cells), outputs=tuple(outputs))


def _cell(kind: str, edges: list[tuple[str, int]]) -> Cell:
    """Two entries a node; a node takes any of the states before it, also one of them twice."""
    if not edges or len(edges) % 2:
        raise NesbsError(f"the {kind} cell must have two entries a node, found {len(edges)} in all")
    nodes = [tuple(edges[place : place + 2]) for place in range(0, len(edges), 2)]
    for target, node in enumerate(nodes, start=2):
        for op, source in node:
            if op not in OPERATIONS:
                raise NesbsError(f"unknown operation {op} in the {kind} cell: {did_you_mean(op, OPERATIONS)}")
            if not 0 <= source < target:
                raise NesbsError(f"{kind} node {target} must take inputs below {target}, found {source}")
    return tuple(nodes)


def _robnet(text: str) -> OutsideArchitecture:
    _, codes = _read_list(text, "robnet", "'bits', …")
    if len(codes) < 3:
        raise NesbsError(f"robnet needs 3 cells or more, one for each place in the network; found {len(codes)}")
    edges = sum(range(2, 2 + ROBNET_NODES))
    cells: list[Cell] = []
    for number, code in enumerate(codes, start=1):
        if not re.fullmatch(rf"[01]{{{2 * edges}}}", str(code)):
            raise NesbsError(f"cell {number} of robnet must be {2 * edges} bits, two for each of {edges} edges")
        operations = iter(ROBNET[bits] for bits in re.findall("..", str(code)))
        cells.append(
            tuple(
                tuple((next(operations), source) for source in range(target)) for target in range(2, 2 + ROBNET_NODES)
            )
        )
    outputs = (tuple(range(2, 2 + ROBNET_NODES)),) * len(cells)
    architecture = OutsideArchitecture(
        f"robnet={[str(code) for code in codes]}",
        tuple(cells),
        outputs=outputs,
        kinds=tuple(f"cell {number}" for number in range(1, len(cells) + 1)),
        affine=False,
    )
    for number, cell in enumerate(architecture.live, start=1):
        if not all(cell):
            raise NesbsError(f"nothing arrives at a node of cell {number} of robnet")
    return architecture
