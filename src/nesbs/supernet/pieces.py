"""What a recorded step is made of: pieces that run again and again, fixed memory, parameters in one vector."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from nesbs.training import TrainingSettings

Piece = Callable[[], object]


class Recorder:
    """Makes pieces that can be run again and again; on a GPU they are CUDA graphs in one pool of memory."""

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        if self._on_gpu:
            self._stream = torch.cuda.Stream()
            self._pool = torch.cuda.graph_pool_handle()
            torch.cuda.synchronize()

    def record(self, piece: Piece) -> Piece:
        """Record a piece. Pieces must be run in the order in which they were recorded, some may be left out."""
        if not self._on_gpu:
            return piece
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
            piece()
        return graph.replay

    def warm_up(self, *pieces: Piece) -> None:
        """Run pieces as they are, so that libraries have chosen their kernels before they are recorded."""
        if self._on_gpu:
            with torch.cuda.stream(self._stream):
                for piece in pieces:
                    piece()
            torch.cuda.synchronize()


@dataclass(frozen=True)
class State:
    """A state of the network and the loss's gradient by it, each (batch, channels, height, width)."""

    value: Tensor
    gradient: Tensor


@dataclass(frozen=True)
class Layout:
    """How tensors of four axes lie in a long vector: as they are, or with their second axis last."""

    channels_last: bool

    def flat(self, tensor: Tensor) -> Tensor:
        """The numbers of a tensor in a row."""
        return (tensor.permute(0, 2, 3, 1) if self.channels_last and tensor.ndim == 4 else tensor).flatten()

    def view(self, row: Tensor, shape: torch.Size) -> Tensor:
        """A row of numbers seen as a tensor."""
        if not self.channels_last or len(shape) != 4:
            return row.view(shape)
        first, second, *rest = shape
        return row.view(first, *rest, second).permute(0, 3, 1, 2)


class Parameters:
    """A network's parameters, their gradients and momentum as one vector each; the network sees views of them."""

    def __init__(self, network: nn.Module, optimiser: torch.optim.Optimizer, layout: Layout) -> None:
        self.parameters = list(network.parameters())
        self.place = {parameter: number for number, parameter in enumerate(self.parameters)}
        sizes = [parameter.numel() for parameter in self.parameters]
        self.values = torch.cat([layout.flat(parameter.detach()) for parameter in self.parameters])
        self.gradients = torch.zeros_like(self.values)
        self.momentum = torch.zeros_like(self.values)
        counts = torch.tensor(sizes, device=self.values.device)
        self.owner = torch.arange(len(sizes), device=self.values.device).repeat_interleave(counts)
        self.gradient: list[Tensor] = []
        for parameter, value, gradient, momentum in zip(
            self.parameters,
            self.values.split(sizes),
            self.gradients.split(sizes),
            self.momentum.split(sizes),
            strict=True,
        ):
            kept = optimiser.state[parameter].get("momentum_buffer")
            if kept is not None:
                momentum.copy_(layout.flat(kept))
            parameter.data = layout.view(value, parameter.shape)
            optimiser.state[parameter]["momentum_buffer"] = layout.view(momentum, parameter.shape)
            self.gradient.append(layout.view(gradient, parameter.shape))

    def update(self, used: Tensor, settings: TrainingSettings, rate: Tensor | float) -> None:
        """SGD over the parameters in use, `used` (parameters,), and no others."""
        mask = used[self.owner]
        gradient = torch.where(mask, self.gradients, 0.0)
        if settings.clip is not None:
            gradient = gradient * (settings.clip / (gradient.norm() + 1e-6)).clamp(max=1.0)
        gradient = gradient + settings.weight_decay * self.values
        momentum = settings.momentum * self.momentum + gradient
        direction = gradient + settings.momentum * momentum if settings.nesterov else momentum
        self.values.copy_(torch.where(mask, self.values - rate * direction, self.values))
        self.momentum.copy_(torch.where(mask, momentum, self.momentum))
