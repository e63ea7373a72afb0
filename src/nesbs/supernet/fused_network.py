"""The forward pass of many paths at once, where the architecture is data: the same kernels serve them all."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nesbs import kernels
from nesbs.spaces import Architecture, ChoiceCell, PathNetwork, Space
from nesbs.spaces.nasbench201 import EdgeNetwork, EdgeSpace
from nesbs.spaces.operations import Partial
from nesbs.spaces.pair_blocks import PairCell
from nesbs.spaces.pairs import PairNetwork
from nesbs.spaces.shared_state import BatchesApart
from nesbs.supernet.parameter_vector import flat
from nesbs.training import CapturedGraph, capture_graph

Choice = tuple[int, int, int, str]  # kind of cell, target, source, operation
# Operations as the kernels know them, on edges and in pairs.
EDGE_CODES = {"none": 0, "skip_connect": 1, "nor_conv_1x1": 2, "nor_conv_3x3": 3, "avg_pool_3x3": 4}
# On edges, with the pixels that each sees; the kernels want their weights in this order.
CONVOLUTIONS = {"nor_conv_1x1": 1, "nor_conv_3x3": 9}
PAIR_CODES = {
    "skip_connect": 0,
    "max_pool_3x3": 1,
    "avg_pool_3x3": 2,
    "sep_conv_3x3": 3,
    "sep_conv_5x5": 4,
    "dil_conv_3x3": 5,
    "dil_conv_5x5": 6,
}


def fits(network: PathNetwork, device: torch.device, size: tuple[int, int]) -> bool:
    """Whether there are kernels for a supernet, on images of a height and width."""
    if not kernels.usable(device):
        return False
    if any(isinstance(module, nn.BatchNorm2d) and module.affine for module in network.modules()):
        return False
    if isinstance(network, EdgeNetwork):
        convolutions = [op for op in network.space.operations if op in CONVOLUTIONS]
        return edges_fit(network, device) and convolutions == sorted(convolutions, key=list(CONVOLUTIONS).index)
    operations = set(network.space.operations)
    if isinstance(network, PairNetwork):
        wide = network.channels // _parts(network)
        halved_twice = all(side % 4 == 0 for side in size)
        return operations <= set(PAIR_CODES) and wide >= 8 and kernels.power_of_two(wide) and halved_twice
    return False


def edges_fit(network: EdgeNetwork, device: torch.device) -> bool:
    """Whether there are kernels for the cells of a network with an operation on every edge, whatever its BatchNorm."""
    wide = network.channels >= 16 and kernels.power_of_two(network.channels)
    return kernels.usable(device) and set(network.space.operations) <= set(EDGE_CODES) and wide


def edge_codes(space: EdgeSpace, architecture: Architecture) -> list[int]:
    """What is done on each edge; nothing where what an edge carries goes nowhere."""
    used = {(target, source): EDGE_CODES[op] for _, target, source, op in choices(space, architecture)}
    return [used.get(edge, 0) for edge in space.edges]


def _parts(network: PathNetwork) -> int:
    """K of partial channels."""
    return next((module.parts for module in network.modules() if isinstance(module, Partial)), 1)


def choices(space: Space, architecture: Architecture) -> list[Choice]:
    """The operations that carry something to the output."""
    return [
        (kind, target, source, op)
        for kind, cell in enumerate(space.live(architecture))
        for target, node in enumerate(cell, start=space.inputs)
        for op, source in node
    ]


class FusedNetwork(ABC):
    """A supernet's forward pass for many paths; `weights` holds one row of numbers for each cell."""

    network: EdgeNetwork | PairNetwork

    def __init__(
        self, network: PathNetwork, weights: Sequence[Tensor] | None = None, *, lower_precision: bool = False
    ) -> None:
        self._lower = lower_precision
        self._captured: dict[Hashable, tuple[list[Tensor], CapturedGraph[Tensor]]] = {}
        self.weights = weights or [
            torch.cat([flat(weight.detach()) for weight in cell.edges.parameters()]) for cell in cells_of(network)
        ]

    @abstractmethod
    def codes(self, architecture: Architecture) -> list[int]:
        """An architecture as numbers."""

    @abstractmethod
    def idle(self) -> list[int]:
        """The codes of a path that does nothing."""

    @abstractmethod
    def last_states(self, images: Tensor, codes: Tensor) -> Tensor:
        """The states before the head, (paths × batch, channels, height, width).

        `codes` (paths, numbers) int32 stand for the paths.
        """

    def logits(self, images: Tensor, codes: Tensor) -> Tensor:
        """Logits (paths, batch, classes)."""
        last = self.last_states(images, codes)
        with BatchesApart(len(codes)):
            logits: Tensor = self.network.classify(last).unflatten(0, (len(codes), -1))
        return logits

    def predict(self, images: Tensor, architectures: Sequence[Architecture]) -> Tensor:
        """Logits (architectures, batch, classes), valid until the next call."""
        return self.run(self.logits, architectures, images)

    @torch.no_grad()
    def run(self, work: Callable[..., Tensor], architectures: Sequence[Architecture], *inputs: Tensor) -> Tensor:
        """Return work(*inputs, codes), (architectures, …), valid until the next call.

        On a GPU the work is captured for each size of inputs and number of architectures.
        """
        rows = [self.codes(architecture) for architecture in architectures]
        if self.weights[0].device.type != "cuda":
            return work(*inputs, torch.tensor(rows, dtype=torch.int32))
        # Idle paths make up a power of two, so that few sizes are captured.
        rows += [self.idle()] * (2 ** (len(rows) - 1).bit_length() - len(rows))
        given = [*inputs, torch.tensor(rows, dtype=torch.int32, device=self.weights[0].device)]
        key = (work, *(tensor.shape for tensor in given))
        if key not in self._captured:
            own = [tensor.clone() for tensor in given]
            self._captured[key] = own, self._capture(lambda: work(*own))
        own, graph = self._captured[key]
        for ours, theirs in zip(own, given, strict=True):
            ours.copy_(theirs)
        graph.replay()
        return graph.result[: len(architectures)]

    def _capture(self, work: Callable[[], Tensor]) -> CapturedGraph[Tensor]:
        """Capture work in the memory of what was captured before: only one runs at a time."""

        def in_precision() -> Tensor:
            # Entered anew for the capture: weights that autocast rounds in here are cached no longer than this lasts.
            with torch.autocast("cuda", torch.bfloat16, enabled=self._lower):
                return work().float()

        earlier = next(iter(self._captured.values()), None)
        pool = None if earlier is None else earlier[1].pool
        return capture_graph(in_precision, own_kernels=True, pool=pool)


def cells_of(network: PathNetwork) -> list[ChoiceCell]:
    """A network's cells, from the first to the last."""
    return [module for module in network.modules() if isinstance(module, ChoiceCell)]


class FusedEdges(FusedNetwork):
    """Spaces with an operation on every edge: a number for each."""

    network: EdgeNetwork

    def __init__(self, network: EdgeNetwork, weights: Sequence[Tensor] | None = None, **more: bool) -> None:
        super().__init__(network, weights, **more)
        self.network = network
        self._parts = _parts(network)
        # Taps of the convolutions on an edge, in the order of their weights (`fits`).
        self._taps = [taps for op, taps in CONVOLUTIONS.items() if op in network.space.operations]

    def codes(self, architecture: Architecture) -> list[int]:
        """What is done on each edge."""
        return edge_codes(self.network.space, architecture)

    def idle(self) -> list[int]:
        """Nothing on any edge."""
        return [0] * len(self.network.space.edges)

    def last_states(self, images: Tensor, codes: Tensor) -> Tensor:
        """Stem, cells with reductions between the stages."""
        from nesbs.kernels.edge_cell import FusedEdgeCell  # needs Triton

        network, nodes, paths = self.network, self.network.space.nodes, len(codes)
        weights = iter(self.weights)
        with BatchesApart(1):
            x: Tensor = network.stem(network.normalise(images))
        with BatchesApart(paths):
            for stage, reduction in zip(network.stages, [*network.reductions, None], strict=True):
                row, first3 = sum(self._taps) * x.shape[1] ** 2, self._taps.count(1) * x.shape[1] ** 2
                for _ in stage:  # type: ignore[attr-defined]
                    wide = self.widened(next(weights), x.shape[1])
                    out = FusedEdgeCell.apply(
                        _pixels(x, images), wide, codes, nodes, row, first3, None, None, self._parts
                    )
                    x = out.flatten(0, 1).permute(0, 3, 1, 2)
                x = x if reduction is None else reduction(x)
        return x

    def widened(self, weights: Tensor, channels: int) -> Tensor:
        """A cell's row of weights as those of all channels: with partial channels 0 where one passes by."""
        if self._parts == 1:
            return weights
        edges, narrow = len(self.network.space.edges), channels // self._parts
        more = channels - narrow
        each = weights.view(edges, -1).split([taps * narrow**2 for taps in self._taps], 1)
        shapes = zip(each, self._taps, strict=True)
        wide = [
            F.pad(own.view(edges, narrow, taps, narrow), (0, more, 0, 0, 0, more)).flatten(1) for own, taps in shapes
        ]
        return torch.cat(wide, 1).flatten()


class FusedPairs(FusedNetwork):
    """Spaces in which each node takes two states: source and operation of each of the two, for both kinds of cell."""

    network: PairNetwork

    def __init__(self, network: PairNetwork, weights: Sequence[Tensor] | None = None, **more: bool) -> None:
        super().__init__(network, weights, **more)
        self.network = network
        self._parts = _parts(network)
        self._tables = [_table(cell).to(self.weights[0].device) for cell in cells_of(network)]

    def codes(self, architecture: Architecture) -> list[int]:
        """(kinds, nodes, two, source and operation) in a row."""
        return [
            number
            for cell in architecture.cells
            for node in cell
            for op, source in node
            for number in (source, PAIR_CODES[op])
        ]

    def idle(self) -> list[int]:
        """No operation anywhere."""
        return [0, -1] * (4 * self.network.space.nodes)

    def last_states(self, images: Tensor, codes: Tensor) -> Tensor:
        """Stem, cells."""
        from nesbs.kernels.pair_cell import FusedPairCell  # needs Triton

        network, paths, nodes = self.network, len(codes), self.network.space.nodes
        plans = codes.view(paths, 2, 2 * nodes, 2).transpose(0, 1).contiguous()
        with BatchesApart(1):
            last: Tensor = network.stem(network.normalise(images))
        before_last = last
        for cell, weights, table in zip(network.cells, self.weights, self._tables, strict=True):
            assert isinstance(cell, PairCell)
            inputs = []
            for module, state in ((cell.first, before_last), (cell.second, last)):
                with BatchesApart(len(state) // len(images)):  # the stem is the same for all paths
                    inputs.append(_pixels(module(state), images))
            plan, stride = plans[int(cell.reduces)], 2 if cell.reduces else 1
            out = FusedPairCell.apply(*inputs, weights, plan, table, self._parts, stride)
            before_last, last = last, out.flatten(0, 1).permute(0, 3, 1, 2)
        return last


def _pixels(x: Tensor, images: Tensor) -> Tensor:
    """A state (paths × batch, channels, height, width) as (paths, batch, height, width, channels)."""
    pixels: Tensor = x.permute(0, 2, 3, 1).unflatten(0, (-1, len(images)))
    return pixels


def _table(cell: ChoiceCell) -> Tensor:
    """Where the weights of each operation on each edge begin in the cell's row, (edges, operations) int32."""
    table = torch.zeros(len(cell.edges), len(PAIR_CODES), dtype=torch.int32)
    start = 0
    for edge, operations in enumerate(cell.edges.values()):
        for op, module in operations.items():  # type: ignore[operator]
            table[edge, PAIR_CODES[op]] = start
            start += sum(weight.numel() for weight in module.parameters())
    return table


def fused_network(
    network: PathNetwork, weights: Sequence[Tensor] | None = None, *, lower_precision: bool = False
) -> FusedNetwork:
    """The forward pass of a network that `fits`, with its weights as they are now, or with rows of them."""
    if isinstance(network, EdgeNetwork):
        return FusedEdges(network, weights, lower_precision=lower_precision)
    assert isinstance(network, PairNetwork)
    return FusedPairs(network, weights, lower_precision=lower_precision)
