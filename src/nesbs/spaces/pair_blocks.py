"""What networks of the DARTS shape are built from: cells with two inputs, the ImageNet stem, the auxiliary tower."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nesbs.spaces.architecture import Cell
from nesbs.spaces.choice_cell import ChoiceCell, Edges, compiled
from nesbs.spaces.convolution import Convolution
from nesbs.spaces.operations import FactorizedReduce, Norm, ReluConvNorm
from nesbs.spaces.space import Stem


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
class CellPlan:
    """A kind of cell: the operations on its edges, how many of the edges one path takes, the states that leave it."""

    edges: Edges
    edges_taken: int
    outputs: tuple[int, ...]


class PairCell(ChoiceCell):
    """A cell of a kind with its two preprocessed inputs."""

    def __init__(
        self,
        plan: CellPlan,
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
            return Convolution(inputs, outputs, 3, 2, 1, bias=False)

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
            Convolution(inputs, 128, 1, bias=False),
            norm(128),
            nn.ReLU(),
            Convolution(128, 768, 2, bias=False),
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
