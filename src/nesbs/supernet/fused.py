"""All paths of a step at once, where the architecture is data: one recording serves every step.

For spaces with an operation on every edge. What a path does on an edge is a number that the kernels read, so a
step launches the same kernels whatever is drawn, for one path or for a group, and is recorded whole: one launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nesbs import kernels
from nesbs.spaces import Architecture, PathNetwork, Space
from nesbs.spaces.nasbench201 import EdgeNetwork
from nesbs.spaces.sharing import BatchesApart
from nesbs.supernet.paths import Group
from nesbs.supernet.pieces import Layout, Parameters
from nesbs.training import Batch, TrainingSettings

Recorded = tuple[Tensor, Tensor, Tensor, Callable[[], object]]  # images, codes, logits, replay
CODES = {"none": 0, "skip_connect": 1, "nor_conv_1x1": 2, "nor_conv_3x3": 3, "avg_pool_3x3": 4}  # as the kernels know


def fits(network: PathNetwork, device: torch.device) -> bool:
    """Whether there are kernels for a supernet: an operation on every edge, BatchNorm without scale and offset."""
    return (
        isinstance(network, EdgeNetwork)
        and kernels.usable(device)
        and network.channels >= 16
        and kernels.power_of_two(network.channels)
        and set(network.space.operations) <= set(CODES)
        and not any(isinstance(module, nn.BatchNorm2d) and module.affine for module in network.modules())
    )


def codes_of(space: Space, architecture: Architecture) -> list[int]:
    """What an architecture does on each edge, by number; nothing where what an edge carries goes nowhere.

    >>> from nesbs.spaces import toy_edges
    >>> codes_of(toy_edges(), toy_edges().parse("|skip_connect~0|+|nor_conv_3x3~0|none~1|"))
    [0, 3, 0]
    """
    [cell] = space.live(architecture)
    found = {(target, source): CODES[op] for target, node in enumerate(cell, start=1) for op, source in node}
    return [found.get(edge, 0) for edge in space.edges]


class FusedNetwork:
    """A supernet's forward pass for many paths; `weights` holds one row of numbers for each cell."""

    def __init__(
        self, network: PathNetwork, weights: Sequence[Tensor] | None = None, *, lower_precision: bool = False
    ) -> None:
        assert isinstance(network, EdgeNetwork)
        self._lower = lower_precision
        self._recorded: dict[tuple[torch.Size, torch.Size], Recorded] = {}
        self.network = network
        self.cells: list[nn.Module] = [cell for stage in network.stages for cell in stage]  # type: ignore[attr-defined]
        layout = Layout(channels_last=True)
        self.weights = weights or [
            torch.cat([layout.flat(weight.detach()) for weight in cell.parameters()]) for cell in self.cells
        ]
        self._small = int("nor_conv_1x1" in network.space.operations)
        self._large = 9 * int("nor_conv_3x3" in network.space.operations)

    def logits(self, images: Tensor, codes: Tensor) -> Tensor:
        """Logits (paths, batch, classes) of the paths that `codes` (paths, edges) stand for."""
        from nesbs.kernels.fused import Cell  # needs Triton

        network, paths = self.network, len(codes)
        weights = iter(self.weights)
        with BatchesApart(1):
            x = network.stem(network.normalise(images))
        with BatchesApart(paths):
            for stage, reduction in zip(network.stages, [*network.reductions, None], strict=True):
                for _ in stage:  # type: ignore[attr-defined]
                    state = x.permute(0, 2, 3, 1).unflatten(0, (-1, len(images)))
                    square = x.shape[1] ** 2
                    out = Cell.apply(
                        state,
                        next(weights),
                        codes,
                        network.space.nodes,
                        (self._small + self._large) * square,
                        self._small * square,
                    )
                    x = out.flatten(0, 1).permute(0, 3, 1, 2)
                x = x if reduction is None else reduction(x)
            logits: Tensor = network.classify(x).unflatten(0, (paths, -1))
        return logits

    @torch.no_grad()
    def predict(self, images: Tensor, architectures: Sequence[Architecture]) -> Tensor:
        """Logits (architectures, batch, classes), valid until the next call; on a GPU recorded for each size."""
        rows = [codes_of(self.network.space, architecture) for architecture in architectures]
        codes = torch.tensor(rows, dtype=torch.int32, device=images.device)
        if images.device.type != "cuda":
            return self.logits(images, codes)
        key = (images.shape, codes.shape)
        if key not in self._recorded:
            self._recorded[key] = self._record(images, codes)
        images_in, codes_in, out, replay = self._recorded[key]
        images_in.copy_(images)
        codes_in.copy_(codes)
        replay()
        return out

    def _record(self, images: Tensor, codes: Tensor) -> Recorded:
        images, codes = images.clone(), codes.clone()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.autocast("cuda", torch.bfloat16, enabled=self._lower):
            self.logits(images, codes)  # compiles the kernels; libraries choose theirs
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                out = self.logits(images, codes).float()
        return images, codes, out, graph.replay


class FusedPaths:
    """The step of a supernet; it trains the architectures that `paths` has for the epoch and the step."""

    def __init__(
        self,
        network: PathNetwork,
        paths: Sequence[Sequence[Group]],
        batch: Batch,
        settings: TrainingSettings,
        optimiser: torch.optim.Optimizer,
    ) -> None:
        self._space, self._paths, self._settings, self._optimiser = network.space, paths, settings, optimiser
        self._epoch = -1  # that is planned
        device = batch.images.device
        self._lower = settings.lower_precision(device)
        self._layout = Layout(channels_last=True)
        ours = self._parameters = Parameters(network, optimiser, self._layout)
        cells = [cell for stage in network.stages for cell in stage]  # type: ignore[union-attr]
        ends = torch.tensor([0, *(parameter.numel() for parameter in ours.parameters)]).cumsum(0).tolist()
        # A cell's weights as one row that shares the parameters' memory.
        rows: list[Tensor] = []
        inside: dict[int, Tensor] = {}  # parameters of cells → the row they lie in
        self._leaves: list[Tensor] = []
        for cell in cells:
            places = [ours.place[parameter] for parameter in cell.parameters()]
            row = ours.values[ends[places[0]] : ends[places[-1] + 1]].detach().requires_grad_()
            inside.update(dict.fromkeys(places, row))
            rows.append(row)
        for place, parameter in enumerate(ours.parameters):
            leaf = inside.get(place, parameter)
            if not self._leaves or self._leaves[-1] is not leaf:
                self._leaves.append(leaf)
        self._network = FusedNetwork(network, rows)
        self._always = [place for place in range(len(ours.parameters)) if place not in inside]
        head = {id(parameter) for parameter in (*network.last.parameters(), *network.head.parameters())}  # type: ignore[union-attr]
        self._head = [place for place in self._always if id(ours.parameters[place]) in head]
        self._of: dict[tuple[int, int], list[int]] = {}  # (edge, code) → parameters
        for cell in cells:
            for edge, operations in enumerate(cell.edges.values()):
                for op, module in operations.items():
                    found = self._of.setdefault((edge, CODES[op]), [])
                    found += [ours.place[parameter] for parameter in module.parameters()]
        most = max(len(group) for epoch in paths for group in epoch)
        self._images, self._labels = batch.images.clone(), batch.labels.clone()
        self._codes = torch.zeros(most, len(self._space.edges), dtype=torch.int32, device=device)
        self._weight = torch.full((most,), 1 / most, device=device)
        self._used = torch.zeros(len(ours.parameters), dtype=torch.bool, device=device)
        self._known: dict[Architecture, list[int]] = {}
        self._loss = torch.zeros((), device=device)
        self._run = self._record() if device.type == "cuda" else self._work

    @torch.no_grad()
    def __call__(self, batch: Batch) -> Tensor:
        """Train one group of architectures on one batch; the loss, valid until the next call."""
        if batch.epoch != self._epoch:
            self._begin(batch.epoch)
        self._images.copy_(batch.images)
        self._labels.copy_(batch.labels)
        self._codes.copy_(self._planned[0][batch.step])
        self._weight.copy_(self._planned[1][batch.step])
        self._used.copy_(self._planned[2][batch.step])
        self._run()
        return self._loss

    def _begin(self, epoch: int) -> None:
        """Plan the steps of an epoch on the device: codes, the weight of each path's loss, parameters in use."""
        groups = self._paths[epoch]
        codes = torch.zeros(len(groups), *self._codes.shape, dtype=torch.int32)
        weight = torch.zeros(len(groups), len(self._weight))
        used = torch.zeros(len(groups), len(self._used), dtype=torch.bool)
        used[:, self._head] = True
        for step, group in enumerate(groups):
            weight[step, : len(group)] = 1 / len(group)
            rows = [self._row(path) for path in group]
            codes[step, : len(group)] = torch.tensor(rows, dtype=torch.int32)
            if any(any(row) for row in rows):
                used[step, self._always] = True
            used[step, list(self._places(rows))] = True
        self._planned = [tensor.to(self._codes.device) for tensor in (codes, weight, used)]
        self._epoch = epoch

    def _row(self, path: Architecture) -> list[int]:
        if path not in self._known:
            self._known[path] = codes_of(self._space, path)
        return self._known[path]

    def _places(self, rows: list[list[int]]) -> Iterator[int]:
        for edge, code in {(edge, code) for row in rows for edge, code in enumerate(row)}:
            yield from self._of.get((edge, code), ())

    def _work(self) -> None:
        """One step: forward, backward, update."""
        paths = len(self._codes)
        with torch.enable_grad():
            with torch.autocast(self._images.device.type, torch.bfloat16, enabled=self._lower):
                logits = self._network.logits(self._images, self._codes)
            each = F.cross_entropy(logits.flatten(0, 1).float(), self._labels.repeat(paths), reduction="none")
            loss = (self._weight * each.unflatten(0, (paths, -1)).mean(1)).sum()
        gradients = torch.autograd.grad(loss, self._leaves)
        self._parameters.gradients.copy_(torch.cat([self._layout.flat(gradient) for gradient in gradients]))
        self._parameters.update(self._used, self._settings, self._optimiser.param_groups[0]["lr"])
        self._loss.copy_(loss.detach())

    @torch.no_grad()
    def _record(self) -> Callable[[], object]:
        ours = self._parameters
        before = [ours.values.clone(), ours.momentum.clone()]
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._work()  # compiles the kernels; libraries choose theirs
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            self._work()
        ours.values.copy_(before[0])
        ours.momentum.copy_(before[1])
        return graph.replay
