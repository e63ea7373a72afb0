"""Convolutions, with gradients of our own on Arm processors without SVE.

torch computes a convolution there by kernels of the Arm Compute Library, and its gradients by general ones, which take
twice to six times as long as the convolution, depthwise up to 57 times (results/benchmarks/README.md). The gradient by
the input is a convolution itself, where the stride is 1; the one by the weights is a product.
"""

import platform
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

SLOW_GRADIENTS = platform.machine() == "aarch64" and torch.backends.cpu.get_cpu_capability() == "DEFAULT"
SMALL = 2**14  # numbers of an input: with fewer torch's gradients are quicker
AT_ONCE = 2**22  # bytes of the table of pixels whose product with the gradient is taken at once

Pair = tuple[int, int]  # for rows and columns


class Convolution(nn.Conv2d):
    """`nn.Conv2d`, with the same weights and results within rounding.

    >>> Convolution(3, 8, 3, padding=1)(torch.zeros(2, 3, 4, 4)).shape
    torch.Size([2, 8, 4, 4])
    """

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        if SLOW_GRADIENTS and bias is None and self._trains(input) and self._fits():
            out: Tensor = _WithGradients.apply(input, weight, self.stride, self.padding, self.dilation, self.groups)
        else:
            out = super()._conv_forward(input, weight, bias)
        return out

    def _trains(self, x: Tensor) -> bool:
        """Whether gradients are wanted on a CPU, in full precision and by nothing that is exported or compiled.

        Nor by what `torch.func` transforms, which takes no function with a gradient of its own.
        """
        return (
            torch.is_grad_enabled()
            and x.device.type == "cpu"
            and (x.requires_grad or self.weight.requires_grad)
            and x.ndim == 4
            and x.numel() >= SMALL
            and not torch.compiler.is_compiling()
            and not torch.is_autocast_enabled("cpu")
            and not torch._C._are_functorch_transforms_active()
        )

    def _fits(self) -> bool:
        """Whether the gradients below are its: all channels together or each alone, zeros around the image."""
        each_alone = self.groups == self.in_channels == self.out_channels
        return self.padding_mode == "zeros" and (self.groups == 1 or each_alone)


class _WithGradients(torch.autograd.Function):
    """`F.conv2d` of x (batch, inputs, height, width) and weight (outputs, inputs a group, rows, columns)."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, stride: Pair, padding: Pair, dilation: Pair, groups: int
    ) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.how = stride, padding, dilation, groups
        return F.conv2d(x, weight, None, stride, padding, dilation, groups)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,), how = gradients, (*ctx.saved_tensors, *ctx.how)
        by_input = _by_input(gradient, *how) if ctx.needs_input_grad[0] else None
        by_weight = _by_weight(gradient, *how) if ctx.needs_input_grad[1] else None
        return by_input, by_weight, None, None, None, None


def _by_input(
    gradient: Tensor, x: Tensor, weight: Tensor, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Tensor:
    """A convolution of the gradient with the weights turned around; torch's own where that is none of stride 1."""
    around = [d * (k - 1) - p for d, k, p in zip(dilation, weight.shape[2:], padding, strict=True)]
    if stride != (1, 1) or min(around) < 0:
        how = (None, stride, padding, dilation, False, (0, 0), groups, (True, False, False))
        by_input: Tensor = torch.ops.aten.convolution_backward(gradient, x, weight, *how)[0]
        return by_input
    turned = weight.flip(2, 3)
    turned = (turned if groups > 1 else turned.transpose(0, 1)).contiguous(memory_format=torch.channels_last)
    return F.conv2d(gradient, turned, None, 1, around, dilation, groups)


def _by_weight(
    gradient: Tensor, x: Tensor, weight: Tensor, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Tensor:
    """For each place of the kernel the gradient times the pixels that this place saw, summed over all pixels."""
    slopes, pixels = (each.permute(0, 2, 3, 1).contiguous() for each in (gradient, x))
    if any(padding):
        pixels = F.pad(pixels, (0, 0, padding[1], padding[1], padding[0], padding[0]))
    image, row, column, _ = pixels.stride()
    (rows, columns), (_, height, width, channels) = weight.shape[2:], slopes.shape
    seen = pixels.as_strided(
        (len(pixels), height, width, rows, columns, pixels.shape[-1]),
        (image, stride[0] * row, stride[1] * column, dilation[0] * row, dilation[1] * column, 1),
    )
    if groups > 1:
        places = [(i, j) for i in range(rows) for j in range(columns)]
        return torch.stack([(slopes * seen[:, :, :, i, j]).sum((0, 1, 2)) for i, j in places], 1).view_as(weight)
    total = x.new_zeros(channels, rows * columns * pixels.shape[-1])
    images = max(1, AT_ONCE // (height * width * total[0].nbytes))
    for some, their in zip(seen.split(images), slopes.split(images), strict=True):
        total.addmm_(their.reshape(-1, channels).T, some.reshape(-1, total.shape[1]))
    return total.view(channels, rows, columns, -1).permute(0, 3, 1, 2)
