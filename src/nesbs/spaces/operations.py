"""Every operation, once. An operation takes (batch, channels, height, width) and keeps or halves the size.

`norm` makes the normalisation layer for a number of channels: stand-alone networks and the supernet share
the operations and differ in their BatchNorm.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nesbs.errors import NesbsError, did_you_mean
from nesbs.spaces.convolution import Convolution

Norm = Callable[[int], nn.Module]


class Identity(nn.Module):
    """`skip_connect` where the size stays."""

    def forward(self, x: Tensor) -> Tensor:
        """Hand `x` on."""
        return x


class Units(nn.Sequential):
    """One unit or two in a row: ReLU, a depthwise convolution or none, a convolution, normalisation.

    With `fused` set our kernels run them in training, where `fits` says so.
    """

    fused = False

    def forward(self, x: Tensor, drop: Tensor | None = None, plus: Tensor | None = None) -> Tensor:
        """From (batch, channels, height, width), each image times its `drop` (batch,); `plus` is added."""
        if self.fused and self.training:
            return self._by_kernels(x, drop, plus)
        out: Tensor = super().forward(x)
        out = out if drop is None else scaled(out, drop)
        return out if plus is None else plus + out

    def _units(self) -> list[list[nn.Module]]:
        """The layers behind each ReLU."""
        units: list[list[nn.Module]] = []
        for layer in self:
            if isinstance(layer, nn.ReLU):
                units.append([])
            else:
                units[-1].append(layer)
        return units

    def fits(self) -> bool:
        """Whether there are kernels for its size and normalisation: with weights and running averages."""
        for *_, convolution, norm in self._units():
            assert isinstance(convolution, nn.Conv2d)
            if convolution.kernel_size != (1, 1) or convolution.stride != (1, 1) or convolution.out_channels > 256:
                return False
            known = isinstance(norm, nn.BatchNorm2d) and norm.track_running_stats and norm.momentum is not None
            if not (known and norm.affine):
                return False
        return True

    def _by_kernels(self, x: Tensor, drop: Tensor | None, plus: Tensor | None) -> Tensor:
        from nesbs.kernels.depthwise import FusedUnits, Unit  # needs Triton

        units = [Unit(None, *layers) if len(layers) == 2 else Unit(*layers) for layers in self._units()]  # type: ignore[arg-type]
        if torch.is_autocast_enabled(x.device.type):
            x = x.to(torch.get_autocast_dtype(x.device.type))
        parameters = [parameter for unit in units for parameter in unit.parameters]
        plus = None if plus is None else plus.permute(0, 2, 3, 1)
        out: Tensor = FusedUnits.apply(x.permute(0, 2, 3, 1), drop, plus, units, *parameters)
        return out.permute(0, 3, 1, 2)


class ReluConvNorm(Units):
    """ReLU, convolution, normalisation."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, norm: Norm) -> None:
        super().__init__(
            nn.ReLU(),
            Convolution(inputs, outputs, kernel, stride, kernel // 2, bias=False),
            norm(outputs),
        )


class FactorizedReduce(nn.Module):
    """`skip_connect` where the size is halved: two 1×1 convolutions on the even and the odd pixels."""

    def __init__(self, inputs: int, outputs: int, norm: Norm) -> None:
        super().__init__()
        self.even = Convolution(inputs, outputs // 2, 1, 2, bias=False)
        self.odd = Convolution(inputs, outputs - outputs // 2, 1, 2, bias=False)
        self.norm = norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Halve height and width."""
        x = torch.relu(x)
        out: Tensor = self.norm(torch.cat([self.even(x), self.odd(x[:, :, 1:, 1:])], 1))
        return out


class DepthwiseUnits(Units):
    """One unit or two in a row: ReLU, depthwise and 1×1 convolution, normalisation."""

    def __init__(self, channels: int, kernel: int, strides: tuple[int, ...], dilation: int, norm: Norm) -> None:
        padding = dilation * (kernel // 2)
        layers: list[nn.Module] = []
        for stride in strides:
            layers += [
                nn.ReLU(),
                Convolution(channels, channels, kernel, stride, padding, dilation, groups=channels, bias=False),
                Convolution(channels, channels, 1, bias=False),
                norm(channels),
            ]
        super().__init__(*layers)


def scaled(x: Tensor, scale: Tensor) -> Tensor:
    """Images x (batch, channels, height, width), each times its scale (batch,)."""
    return x * scale[:, None, None, None].to(x.dtype)


def _separable(kernel: int) -> Callable[[int, int, Norm], nn.Module]:
    return lambda channels, stride, norm: DepthwiseUnits(channels, kernel, (stride, 1), 1, norm)


def _dilated(kernel: int) -> Callable[[int, int, Norm], nn.Module]:
    return lambda channels, stride, norm: DepthwiseUnits(channels, kernel, (stride,), 2, norm)


def _crossed(kernel: int) -> Callable[[int, int, Norm], nn.Module]:
    """A full convolution along each row, then one along each column."""
    along = kernel // 2
    return lambda channels, stride, norm: nn.Sequential(
        nn.ReLU(),
        Convolution(channels, channels, (1, kernel), (1, stride), (0, along), bias=False),
        Convolution(channels, channels, (kernel, 1), (stride, 1), (along, 0), bias=False),
        norm(channels),
    )


class Residual(nn.Module):
    """`res_sep_3x3` (RobNet): a separable convolution beside `skip_connect`, added up."""

    def __init__(self, channels: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.convolution = _separable(3)(channels, stride, norm)
        self.skip = _skip(channels, stride, norm)

    def forward(self, x: Tensor) -> Tensor:
        """Same channels, the same or half the size."""
        out: Tensor = self.convolution(x) + self.skip(x)
        return out


def _skip(channels: int, stride: int, norm: Norm) -> nn.Module:
    return Identity() if stride == 1 else FactorizedReduce(channels, channels, norm)


class AveragePool(nn.AvgPool2d):
    """`avg_pool_3x3`: the mean of a 3×3 window, of which what lies outside the image does not count."""

    def __init__(self, stride: int) -> None:
        super().__init__(3, stride, 1, count_include_pad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Same channels, the same or half the size."""
        if not (x.is_cuda and x.stride(1) == 1):
            return super().forward(x)
        # torch's gradient is wrong on a GPU for padded windows with channels last (pytorch/pytorch#188344): pad first.
        padded = F.avg_pool2d(F.pad(x, (1, 1, 1, 1)), 3, self.stride)
        inside = F.avg_pool2d(F.pad(x.new_ones(1, 1, *x.shape[2:]), (1, 1, 1, 1)), 3, self.stride)
        return padded / inside


# `none` is not among them: it passes nothing on, so nothing is built or run for it.
OPERATIONS: dict[str, Callable[[int, int, Norm], nn.Module]] = {
    "skip_connect": _skip,
    "nor_conv_1x1": lambda channels, stride, norm: ReluConvNorm(channels, channels, 1, stride, norm),
    "nor_conv_3x3": lambda channels, stride, norm: ReluConvNorm(channels, channels, 3, stride, norm),
    "avg_pool_3x3": lambda channels, stride, norm: AveragePool(stride),
    "max_pool_3x3": lambda channels, stride, norm: nn.MaxPool2d(3, stride, 1),
    "sep_conv_3x3": _separable(3),
    "sep_conv_5x5": _separable(5),
    "dil_conv_3x3": _dilated(3),
    "dil_conv_5x5": _dilated(5),
    # Those below stand in published cells alone: no space searches over them.
    "sep_conv_7x7": _separable(7),
    "conv_3x1_1x3": _crossed(3),
    "conv_7x1_1x7": _crossed(7),
    "res_sep_3x3": Residual,
}


def operation(name: str, channels: int, stride: int, norm: Norm) -> nn.Module:
    """Build one operation.

    >>> operation("nor_conv_3x3", 8, 1, nn.BatchNorm2d)(torch.zeros(2, 8, 4, 4)).shape
    torch.Size([2, 8, 4, 4])
    """
    if name not in OPERATIONS:
        raise NesbsError(f"unknown operation {name}: {did_you_mean(name, OPERATIONS)}")
    return OPERATIONS[name](channels, stride, norm)


class Partial(nn.Module):
    """Partial channels (PC-DARTS): the first 1/K of the channels go through the operation, the rest pass by.

    What passes by is max-pooled 2×2 where the operation halves the size. The channels are then shuffled, so
    that the next operation sees both kinds.
    """

    def __init__(self, module: nn.Module, parts: int, stride: int) -> None:
        super().__init__()
        self.module = module
        self.parts = parts
        self.bypass: nn.Module = nn.MaxPool2d(2) if stride == 2 else Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Same channels as x, the same or half the size."""
        through, past = self.part(x)
        changed: Tensor = self.module(through)
        return changed if self.parts == 1 else self.put_together(changed, self.bypass(past))

    def part(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The channels of x that go through the operation, and the rest."""
        width = x.shape[1] // self.parts
        through, past = x.split([width, x.shape[1] - width], 1)
        return through, past

    def put_together(self, changed: Tensor, unchanged: Tensor) -> Tensor:
        """What went through the operation and what passed by, shuffled."""
        width = changed.shape[1]
        # Channel c of part p goes to c · parts + p: parts are laid side by side along an axis of their own.
        if changed.stride(1) == 1:  # channels last in memory
            rest = unchanged.permute(0, 2, 3, 1).unflatten(-1, (-1, width)).transpose(-1, -2)
            shuffled: Tensor = torch.cat([changed.permute(0, 2, 3, 1)[..., None], rest], -1).flatten(3)
            return shuffled.permute(0, 3, 1, 2)
        rest = unchanged.unflatten(1, (-1, width)).transpose(1, 2)
        return torch.cat([changed[:, :, None], rest], 2).flatten(1, 2)


def check_parts(channels: int, parts: int) -> None:
    """Raise where channels cannot be split into as many parts."""
    if channels % parts:
        raise NesbsError(f"supernet.channels must be a multiple of supernet.partial ({parts}), found {channels}")


def member_norm(channels: int) -> nn.Module:
    """BatchNorm of a stand-alone network: affine, with running averages for testing."""
    return nn.BatchNorm2d(channels)


def supernet_norm(*, affine: bool) -> Norm:
    """BatchNorm of a supernet: statistics of the batch at hand, since running averages would fit no single path."""
    return lambda channels: nn.BatchNorm2d(channels, affine=affine, track_running_stats=False)


class Normalise(nn.Module):
    """The model's first layer: images in [0, 1] to zero mean and unit deviation of the training images."""

    mean: Tensor
    std: Tensor

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("std", torch.ones(channels))

    def set(self, mean: Tensor, std: Tensor) -> None:
        """Take over a data set's mean and deviation, each (channels,)."""
        self.mean.copy_(mean)
        self.std.copy_(std)

    def forward(self, images: Tensor) -> Tensor:
        """Normalise (batch, channels, height, width)."""
        return (images - self.mean[:, None, None]) / self.std[:, None, None]
