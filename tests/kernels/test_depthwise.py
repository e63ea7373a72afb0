"""Separable and dilated convolutions by our kernels against plain torch: states, gradients, running averages."""

import copy

import pytest
import torch

from nesbs.ensemble import MemberSettings, build_member, member_training
from nesbs.kernels.depthwise import Tile
from nesbs.spaces import toy_pairs
from nesbs.spaces.operations import Units, operation


@pytest.fixture(autouse=True)
def _blocks(monkeypatch, device):
    """In the interpreter the number of programs is what takes time."""
    if device.type == "cpu":
        for name, size in {"PULL": Tile(128), "NUMBERS": 1024, "WIDE": 32}.items():
            monkeypatch.setattr(f"nesbs.kernels.depthwise.{name}", size)


@pytest.mark.parametrize(
    ("op", "channels", "stride", "drops"),
    [
        ("sep_conv_3x3", 20, 1, True),
        ("dil_conv_3x3", 20, 2, True),
        ("nor_conv_1x1", 20, 1, False),
        pytest.param("sep_conv_3x3", 36, 1, False, marks=pytest.mark.slow),
        pytest.param("sep_conv_3x3", 144, 1, True, marks=pytest.mark.slow),
        pytest.param("sep_conv_3x3", 72, 2, False, marks=pytest.mark.slow),
        pytest.param("sep_conv_5x5", 20, 2, False, marks=pytest.mark.slow),
        pytest.param("dil_conv_5x5", 20, 1, False, marks=pytest.mark.slow),
    ],
)
def test_an_operation_gives_torchs_values_gradients_and_running_averages(op, channels, stride, drops, device, close):
    torch.manual_seed(0)
    plain = operation(op, channels, stride, torch.nn.BatchNorm2d).to(device)
    for name, parameter in plain.named_parameters():
        if parameter.ndim == 1:
            torch.nn.init.normal_(parameter, float("weight" in name), 0.3)  # offset and scale take part
    sides = (5, 7) if stride == 2 else (6, 4)
    x = torch.randn(6, channels, *sides, device=device, requires_grad=True)
    other = torch.randn_like(plain(x)).requires_grad_()
    ours = copy.deepcopy(plain)
    ours.fused = True
    assert ours.fits()
    drop = torch.tensor([1.5, 0, 0.5, 1.5, 1, 1], device=device) if drops else None
    expected, out = plain(x, drop, other), ours(x, drop, other)
    assert type(out.grad_fn).__name__ == "PermuteBackward0"  # channels last: not what torch made of x
    close(out, expected)
    for one, two in zip(ours.buffers(), plain.buffers(), strict=True):
        close(one, two)
    slope = torch.randn(*expected.shape[:1], *expected.shape[2:], 2 * channels, device=device).permute(0, 3, 1, 2)
    slope = slope[:, channels:]  # as of states that lie side by side in a cell's output
    found = torch.autograd.grad(out, [x, other, *ours.parameters()], slope)
    for one, two in zip(found, torch.autograd.grad(expected, [x, other, *plain.parameters()], slope), strict=True):
        close(one, two)
    if device.type == "cuda":  # sums are made in one order
        again = torch.autograd.grad(ours(x, drop, other), [x, other, *ours.parameters()], slope)
        assert all(torch.equal(one, two) for one, two in zip(found, again, strict=True))


def test_members_take_the_kernels_where_asked_and_in_bfloat16_alone(noise, device):
    architecture = list(toy_pairs())[-1]
    for more, fused in (({"kernels": "auto"}, False), ({"precision": "float32"}, False), ({}, True)):
        settings = MemberSettings.of({"cells": 3, "channels": 4, "kernels": "ours", "precision": "bfloat16", **more})
        split = noise.train.to(device)
        member = build_member(toy_pairs(), architecture, split, settings, seed=0, name=0)
        member_training(member, split, settings, seed=0, name=0)
        assert {part.fused for part in member.modules() if isinstance(part, Units)} == {fused}


@pytest.mark.slow
def test_a_member_has_the_plain_ones_answers_and_gradients(noise, device, close):
    space, split = toy_pairs(), noise.train.to(device)
    architecture = list(space)[-1]
    settings = MemberSettings.of({"cells": 3, "channels": 4, "precision": "float32", "auxiliary": 0.4})
    images = split.pixels(torch.arange(3, device=device))
    found = []
    for fused in (False, True):
        member = build_member(space, architecture, split, settings, seed=0, name=0).train()
        for part in member.modules():
            if isinstance(part, Units):
                part.fused = fused
        drop = torch.rand(*member.network.drop_paths, 3, generator=torch.Generator().manual_seed(0)).to(device)
        logits, auxiliary = member.outputs(images, drop=drop)
        (logits.square().sum() + auxiliary.square().sum()).backward()
        gradients = [parameter.grad for parameter in member.parameters()]
        found.append([logits, auxiliary, torch.cat([one.flatten() for one in gradients]), *member.buffers()])
    for plain, ours in zip(*found, strict=True):
        close(ours, plain)
