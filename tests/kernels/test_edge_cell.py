"""The kernels against plain torch: states, gradients, and whole steps of a supernet."""

import pytest
import torch
import torch.nn.functional as F

from nesbs import kernels
from nesbs.rng import generator
from nesbs.spaces import EdgeSpace, nasbench201, toy_edges
from nesbs.supernet import SupernetSettings, build_supernet, draw_groups, predictor
from nesbs.supernet.fused_network import FusedNetwork, fits, fused_network
from nesbs.supernet.fused_step import FusedStep
from nesbs.supernet.untrained import Untrained
from nesbs.training import Batch


@pytest.mark.parametrize(
    ("make", "shared", "parts"),
    [
        pytest.param(nasbench201, True, 1, id="one input-nasbench201"),
        pytest.param(nasbench201, False, 1, marks=pytest.mark.slow, id="own inputs-nasbench201"),
        pytest.param(toy_edges, True, 1, id="one input-toy_edges"),
        pytest.param(toy_edges, False, 1, id="own inputs-toy_edges"),
        pytest.param(nasbench201, True, 2, id="one input-nasbench201-half the channels"),
        pytest.param(toy_edges, False, 4, id="own inputs-toy_edges-a quarter"),
    ],
)
def test_a_cell_gives_every_paths_states_and_gradients(make, shared, parts, device, close):
    from nesbs.kernels.edge_cell import FusedEdgeCell

    space, channels = make(), 16
    torch.manual_seed(0)
    [group] = draw_groups(space, 1, seed=3, epoch=0, skip_dead=False, paths="fair")
    size = {"channels": channels, "cells": 1, "partial": parts}
    network = space.supernet(classes=10, in_channels=3, affine=False, **size).to(device)
    cell = network.stages[0][0]
    fused = fused_network(network)
    row = fused.weights[0].requires_grad_()
    codes = torch.tensor([fused.codes(path) for path in group], dtype=torch.int32, device=device)
    x = torch.randn(1 if shared else len(group), 3, 6, 5, channels, device=device, requires_grad=True)
    first3 = channels**2 if "nor_conv_1x1" in space.operations else 0
    wide = fused.widened(row, channels)
    out = FusedEdgeCell.apply(x, wide, codes, space.nodes, first3 + 9 * channels**2, first3, None, None, parts)
    plain = []
    for number, path in enumerate(group):
        last = cell.path([x[0 if shared else number].permute(0, 3, 1, 2)], space.live(path)[0])[-1]
        plain.append(torch.zeros_like(out[0]) if last is None else last.permute(0, 2, 3, 1))
    plain = torch.stack(plain)
    close(out, plain)
    slope = torch.randn_like(out)
    weights = list(cell.parameters())
    by_x, *by_weights = torch.autograd.grad(plain, [x, *weights], slope, allow_unused=True)
    expected = [torch.zeros_like(w) if g is None else g for w, g in zip(weights, by_weights, strict=True)]
    got_x, got = torch.autograd.grad(out, [x, row], slope)
    close(got_x, by_x)
    close(got, torch.cat([g.permute(0, 2, 3, 1).flatten() for g in expected]))
    assert float(got.abs().max()) > 0.1


def test_batch_norm_keeps_batches_apart(device, close):
    torch.manual_seed(0)
    x = (3 + torch.randn(6, 8, 5, 4, device=device)).requires_grad_()
    out = kernels.batch_norm(x, 2)
    plain = torch.cat([F.batch_norm(part, None, None, training=True) for part in x.chunk(2)])
    close(out, plain)
    slope = torch.randn_like(out)
    close(torch.autograd.grad(out, x, slope)[0], torch.autograd.grad(plain, x, slope)[0])


def test_no_kernel_for_widths_that_are_no_power_of_two(device):
    assert kernels.batch_norm(torch.ones(2, 6, 2, 2, device=device), 1) is None
    assert kernels.batch_norm(torch.ones(2, 8, 2, 2, device=device).double(), 1) is None


def settings_of(**more):
    return SupernetSettings.of({"cells": 1, "channels": 16, "batch_size": 4, "learning_rate": 0.02, **more})


@pytest.mark.parametrize("make", [pytest.param(nasbench201, marks=pytest.mark.slow), toy_edges])
@pytest.mark.parametrize(("fair", "parts"), [(False, 1), (True, 1), (False, 2)], ids=["one", "fair", "partial"])
def test_steps_give_the_plain_steps_losses_and_weights(make, fair, parts, device, noise, large_blocks):
    space, settings, steps = make(), settings_of(nesterov=True, partial=parts), 2 if fair else 3
    split = noise.search_train.to(device)
    groups = draw_groups(space, steps, seed=0, epoch=0, skip_dead=fair, paths="fair" if fair else "one")
    groups[0] = (space.architecture([0] * len(space.variables)),)  # nothing reaches the output
    supernets = [build_supernet(space, split, settings, seed=0) for _ in range(2)]
    assert fits(supernets[1].network, device, split.size)
    optimisers = [
        torch.optim.SGD(supernet.parameters(), lr=0.02, momentum=0.9, nesterov=True, weight_decay=3e-4)
        for supernet in supernets
    ]
    fused, losses = None, []
    for step, group in enumerate(groups):
        index = torch.randperm(len(split), generator=generator(0, step))[:4].to(device)
        batch = Batch(split.pixels(index), split.labels[index], 0, step)
        if fused is None:
            fused = FusedStep(supernets[1].network, [groups], batch, settings, optimisers[1])
        optimisers[0].zero_grad(set_to_none=True)
        plain = torch.stack([F.cross_entropy(supernets[0](batch.images, path), batch.labels) for path in group]).mean()
        plain.backward()
        torch.nn.utils.clip_grad_norm_([p for p in supernets[0].parameters() if p.grad is not None], settings.clip)
        optimisers[0].step()
        losses.append((float(plain.detach()), float(fused(batch))))
    one, two = zip(*losses, strict=True)
    assert two == pytest.approx(one, rel=1e-3)
    for (name, weight), other in zip(supernets[0].named_parameters(), supernets[1].parameters(), strict=True):
        torch.testing.assert_close(weight, other, atol=1e-3, rtol=1e-2, msg=name)
    # What no path has used is untouched, bit for bit.
    fresh = dict(build_supernet(space, split, settings, seed=0).named_parameters())
    same = [{n for n, w in net.named_parameters() if torch.equal(w, fresh[n])} for net in supernets]
    assert same[0] == same[1]
    assert fair or same[0]


@pytest.mark.parametrize("parts", [1, 2])
def test_estimates_of_many_are_those_of_each(parts, device, close, noise, large_blocks):
    split = noise.search_valid.subset(torch.arange(8)).to(device)
    supernet = build_supernet(nasbench201(), split, settings_of(partial=parts), seed=0).eval()
    paths = nasbench201().sample(3, generator=generator(0))
    with torch.no_grad():
        plain = torch.stack([supernet(split.pixels(), path) for path in paths])
    close(fused_network(supernet.network).predict(split.pixels(), paths), plain)


def test_untrained_networks_score_as_by_the_plain_path(device, noise, large_blocks, monkeypatch):
    monkeypatch.setattr("nesbs.supernet.untrained.IMAGES", 4)
    split, space = noise.search_valid.to(device), toy_edges()
    paths = [space.parse(f"|{a}~0|+|{b}~0|nor_conv_3x3~1|") for a, b in (("none", "none"), ("nor_conv_3x3", "none"))]
    paths.append(space.parse("|skip_connect~0|+|nor_conv_3x3~0|nor_conv_3x3~1|"))
    ours = Untrained(space, split, cells=1, channels=16).scores(paths)
    monkeypatch.setattr("nesbs.supernet.untrained.fits", lambda *_: False)
    monkeypatch.setattr(kernels.support, "INTERPRETED", False)
    plain = Untrained(space, split, cells=1, channels=16).scores(paths)
    torch.testing.assert_close(ours, plain, rtol=1e-3, atol=1e-3)
    assert plain[0] == 0 < plain[1:].min()


def test_what_leads_nowhere_is_not_computed(device):
    space = nasbench201()
    network = space.supernet(classes=3, in_channels=1, channels=16, cells=1, affine=False)
    text = "|skip_connect~0|+|nor_conv_3x3~0|none~1|+|nor_conv_1x1~0|none~1|none~2|"
    assert fused_network(network).codes(space.parse(text)) == [0, 0, 0, 2, 0, 0]


def test_only_networks_with_kernels_fit(device, noise):
    split = noise.search_train
    for more, fitting in (
        ({}, True),
        ({"channels": 8}, False),
        ({"channels": 24}, False),
        ({"affine": True}, False),
        ({"partial": 2}, True),
    ):
        network = build_supernet(nasbench201(), split, settings_of(**more), seed=0).network
        assert fits(network, device, split.size) is fitting
    assert not fits(network, torch.device("meta"), split.size)
    # The kernels find a 3×3 convolution's weights behind those of a 1×1.
    for operations, fitting in ((("nor_conv_1x1", "nor_conv_3x3"), True), (("nor_conv_3x3", "nor_conv_1x1"), False)):
        network = build_supernet(EdgeSpace("mine", 3, operations), split, settings_of(), seed=0).network
        assert fits(network, device, split.size) is fitting


def test_one_setting_turns_the_kernels_off(device, noise):
    split = noise.search_valid.subset(torch.arange(8)).to(device)
    for record in (True, False):
        supernet = build_supernet(toy_edges(), split, settings_of(record=record), seed=0)
        assert isinstance(getattr(predictor(supernet, split), "__self__", None), FusedNetwork) is record


def test_momentum_from_a_checkpoint_is_taken_over(device, noise):
    split = noise.search_train.to(device)
    supernet = build_supernet(toy_edges(), split, settings_of(), seed=0)
    optimiser = torch.optim.SGD(supernet.parameters(), lr=0.02, momentum=0.9)
    for weight in supernet.parameters():
        optimiser.state[weight]["momentum_buffer"] = torch.full_like(weight, 7.0)
    batch = Batch(split.pixels(slice(0, 4)), split.labels[:4], 0, 0)
    step = FusedStep(supernet.network, [[(next(iter(toy_edges())),)]], batch, settings_of(), optimiser)
    assert all(bool((optimiser.state[w]["momentum_buffer"] == 7).all()) for w in supernet.parameters())
    assert step._parameters.momentum.unique().tolist() == [7.0]


def test_low_precision_stays_close(device, noise, large_blocks):
    split, losses = noise.search_train.to(device), []
    groups = draw_groups(toy_edges(), 2, seed=0, epoch=0, skip_dead=True)
    for precision in ("bfloat16", "float32"):
        settings = settings_of(precision=precision, batch_size=16)
        supernet = build_supernet(toy_edges(), split, settings, seed=0)
        optimiser = torch.optim.SGD(supernet.parameters(), lr=0.02, momentum=0.9)
        batches = [Batch(split.pixels(slice(0, 16)), split.labels[:16], 0, step) for step in range(2)]
        step = FusedStep(supernet.network, [groups], batches[0], settings, optimiser)
        losses.append([float(step(batch)) for batch in batches])
    assert losses[0] == pytest.approx(losses[1], rel=0.03)
