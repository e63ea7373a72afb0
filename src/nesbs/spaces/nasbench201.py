"""Spaces that choose an operation on every edge of one cell; NAS-Bench-201 is the one with four nodes.

The network is the benchmark's: a 3×3 stem, three stages of cells with residual reductions between them,
BatchNorm, ReLU, global pooling and a linear head. One departure: an operation that nothing arrives at is
not run (in the benchmark's code it still adds its BatchNorm's offset).
"""

import itertools
import re
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nesbs.errors import NesbsError, did_you_mean
from nesbs.spaces.architecture import Architecture, Cell, Variable, expect_text, live
from nesbs.spaces.choice_cell import ChoiceCell, Edges, Opened
from nesbs.spaces.convolution import Convolution
from nesbs.spaces.operations import (
    Norm,
    Normalise,
    Partial,
    ReluConvNorm,
    check_parts,
    member_norm,
    operation,
    supernet_norm,
)
from nesbs.spaces.shared_state import SharedState
from nesbs.spaces.space import Member, PathNetwork, Space, Stem, check_network, check_space


class EdgeSpace(Space):
    """One cell of `nodes` nodes, an edge between every two, one of `operations` on each edge."""

    def __init__(self, name: str, nodes: int, operations: tuple[str, ...]) -> None:
        check_space(name, operations, nodes=nodes, least=2)
        self.name = name
        self.operations = operations
        self.kinds = ("cell",)
        self.inputs = 1
        self.nodes = nodes
        self.edges = [(target, source) for target in range(1, nodes) for source in range(target)]
        self.variables = tuple(Variable(f"{source}→{target}", operations) for target, source in self.edges)
        self.member_size = (5, 16)  # NAS-Bench-201
        self.supernet_size = (1, 16)  # shallow supernets rank, deep ones do not

    def architecture(self, indices: Sequence[int]) -> Architecture:
        """The architecture with operation `indices[e]` on edge e."""
        chosen = [(self.operations[i], source) for i, (_, source) in zip(indices, self.edges, strict=True)]
        cell = tuple(tuple(chosen[n * (n - 1) // 2 : n * (n + 1) // 2]) for n in range(1, self.nodes))
        text = "+".join(["|" + "".join([f"{op}~{source}|" for op, source in node]) for node in cell])
        return Architecture(text, (cell,))

    def encode(self, architecture: Architecture) -> tuple[int, ...]:
        """The index of the operation on each edge."""
        [cell] = architecture.cells
        edges = [(target, op, source) for target, node in enumerate(cell, start=1) for op, source in node]
        if [(target, source) for target, _, source in edges] != self.edges:
            raise ValueError("other edges")
        return tuple(self.operations.index(op) for _, op, _ in edges)

    def parse(self, text: str) -> Architecture:
        """Read the benchmark's own string, `|op~0|+|op~0|op~1|+…`."""
        expect_text(text)
        nodes = text.strip().split("+")
        if len(nodes) != self.nodes - 1:
            raise NesbsError(f"{text!r} has {len(nodes)} nodes joined by '+', space {self.name} needs {self.nodes - 1}")
        indices = []
        for target, node in enumerate(nodes, start=1):
            if not re.fullmatch(r"\|([^|~]+~\d+\|)+", node.strip()):
                raise NesbsError(f"{node!r} is not of the form |operation~source|… (in {text!r})")
            pairs = [part.split("~") for part in node.strip().strip("|").split("|")]
            if [int(source) for _, source in pairs] != list(range(target)):
                raise NesbsError(f"{node!r} must name the sources {', '.join(map(str, range(target)))} in order")
            for op, _ in pairs:
                if op not in self.operations:
                    raise NesbsError(f"unknown operation {op} in {text!r}: {did_you_mean(op, self.operations)}")
                indices.append(self.operations.index(op))
        return self.architecture(indices)

    def live(self, architecture: Architecture) -> tuple[Cell, ...]:
        """The cell without the edges that carry nothing to its last node."""
        return (live(architecture.cells[0], 1, (self.nodes - 1,)),)

    def gates(self, weights: Tensor) -> Tensor:
        """(edges, operations) of the one kind of cell."""
        return weights[None]

    def supernet(
        self, *, classes: int, in_channels: int, channels: int, cells: int, affine: bool, partial: int = 1
    ) -> PathNetwork:
        """Every operation on every edge; with partial channels nothing passes by `none`, which is no edge."""
        check_parts(channels, partial)
        edges, norm = dict.fromkeys(self.edges, self.operations), supernet_norm(affine=affine)
        return EdgeNetwork(self, edges, classes, in_channels, channels, cells, norm, partial)

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
        """The benchmark's network of one architecture (16 channels and 5 cells a stage by default)."""
        self.check(architecture)
        check_network(stem=stem, classes=classes, in_channels=in_channels, channels=channels, cells=cells)
        if stem != "cifar" or auxiliary:
            raise NesbsError(
                f"space {self.name} has no ImageNet stem and no auxiliary tower: set members.stem=cifar, "
                "members.auxiliary=0"
            )
        edges = {
            (target, source): (op,) for target, node in enumerate(architecture.cells[0], start=1) for op, source in node
        }
        cells, channels = cells or self.member_size[0], channels or self.member_size[1]
        return Member(EdgeNetwork(self, edges, classes, in_channels, channels, cells, member_norm), architecture)


class EdgeNetwork(PathNetwork):
    """Stem, three stages of `cells` cells, residual reductions between them, head."""

    space: EdgeSpace

    def __init__(
        self,
        space: EdgeSpace,
        edges: Edges,
        classes: int,
        in_channels: int,
        channels: int,
        cells: int,
        norm: Norm,
        partial: int = 1,
    ) -> None:
        super().__init__()
        self.space = space
        self.channels = channels
        self.drop_paths = (3 * cells, len(space.edges))
        self.normalise = Normalise(in_channels)
        self.stem = nn.Sequential(Convolution(in_channels, channels, 3, padding=1, bias=False), norm(channels))
        widths = [channels, 2 * channels, 4 * channels]
        self.stages = nn.ModuleList(
            nn.ModuleList(ChoiceCell(edges, _build(width, norm, partial)) for _ in range(cells)) for width in widths
        )
        self.reductions = nn.ModuleList(Reduction(width, 2 * width, norm) for width in widths[:-1])
        self.last = nn.Sequential(norm(widths[-1]), nn.ReLU())
        self.head = nn.Linear(widths[-1], classes)

    def outputs(self, images: Tensor, architecture: Architecture, *, drop: Tensor | None = None) -> tuple[Tensor, None]:
        """Run one path."""
        (live,) = self.space.live(architecture)
        return self._run(
            images, lambda position, cell, x: cell.path([x], live, None if drop is None else drop[position])
        ), None

    def last_states(self, images: Tensor, architectures: Sequence[Architecture]) -> SharedState:
        """Run many paths at once."""
        live = [self.space.live(architecture)[0] for architecture in architectures]
        x = SharedState.same(self.stem(self.normalise(images)), len(live))
        for stage, reduction in zip(self.stages, [*self.reductions, None], strict=True):
            for cell in stage:  # type: ignore[attr-defined]
                x = _or_zeros(cell.paths([x], live)[-1], x)
            x = x if reduction is None else x.apply(reduction)
        return x

    def mixture_of_open(self, images: Tensor, gates: Tensor) -> Tensor:
        """Run all paths, weighted, without gradients through what has no weight."""
        return self.mixture(images, gates.to(images.device), (gates != 0).tolist())

    def mixture(self, images: Tensor, gates: Tensor, opened: Sequence[Opened] | None = None) -> Tensor:
        """Run all paths, weighted; `opened`: which gates of every kind of cell are not 0, by default all."""
        operations, own = self.space.operations, None if opened is None else opened[0]
        return self._run(images, lambda _, cell, x: cell.mixture([x], gates[0], operations, own))

    def _run(self, images: Tensor, states: Callable[[int, ChoiceCell, Tensor], list[Tensor | None]]) -> Tensor:
        x = self.stem(self.normalise(images))
        position = itertools.count()
        for stage, reduction in zip(self.stages, [*self.reductions, None], strict=True):
            for cell in stage:  # type: ignore[attr-defined]
                last = states(next(position), cell, x)[-1]
                x = torch.zeros_like(x) if last is None else last  # nothing arrived
            x = x if reduction is None else reduction(x)
        return self.classify(x)

    def classify(self, state: Tensor) -> Tensor:
        """BatchNorm, ReLU, global pooling, the linear head."""
        logits: Tensor = self.head(self.last(state).mean((2, 3)))
        return logits


def _build(width: int, norm: Norm, partial: int) -> Callable[[str, int], nn.Module]:
    """Makes an operation of a given width, whatever the edge; with partial channels on the first of so many parts."""

    def build(op: str, source: int) -> nn.Module:
        module = operation(op, width // partial, 1, norm)
        return module if partial == 1 else Partial(module, partial, 1)

    return build


def _or_zeros(state: SharedState, x: SharedState) -> SharedState:
    """A state with zeros where nothing arrives."""
    if None not in state.rows:
        return state
    values = torch.cat([state.values, torch.zeros_like(x.values[:1])])
    return SharedState(values, tuple(len(values) - 1 if row is None else row for row in state.rows))


class Reduction(nn.Module):
    """The benchmark's residual block: half the size, twice the channels."""

    def __init__(self, inputs: int, outputs: int, norm: Norm) -> None:
        super().__init__()
        self.convs = nn.Sequential(
            ReluConvNorm(inputs, outputs, 3, 2, norm), ReluConvNorm(outputs, outputs, 3, 1, norm)
        )
        self.shortcut = nn.Sequential(nn.AvgPool2d(2), Convolution(inputs, outputs, 1, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        """Halve height and width, double the channels."""
        out: Tensor = self.past(x) + self.convs(x)
        return out

    def past(self, x: Tensor) -> Tensor:
        """What goes past the convolutions."""
        out: Tensor = self._as_one(x) if x.is_cuda else self.shortcut(x)
        return out

    def _as_one(self, x: Tensor) -> Tensor:
        """The shortcut as one 2×2 convolution, since torch's pooling is slow on a GPU with channels last."""
        weight = self.shortcut.get_parameter("1.weight")
        return F.conv2d(x, weight.expand(-1, -1, 2, 2) / 4, stride=2)


def nasbench201() -> EdgeSpace:
    """NAS-Bench-201: four nodes, six edges, five operations, 15,625 architectures.

    >>> space = nasbench201()
    >>> len(space)
    15625
    >>> pooled = space.parse("|none~0|+|avg_pool_3x3~0|avg_pool_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|")
    >>> sum(p.numel() for p in space.network(pooled, classes=10).parameters())
    559386
    """
    operations = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
    return EdgeSpace("nasbench201", 4, operations)


def toy_edges() -> EdgeSpace:
    """Three nodes, three edges, three operations: 27 architectures, small enough to enumerate.

    >>> len(toy_edges())
    27
    """
    return EdgeSpace("toy-edges", 3, ("none", "skip_connect", "nor_conv_3x3"))
