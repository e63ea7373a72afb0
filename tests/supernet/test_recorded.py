"""The recorded step against the plain one: the same losses and weights, and only what is in use changes."""

import pytest
import torch
from contracts import SPACES

from nesbs.ensemble import MemberSettings
from nesbs.rng import generator
from nesbs.supernet import SupernetSettings, build_supernet, draw_groups, draw_paths
from nesbs.supernet.recorded import RecordedPaths
from nesbs.training import Batch


def settings_of(**more):
    return SupernetSettings.of({"cells": 3, "channels": 4, "batch_size": 16, "learning_rate": 0.05, **more})


def plain_step(supernet, batch, group, optimiser, settings):
    optimiser.zero_grad(set_to_none=True)
    losses = [torch.nn.functional.cross_entropy(supernet(batch.images, path), batch.labels) for path in group]
    loss = torch.stack(losses).mean()
    loss.backward()
    if settings.clip is not None:
        reached = [p for p in supernet.parameters() if p.grad is not None]
        torch.nn.utils.clip_grad_norm_(reached, settings.clip)
    optimiser.step()
    return loss.detach()


def sgd(supernet, settings, rate=None):
    return torch.optim.SGD(
        supernet.parameters(),
        lr=settings.learning_rate if rate is None else rate,
        momentum=settings.momentum,
        nesterov=settings.nesterov,
        weight_decay=settings.weight_decay,
    )


ON = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")],
    ),
]


@pytest.mark.parametrize("device", ON)
@pytest.mark.parametrize("make", SPACES)
@pytest.mark.parametrize(
    "more",
    [{}, {"nesterov": True, "clip": 0.5, "affine": True}, {"paths": "fair"}],
    ids=["plain", "clipped", "fair"],
)
def test_twenty_steps_give_the_plain_steps_losses_and_weights(make, more, device, noise):
    space = make()
    if space.name == "darts" and not more:
        more = {"partial": 2}
    steps = 4 if more.get("paths") == "fair" else 20
    settings = settings_of(**more)
    split = noise.search_train.to(device)
    paths = draw_groups(space, steps, seed=0, epoch=0, skip_dead=False, paths="fair" if steps == 4 else "one")
    if "none" in space.operations:
        paths[-1] = (*paths[-1][1:], space.architecture([0] * len(space.variables)))  # nothing reaches the output
    # In double precision, so that rounding, which batches of sixteen 8×8 images magnify, has no part in it.
    supernets = [build_supernet(space, split, settings, seed=0).double() for _ in range(2)]
    rate = torch.tensor(0.05, dtype=torch.float64, device=device)
    optimisers = [sgd(supernet, settings, rate) for supernet in supernets]
    recorded, losses = None, []
    for step, group in enumerate(paths):
        index = torch.randperm(len(split), generator=generator(0, step))[:16].to(device)
        batch = Batch(split.pixels(index).double(), split.labels[index], 0, step)
        rate.fill_(0.05 / (step + 1))
        if recorded is None:
            recorded = RecordedPaths(supernets[1].network, [paths], batch, settings, optimisers[1])
        plain = plain_step(supernets[0], batch, group, optimisers[0], settings)
        losses.append((float(plain), float(recorded(batch))))
    one, two = zip(*losses, strict=True)
    assert two == pytest.approx(one, rel=1e-9)
    for (name, weight), other in zip(supernets[0].named_parameters(), supernets[1].parameters(), strict=True):
        torch.testing.assert_close(weight, other, atol=1e-9, rtol=1e-7, msg=name)
    for weight, other in zip(supernets[0].parameters(), supernets[1].parameters(), strict=True):
        plain = optimisers[0].state[weight].get("momentum_buffer")
        kept = optimisers[1].state[other]["momentum_buffer"]
        torch.testing.assert_close(torch.zeros_like(weight) if plain is None else plain, kept, atol=1e-9, rtol=1e-7)


@pytest.mark.parametrize("make", SPACES)
def test_only_what_the_path_uses_changes_bit_for_bit(make, noise):
    space, settings = make(), settings_of(weight_decay=0.1)
    split = noise.search_train
    supernet = build_supernet(space, split, settings, seed=0)
    plain = build_supernet(space, split, settings, seed=0)
    [path] = draw_paths(space, 1, seed=3, epoch=0, skip_dead=True)
    batch = Batch(split.pixels(slice(0, 16)), split.labels[:16], 0, 0)
    before = {name: weight.detach().clone() for name, weight in supernet.named_parameters()}
    RecordedPaths(supernet.network, [[(path,)]], batch, settings, sgd(supernet, settings))(batch)
    plain_step(plain, batch, (path,), sgd(plain, settings), settings)
    changed = {name for name, weight in supernet.named_parameters() if not torch.equal(weight, before[name])}
    assert changed == {name for name, weight in plain.named_parameters() if not torch.equal(weight, before[name])}
    assert changed
    assert changed != set(before)


def test_momentum_from_a_checkpoint_is_taken_over(noise):
    space, settings = SPACES[0](), settings_of()
    split = noise.search_train
    supernet = build_supernet(space, split, settings, seed=0)
    optimiser = sgd(supernet, settings)
    for weight in supernet.parameters():
        optimiser.state[weight]["momentum_buffer"] = torch.full_like(weight, 7.0)
    batch = Batch(split.pixels(slice(0, 16)), split.labels[:16], 0, 0)
    recorded = RecordedPaths(supernet.network, [[(next(iter(space)),)]], batch, settings, optimiser)
    assert all(bool((optimiser.state[w]["momentum_buffer"] == 7).all()) for w in supernet.parameters())
    assert recorded._parameters.momentum.unique().tolist() == [7.0]


def test_low_precision_stays_close(noise):
    space, settings = SPACES[1](), settings_of(precision="bfloat16")
    assert not MemberSettings(precision="float32").lower_precision(torch.device("cpu"))
    split = noise.search_train
    losses = []
    for chosen in (settings, settings_of()):
        supernet = build_supernet(space, split, chosen, seed=0)
        paths = draw_groups(space, 5, seed=0, epoch=0, skip_dead=True)
        batch = Batch(split.pixels(slice(0, 16)), split.labels[:16], 0, 0)
        recorded = RecordedPaths(supernet.network, [paths], batch, chosen, sgd(supernet, chosen))
        losses.append([float(recorded(Batch(batch.images, batch.labels, 0, step))) for step in range(5)])
    assert losses[0] == pytest.approx(losses[1], rel=0.03)
