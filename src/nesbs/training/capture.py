"""A whole training step recorded once as a CUDA graph, then replayed: one launch instead of hundreds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

Made = TypeVar("Made")
WARM_UP = 3  # steps before recording, so that libraries have chosen their kernels


@dataclass(frozen=True)
class Batch:
    """What one step sees: images (batch, channels, height, width) in [0, 1], labels (batch,), where it is.

    Epochs and steps count from 0. `noise` holds random numbers that the loss asked for.
    """

    images: Tensor
    labels: Tensor
    epoch: int
    step: int
    noise: Tensor | None = None

    def tensors(self) -> list[Tensor]:
        """The tensors of the batch."""
        return [tensor for tensor in (self.images, self.labels, self.noise) if tensor is not None]


def recorded(
    work: Callable[[], Made],
    state: Sequence[Tensor] = (),
    *,
    stream: torch.cuda.Stream | None = None,
    pool: Any = None,
) -> tuple[Callable[[], object], Made, Any]:
    """Work on a GPU as a CUDA graph: what runs it again, what it made (in memory that every run writes), its pool.

    The work is done once before, so that kernels are compiled and libraries have chosen theirs; `state`, which it
    changes, is put back. Recordings that belong together share a stream and a pool of memory.
    """
    before = [tensor.detach().clone() for tensor in state]
    stream = stream or torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
        made = work()
    with torch.no_grad():
        for tensor, value in zip(state, before, strict=True):
            tensor.copy_(value)
    return graph.replay, made, graph.pool()


class CapturedStep:
    """A step whose work is the same every time: same shapes, same network; only the numbers differ.

    Recording runs the step a few times; weights, buffers and momentum (which must be there
    already) are put back afterwards. Epoch and
    step of the batch are those of the first one, so a captured step must not look at them.
    """

    def __init__(
        self, step: Callable[[Batch], Tensor], batch: Batch, module: nn.Module, optimiser: torch.optim.Optimizer
    ) -> None:
        momentum = [tensor for kept in optimiser.state.values() for tensor in kept.values()]
        state = [*module.parameters(), *module.buffers(), *momentum]
        before = [tensor.detach().clone() for tensor in state]
        self._inputs = replace(
            batch,
            images=batch.images.clone(),
            labels=batch.labels.clone(),
            noise=None if batch.noise is None else batch.noise.clone(),
        )
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                step(self._inputs)
        torch.cuda.current_stream().wait_stream(stream)
        optimiser.zero_grad(set_to_none=True)
        self._graph = torch.cuda.CUDAGraph()
        # Other members may be training beside this one: their streams are none of the recording's business.
        # On the stream of the warm-up, whose scratch memory for matrix products is then this step's alone.
        with torch.cuda.graph(self._graph, stream=stream, capture_error_mode="thread_local"):
            self._loss = step(self._inputs)
        with torch.no_grad():
            for tensor, value in zip(state, before, strict=True):
                tensor.copy_(value)

    def __call__(self, batch: Batch) -> Tensor:
        """Run the step on a batch; its loss, valid until the next call."""
        for ours, theirs in zip(self._inputs.tensors(), batch.tensors(), strict=True):
            ours.copy_(theirs)
        self._graph.replay()
        return self._loss
