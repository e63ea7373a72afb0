"""The DARTS evaluation network: stem, cells in a row, global pooling, head.

Reduction cells stand at one and two thirds of the depth. Small images have a stem of 3C channels that keeps
their size; the ImageNet stem takes an eighth of it. The auxiliary tower is a second head, used in training
alone, on the output of the second reduction cell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nesbs.errors import NesbsError
from nesbs.spaces.architecture import Architecture, Cell
from nesbs.spaces.network import ChoiceCell, Edges, PathNetwork, Stem, Wire, Wiring, compiled
from nesbs.spaces.operations import FactorizedReduce, Norm, Normalise, ReluConvNorm
from nesbs.spaces.sharing import Shared, combine

if TYPE_CHECKING:
    from nesbs.spaces.darts import PairSpace


@dataclass(frozen=True)
class Design:
    """What a network of the DARTS shape looks like apart from its cells."""

    classes: int
    in_channels: int
    channels: int
    cells: int
    stem: Stem = "cifar"
    auxiliary: bool = False


@dataclass(frozen=True)
class Plan:
    """A kind of cell: the operations on its edges, how many of the edges one path takes, the states that leave it."""

    edges: Edges
    paths: int
    outputs: tuple[int, ...]


class PairCell(ChoiceCell):
    """A cell of a kind with its two preprocessed inputs."""

    def __init__(
        self,
        plan: Plan,
        kind: int,
        build: Callable[[str, int, int], nn.Module],
        widths: tuple[int, int, int],
        reduces: bool,
        after_reduction: bool,
        norm: Norm,
    ) -> None:
        before_last, last, width = widths
        super().__init__(plan.edges, lambda op, source: build(op, width, 2 if reduces and source < 2 else 1))
        self.kind = kind
        self.outputs = plan.outputs
        self.reduces = reduces
        self.first: nn.Module = (
            FactorizedReduce(before_last, width, norm)
            if after_reduction
            else ReluConvNorm(before_last, width, 1, 1, norm)
        )
        self.second = ReluConvNorm(last, width, 1, 1, norm)

    def output(self, before_last: Tensor, last: Tensor, live_cell: Cell, drop: Tensor | None = None) -> Tensor:
        """The nodes side by side for one choice, from the outputs of the two cells before; `drop` as in `path`."""
        if self.compiled and self.training:
            out: Tensor = compiled(PairCell._output)(self, before_last, last, live_cell, drop)
            return out
        return self._output(before_last, last, live_cell, drop)

    def _output(self, before_last: Tensor, last: Tensor, live_cell: Cell, drop: Tensor | None) -> Tensor:
        return self.side_by_side(self._path([self.first(before_last), self.second(last)], live_cell, drop))

    def side_by_side(self, states: list[Tensor | None]) -> Tensor:
        """The states that leave the cell as one tensor."""
        leaving = [states[place] for place in self.outputs]
        return torch.cat([state for state in leaving if state is not None], 1)


class ImageNetStem(nn.Module):
    """Three convolutions of stride 2; the cells start from its last two states, a quarter and an eighth in size."""

    def __init__(self, in_channels: int, channels: int, norm: Norm) -> None:
        super().__init__()
        half = channels // 2

        def halve(inputs: int, outputs: int) -> nn.Module:
            return nn.Conv2d(inputs, outputs, 3, 2, 1, bias=False)

        self.quarter = nn.Sequential(
            halve(in_channels, half), norm(half), nn.ReLU(), halve(half, channels), norm(channels)
        )
        self.eighth = nn.Sequential(nn.ReLU(), halve(channels, channels), norm(channels))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The two states, (batch, channels, height / 4, width / 4) and (…, height / 8, width / 8)."""
        quarter = self.quarter(images)
        return quarter, self.eighth(quarter)


class AuxiliaryTower(nn.Module):
    """DARTS's second head: pooled to 2×2, two convolutions, a linear layer.

    On ImageNet DARTS leaves out the last normalisation, and so do we.
    """

    def __init__(self, inputs: int, classes: int, norm: Norm, *, last_norm: bool) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(inputs, 128, 1, bias=False),
            norm(128),
            nn.ReLU(),
            nn.Conv2d(128, 768, 2, bias=False),
            norm(768) if last_norm else nn.Identity(),
            nn.ReLU(),
        )
        self.head = nn.Linear(768, classes)

    def forward(self, state: Tensor) -> Tensor:
        """Logits (batch, classes) from a state (batch, inputs, height, width) of 2×2 or more."""
        # 5×5 windows with stride 3 on 8×8 (CIFAR) and stride 2 on 7×7 (ImageNet); four corners on any size.
        sides = state.shape[2:]
        kernel = [max(min(5, side - 1), side // 2) for side in sides]
        stride = [side - window for side, window in zip(sides, kernel, strict=True)]
        corners = F.avg_pool2d(torch.relu(state), kernel, stride)
        logits: Tensor = self.head(self.convolutions(corners).flatten(1))
        return logits


class PairNetwork(PathNetwork):
    """Stem, cells in a row, global pooling, head; perhaps an auxiliary tower."""

    space: PairSpace

    def __init__(
        self,
        space: PairSpace,
        plans: Sequence[Plan],
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
            raise NesbsError(f"space {space.name} needs 3 cells or more (one normal, two reductions), found {cells}")
        if len(plans) not in (len(space.kinds), cells):
            raise NesbsError(f"the network has {len(plans)} different cells: set members.cells={len(plans)}")
        self.space = space
        self.channels = channels
        self.drop_paths = (cells, max(plan.paths for plan in plans))
        self.normalise = Normalise(design.in_channels)
        if design.stem == "imagenet":
            before_last = last = channels
            self.stem: nn.Module = ImageNetStem(design.in_channels, channels, norm)
        else:
            before_last = last = 3 * channels  # DARTS's stem multiplier
            self.stem = nn.Sequential(nn.Conv2d(design.in_channels, last, 3, padding=1, bias=False), norm(last))
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

    def wiring(self) -> Wiring:
        """A cell's nodes lie side by side in its output, which the two cells after it take."""
        wires = [Wire(nn.Sequential(self.normalise, self.stem), "images", "stem")]
        parts: dict[str, tuple[str, int, int]] = {}
        before_last = last = "stem"
        for number, cell in enumerate(self.cells):
            assert isinstance(cell, PairCell)
            wires += [Wire(cell.first, before_last, f"{number}.0"), Wire(cell.second, last, f"{number}.1")]
            wires += cell.wires(cell.kind, f"{number}.{{}}".format)
            before_last, last = last, f"{number}.out"
            parts.update({f"{number}.{2 + node}": (last, node, self.space.nodes) for node in range(self.space.nodes)})
        return Wiring(tuple(wires), parts, last)

    def last_states(self, images: Tensor, architectures: Sequence[Architecture]) -> Shared:
        """Run many paths at once."""
        live = [self.space.live(architecture) for architecture in architectures]
        stem = self.stem(self.normalise(images))
        states = stem if isinstance(stem, tuple) else (stem, stem)
        before_last, last = (Shared.same(state, len(live)) for state in states)
        for cell in self.cells:
            assert isinstance(cell, PairCell)
            cells = [both[cell.kind] for both in live]
            nodes = cell.paths([before_last.apply(cell.first), last.apply(cell.second)], cells)[2:]
            arriving = [
                [(place, node.values, row) for place, node in enumerate(nodes) if (row := node.rows[i]) is not None]
                for i in range(len(live))
            ]
            values, rows = combine(arriving, lambda parts: torch.cat(parts, 2))
            assert values is not None
            before_last, last = last, Shared(values, rows)
        return last

    def mixture(self, images: Tensor, gates: Tensor) -> Tensor:
        """Run all paths, weighted."""
        operations = self.space.operations

        def output(_: int, cell: PairCell, before_last: Tensor, last: Tensor) -> Tensor:
            inputs = [cell.first(before_last), cell.second(last)]
            return cell.side_by_side(cell.mixture(inputs, gates[cell.kind], operations))

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
