"""How big a network is: parameters, multiply-adds, and the widest one within a budget."""

import math
from collections import Counter
from collections.abc import Callable, Iterable

import torch
from torch import nn

from nesbs.errors import NesbsError
from nesbs.spaces.space import Member


def parameters(member: Member) -> int:
    """Parameters of a stand-alone network as papers count them: without the auxiliary tower.

    >>> from nesbs.spaces import darts, zoo
    >>> parameters(darts().network(zoo["darts-v2"], auxiliary=True))
    3349342
    """
    return sum(p.numel() for name, p in member.named_parameters() if not name.startswith("network.auxiliary."))


def multiply_adds(member: nn.Module, image: tuple[int, int, int]) -> int:
    """Multiply-adds of convolutions and linear layers for one image (channels, height, width).

    >>> from nesbs.spaces import nasbench201
    >>> member = nasbench201().network(next(iter(nasbench201())))  # stem, reductions and head alone
    >>> multiply_adds(member, (3, 32, 32))
    7783040
    """
    return sum(layer_products(member, image).values())


def layer_products(member: nn.Module, image: tuple[int, int, int]) -> Counter[nn.Module]:
    """Multiply-adds of every convolution and linear layer that one image (channels, height, width) runs through.

    Nothing is computed: the tensors have shapes alone, so that no device takes a shortcut past a layer.
    """
    products: Counter[nn.Module] = Counter()
    modes = [(module, module.training) for module in member.modules()]

    def count(layer: nn.Module, _: object, outputs: torch.Tensor) -> None:
        products[layer] += outputs.numel() * layer.get_parameter("weight")[0].numel()

    layers = [layer for layer in member.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    try:
        with torch.no_grad():
            tensors = {name: tensor.to("meta") for name, tensor in member.named_buffers()}
            tensors |= {name: nn.Parameter(tensor.to("meta")) for name, tensor in member.named_parameters()}
            torch.func.functional_call(member.eval(), tensors, (torch.zeros(1, *image, device="meta"),))
    finally:
        for module, training in modes:
            module.training = training
        for hook in hooks:
            hook.remove()
    return products


def sizes_of(members: Iterable[Member], image: tuple[int, int, int]) -> dict[str, list[int]]:
    """Width, parameters and multiply-adds of several networks for images (channels, height, width)."""
    listed = list(members)
    return {
        "channels": [member.network.channels for member in listed],
        "parameters": [parameters(member) for member in listed],
        "multiply_adds": [multiply_adds(member, image) for member in listed],
    }


def widest(network: Callable[[int], Member], image: tuple[int, int, int], limit: int, *, step: int = 2) -> int:
    """The most channels, a multiple of `step`, with which `network(channels)` stays under `limit` multiply-adds."""

    def cost(channels: int) -> int:
        with torch.device("meta"):
            member = network(channels)
        return multiply_adds(member, image)

    # Every layer's cost is a multiple of its width or of the product of two widths: a·C² + b·C.
    one, two = cost(step), cost(2 * step)
    a, b = (two - 2 * one) / (2 * step**2), (4 * one - two) / (2 * step)
    chosen = max(step, int((math.sqrt(b * b + 4 * a * limit) - b) / (2 * a)) // step * step)
    while chosen > step and cost(chosen) >= limit:
        chosen -= step
    while cost(chosen + step) < limit:
        chosen += step
    if chosen == step and one >= limit:
        raise NesbsError(f"members.multiply_adds={limit} is too few: {step} channels need {one}")
    return chosen
