"""A cell with operations to choose from, and the two forms every network has: path by path, and one path alone."""

from __future__ import annotations

import functools
import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor, nn

from nesbs.spaces.architecture import Architecture, Cell
from nesbs.spaces.operations import Identity, Normalise
from nesbs.spaces.sharing import Shared, along_edge, combine

if TYPE_CHECKING:
    from nesbs.spaces.space import Space

Edges = Mapping[tuple[int, int], Sequence[str]]  # (target, source) → the operations built on that edge
Stem = Literal["cifar", "imagenet"]  # how a network begins: at the images' size, or at an eighth of it


@dataclass(frozen=True)
class Wire:
    """A part of a network: state `target` receives what `module` makes of state `source`, added to the rest.

    `choice` (kind of cell, target node, source node, operation) says which architectures use it, None that all do.
    """

    module: nn.Module
    source: str
    target: str
    choice: tuple[int, int, int, str] | None = None


@dataclass(frozen=True)
class Wiring:
    """A whole network as wires in the order they run; `parts` are states that lie side by side in another.

    A part is (the state it lies in, its place, how many there are), along the channels.
    """

    wires: tuple[Wire, ...]
    parts: Mapping[str, tuple[str, int, int]]
    last: str  # the state that is classified


class ChoiceCell(nn.Module):
    """A directed acyclic cell; each edge holds the operations an architecture may choose on it.

    With `compiled` set, a path in training runs as torch.compile makes it: cells of one shape share the work.
    """

    compiled = False

    def __init__(self, edges: Edges, build: Callable[[str, int], nn.Module]) -> None:
        super().__init__()
        self.edges = nn.ModuleDict(
            {
                f"{target}_{source}": nn.ModuleDict({op: build(op, source) for op in operations if op != "none"})
                for (target, source), operations in edges.items()
            }
        )

    def path(self, inputs: list[Tensor], live_cell: Cell, drop: Tensor | None = None) -> list[Tensor | None]:
        """All states of the cell for one choice, given its live part; None where nothing arrives.

        DropPath: `drop` (edges, batch) multiplies what each edge carries, image by image, except where the
        edge hands its input on unchanged.
        """
        if self.compiled and self.training:
            states: list[Tensor | None] = compiled(ChoiceCell._path)(self, inputs, live_cell, drop)
            return states
        return self._path(inputs, live_cell, drop)

    def _path(self, inputs: list[Tensor], live_cell: Cell, drop: Tensor | None) -> list[Tensor | None]:
        states: list[Tensor | None] = list(inputs)
        scales = None if drop is None else iter(drop)
        for target, node in enumerate(live_cell, start=len(inputs)):
            total: Tensor | None = None
            for op, source in node:
                module = self.edges[f"{target}_{source}"][op]  # type: ignore[index]
                out = module(states[source])
                if scales is not None:
                    scale = next(scales)
                    out = out if isinstance(module, Identity) else out * scale[:, None, None, None].to(out.dtype)
                total = out if total is None else total + out
            states.append(total)
        return states

    def wires(self, kind: int, name: Callable[[int], str]) -> list[Wire]:
        """Every operation on every edge; `name` tells what the cell's states are called."""
        return [
            Wire(module, name(int(source)), name(int(target)), (kind, int(target), int(source), op))
            for edge, operations in self.edges.items()
            for target, source in [edge.split("_")]
            for op, module in operations.items()  # type: ignore[operator]
        ]

    def paths(self, inputs: list[Shared], live_cells: Sequence[Cell]) -> list[Shared]:
        """`path` for many choices at once, one live part for each architecture."""
        states = list(inputs)
        for target in range(len(inputs), len(inputs) + len(live_cells[0])):
            wanted: dict[tuple[int, str], list[int]] = {}  # (source, operation) → the rows that meet it
            for number, cell in enumerate(live_cells):
                for op, source in cell[target - len(inputs)]:
                    row = states[source].rows[number]
                    assert row is not None  # live edges carry something
                    wanted.setdefault((source, op), []).append(row)
            done = {
                (source, op): along_edge(self.edges[f"{target}_{source}"][op], states[source], rows)  # type: ignore[index]
                for (source, op), rows in wanted.items()
            }
            arriving = []
            for number, cell in enumerate(live_cells):
                node = [(op, source, states[source].rows[number]) for op, source in cell[target - len(inputs)]]
                edges = [((source, op), *done[source, op], row) for op, source, row in node]
                arriving.append([(name, values, places[row]) for name, values, places, row in edges])  # type: ignore[index]
            values, rows = combine(arriving, sum_in_order)
            states.append(Shared(inputs[0].values[:0] if values is None else values, rows))
        return states

    def mixture(self, inputs: list[Tensor], gates: Tensor, operations: Sequence[str]) -> list[Tensor | None]:
        """All states of the cell with every operation weighted: gates (edges, operations)."""
        states: list[Tensor | None] = list(inputs)
        gate = iter(gates)
        target = len(inputs)
        while f"{target}_0" in self.edges:
            total: Tensor | None = None
            for source in range(target):
                weights = next(gate)
                for op, module in self.edges[f"{target}_{source}"].items():  # type: ignore[operator]
                    out = weights[operations.index(op)] * module(states[source])
                    total = out if total is None else total + out
            states.append(total)
            target += 1
        return states


@functools.cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A cell's function as torch.compile makes it: every shape of cell of every member is one version of it."""
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 256)
    return torch.compile(function, dynamic=False)


def sum_in_order(values: list[Tensor]) -> Tensor:
    """The sum, from the first to the last, as a path adds up."""
    return functools.reduce(operator.add, values)


class PathNetwork(nn.Module, ABC):
    """A network whose cells still have a choice: `network(images, architecture)` runs one path of it.

    Holding every operation it is the supernet; holding one on each edge it is a member. Nothing sampled is
    stored on it.
    """

    space: Space
    normalise: Normalise
    channels: int  # the width its first cells have
    drop_paths: tuple[int, int]  # (cells, edges of a cell): what DropPath can drop

    def forward(self, images: Tensor, architecture: Architecture) -> Tensor:
        """Logits (batch, classes) of one architecture for images (batch, channels, height, width) in [0, 1]."""
        return self.outputs(images, architecture)[0]

    @abstractmethod
    def outputs(
        self, images: Tensor, architecture: Architecture, *, drop: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Logits, and those of an auxiliary tower where there is one and the network is in training.

        `drop` (cells, edges, batch) multiplies what each edge of each cell carries (DropPath).
        """

    @abstractmethod
    def wiring(self) -> Wiring:
        """The network as wires from the state `images` to the one that `classify` takes."""

    @abstractmethod
    def classify(self, state: Tensor) -> Tensor:
        """Logits (batch, classes) from the last state."""

    @abstractmethod
    def last_states(self, images: Tensor, architectures: Sequence[Architecture]) -> Shared:
        """The states that `classify` takes, of many architectures at once, each (batch, channels, height, width)."""

    def many(self, images: Tensor, architectures: Sequence[Architecture]) -> Tensor:
        """`forward` of many architectures at once: logits (architectures, batch, classes)."""
        return self.last_states(images, architectures).apply(self.classify).expanded()

    @abstractmethod
    def mixture(self, images: Tensor, gates: Tensor) -> Tensor:
        """Logits with every operation weighted by gates (kinds of cell, edges, operations)."""


class Member(nn.Module):
    """A stand-alone network: the operations of one architecture and nothing else."""

    def __init__(self, network: PathNetwork, architecture: Architecture) -> None:
        super().__init__()
        self.network = network
        self.architecture = architecture

    def forward(self, images: Tensor) -> Tensor:
        """Logits (batch, classes) for images (batch, channels, height, width) in [0, 1]."""
        logits: Tensor = self.network(images, self.architecture)
        return logits

    def outputs(self, images: Tensor, *, drop: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Logits and the auxiliary tower's, for training; `drop` (cells, edges, batch) is DropPath's."""
        return self.network.outputs(images, self.architecture, drop=drop)
