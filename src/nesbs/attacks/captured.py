"""A network under attack as CUDA graphs: with few images a GPU would mostly wait for the host to launch kernels."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nesbs.attacks.gradient import Model
from nesbs.training import capture_graph

LARGEST, SMALLEST = 256, 16  # images of a graph: more keep a GPU busy by themselves
BEFORE = 3  # calls of a size before it is captured: capturing takes as long as a few


class CapturedModel:
    """A network whose weights stay as they are, images (batch, …) to logits (batch, classes).

    Every batch of at most 256 images is filled up to a power of two, with zeros until that size is captured and then
    with what earlier batches left: no image may change the answer to another. So few sizes are captured, and the same
    images are always computed at one size. At another a GPU rounds otherwise, and AutoAttack takes a network that
    answers twice differently for a random one. On a CPU the same is computed without capturing it.

    >>> network = torch.nn.Linear(3, 2).requires_grad_(False)
    >>> images = torch.rand(5, 3)
    >>> torch.allclose(CapturedModel(network)(images), network(images))
    True
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._sizes: dict[tuple[int, ...], _FixedSize] = {}
        self._calls: dict[tuple[int, ...], int] = {}

    def __call__(self, images: Tensor) -> Tensor:
        """The network's logits, for the caller to keep; they pass gradients to the images."""
        if not 0 < len(images) <= LARGEST:
            return self._model(images)
        size = max(SMALLEST, 1 << (len(images) - 1).bit_length())
        key = (size, *images.shape[1:])
        self._calls[key] = self._calls.get(key, 0) + 1
        if self._calls[key] <= BEFORE:
            filled = torch.cat([images, images.new_zeros(size - len(images), *images.shape[1:])])
            return self._model(filled)[: len(images)]
        if key not in self._sizes:
            self._sizes[key] = _FixedSize(self._model, images, size)
        if not self._sizes[key].differentiable:  # nothing reaches the output
            return self._model(images)
        out: Tensor = _Replay.apply(images, self._sizes[key])
        return out


class _FixedSize:
    """The network at one batch size: logits and, from a slope at them, the slope at the images."""

    def __init__(self, model: Model, example: Tensor, size: int) -> None:
        self._model = model
        self.calls = 0  # forward passes so far: what backward needs is that of the last
        self._images = example.new_zeros(size, *example.shape[1:]).requires_grad_()
        self._run_forward: Callable[[], object] = self._forward
        self._run_backward: Callable[[], object] = self._backward
        self._forward()
        self._slope = torch.zeros_like(self._logits)
        if example.device.type == "cuda" and self.differentiable:
            self._capture()

    @property
    def differentiable(self) -> bool:
        """Whether the images reach the logits."""
        return self._logits.requires_grad

    @torch.enable_grad()
    def _forward(self) -> None:
        self._logits = self._model(self._images)

    def _backward(self) -> None:
        # The graph is kept: one forward pass may be asked for several slopes.
        [self._back] = torch.autograd.grad(self._logits, self._images, self._slope, retain_graph=True)

    def _capture(self) -> None:
        stream = torch.cuda.Stream()  # of both: gradients are computed where the logits were
        self._logits = self._logits.detach()  # the graph of the first pass holds the images' node on another stream
        forward = capture_graph(self._forward, stream=stream)
        self._run_forward = forward.replay
        self._run_backward = capture_graph(self._backward, stream=stream, pool=forward.pool).replay

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """Logits, valid until the next call."""
        self._images[: len(images)] = images
        self._run_forward()
        self.calls += 1
        return self._logits.detach()[: len(images)]

    @torch.no_grad()
    def backward(self, slope: Tensor) -> Tensor:
        """From a slope at the logits of the last forward pass that at its images, valid until the next call."""
        self._slope.zero_()
        self._slope[: len(slope)] = slope
        self._run_backward()
        return self._back[: len(slope)]


class _Replay(torch.autograd.Function):
    """What the graphs compute, as an operation with a gradient."""

    @staticmethod
    def forward(ctx: Any, images: Tensor, size: _FixedSize) -> Tensor:
        """Logits of one batch."""
        out = size.forward(images).clone()
        ctx.save_for_backward(images)
        ctx.size, ctx.call = size, size.calls
        return out

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        """The slope at its images, whatever was asked in between."""
        if ctx.call != ctx.size.calls:
            ctx.size.forward(ctx.saved_tensors[0])
            ctx.call = ctx.size.calls
        return ctx.size.backward(slope).clone(), None
