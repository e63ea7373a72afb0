"""Operations: the GPU's results and gradients, in every memory layout, against the CPU's in double precision."""

import pytest
import torch
import torch.nn.functional as F

from nesbs.spaces.nasbench201 import Reduction
from nesbs.spaces.operations import OPERATIONS, AveragePool, Partial, operation

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


def results(name, stride, x, upstream, device, dtype, memory_format):
    """Output, and gradients by the input and by every weight, as doubles on the CPU."""
    torch.manual_seed(0)
    module = operation(name, 8, stride, torch.nn.BatchNorm2d).to(device, dtype).to(memory_format=memory_format)
    x = x.to(device, dtype).contiguous(memory_format=memory_format).requires_grad_()
    out = module(x)
    gradients = torch.autograd.grad(out, [x, *module.parameters()], upstream.to(device, dtype))
    return [tensor.detach().double().cpu() for tensor in (out, *gradients)]


@pytest.mark.gpu
@GPU
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=["first", "last"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=["double", "low"])
def test_a_gpu_computes_what_a_cpu_computes(name, stride, memory_format, dtype, random):
    x = torch.randn(16, 8, 12, 12, generator=random, dtype=torch.float64)
    upstream = torch.randn(16, 8, 12 // stride, 12 // stride, generator=random, dtype=torch.float64)
    expected = results(name, stride, x, upstream, "cpu", torch.float64, torch.contiguous_format)
    found = results(name, stride, x, upstream, "cuda", dtype, memory_format)
    loose = 0.12 if dtype is torch.bfloat16 else 1e-6  # two BatchNorms one after the other: 10.4 % on an H200
    for one, two in zip(expected, found, strict=True):
        assert (one - two).norm() <= loose * one.norm() + 1e-9


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("side", [4, 7, 12])
def test_pooling_over_padded_images_is_pooling_that_leaves_the_padding_out(stride, side, random):
    # The form that a GPU takes with channels last, done here by hand.
    x = torch.randn(3, 2, side, side, generator=random)
    padded = F.avg_pool2d(F.pad(x, (1, 1, 1, 1)), 3, stride)
    inside = F.avg_pool2d(F.pad(torch.ones(1, 1, side, side), (1, 1, 1, 1)), 3, stride)
    torch.testing.assert_close(AveragePool(stride)(x), padded / inside)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("parts", [2, 4])
@pytest.mark.parametrize("stride", [1, 2])
def test_partial_channels_pass_by_and_are_shuffled(stride, parts, memory_format):
    module = Partial(operation("dil_conv_3x3", 3, stride, torch.nn.BatchNorm2d), parts, stride)
    x = torch.randn(2, 3 * parts, 6, 6, generator=torch.Generator().manual_seed(0)).to(memory_format=memory_format)
    joined = torch.cat([module.module(x[:, :3]), module.bypass(x[:, 3:])], 1)
    torch.testing.assert_close(module(x), joined.unflatten(1, (parts, 3)).transpose(1, 2).flatten(1, 2))


def test_a_shortcut_as_one_convolution():
    torch.manual_seed(0)
    reduction = Reduction(4, 8, torch.nn.BatchNorm2d)
    x = torch.randn(2, 4, 7, 6)
    torch.testing.assert_close(reduction._as_one(x), reduction.shortcut(x))
