"""Members trained from scratch, and the ensemble they make."""

import pytest
import torch
from torch.nn.modules.module import register_module_forward_hook

from nesbs import metrics
from nesbs.ensemble import Ensemble, build_member, train_ensemble
from nesbs.ensemble.members import MemberSettings, member_training
from nesbs.errors import NesbsError
from nesbs.spaces import ChoiceCell, toy_edges, toy_pairs
from nesbs.spaces.operations import Normalise

SMALL = {"cells": 1, "channels": 2, "batch_size": 16}
PAIR = list(toy_edges())[-2:]


def test_members_keep_an_axis_of_their_own(noise):
    ensemble = train_ensemble(toy_edges(), PAIR, noise.train, epochs=1, **SMALL)
    logits = ensemble.predict(noise.test, batch_size=7)
    assert logits.shape == (2, 32, 3)
    assert ensemble.architectures == tuple(PAIR)
    with torch.no_grad():
        torch.testing.assert_close(logits[1], ensemble.members[1](noise.test.pixels()), atol=1e-5, rtol=1e-4)


def test_probabilities_are_averaged_after_the_softmax(noise):
    logits = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    members = [
        build_member(toy_edges(), PAIR[0], noise.train, MemberSettings.of(SMALL), seed=0, name=i) for i in range(3)
    ]
    torch.testing.assert_close(Ensemble(members).combined(logits).exp(), logits.softmax(-1).mean(0))
    torch.testing.assert_close(Ensemble(members, "logits").combined(logits).exp(), logits.mean(0).softmax(-1))


def test_the_same_architecture_twice_is_two_different_networks(noise):
    ensemble = train_ensemble(toy_edges(), [PAIR[0], PAIR[0]], noise.train, epochs=1, **SMALL)
    one, two = ensemble.predict(noise.test)
    assert not torch.equal(one, two)


def test_every_member_has_its_own_order_of_images(noise):
    batches = {}  # by member

    def listen(module, inputs, output):
        if isinstance(module, Normalise):
            batches.setdefault(module, []).append(inputs[0].clone())

    hook = register_module_forward_hook(listen)
    try:
        train_ensemble(toy_edges(), [PAIR[0]] * 3, noise.train, epochs=1, crop=0, flip=False, **SMALL)
    finally:
        hook.remove()
    [first, second, third] = (torch.cat(own).flatten(1).sort(0).values for own in batches.values())
    torch.testing.assert_close(first, second)  # the same images
    torch.testing.assert_close(first, third)
    orders = {tuple(torch.cat(own)[:, 0, 0, 0].tolist()) for own in batches.values()}
    assert len(orders) == 3


@pytest.mark.parametrize(("smoothing", "auxiliary"), [(0.0, 0.4), (0.3, 0.4), (0.3, 0.0)])
def test_both_heads_learn_from_smoothed_labels(noise, smoothing, auxiliary):
    # One step on all images, so that the loss told is that of the first weights; one class, lest labels balance out.
    split = noise.train.subset((noise.train.labels == 0).nonzero()[:, 0])
    settings = {"cells": 3, "channels": 2, "batch_size": 64, "label_smoothing": smoothing, "auxiliary": auxiliary}
    space, told = toy_pairs(), []
    architecture = list(space)[-1]
    heard = {"on_epoch": lambda _, epoch: told.append(epoch.loss)}
    train_ensemble(space, [architecture], split, epochs=1, crop=0, flip=False, **heard, **settings)
    member = build_member(space, architecture, split, MemberSettings.of(settings), seed=0, name=0).train()
    with torch.no_grad():
        heads = [head for head in member.outputs(split.pixels()) if head is not None]
    plain = [float(-head.log_softmax(-1)[:, 0].mean()) for head in heads]
    uniform = [float(-head.log_softmax(-1).mean()) for head in heads]
    losses = [(1 - smoothing) * one + smoothing * other for one, other in zip(plain, uniform, strict=True)]
    assert len(losses) == 1 + (auxiliary > 0)
    assert min(abs(one - other) for one, other in zip(plain, uniform, strict=True)) > 0.01
    assert told == [pytest.approx(sum(w * loss for w, loss in zip((1, auxiliary), losses, strict=False)), rel=1e-4)]


def test_the_same_seed_gives_the_same_members(noise):
    one, two, other = (
        train_ensemble(toy_edges(), PAIR, noise.train, epochs=1, seed=seed, **SMALL).predict(noise.test)
        for seed in (0, 0, 1)
    )
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


def test_a_member_normalises_its_images_itself(noise):
    member = build_member(toy_edges(), PAIR[0], noise.train, MemberSettings.of(SMALL), seed=0, name=0)
    normalised = member.network.normalise(noise.train.pixels())
    assert float(normalised.mean()) == pytest.approx(0, abs=1e-4)
    assert float(normalised.std()) == pytest.approx(1, abs=1e-3)


def test_training_learns(mini):
    heard = []
    ensemble = train_ensemble(
        toy_edges(),
        PAIR[:1],
        mini.train,
        epochs=5,
        cells=1,
        channels=4,
        batch_size=32,
        crop=0,
        on_epoch=lambda index, epoch: heard.append((index, epoch.loss)),
    )
    assert [index for index, _ in heard] == [0] * 5
    assert 0 < heard[-1][1] < heard[0][1] - 0.5
    [log_probs] = ensemble.predict(mini.test).log_softmax(-1)
    assert metrics.error(log_probs, mini.test.labels) < 0.6  # chance is 0.9


def test_wrong_input_is_refused(noise):
    with pytest.raises(NesbsError, match="at least one member"):
        Ensemble([])
    with pytest.raises(NesbsError, match="unknown setting lerning_rate: did you mean learning_rate"):
        train_ensemble(toy_edges(), PAIR, noise.train, lerning_rate=1)
    with pytest.raises(NesbsError, match=r"training member 1: the loss is not a number at epoch \d, step \d"):
        train_ensemble(toy_edges(), PAIR, noise.train, epochs=4, learning_rate=1e6, weight_decay=1e6, **SMALL)


def test_only_long_trainings_on_a_gpu_are_compiled(noise):
    class OnGpu:
        device = torch.device("cuda")

        def __len__(self):
            return 1000

    for epochs, expected in ((9_999, False), (10_000, True), (10_001, True)):  # of one step
        assert MemberSettings(epochs=epochs, batch_size=1000).compiles(OnGpu()) is expected
    assert MemberSettings(epochs=100, batch_size=10).compiles(OnGpu())
    assert not MemberSettings(epochs=99, batch_size=10).compiles(OnGpu())
    assert MemberSettings(epochs=1, compile=True).compiles(OnGpu())
    assert not MemberSettings(epochs=10_000, batch_size=10, compile=False).compiles(OnGpu())
    assert not MemberSettings(epochs=100, batch_size=2, compile=True).compiles(noise.train)


@pytest.mark.parametrize("on", [False, True])
def test_a_members_training_is_given_what_the_settings_ask_for(noise, monkeypatch, on):
    given = {}

    def listen(member, split, objective, settings, **more):
        given.update(member=member, objective=objective, **more)

    monkeypatch.setattr("nesbs.ensemble.members.training", listen)
    monkeypatch.setattr(MemberSettings, "compiles", lambda settings, split: on)
    settings = MemberSettings(capture=on, drop_path=0.1 if on else 0.0, cells=1, channels=2)
    member = build_member(toy_edges(), PAIR[0], noise.train, settings, seed=0, name=4)
    member_training(member, noise.train, settings, seed=5, name=4)
    assert (given["objective"].record is not None) is (given["objective"].noise is not None) is on
    assert (given["seed"], given["purpose"]) == (5, ("member", 4))
    cells = [module for module in member.modules() if isinstance(module, ChoiceCell)]
    assert cells
    assert all(cell.compiled is on for cell in cells)
    weights = [weight for weight in member.parameters() if weight.ndim == 4 and weight.shape[1] > 1]
    assert all(weight.is_contiguous(memory_format=torch.channels_last) for weight in weights)


@pytest.mark.parametrize(("space", "where"), [(toy_edges(), "choice_cell"), (toy_pairs(), "pair_blocks")])
def test_a_compiled_cell_is_used_in_training_alone(space, where, noise, monkeypatch):
    small = MemberSettings.of({**SMALL, "cells": 3})
    member = build_member(space, list(space)[-1], noise.train, small, seed=0, name=0)
    taken = []

    def compiled(function):
        return lambda cell, *arguments: (taken.append(cell), function(cell, *arguments))[1]

    monkeypatch.setattr(f"nesbs.spaces.{where}.compiled", compiled)
    images = noise.train.pixels(slice(0, 4))
    cells = [module for module in member.modules() if isinstance(module, ChoiceCell)]
    with torch.no_grad():
        plain = member.train()(images)
        assert taken == []
        for cell in cells:
            cell.compiled = True
        member.eval()(images)
        assert taken == []
        torch.testing.assert_close(member.train()(images), plain)
    assert taken == cells
