"""Convolutions: our gradients are torch's, on every machine, and no more often than they are meant to be."""

import pytest
import torch
from torch import nn

from nesbs.spaces import convolution, get_space
from nesbs.spaces.convolution import Convolution

# inputs, outputs, kernel, stride, padding, dilation, groups: every kind that a space builds, and uneven ones
KINDS = {
    "3x3": (6, 4, 3, 1, 1, 1, 1),
    "1x1": (6, 4, 1, 1, 0, 1, 1),
    "one channel": (1, 4, 3, 1, 1, 1, 1),
    "no padding": (4, 4, 2, 1, 0, 1, 1),
    "padded 1x1": (3, 4, 1, 1, 1, 1, 1),
    "row": (4, 4, (1, 7), 1, (0, 3), 1, 1),
    "column": (4, 4, (7, 1), 1, (3, 0), 1, 1),
    "dilated": (4, 6, 3, 1, 2, 2, 1),
    "dilated unevenly": (4, 6, (3, 2), 1, (2, 1), (2, 3), 1),
    "depthwise": (6, 6, 3, 1, 1, 1, 6),
    "depthwise 5x5": (6, 6, 5, 1, 2, 1, 6),
    "depthwise dilated": (6, 6, 5, 1, 4, 2, 6),
    "depthwise uneven": (6, 6, (3, 1), 1, (1, 0), (2, 1), 6),
    "halved": (6, 4, 3, 2, 1, 1, 1),
    "halved 1x1": (6, 4, 1, 2, 0, 1, 1),
    "halved unevenly": (4, 4, (1, 7), (1, 2), (0, 3), 1, 1),
    "depthwise halved, dilated": (6, 6, 5, 2, 4, 2, 6),
}
PLAIN = {"groups of two": (6, 6, 3, 1, 1, 1, 3), "widened": (4, 8, 3, 1, 1, 1, 4)}


def layer(kind, *, bias=False):
    torch.manual_seed(0)
    inputs, outputs, kernel, stride, padding, dilation, groups = (KINDS | PLAIN)[kind]
    return Convolution(inputs, outputs, kernel, stride, padding, dilation, groups, bias=bias).double()


def results(module, x, memory_format):
    """Output, and gradients by the input and by the weights."""
    module.to(memory_format=memory_format)
    x = x.contiguous(memory_format=memory_format).requires_grad_()
    out = module(x)
    upstream = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)
    return [out, *torch.autograd.grad(out, [x, module.weight], upstream)]


@pytest.fixture
def ours(monkeypatch):
    """Our gradients, whatever the processor; how often they were computed."""
    computed = []
    by_weight = convolution._by_weight
    monkeypatch.setattr(convolution, "SLOW_GRADIENTS", True)
    monkeypatch.setattr(convolution, "SMALL", 0)
    monkeypatch.setattr(convolution, "_by_weight", lambda *args: (computed.append(args), by_weight(*args))[1])
    return computed


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=["first", "last"])
@pytest.mark.parametrize("kind", KINDS)
def test_our_gradients_are_torchs(kind, memory_format, ours, monkeypatch, random):
    monkeypatch.setattr(convolution, "AT_ONCE", 2000)  # two images or three of the five
    module = layer(kind)
    x = torch.randn(5, module.in_channels, 9, 8, generator=random, dtype=torch.float64)
    found = results(module, x, memory_format)
    assert len(ours) == 1
    monkeypatch.setattr(convolution, "SLOW_GRADIENTS", False)
    torch.testing.assert_close(found, results(module, x, memory_format), rtol=1e-12, atol=1e-12)
    assert len(ours) == 1


@pytest.mark.parametrize("kind", PLAIN)
def test_what_has_no_gradients_of_ours_has_torchs(kind, ours, random):
    module = layer(kind)
    x = torch.randn(2, module.in_channels, 9, 8, generator=random, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(module, x)
    assert not ours


def test_only_what_is_asked_for_is_computed(ours, random):
    module = layer("3x3")
    x = torch.randn(2, 6, 5, 5, generator=random, dtype=torch.float64)
    module(x).sum().backward()  # by the weights alone, as in a stem
    assert len(ours) == 1
    assert x.grad is None
    module.requires_grad_(requires_grad=False)
    module(x.requires_grad_()).sum().backward()  # by the images alone, as in an attack
    assert len(ours) == 1
    assert x.grad is not None


def test_without_gradients_in_low_precision_or_with_a_bias_it_is_torchs(ours, random):
    module, x = layer("3x3").float(), torch.randn(2, 6, 5, 5, generator=random)
    with torch.no_grad():
        module(x)
    with torch.autocast("cpu", torch.bfloat16):
        module(x).sum().backward()
    layer("3x3", bias=True)(x.double()).sum().backward()
    assert not ours


def test_small_inputs_single_images_and_transformed_functions_have_torchs(ours, monkeypatch, random):
    module, x = layer("3x3"), torch.randn(4, 6, 5, 5, generator=random, dtype=torch.float64)
    module(x[0]).sum().backward()
    each = torch.func.vmap(torch.func.grad(lambda image: module(image[None]).sum()))(x)
    assert each.shape == x.shape
    monkeypatch.setattr(convolution, "SMALL", x.numel() + 1)
    module(x).sum().backward()
    assert not ours
    monkeypatch.setattr(convolution, "SMALL", x.numel())
    module(x).sum().backward()
    assert len(ours) == 1


def test_an_exported_network_holds_plain_convolutions(ours, random):
    exported = torch.export.export(layer("3x3").float(), (torch.randn(2, 6, 5, 5, generator=random),))
    assert [node.target for node in exported.graph.nodes if node.op == "call_function"] == [
        torch.ops.aten.conv2d.default
    ]


@pytest.mark.parametrize(("space", "cells"), [("nasbench201", 1), ("darts", 3)])
def test_a_network_has_no_other_convolutions(space, cells):
    network = get_space(space).supernet(classes=3, in_channels=1, channels=4, cells=cells, affine=False)
    found = [module for module in network.modules() if isinstance(module, nn.Conv2d)]
    assert found
    assert all(type(module) is Convolution for module in found)
