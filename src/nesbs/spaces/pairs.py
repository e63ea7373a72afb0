"""Spaces in which every node picks two distinct inputs and an operation on each (the DARTS shape), and their network.

A normal and a reduction cell; a cell's inputs are the outputs of the two cells before it, its output is the
concatenation of its nodes. The network is DARTS's: stem, cells in a row, global pooling, head. Reduction cells stand
at one and two thirds of the depth. Small images have a stem of 3C channels that keeps their size; the ImageNet stem
takes an eighth of it. The auxiliary tower is a second head, used in training alone, on the output of the second
reduction cell.
"""

from collections.abc import Callable, Sequence
from itertools import combinations

import torch
from torch import Tensor, nn

from nesbs.errors import NesbsError, did_you_mean
from nesbs.spaces.architecture import Architecture, Cell, Variable, expect_text, live
from nesbs.spaces.choice_cell import Opened
from nesbs.spaces.convolution import Convolution
from nesbs.spaces.operations import Norm, Normalise, Partial, check_parts, member_norm, operation, supernet_norm
from nesbs.spaces.outside_cells import AGAIN, KINDS, read_edges
from nesbs.spaces.pair_blocks import AuxiliaryTower, CellPlan, Design, ImageNetStem, PairCell
from nesbs.spaces.shared_state import SharedState, join_states
from nesbs.spaces.space import Member, PathNetwork, Space, Stem, check_network, check_space


class PairSpace(Space):
    """Two cells of `nodes` intermediate nodes; each takes two distinct earlier states, one operation on each.

    Variables, cell by cell: for each node the pair of inputs (where there is more than one pair), and for
    each edge its operation, on condition that the pair holds the edge.
    """

    def __init__(
        self,
        name: str,
        nodes: int,
        operations: tuple[str, ...],
        member_size: tuple[int, int],
        supernet_size: tuple[int, int],
    ) -> None:
        check_space(name, operations, nodes=nodes, least=1)
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
                    condition = (self._pair[kind, target], holding) if len(pairs) > 1 else None
                    self._operation[kind, target, source] = len(variables)
                    variables.append(Variable(f"{kind} {source}→{target}", operations, condition))
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
            for target, node in zip(range(2, 2 + self.nodes), cell, strict=True):
                pair = self.pairs(target).index(tuple(source for _, source in node))  # type: ignore[arg-type]
                if (kind, target) in self._pair:
                    indices[self._pair[kind, target]] = pair
                for op, source in node:
                    indices[self._operation[kind, target, source]] = self.operations.index(op)
        return tuple(indices)

    def parse(self, text: str) -> Architecture:
        """Read genotype lists: `normal=[('sep_conv_3x3', 0), …] reduce=[…]`; a node's two inputs in any order."""
        expect_text(text)
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

    def output_states(self, architecture: Architecture) -> tuple[tuple[int, ...], ...]:
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
        check_parts(channels, partial)
        norm = supernet_norm(affine=affine)

        def build(op: str, width: int, stride: int) -> nn.Module:
            part = width // partial
            module = operation(op, part, stride, norm)
            if "pool" in op:
                module = nn.Sequential(module, norm(part))
            return module if partial == 1 else Partial(module, partial, stride)

        nodes = tuple(range(2, 2 + self.nodes))
        plan = CellPlan(dict.fromkeys(self.edges, self.operations), 2 * self.nodes, nodes)
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
        self.check_member(architecture)
        check_network(stem=stem, classes=classes, in_channels=in_channels, channels=channels, cells=cells)
        cells, channels = cells or self.member_size[0], channels or self.member_size[1]
        design = Design(classes, in_channels, channels, cells, stem, auxiliary)
        plans = [_plan(*kind) for kind in zip(self.paths(architecture), self.output_states(architecture), strict=True)]
        norm = self.cell_norm(architecture)

        def build(op: str, width: int, stride: int) -> nn.Module:
            return operation(op.removesuffix(AGAIN), width, stride, norm)

        return Member(PairNetwork(self, plans, build, member_norm, design, cell_norm=norm), architecture)

    def check_member(self, architecture: Architecture) -> None:
        """Raise where an architecture cannot be trained: those of the space can."""
        self.check(architecture)

    def cell_norm(self, architecture: Architecture) -> Norm:
        """BatchNorm inside a member's cells."""
        return member_norm

    def check_images(self, height: int, width: int, stem: Stem = "cifar") -> None:
        """Sides are multiples of 4; behind the ImageNet stem, which leaves an eighth, of 32, and at least 64."""
        super().check_images(height, width, stem)
        if stem == "imagenet" and (height % 32 or width % 32 or min(height, width) < 64):
            raise NesbsError(
                "members.stem=imagenet takes images whose sides are multiples of 32 and at least 64, found "
                f"{height}×{width}: set data.size=224, or members.stem=cifar for small images"
            )


def _plan(cell: Cell, outputs: tuple[int, ...]) -> CellPlan:
    """A member's cell: one operation on each of its edges."""
    edges: dict[tuple[int, int], tuple[str, ...]] = {}
    for target, node in enumerate(cell, start=2):
        for op, source in node:
            edges[target, source] = (*edges.get((target, source), ()), op)
    return CellPlan(edges, sum(map(len, cell)), outputs)


class PairNetwork(PathNetwork):
    """Stem, cells in a row, global pooling, head; perhaps an auxiliary tower."""

    space: PairSpace

    def __init__(
        self,
        space: PairSpace,
        plans: Sequence[CellPlan],
        build: Callable[[str, int, int], nn.Module],
        norm: Norm,
        design: Design,
        *,
        cell_norm: Norm | None = None,
    ) -> None:
        """`plans` are the normal and the reduction cell's, or one for every cell of the network."""
        super().__init__()
        cells, channels = design.cells, design.channels
        if cells < 3:  # the first two would both be reduction cells
            raise NesbsError(
                f"a network of space {space.name} needs 3 cells or more (one normal, two reductions), found {cells}: "
                "raise members.cells or supernet.cells"
            )
        if len(plans) not in (len(space.kinds), cells):
            raise NesbsError(f"the network has {len(plans)} different cells: set members.cells={len(plans)}")
        self.space = space
        self.channels = channels
        self.drop_paths = (cells, max(plan.edges_taken for plan in plans))
        self.normalise = Normalise(design.in_channels)
        if design.stem == "imagenet":
            before_last = last = channels
            self.stem: nn.Module = ImageNetStem(design.in_channels, channels, norm)
        else:
            before_last = last = 3 * channels  # DARTS's stem multiplier
            self.stem = nn.Sequential(Convolution(design.in_channels, last, 3, padding=1, bias=False), norm(last))
        width, after_reduction = channels, design.stem == "imagenet"
        self.cells = nn.ModuleList()
        self.tower_after = 2 * cells // 3
        for position in range(cells):
            reduces = position in (cells // 3, 2 * cells // 3)
            width = 2 * width if reduces else width
            kind = int(reduces) if len(plans) == len(space.kinds) else position
            widths = (before_last, last, width)
            self.cells.append(PairCell(plans[kind], kind, build, widths, reduces, after_reduction, cell_norm or norm))
            before_last, last, after_reduction = last, len(plans[kind].outputs) * width, reduces
        self.head = nn.Linear(last, design.classes)
        self.auxiliary: nn.Module | None = None
        if design.auxiliary:
            reduction = self.cells[self.tower_after]
            assert isinstance(reduction, PairCell)
            leaving = len(reduction.outputs) * width  # the last cells are as wide as the second reduction cell
            self.auxiliary = AuxiliaryTower(leaving, design.classes, norm, last_norm=design.stem == "cifar")

    def outputs(
        self, images: Tensor, architecture: Architecture, *, drop: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Run one path; the logits, and the auxiliary tower's where there is one."""
        paths = self.space.paths(architecture)

        def output(position: int, cell: PairCell, before_last: Tensor, last: Tensor) -> Tensor:
            return cell.output(before_last, last, paths[cell.kind], None if drop is None else drop[position])

        return self._run(images, output)

    def classify(self, state: Tensor) -> Tensor:
        """Global pooling, the linear head."""
        logits: Tensor = self.head(state.mean((2, 3)))
        return logits

    def last_states(self, images: Tensor, architectures: Sequence[Architecture]) -> SharedState:
        """Run many paths at once."""
        live = [self.space.live(architecture) for architecture in architectures]
        stem = self.stem(self.normalise(images))
        states = stem if isinstance(stem, tuple) else (stem, stem)
        before_last, last = (SharedState.same(state, len(live)) for state in states)
        for cell in self.cells:
            assert isinstance(cell, PairCell)
            cells = [both[cell.kind] for both in live]
            nodes = cell.paths([before_last.apply(cell.first), last.apply(cell.second)], cells)[2:]
            arriving = [
                [(place, node.values, row) for place, node in enumerate(nodes) if (row := node.rows[i]) is not None]
                for i in range(len(live))
            ]
            values, rows = join_states(arriving, lambda parts: torch.cat(parts, 2))
            assert values is not None
            before_last, last = last, SharedState(values, rows)
        return last

    def mixture_of_open(self, images: Tensor, gates: Tensor) -> Tensor:
        """Run all paths, weighted, without gradients through what has no weight."""
        return self.mixture(images, gates.to(images.device), (gates != 0).tolist())

    def mixture(self, images: Tensor, gates: Tensor, opened: Sequence[Opened] | None = None) -> Tensor:
        """Run all paths, weighted; `opened`: which gates of every kind of cell are not 0, by default all."""
        operations = self.space.operations

        def output(_: int, cell: PairCell, before_last: Tensor, last: Tensor) -> Tensor:
            inputs, own = [cell.first(before_last), cell.second(last)], None if opened is None else opened[cell.kind]
            return cell.side_by_side(cell.mixture(inputs, gates[cell.kind], operations, own))

        return self._run(images, output)[0]

    def _run(
        self, images: Tensor, output: Callable[[int, PairCell, Tensor, Tensor], Tensor]
    ) -> tuple[Tensor, Tensor | None]:
        stem = self.stem(self.normalise(images))
        before_last, last = stem if isinstance(stem, tuple) else (stem, stem)
        auxiliary: Tensor | None = None
        for position, cell in enumerate(self.cells):
            assert isinstance(cell, PairCell)
            before_last, last = last, output(position, cell, before_last, last)
            if position == self.tower_after and self.auxiliary is not None and self.training:
                auxiliary = self.auxiliary(last)
        return self.classify(last), auxiliary
