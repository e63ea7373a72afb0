"""An architecture as plain data, the decisions that make one up, and which of its edges carry anything."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations

from nesbs.errors import NesbsError, expect

ARCHITECTURE = "architecture must be an Architecture, which space.parse makes of a text"  # where it is none
LONGEST_TEXT = 4000  # characters: the longest published one has 647
Node = tuple[tuple[str, int], ...]  # (operation, source) of every edge that ends in the node
Cell = tuple[Node, ...]  # intermediate nodes in order; sources count the cell's inputs first


@dataclass(frozen=True)
class Architecture:
    """One point of a search space: its canonical text, and the same as `cells` of nodes of (operation, source).

    `str(architecture)` is the text; `space.parse` reads it back. Two architectures are equal when their
    texts are.
    """

    text: str
    cells: tuple[Cell, ...] = field(compare=False, repr=False)

    def __str__(self) -> str:
        return self.text


def expect_text(text: object) -> None:
    """Raise unless `text` may be that of an architecture: a string that is not too long to be one."""
    expect(text, str, "parse takes the text of an architecture")
    if len(text) > LONGEST_TEXT:  # type: ignore[arg-type]
        raise NesbsError(f"the text of an architecture has at most {LONGEST_TEXT:,} characters")


@dataclass(frozen=True)
class Variable:
    """One decision of a space: a name and its choices.

    `condition` says when the decision matters: None always, else (index of an earlier variable, those of its
    choices under which this one plays a part). A node that picks two of its possible inputs is a variable
    over pairs; the operation on an edge then matters on condition that the pair holds the edge.
    """

    name: str
    choices: tuple[str, ...]
    condition: tuple[int, tuple[int, ...]] | None = None


@lru_cache(maxsize=65536)
def live(cell: Cell, inputs: int, outputs: tuple[int, ...] | None = None) -> Cell:
    """The part of a cell on a path from its inputs to its outputs: `none` passes nothing on.

    `outputs` are the states that leave the cell, by default all intermediate nodes. Nodes stay in place;
    dead edges are taken out.

    >>> live(((("conv", 0),), (("none", 0), ("conv", 1)), (("conv", 0), ("none", 1), ("none", 2))), 1, (3,))
    ((), (), (('conv', 0),))
    """
    fed = set(range(inputs))
    nodes: list[Node] = []
    for state, node in enumerate(cell, start=inputs):
        nodes.append(tuple((op, source) for op, source in node if op != "none" and source in fed))
        if nodes[-1]:
            fed.add(state)
    wanted = set(range(inputs, inputs + len(cell)) if outputs is None else outputs)
    for state in range(inputs + len(cell) - 1, inputs - 1, -1):
        if state in wanted:
            wanted.update(source for _, source in nodes[state - inputs])
        else:
            nodes[state - inputs] = ()
    return tuple(nodes)


def duplicates(architectures: Iterable[Architecture]) -> int:
    """How many members of an ensemble are copies of an earlier one."""
    members = list(architectures)
    return len(members) - len(set(members))


def differing(architectures: Sequence[Architecture]) -> float:
    """The share of edges that one of two architectures has and the other has not: the mean over all pairs.

    An edge is its node, operation and source.

    One architecture alone has nothing to differ from: 1.

    >>> from nesbs.spaces import nasbench201
    >>> conv, pool = (nasbench201().parse(f"|{op}~0|+|none~0|none~1|+|none~0|none~1|none~2|") for op in (
    ...     "nor_conv_3x3", "avg_pool_3x3"))
    >>> round(differing([conv, pool]), 3), differing([conv, conv]), differing([conv])
    (0.167, 0.0, 1.0)
    """
    shares = []
    for one, other in combinations(map(_edges, architectures), 2):
        most = max(len(one), len(other))
        shares.append((most - len(one & other)) / most)
    return sum(shares) / len(shares) if shares else 1.0


@lru_cache(maxsize=65536)
def _edges(architecture: Architecture) -> frozenset[tuple[int, int, tuple[str, int]]]:
    """Every edge as its kind of cell, its node, and its operation and source."""
    return frozenset(
        (kind, target, edge)
        for kind, cell in enumerate(architecture.cells)
        for target, node in enumerate(cell)
        for edge in node
    )
