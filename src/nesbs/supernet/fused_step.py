"""A supernet's training step with all its paths at once, where the architecture is data: one CUDA graph serves all.

What a path does is numbers that the kernels read, so a step launches the same kernels whatever is drawn, for one path
or for a group, and is captured whole: one launch.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from nesbs.spaces import Architecture, PathNetwork
from nesbs.supernet.draw_paths import Group
from nesbs.supernet.fused_network import Choice, cells_of, choices, fused_network
from nesbs.supernet.parameter_vector import ParameterVector, flat
from nesbs.training import Batch, TrainingSettings, capture_graph


class FusedStep:
    """The step of a supernet; it trains the architectures that `paths` has for the epoch and the step.

    Without `paths` it is told the architecture of each step (`along`).
    """

    def __init__(
        self,
        network: PathNetwork,
        paths: Sequence[Sequence[Group]] | None,
        batch: Batch,
        settings: TrainingSettings,
        optimiser: torch.optim.Optimizer,
    ) -> None:
        self._space, self._paths, self._settings, self._optimiser = network.space, paths or (), settings, optimiser
        self._epoch, self._planned = -1, list[Tensor]()  # the epoch that is planned, and its steps
        device = batch.images.device
        self._lower = settings.lower_precision(device)
        self._parameters = ParameterVector(network, optimiser)
        rows, self._leaves = self._rows(network)
        self._network = fused_network(network, rows, lower_precision=self._lower)
        self._sort_parameters()
        most = max((len(group) for epoch in self._paths for group in epoch), default=1)
        self._path_numbers: dict[Architecture, tuple[list[int], Tensor]] = {}
        self._images, self._labels = batch.images.clone(), batch.labels.clone()
        self._codes = torch.tensor([self._network.idle()] * most, dtype=torch.int32, device=device)
        self._weight = torch.full((most,), 1 / most, device=device)
        self._used = torch.zeros(len(self._parameters.parameters), dtype=torch.bool, device=device)
        self._loss = torch.zeros((), device=device)
        self._run: Callable[[], object] = self._work
        if device.type == "cuda":
            with torch.no_grad():
                state = [self._parameters.values, self._parameters.momentum]
                self._run = capture_graph(self._work, state, own_kernels=True).replay

    def _sort_parameters(self) -> None:
        """Who uses a parameter: the paths with a choice; every path on which something arrives; every path (head)."""
        place, network = self._parameters.place, self._network.network
        self._of_choice: dict[Choice, list[int]] = {}
        for cell in cells_of(network):
            for edge, operations in cell.edges.items():
                target, source = map(int, edge.split("_"))
                for op, module in operations.items():  # type: ignore[operator]
                    numbers = self._of_choice.setdefault((cell.kind, target, source, op), [])
                    numbers += [place[parameter] for parameter in module.parameters()]
        self._of_head = [place[parameter] for parameter in network.head.parameters()]
        others = {number for numbers in self._of_choice.values() for number in numbers}.union(self._of_head)
        self._of_all = [number for number in range(len(place)) if number not in others]

    def _rows(self, network: PathNetwork) -> tuple[list[Tensor], list[Tensor]]:
        """The weights of each cell's operations as one row that shares the parameters' memory; all leaves in order."""
        ours = self._parameters
        ends = torch.tensor([0, *(parameter.numel() for parameter in ours.parameters)]).cumsum(0).tolist()
        rows: list[Tensor] = []
        inside: dict[int, Tensor] = {}  # parameters of cells → the row they lie in
        for cell in cells_of(network):
            places = [ours.place[parameter] for parameter in cell.edges.parameters()]
            row = ours.values[ends[places[0]] : ends[places[-1] + 1]].detach().requires_grad_()
            inside.update(dict.fromkeys(places, row))
            rows.append(row)
        leaves: list[Tensor] = []
        for number, parameter in enumerate(ours.parameters):
            leaf = inside.get(number, parameter)
            if not leaves or leaves[-1] is not leaf:
                leaves.append(leaf)
        return rows, leaves

    def __call__(self, batch: Batch) -> Tensor:
        """Train one group of architectures on one batch; the loss, valid until the next call."""
        if batch.epoch != self._epoch:
            self._epoch, self._planned = batch.epoch, self._plan(self._paths[batch.epoch])
        return self._train(batch, *(tensor[batch.step] for tensor in self._planned))

    def along(self, batch: Batch, path: Architecture) -> Tensor:
        """Train one architecture on one batch; the loss, valid until the next call."""
        return self._train(batch, *(tensor[0] for tensor in self._plan([(path,)])))

    def predict(self, images: Tensor, architectures: Sequence[Architecture]) -> Tensor:
        """Logits (architectures, batch, classes) by the weights as they are now, valid until the next call."""
        return self._network.predict(images, architectures)

    @torch.no_grad()
    def _train(self, batch: Batch, codes: Tensor, weight: Tensor, used: Tensor) -> Tensor:
        """Run the step for codes (paths, numbers), weights of their losses (paths,) and parameters in use."""
        now = (batch.images, batch.labels, codes, weight, used)
        for ours, theirs in zip((self._images, self._labels, self._codes, self._weight, self._used), now, strict=True):
            ours.copy_(theirs)
        self._run()
        return self._loss

    def _plan(self, groups: Sequence[Group]) -> list[Tensor]:
        """Steps planned on the device: codes, the weight of each path's loss, parameters in use; each (steps, …)."""
        rows = [self._row(path) for group in groups for path in group]
        sizes = torch.tensor([len(group) for group in groups])
        # A group may be smaller: the rest is idle and has no weight.
        there = torch.arange(len(self._weight)) < sizes[:, None]  # (steps, paths)
        codes = torch.tensor(self._network.idle(), dtype=torch.int32).repeat(*there.shape, 1)
        codes[there] = torch.tensor([numbers for numbers, _ in rows], dtype=torch.int32)
        used = torch.zeros(*there.shape, len(self._used), dtype=torch.bool)
        used[there] = torch.stack([used for _, used in rows])
        return [tensor.to(self._codes.device) for tensor in (codes, there / sizes[:, None], used.any(1))]

    def _row(self, path: Architecture) -> tuple[list[int], Tensor]:
        """A path's codes and the parameters that it uses, (parameters,)."""
        if path not in self._path_numbers:
            chosen = choices(self._space, path)
            used = torch.zeros(len(self._used), dtype=torch.bool)
            # A path in which nothing reaches the output uses the head alone.
            places = [*self._of_head, *(self._of_all if chosen else [])]
            used[[*places, *(place for choice in chosen for place in self._of_choice[choice])]] = True
            self._path_numbers[path] = self._network.codes(path), used
        return self._path_numbers[path]

    def _work(self) -> None:
        """One step: forward, backward, update."""
        paths = len(self._codes)
        with torch.enable_grad():
            with torch.autocast(self._images.device.type, torch.bfloat16, enabled=self._lower):
                logits = self._network.logits(self._images, self._codes)
            each = F.cross_entropy(logits.flatten(0, 1).float(), self._labels.repeat(paths), reduction="none")
            loss = (self._weight * each.unflatten(0, (paths, -1)).mean(1)).sum()
        gradients = torch.autograd.grad(loss, self._leaves)
        self._parameters.gradients.copy_(torch.cat([flat(gradient) for gradient in gradients]))
        self._parameters.update(self._used, self._settings, self._optimiser.param_groups[0]["lr"])
        self._loss.copy_(loss.detach())
