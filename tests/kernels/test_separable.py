"""ReLU, depthwise, pointwise, BatchNorm in one, against plain torch; and in the step of a DARTS supernet."""

import pytest
import torch
import torch.nn.functional as F

from nesbs import kernels
from nesbs.spaces import darts
from nesbs.spaces.nasbench201 import Reduction
from nesbs.spaces.operations import Partial, operation
from nesbs.spaces.sharing import BatchesApart
from nesbs.supernet import SupernetSettings, build_supernet, draw_paths
from nesbs.supernet.recorded import RecordedPaths
from nesbs.training import Batch


def close(one, two, device):
    """Equal but for rounding; on a GPU the kernels multiply in TF32."""
    share = 1e-4 if device.type == "cpu" else 1e-2
    torch.testing.assert_close(one, two, rtol=share, atol=share * float(two.detach().abs().max()))


def supernet_norm(channels):
    return torch.nn.BatchNorm2d(channels, affine=False, track_running_stats=False)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("name", ["sep_conv_3x3", "sep_conv_5x5", "dil_conv_3x3", "dil_conv_5x5"])
@pytest.mark.parametrize("channels", [8, 16])
def test_an_operation_gives_the_same_output_and_gradients(name, stride, channels, device):
    torch.manual_seed(0)
    module = operation(name, channels, stride, supernet_norm).to(device)
    # A part of the channels, as partial channels hand it over.
    wide = torch.randn(2, 2 * channels, 7, 6, device=device).contiguous(memory_format=torch.channels_last)
    x = wide[:, :channels].detach().requires_grad_()
    plain = module(x)
    with BatchesApart(1):
        assert kernels.batches == 1
        out = module(x)
    assert kernels.batches == 0
    assert type(out.grad_fn).__name__ != type(plain.grad_fn).__name__  # another way was taken
    close(out, plain, device)
    slope = torch.randn_like(plain)
    for one, two in zip(
        torch.autograd.grad(out, [x, *module.parameters()], slope),
        torch.autograd.grad(plain, [x, *module.parameters()], slope),
        strict=True,
    ):
        close(one, two, device)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("name", ["sep_conv_3x3", "dil_conv_5x5", "max_pool_3x3", "skip_connect"])
@pytest.mark.parametrize("parts", [2, 4])
def test_partial_channels_pass_by_and_are_shuffled(name, stride, parts, device):
    torch.manual_seed(0)
    module = Partial(operation(name, 8, stride, supernet_norm), parts, stride).to(device)
    wide = torch.randn(2, 4 * 8 * parts, 6, 6, device=device).contiguous(memory_format=torch.channels_last)
    x = wide[:, : 8 * parts].detach().requires_grad_()  # a node of a cell, which lies beside the others
    through, past = x[:, :8], x[:, 8:]
    joined = torch.cat([module.module(through), module.bypass(past)], 1)
    plain = joined.unflatten(1, (parts, 8)).transpose(1, 2).flatten(1, 2)
    slope = torch.randn_like(plain)
    wanted = [x, *module.parameters()]
    expected = torch.autograd.grad(plain, wanted, slope)
    with BatchesApart(1):
        out = module(x)
    close(out, plain, device)
    for one, two in zip(torch.autograd.grad(out, wanted, slope), expected, strict=True):
        close(one, two, device)
    torch.testing.assert_close(module(x), plain)  # and without kernels


def test_several_batches_are_normalised_apart(device):
    torch.manual_seed(0)
    module = operation("dil_conv_3x3", 8, 2, supernet_norm).to(device)
    x = torch.randn(6, 8, 5, 5, device=device).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        plain = torch.cat([module(part) for part in x.chunk(3)])
        with BatchesApart(3):
            close(module(x), plain, device)


def test_members_are_not_touched(device):
    module = operation("sep_conv_3x3", 8, 1, torch.nn.BatchNorm2d).to(device)
    x = torch.randn(2, 8, 4, 4, device=device)
    with torch.no_grad():
        expected = module(x)
        module[3].running_mean.zero_()  # it keeps running averages: another pass moves them
        module(x)
    assert float(module[3].running_mean.abs().sum()) > 0
    assert torch.isfinite(expected).all()


def test_a_darts_step_with_kernels_gives_the_plain_steps_weights(device, noise):
    space = darts()
    settings = SupernetSettings.of({"cells": 3, "channels": 16, "partial": 2, "batch_size": 4, "learning_rate": 0.02})
    split = noise.search_train.to(device)
    [path] = draw_paths(space, 1, seed=0, epoch=0, skip_dead=False)
    supernets = [build_supernet(space, split, settings, seed=0) for _ in range(2)]
    optimisers = [torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=3e-4) for net in supernets]
    index = torch.arange(4, device=device)
    batch = Batch(split.pixels(index), split.labels[index], 0, 0)
    recorded = RecordedPaths(supernets[1].network, [[(path,)]], batch, settings, optimisers[1])
    loss = F.cross_entropy(supernets[0](batch.images, path), batch.labels)
    loss.backward()
    torch.nn.utils.clip_grad_norm_([p for p in supernets[0].parameters() if p.grad is not None], settings.clip)
    optimisers[0].step()
    assert float(recorded(batch)) == pytest.approx(float(loss.detach()), rel=1e-3 if device.type == "cpu" else 2e-2)
    for (name, weight), other in zip(supernets[0].named_parameters(), supernets[1].parameters(), strict=True):
        torch.testing.assert_close(weight, other, atol=1e-4 if device.type == "cpu" else 1e-2, rtol=1e-2, msg=name)


def test_a_shortcut_as_one_convolution():
    torch.manual_seed(0)
    reduction = Reduction(4, 8, supernet_norm)
    x = torch.randn(2, 4, 7, 6)
    torch.testing.assert_close(reduction._as_one(x), reduction.shortcut(x))
