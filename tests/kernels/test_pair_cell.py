"""A DARTS cell as data against plain torch: states, gradients, whole steps, estimates."""

import pytest
import torch
import torch.nn.functional as F

from nesbs.rng import generator
from nesbs.spaces import darts
from nesbs.spaces.darts import DartsSpace
from nesbs.supernet import SupernetSettings, build_supernet, draw_groups
from nesbs.supernet.fused_network import PAIR_CODES, fits, fused_network
from nesbs.supernet.fused_step import FusedStep
from nesbs.supernet.parameter_vector import flat
from nesbs.training import Batch

SOURCES = [(0, 1), (0, 2), (1, 3), (3, 4)]  # every state is read, some by two nodes
CELLS = [(op, partial, reduces) for op in PAIR_CODES for partial in (1, 2) for reduces in (False, True)]
QUICK = [  # the others take long in the interpreter
    *((op, 2, False) for op in ("skip_connect", "avg_pool_3x3", "sep_conv_3x3")),
    *((op, 2, True) for op in ("skip_connect", "max_pool_3x3", "dil_conv_3x3")),
    ("dil_conv_3x3", 1, False),
]


@pytest.mark.parametrize(
    ("op", "partial", "reduces"),
    [pytest.param(*one, marks=[] if one in QUICK else pytest.mark.slow) for one in CELLS],
)
def test_a_cell_of_one_operation_gives_its_states_and_gradients(op, reduces, partial, device, close, monkeypatch):
    monkeypatch.setattr("nesbs.kernels.pair_cell.BLOCK", 32 if partial == 1 else 128)  # several, or one
    from nesbs.kernels.pair_cell import FusedPairCell

    torch.manual_seed(0)
    # The interpreter takes its time for every slot: four nodes where an operation is quick, two elsewhere.
    nodes = 4 if op == "skip_connect" or device.type == "cuda" else 2
    sources = SOURCES[:nodes]
    space = DartsSpace("darts", nodes, darts().operations, member_size=(3, 16), supernet_size=(3, 16))
    network = space.supernet(classes=3, in_channels=3, channels=16, cells=3, affine=False, partial=partial).to(device)
    position, stride = (1, 2) if reduces else (0, 1)
    cell = network.cells[position]
    assert cell.reduces is reduces
    fused = fused_network(network)
    row = fused.weights[position].requires_grad_()
    plan = [[number for pair in sources for source in pair for number in (source, PAIR_CODES[op])]]
    plan = torch.tensor(plan, dtype=torch.int32, device=device).view(1, 2 * nodes, 2)
    high = 4 if "pool" in op else 2  # pools of a small image are nearly constant: BatchNorm magnifies their rounding
    shape = (1, 2, high * stride, 4 * stride, 32 if reduces else 16)
    inputs = [torch.randn(shape, device=device, requires_grad=True) for _ in range(2)]
    out = FusedPairCell.apply(*inputs, row, plan, fused._tables[position], partial, stride)
    path = tuple(tuple((op, source) for source in pair) for pair in sources)
    states = cell.path([x[0].permute(0, 3, 1, 2) for x in inputs], path)[2:]
    plain = torch.cat(states, 1).permute(0, 2, 3, 1)[None]
    close(out, plain)
    slope = torch.randn_like(plain)
    weights = list(cell.edges.parameters())
    by_first, by_second, *by_weights = torch.autograd.grad(plain, [*inputs, *weights], slope, allow_unused=True)
    expected = [torch.zeros_like(w) if g is None else g for w, g in zip(weights, by_weights, strict=True)]
    expected = torch.cat([flat(g) for g in expected])
    for one, two in zip(torch.autograd.grad(out, [*inputs, row], slope), [by_first, by_second, expected], strict=True):
        close(one, two)


def settings_of(**more):
    return SupernetSettings.of(
        {"cells": 3, "channels": 16, "partial": 2, "batch_size": 3, "learning_rate": 0.02, **more}
    )


@pytest.mark.slow
def test_steps_give_the_plain_steps_losses_and_weights(device, noise, large_blocks):
    space, settings = darts(), settings_of()
    split = noise.search_train.to(device)
    [group] = draw_groups(space, 1, seed=1, epoch=0, skip_dead=False, paths="fair")
    groups = [group[:2], group[:1]]  # a group, and a smaller one
    supernets = [build_supernet(space, split, settings, seed=0) for _ in range(2)]
    assert fits(supernets[1].network, device, split.size)
    optimisers = [torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=3e-4) for net in supernets]
    fused = None
    for step, paths in enumerate(groups):
        index = torch.arange(3 * step, 3 * step + 3, device=device)
        batch = Batch(split.pixels(index), split.labels[index], 0, step)
        if fused is None:
            fused = FusedStep(supernets[1].network, [groups], batch, settings, optimisers[1])
        optimisers[0].zero_grad(set_to_none=True)
        loss = torch.stack([F.cross_entropy(supernets[0](batch.images, path), batch.labels) for path in paths]).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for p in supernets[0].parameters() if p.grad is not None], settings.clip)
        optimisers[0].step()
        assert float(fused(batch)) == pytest.approx(float(loss.detach()), rel=2e-3)
    for (name, weight), other in zip(supernets[0].named_parameters(), supernets[1].parameters(), strict=True):
        torch.testing.assert_close(weight, other, atol=1e-3, rtol=1e-2, msg=name)
    fresh = dict(build_supernet(space, split, settings, seed=0).named_parameters())
    same = [{name for name, w in net.named_parameters() if torch.equal(w, fresh[name])} for net in supernets]
    assert same[0] == same[1]
    assert same[0]


@pytest.mark.slow
def test_estimates_of_many_are_those_of_each(device, close, noise, large_blocks):
    split = noise.search_valid.subset(torch.arange(3)).to(device)
    supernet = build_supernet(darts(), split, settings_of(), seed=0).eval()
    paths = darts().sample(2, generator=generator(0))
    with torch.no_grad():
        plain = torch.stack([supernet(split.pixels(), path) for path in paths])
    close(fused_network(supernet.network).predict(split.pixels(), paths), plain)


def test_only_networks_with_kernels_fit(device, noise):
    split = noise.search_train
    for more, fitting in (({}, True), ({"channels": 8}, False), ({"channels": 24}, False), ({"affine": True}, False)):
        network = build_supernet(darts(), split, settings_of(**more), seed=0).network
        assert fits(network, device, split.size) is fitting
    network = build_supernet(darts(), split, settings_of(), seed=0).network
    assert not fits(network, device, (8, 10))  # cannot be halved twice
