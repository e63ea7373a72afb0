"""Spaces in which every node picks two distinct inputs and an operation on each: the DARTS shape.

A normal and a reduction cell; a cell's inputs are the outputs of the two cells before it, its output is
the concatenation of its nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor, nn

from nesbs.errors import NesbsError, did_you_mean
from nesbs.spaces.architecture import Architecture, Cell, Variable, live
from nesbs.spaces.free import AGAIN, KINDS, FreeArchitecture, is_free, parse_free, read_edges, told_apart
from nesbs.spaces.network import Member, PathNetwork, Stem
from nesbs.spaces.operations import Norm, Partial, member_norm, operation
from nesbs.spaces.pair_network import Design, PairNetwork, Plan
from nesbs.spaces.space import Space


class PairSpace(Space):
    """Two cells of `nodes` intermediate nodes; each takes two distinct earlier states, one operation on each.

    Variables, cell by cell: for each node the pair of inputs (where there is more than one pair), and for
    each edge its operation, given that the pair holds the edge.
    """

    def __init__(
        self,
        name: str,
        nodes: int,
        operations: tuple[str, ...],
        member_size: tuple[int, int],
        supernet_size: tuple[int, int],
    ) -> None:
        self.name = name
        self.kinds = KINDS
        self.inputs = 2
        self.nodes = nodes
        self.operations = operations
        self.member_size = member_size
        self.supernet_size = supernet_size
        self.edges = [(target, source) for target in range(2, 2 + nodes) for source in range(target)]
        variables: list[Variable] = []
        self._pair: dict[tuple[str, int], int] = {}  # (kind, node) → its pair variable
        self._operation: dict[tuple[str, int, int], int] = {}  # (kind, node, source) → its operation variable
        for kind in KINDS:
            for target in range(2, 2 + nodes):
                pairs = self.pairs(target)
                if len(pairs) > 1:
                    self._pair[kind, target] = len(variables)
                    choices = tuple(f"{first}+{second}" for first, second in pairs)
                    variables.append(Variable(f"{kind} inputs of {target}", choices))
                for source in range(target):
                    holding = tuple(i for i, pair in enumerate(pairs) if source in pair)
                    given = (self._pair[kind, target], holding) if len(pairs) > 1 else None
                    self._operation[kind, target, source] = len(variables)
                    variables.append(Variable(f"{kind} {source}→{target}", operations, given))
        self.variables = tuple(variables)

    @staticmethod
    def pairs(target: int) -> list[tuple[int, int]]:
        """The pairs of inputs a node can take."""
        return list(combinations(range(target), 2))

    def architecture(self, indices: Sequence[int]) -> Architecture:
        """The architecture that pairs and operations make; operations on edges no pair holds are dropped."""
        cells = []
        for kind in KINDS:
            nodes = []
            for target in range(2, 2 + self.nodes):
                pick = indices[self._pair[kind, target]] if (kind, target) in self._pair else 0
                pair = self.pairs(target)[pick]
                nodes.append(tuple((self.operations[indices[self._operation[kind, target, s]]], s) for s in pair))
            cells.append(tuple(nodes))
        text = " ".join(
            f"{kind}={[edge for node in cell for edge in node]}" for kind, cell in zip(KINDS, cells, strict=True)
        )
        return Architecture(text, tuple(cells))

    def encode(self, architecture: Architecture) -> tuple[int, ...]:
        """The pair and the operations of every node, −1 for operations on other edges."""
        indices = [-1] * len(self.variables)
        for kind, cell in zip(KINDS, architecture.cells, strict=True):
            for target, node in enumerate(cell, start=2):
                if (kind, target) in self._pair:
                    pair = (node[0][1], node[1][1])
                    indices[self._pair[kind, target]] = self.pairs(target).index(pair)
                for op, source in node:
                    indices[self._operation[kind, target, source]] = self.operations.index(op)
        return tuple(indices)

    def parse(self, text: str) -> Architecture:
        """Read genotype lists: `normal=[('sep_conv_3x3', 0), …] reduce=[…]`; a node's two inputs in any order."""
        indices = [0] * len(self.variables)
        for kind in KINDS:
            for target, node in enumerate(self._nodes(kind, text), start=2):
                sources = tuple(sorted(source for _, source in node))
                if sources not in self.pairs(target):
                    raise NesbsError(
                        f"{kind} node {target} must take two distinct inputs below {target}, found "
                        f"{' and '.join(str(source) for _, source in node)}"
                    )
                if (kind, target) in self._pair:
                    indices[self._pair[kind, target]] = self.pairs(target).index(sources)
                for op, source in node:
                    if op not in self.operations:
                        raise NesbsError(
                            f"unknown operation {op} in the {kind} cell: {did_you_mean(op, self.operations)}"
                        )
                    indices[self._operation[kind, target, source]] = self.operations.index(op)
        return self.architecture(indices)

    def _nodes(self, kind: str, text: str) -> list[list[tuple[str, int]]]:
        """The (operation, input) pairs of each node of one cell, read from text without trusting it."""
        edges = read_edges(text, kind)
        if len(edges) != 2 * self.nodes:
            raise NesbsError(
                f"the {kind} cell of space {self.name} has {2 * self.nodes} entries, two a node; found {len(edges)}"
            )
        return [edges[i : i + 2] for i in range(0, len(edges), 2)]

    def live(self, architecture: Architecture) -> tuple[Cell, ...]:
        """The cells without the edges that carry nothing (with `none` among the operations)."""
        return tuple(live(cell, 2) for cell in architecture.cells)

    def paths(self, architecture: Architecture) -> tuple[Cell, ...]:
        """What the network runs: the live cells."""
        return self.live(architecture)

    def leaving(self, architecture: Architecture) -> tuple[tuple[int, ...], ...]:
        """All nodes leave a cell."""
        return tuple(tuple(range(2, 2 + len(cell))) for cell in architecture.cells)

    def gates(self, weights: Tensor) -> Tensor:
        """An edge's weight is that of the pairs that hold it, times its operation's: (2, edges, operations)."""
        kinds = []
        for kind in KINDS:
            rows = []
            for target, source in self.edges:
                row = weights[self._operation[kind, target, source], : len(self.operations)]
                if (kind, target) in self._pair:
                    holding = [i for i, pair in enumerate(self.pairs(target)) if source in pair]
                    row = row * weights[self._pair[kind, target], holding].sum()
                rows.append(row)
            kinds.append(torch.stack(rows))
        return torch.stack(kinds)

    def supernet(
        self, *, classes: int, in_channels: int, channels: int, cells: int, affine: bool, partial: int = 1
    ) -> PathNetwork:
        """Every operation on every edge; pooling is normalised too, as in the DARTS search network."""
        if channels % partial:
            raise NesbsError(f"supernet.channels must be a multiple of supernet.partial ({partial}), found {channels}")

        def norm(width: int) -> nn.Module:
            return nn.BatchNorm2d(width, affine=affine, track_running_stats=False)

        def build(op: str, width: int, stride: int) -> nn.Module:
            part = width // partial
            module = operation(op, part, stride, norm)
            if "pool" in op:
                module = nn.Sequential(module, norm(part))
            return module if partial == 1 else Partial(module, partial, stride)

        nodes = tuple(range(2, 2 + self.nodes))
        plan = Plan(dict.fromkeys(self.edges, self.operations), 2 * self.nodes, nodes)
        return PairNetwork(self, [plan, plan], build, norm, Design(classes, in_channels, channels, cells))

    def network(
        self,
        architecture: Architecture,
        *,
        classes: int = 10,
        in_channels: int = 3,
        channels: int | None = None,
        cells: int | None = None,
        stem: Stem = "cifar",
        auxiliary: bool = False,
    ) -> Member:
        """The evaluation network of one architecture."""
        cells, channels = cells or self.member_size[0], channels or self.member_size[1]
        design = Design(classes, in_channels, channels, cells, stem, auxiliary)
        plans = [_plan(*kind) for kind in zip(self.paths(architecture), self.leaving(architecture), strict=True)]
        norm = self.cell_norm(architecture)

        def build(op: str, width: int, stride: int) -> nn.Module:
            return operation(op.removesuffix(AGAIN), width, stride, norm)

        return Member(PairNetwork(self, plans, build, member_norm, design, cell_norm=norm), architecture)

    def cell_norm(self, architecture: Architecture) -> Norm:
        """BatchNorm inside a member's cells."""
        return member_norm

    def check_images(self, height: int, width: int, stem: Stem = "cifar") -> None:
        """Sides are multiples of 4; behind the ImageNet stem, which takes an eighth of them, of 32."""
        super().check_images(height, width, stem)
        if stem == "imagenet" and (height % 32 or width % 32):
            raise NesbsError(
                f"members.stem=imagenet takes images whose sides are multiples of 32, found {height}×{width}: "
                "set data.size=224, or members.stem=cifar for small images"
            )


def _plan(cell: Cell, outputs: tuple[int, ...]) -> Plan:
    """A member's cell: one operation on each of its edges."""
    edges: dict[tuple[int, int], tuple[str, ...]] = {}
    for target, node in enumerate(cell, start=2):
        for op, source in node:
            edges[target, source] = (*edges.get((target, source), ()), op)
    return Plan(edges, sum(map(len, cell)), outputs)


class DartsSpace(PairSpace):
    """The DARTS space, whose networks also take published cells from outside it (`FreeArchitecture`)."""

    def parse(self, text: str) -> Architecture:
        """Read genotype lists as `PairSpace` does; with `normal_concat` or as `robnet` they may lie outside."""
        if not is_free(text):
            return super().parse(text)
        free = parse_free(text)
        return super().parse(text) if self._inside(free) else free

    def _inside(self, free: FreeArchitecture) -> bool:
        return (
            free.kinds == self.kinds
            and free.outputs == super().leaving(free)
            and all(len(cell) == self.nodes for cell in free.cells)
            and all(node[0][1] != node[1][1] for cell in free.cells for node in cell)
            and all(op in self.operations for cell in free.cells for node in cell for op, _ in node)
        )

    def encode(self, architecture: Architecture) -> tuple[int, ...]:
        """As `PairSpace` does; a cell from outside is refused."""
        if isinstance(architecture, FreeArchitecture):
            raise NesbsError(f"this cell lies outside space {self.name}: it can be trained, not searched")
        return super().encode(architecture)

    def live(self, architecture: Architecture) -> tuple[Cell, ...]:
        """The cells without the edges that carry nothing."""
        return architecture.live if isinstance(architecture, FreeArchitecture) else super().live(architecture)

    def paths(self, architecture: Architecture) -> tuple[Cell, ...]:
        """The live cells, with two names for an operation that a node applies twice to one input."""
        live = self.live(architecture)
        return tuple(map(told_apart, live)) if isinstance(architecture, FreeArchitecture) else live

    def kinds_of(self, architecture: Architecture) -> tuple[str, ...]:
        """What its cells are called."""
        return architecture.kinds if isinstance(architecture, FreeArchitecture) else self.kinds

    def leaving(self, architecture: Architecture) -> tuple[tuple[int, ...], ...]:
        """The states that leave each cell."""
        return architecture.outputs if isinstance(architecture, FreeArchitecture) else super().leaving(architecture)

    def cell_norm(self, architecture: Architecture) -> Norm:
        """BatchNorm inside a member's cells; RobNet's has no weights."""
        affine = not isinstance(architecture, FreeArchitecture) or architecture.affine
        return member_norm if affine else lambda channels: nn.BatchNorm2d(channels, affine=False)


def darts() -> DartsSpace:
    """The DARTS space: two cells of four nodes, seven operations, about 10^18 architectures.

    >>> f"{len(darts()):.2e}"
    '1.08e+18'
    """
    operations = (
        "max_pool_3x3",
        "avg_pool_3x3",
        "skip_connect",
        "sep_conv_3x3",
        "sep_conv_5x5",
        "dil_conv_3x3",
        "dil_conv_5x5",
    )
    # Members as DARTS evaluates them, the supernet as the paper searches (app. B.1).
    return DartsSpace("darts", 4, operations, member_size=(20, 36), supernet_size=(8, 16))


def toy_pairs() -> PairSpace:
    """The DARTS shape with two nodes and two operations: 2,304 architectures, small enough to enumerate.

    >>> len(toy_pairs())
    2304
    """
    return PairSpace("toy-pairs", 2, ("skip_connect", "sep_conv_3x3"), member_size=(3, 4), supernet_size=(3, 4))
