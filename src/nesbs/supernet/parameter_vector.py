"""A network's parameters, gradients and momentum as one vector each, so that one update serves them all."""

import torch
from torch import Tensor, nn

from nesbs.training import TrainingSettings


def flat(tensor: Tensor) -> Tensor:
    """The numbers of a tensor in a row; a convolution's weights with their input channels last, as kernels read them.

    Of a depthwise convolution, which has one input channel, the channels come last.

    >>> flat(torch.arange(4).view(1, 2, 2, 1)), flat(torch.arange(4).view(2, 1, 2, 1))
    (tensor([0, 2, 1, 3]), tensor([0, 2, 1, 3]))
    """
    if tensor.ndim != 4:
        return tensor.flatten()
    return tensor.permute((2, 3, 1, 0) if tensor.shape[1] == 1 else (0, 2, 3, 1)).flatten()


def unflat(row: Tensor, shape: torch.Size) -> Tensor:
    """A row made by `flat`, seen as a tensor of its shape."""
    if len(shape) != 4:
        return row.view(shape)
    first, second, *rest = shape
    if second == 1:
        return row.view(*rest, 1, first).permute(3, 2, 0, 1)
    return row.view(first, *rest, second).permute(0, 3, 1, 2)


class ParameterVector:
    """A network's parameters, their gradients and momentum as one vector each; the network sees views of them."""

    def __init__(self, network: nn.Module, optimiser: torch.optim.Optimizer) -> None:
        self.parameters = list(network.parameters())
        self.place = {parameter: number for number, parameter in enumerate(self.parameters)}
        sizes = [parameter.numel() for parameter in self.parameters]
        self.values = torch.cat([flat(parameter.detach()) for parameter in self.parameters])
        self.gradients = torch.zeros_like(self.values)
        self.momentum = torch.zeros_like(self.values)
        counts = torch.tensor(sizes, device=self.values.device)
        self._owner = torch.arange(len(sizes), device=self.values.device).repeat_interleave(counts)
        for parameter, value, momentum in zip(
            self.parameters, self.values.split(sizes), self.momentum.split(sizes), strict=True
        ):
            earlier = optimiser.state[parameter].get("momentum_buffer")
            if earlier is not None:
                momentum.copy_(flat(earlier))
            parameter.data = unflat(value, parameter.shape)
            optimiser.state[parameter]["momentum_buffer"] = unflat(momentum, parameter.shape)

    def update(self, used: Tensor, settings: TrainingSettings, rate: Tensor | float) -> None:
        """SGD over the parameters in use, `used` (parameters,), and no others."""
        mask = used[self._owner]
        gradient = torch.where(mask, self.gradients, 0.0)
        if settings.clip is not None:
            gradient = gradient * (settings.clip / (gradient.norm() + 1e-6)).clamp(max=1.0)
        gradient = gradient + settings.weight_decay * self.values
        momentum = settings.momentum * self.momentum + gradient
        direction = gradient + settings.momentum * momentum if settings.nesterov else momentum
        self.values.copy_(torch.where(mask, self.values - rate * direction, self.values))
        self.momentum.copy_(torch.where(mask, momentum, self.momentum))
