"""Kernels are compiled side by side, once for each version, and nothing runs meanwhile."""

import pytest
import torch

from nesbs.ensemble import MemberSettings, build_member, joint_step, member_training
from nesbs.kernels.compile_ahead import compile_ahead, launches_of
from nesbs.spaces import toy_edges, toy_pairs
from nesbs.training import Batch
from nesbs.training.loop import _optimiser


def test_every_version_of_a_kernel_is_compiled_once_and_none_is_run(device, monkeypatch):
    if device.type == "cuda":
        pytest.skip("asks what would be compiled")
    from nesbs.kernels import edge_programs as programs

    compiled = []

    def warmup(self, *arguments, grid, **named):
        compiled.append((self.fn.__name__, arguments[0], named["C"]))

    monkeypatch.setattr(type(programs.moments), "warmup", warmup)
    sums = torch.zeros(1, 1, 2, 16)

    def work():
        for pixels in (32, 48):  # 16 divides both: one version
            for dtype in (torch.float32, torch.bfloat16):
                rows = torch.ones(1, pixels, 16, dtype=dtype)
                programs.moments[1, 1](rows, sums, 1, pixels, C=16, BLOCK=16)

    compile_ahead(work)
    assert sorted(compiled, key=str) == [("moments", torch.bfloat16, 16), ("moments", torch.float32, 16)]
    assert float(sums.abs().max()) == 0
    work()  # afterwards they run
    assert sums.flatten().tolist() == [48.0] * 32


SIZE = {"cells": 1, "channels": 16, "batch_size": 4, "kernels": "ours", "precision": "bfloat16"}


def names(work):
    return {launch.program.fn.__name__ for launch in launches_of(work)}


def test_what_a_members_step_launches_is_found_without_running_it(noise, device):
    if device.type == "cuda":
        pytest.skip("asks what would be compiled")
    split, space = noise.train, toy_edges()
    settings = MemberSettings.of(SIZE)
    member = build_member(
        space, space.parse("|nor_conv_3x3~0|+|skip_connect~0|nor_conv_3x3~1|"), split, settings, seed=0, name=0
    )
    joint, optimiser = joint_step([member.train()], split, settings), _optimiser(member, settings, device)
    batch = Batch(split.pixels(torch.arange(4)), split.labels[:4], 0, 0)
    joint.record(member)(None, batch, optimiser)(batch)
    inside = {"convolve", "finish", "assemble", "reduce", "undo", "pull", "weigh"}
    assert names(joint.run) == {*inside, "moments"}

    settings = MemberSettings.of({**SIZE, "cells": 3})
    member = build_member(toy_pairs(), list(toy_pairs())[-1], split, settings, seed=0, name=0)
    training = member_training(member, split, settings, seed=0, name=0)
    unit = {"convolve", "mix", "finish", "deliver", "reduce", "finish_back", "unmix", "weigh", "pull", "total"}
    assert names(lambda: next(training)) == unit
