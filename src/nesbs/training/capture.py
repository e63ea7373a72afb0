"""Work recorded once as a CUDA graph, then replayed: one launch instead of hundreds."""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from nesbs.kernels.compile_ahead import compile_ahead

Result = TypeVar("Result")


@dataclass(frozen=True)
class Batch:
    """What one step sees: images (batch, channels, height, width) in [0, 1], labels (batch,), epoch and step.

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


@dataclass(frozen=True)
class CapturedGraph(Generic[Result]):
    """Captured work: `replay` runs it again, `result` is what it returned, in memory that every replay overwrites."""

    replay: Callable[[], object]
    result: Result
    pool: Any


def capture_graph(
    work: Callable[[], Result],
    state: Sequence[Tensor] = (),
    *,
    warm_up: int = 1,
    own_kernels: bool = False,
    stream: torch.cuda.Stream | None = None,
    pool: Any = None,
) -> CapturedGraph[Result]:
    """Capture work on a GPU as a CUDA graph.

    The work is done `warm_up` times before, so that kernels are compiled and libraries have chosen theirs; `state`,
    the tensors that it changes, is put back. Graphs that belong together share a stream and a pool of memory. With
    `own_kernels` those of ours that the work launches are compiled side by side.
    """
    before = [tensor.detach().clone() for tensor in state]
    stream = stream or torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):  # from the first time on: a gradient remembers its stream, and capturing allows one
        if own_kernels:
            try:
                compile_ahead(work)
            finally:
                _put_back(state, before)
        for _ in range(warm_up):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    # On the stream of the warm-up, whose scratch memory for matrix products is then this graph's alone. Errors of this
    # thread only: other members may be training in streams of their own.
    with _no_collection(), torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):
        result = work()
    _put_back(state, before)
    return CapturedGraph(graph.replay, result, graph.pool())


@contextmanager
def _no_collection() -> Iterator[None]:
    """Hold Python's garbage collector: a dead graph that it frees in this time makes the capture fail."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def make_current(device: str | torch.device) -> None:
    """Make a GPU that is named by its number the current one, on which streams, graphs and kernels run."""
    device = torch.device(device)
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)


@torch.no_grad()
def _put_back(state: Sequence[Tensor], before: Sequence[Tensor]) -> None:
    for tensor, value in zip(state, before, strict=True):
        tensor.copy_(value)


class CapturedStep:
    """A step whose work is the same every time: same shapes, same network; only the numbers differ.

    Weights, buffers and momentum (which must be there already) are as before once it is captured. Epoch and step of
    the batch are those of the first one, so a captured step must not look at them.
    """

    WARM_UP = 3  # steps, until every library has chosen its kernels

    def __init__(
        self,
        step: Callable[[Batch], Tensor],
        batch: Batch,
        module: nn.Module,
        optimiser: torch.optim.Optimizer,
        *,
        own_kernels: bool = False,
    ) -> None:
        """`own_kernels` says whether the step launches kernels of ours."""
        momentum = [tensor for buffers in optimiser.state.values() for tensor in buffers.values()]
        noise = None if batch.noise is None else batch.noise.clone()
        self._inputs = replace(batch, images=batch.images.clone(), labels=batch.labels.clone(), noise=noise)

        def work() -> Tensor:
            loss = step(self._inputs)
            optimiser.zero_grad(set_to_none=True)  # gradients of the warm-up must not outlive it
            return loss

        state = [*module.parameters(), *module.buffers(), *momentum]
        self._graph = capture_graph(work, state, warm_up=self.WARM_UP, own_kernels=own_kernels)

    def __call__(self, batch: Batch) -> Tensor:
        """Run the step on a batch; its loss, valid until the next call."""
        for ours, theirs in zip(self._inputs.tensors(), batch.tensors(), strict=True):
            ours.copy_(theirs)
        self._graph.replay()
        return self._graph.result
