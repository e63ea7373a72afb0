"""Forward and backward in one place: gradients with respect to images, and networks frozen meanwhile."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nesbs.errors import NesbsError, expect

Model = Callable[[Tensor], Tensor]  # images (batch, channels, height, width) in [0, 1] to logits (batch, classes)
Extra = TypeVar("Extra")


def differentiate(function: Callable[[Tensor], tuple[Tensor, Extra]], point: Tensor) -> tuple[Tensor, Extra]:
    """The gradient at `point` of the first thing a function returns, a single number, and the second as it is.

    A number that does not depend on the point has gradient zero: so do networks in which nothing reaches the output.

    >>> differentiate(lambda x: ((x**2).sum(), "kept"), torch.tensor([1.0, 3.0]))
    (tensor([2., 6.]), 'kept')
    """
    with torch.enable_grad():
        point = point.detach().requires_grad_()
        value, extra = function(point)
        if not value.requires_grad:
            return torch.zeros_like(point), extra
        [gradient] = torch.autograd.grad(value, point, allow_unused=True, materialize_grads=True)
    return gradient, extra


def check_batch(model: Model, images: Tensor, labels: Tensor) -> None:
    """Raise where an attack is given no network, no batch of images in [0, 1], or not a label for each of them."""
    expect(model, Callable, "model must be a function of images, such as a network")  # type: ignore[arg-type]
    expect(images, Tensor, "images must be a tensor (batch, channels, height, width) in [0, 1]")
    expect(labels, Tensor, "labels must be a tensor (batch,) of whole numbers")
    if images.ndim != 4 or labels.shape != images.shape[:1] or labels.dtype != torch.int64:
        found = f"{tuple(images.shape)} and {labels.dtype} {tuple(labels.shape)}"
        raise NesbsError(
            f"images must be (batch, channels, height, width), labels must be (batch,) int64, found {found}"
        )
    if not images.is_floating_point() or not bool(((images >= 0) & (images <= 1)).all()):
        raise NesbsError("images must be floats from 0 to 1: divide bytes by 255")


def loss_gradient(model: Model, images: Tensor, labels: Tensor) -> Tensor:
    """Where the cross-entropy rises, (batch, channels, height, width).

    The loss is summed over the batch, so that an image's gradient does not depend on what else is in its batch.
    """
    return differentiate(lambda x: (F.cross_entropy(model(x), labels, reduction="sum"), None), images)[0]


@contextlib.contextmanager
def frozen(network: nn.Module) -> Iterator[None]:
    """Evaluation mode, so that BatchNorm keeps its statistics, and no gradient for any parameter; undone at the end."""
    modes = [(module, module.training) for module in network.modules()]
    wanted = [(parameter, parameter.requires_grad) for parameter in network.parameters()]
    network.eval().requires_grad_(False)
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
        for parameter, requires in wanted:
            parameter.requires_grad_(requires)
