"""What a search space and its networks must offer; what follows from a space's variables is written here, once."""

from __future__ import annotations

import functools
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Literal, get_args, overload

import torch
from torch import Tensor, nn

from nesbs.errors import NesbsError, did_you_mean, expect, expect_whole
from nesbs.spaces.architecture import ARCHITECTURE, Architecture, Cell, Variable
from nesbs.spaces.operations import Normalise
from nesbs.spaces.shared_state import SharedState

Stem = Literal["cifar", "imagenet"]  # how a network begins: at the images' size, or at an eighth of it


class Space(ABC):
    """A finite set of architectures, described by independent `variables`.

    A space says what its variables are and how a setting of them becomes an `Architecture`, a text and a
    network. Posterior, samplers and selection see the variables alone.
    """

    name: str
    operations: tuple[str, ...]
    variables: tuple[Variable, ...]
    kinds: tuple[str, ...]  # of cell: an architecture has one cell of each
    inputs: int  # states a cell starts from; its nodes count on from there
    edges: list[tuple[int, int]]  # (target, source) of every edge a cell can have
    member_size: tuple[int, int]  # (cells, channels) of a member where a recipe does not say
    supernet_size: tuple[int, int]

    @abstractmethod
    def architecture(self, indices: Sequence[int]) -> Architecture:
        """The architecture that a choice for every variable makes; choices that play no part are ignored."""

    @abstractmethod
    def encode(self, architecture: Architecture) -> tuple[int, ...]:
        """The choice of every variable, −1 where the variable plays no part."""

    @abstractmethod
    def parse(self, text: str) -> Architecture:
        """Read an architecture from its text."""

    @abstractmethod
    def live(self, architecture: Architecture) -> tuple[Cell, ...]:
        """The cells without the edges that carry nothing to an output."""

    @abstractmethod
    def gates(self, weights: Tensor) -> Tensor:
        """Weights of every choice, (variables, choices), to weights (kinds of cell, edges, operations)."""

    @abstractmethod
    def supernet(
        self, *, classes: int, in_channels: int, channels: int, cells: int, affine: bool, partial: int = 1
    ) -> PathNetwork:
        """The network that holds every operation of every edge; `partial` is K of partial channels, 1 for none."""

    @abstractmethod
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
        """The stand-alone network of one architecture; `stem` and `auxiliary` where the space has them."""

    def kinds_of(self, architecture: Architecture) -> tuple[str, ...]:
        """What the cells of an architecture are called."""
        return self.kinds

    def output_states(self, architecture: Architecture) -> tuple[tuple[int, ...], ...]:
        """The states that leave each cell of an architecture: its last node, unless a space says otherwise."""
        return tuple((self.inputs + len(cell) - 1,) for cell in architecture.cells)

    def check_images(self, height: int, width: int, stem: Stem = "cifar") -> None:
        """Raise where the space's networks cannot take images of this size."""
        if height % 4 or width % 4 or min(height, width) < 8:
            raise NesbsError(
                f"space {self.name} takes images whose sides are multiples of 4 and at least 8, found "
                f"{height}×{width}: set data.size to resize them"
            )

    def check(self, architecture: Architecture) -> tuple[int, ...]:
        """Return what `encode` does; raise where the architecture is none, or of another space."""
        expect(architecture, Architecture, ARCHITECTURE)
        try:
            choices = self.encode(architecture)
        except NesbsError:
            raise
        except (ValueError, KeyError, IndexError):
            choices = ()
        if len(choices) != len(self.variables):
            raise NesbsError(f"this architecture is not of space {self.name}: {architecture}")
        return choices

    def is_dead(self, architecture: Architecture) -> bool:
        """Whether nothing reaches the output of a cell."""
        return any(not any(cell) for cell in self.live(architecture))

    @overload
    def sample(self, count: None = None, *, generator: torch.Generator) -> Architecture: ...
    @overload
    def sample(self, count: int, *, generator: torch.Generator) -> list[Architecture]: ...
    def sample(self, count: int | None = None, *, generator: torch.Generator) -> Architecture | list[Architecture]:
        """Draw one architecture, or a list of `count`, uniformly."""
        if count is not None:
            expect_whole(count, "count", least=0)
        expect(generator, torch.Generator, "generator must be a torch.Generator")
        columns = [
            torch.randint(len(variable.choices), (1 if count is None else count,), generator=generator)
            for variable in self.variables
        ]
        drawn = [self.architecture(row) for row in torch.stack(columns, 1).tolist()]
        return drawn[0] if count is None else drawn

    def __len__(self) -> int:
        return self.size

    @functools.cached_property
    def size(self) -> int:
        """The number of architectures; `len` takes no more than 9·10^18."""
        return math.prod(
            sum(
                math.prod(len(self.variables[child].choices) for child in self.children(root, choice))
                for choice in range(len(self.variables[root].choices))
            )
            for root in self.roots()
        )

    @functools.cached_property
    def conditions(self) -> tuple[Tensor, Tensor, Tensor]:
        """Variables with a condition (count,), the variable that it names (count,), its choices (count, choices).

        The choices are 1 where they call the variable up and 0 elsewhere.
        """
        conditions = [(i, *one.condition) for i, one in enumerate(self.variables) if one.condition is not None]
        choices = torch.zeros(len(conditions), max(len(variable.choices) for variable in self.variables))
        for row, (_, _, calling) in zip(choices, conditions, strict=True):
            row[list(calling)] = 1.0
        pairs = torch.tensor([(i, parent) for i, parent, _ in conditions], dtype=torch.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1], choices

    def __iter__(self) -> Iterator[Architecture]:
        """Every architecture once, in a fixed order; for small spaces."""
        per_root = []
        for root in self.roots():
            settings = []
            for choice in range(len(self.variables[root].choices)):
                children = self.children(root, choice)
                for picks in itertools.product(*(range(len(self.variables[child].choices)) for child in children)):
                    settings.append({root: choice, **dict(zip(children, picks, strict=True))})
            per_root.append(settings)
        for combination in itertools.product(*per_root):
            indices = [0] * len(self.variables)
            for setting in combination:
                for variable, choice in setting.items():
                    indices[variable] = choice
            yield self.architecture(indices)

    def encode_all(self, architectures: Sequence[Architecture]) -> Tensor:
        """`encode` of many: (architectures, variables) int64."""
        rows = [self.check(architecture) for architecture in architectures]
        return torch.tensor(rows, dtype=torch.int64).reshape(len(rows), len(self.variables))

    def roots(self) -> list[int]:
        """The variables that play a part whatever the others are."""
        return [i for i, variable in enumerate(self.variables) if variable.condition is None]

    def input_choices(self) -> list[int]:
        """The variables that choose a node's inputs, in spaces that have them."""
        return [root for root in self.roots() if self.children(root, 0)]

    def children(self, root: int, choice: int) -> list[int]:
        """The variables that play a part because `root` took `choice`."""
        return [
            i
            for i, variable in enumerate(self.variables)
            if variable.condition is not None and variable.condition[0] == root and choice in variable.condition[1]
        ]


def check_space(name: str, operations: tuple[str, ...], *, nodes: int, least: int) -> None:
    """Raise where a space has too few nodes, no operations, or one twice."""
    expect_whole(nodes, f"the number of nodes of space {name}", least=least)
    if not operations or len(set(operations)) < len(operations):
        raise NesbsError(f"space {name} needs operations that all differ, found {', '.join(operations) or 'none'}")


def check_network(*, stem: Stem, **sizes: int | None) -> None:
    """Raise where a network cannot begin in such a way, or have such sizes (None: the space's own)."""
    if stem not in get_args(Stem):
        raise NesbsError(f"unknown stem {stem}: {did_you_mean(str(stem), get_args(Stem))}")
    for name, size in sizes.items():
        if size is not None:
            expect_whole(size, name)
    if stem == "imagenet" and sizes.get("channels") == 1:
        raise NesbsError("the stem imagenet halves the channels: there must be two or more, found 1")


class PathNetwork(nn.Module, ABC):
    """A network whose cells still have a choice: `network(images, architecture)` runs one path of it.

    Holding every operation it is the supernet; holding one on each edge it is a member. Nothing sampled is
    stored on it.
    """

    space: Space
    normalise: Normalise
    head: nn.Linear
    channels: int  # the width its first cells have
    drop_paths: tuple[int, int]  # (cells, edges of a cell): what DropPath can drop

    def forward(self, images: Tensor, architecture: Architecture) -> Tensor:
        """Logits (batch, classes) of one architecture for images (batch, channels, height, width) in [0, 1]."""
        return self.outputs(images, architecture)[0]

    def check_data(self, channels: int, classes: int) -> None:
        """Raise where the network was made for images of other channels, or for another number of classes."""
        own = len(self.normalise.mean), self.head.out_features
        if own != (channels, classes):
            raise NesbsError(
                f"the network takes images of {own[0]} channel{'' if own[0] == 1 else 's'} and {own[1]} classes, "
                f"found {channels} and {classes}"
            )

    @abstractmethod
    def outputs(
        self, images: Tensor, architecture: Architecture, *, drop: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """Logits, and those of an auxiliary tower where there is one and the network is in training.

        `drop` (cells, edges, batch) multiplies what each edge of each cell carries (DropPath).
        """

    @abstractmethod
    def classify(self, state: Tensor) -> Tensor:
        """Logits (batch, classes) from the last state."""

    @abstractmethod
    def last_states(self, images: Tensor, architectures: Sequence[Architecture]) -> SharedState:
        """The states that `classify` takes, of many architectures at once, each (batch, channels, height, width)."""

    def many(self, images: Tensor, architectures: Sequence[Architecture]) -> Tensor:
        """`forward` of many architectures at once: logits (architectures, batch, classes)."""
        return self.last_states(images, architectures).apply(self.classify).expanded()

    @abstractmethod
    def mixture(self, images: Tensor, gates: Tensor) -> Tensor:
        """Logits with every operation weighted by gates (kinds of cell, edges, operations)."""

    def mixture_of_open(self, images: Tensor, gates: Tensor) -> Tensor:
        """`mixture` that may leave out gradients that are 0: those through an operation whose gate is 0.

        The host reads the gates, which may lie there. By default none is left out.
        """
        return self.mixture(images, gates.to(images.device))


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
