"""The training loop: schedules by closed form, exact resume, several trainings in turn, errors that name the place."""

import json
import math
import os
import signal

import pytest
import torch
from killed import exit_code
from toys import train_member

from nesbs import files
from nesbs.ensemble import MemberSettings, build_member, member_training, train_ensemble
from nesbs.errors import NesbsError
from nesbs.spaces import toy_edges, toy_pairs
from nesbs.training import Objective, TrainingSettings, learning_rate, side_by_side, train

EVERYTHING = {  # that the DARTS recipes turn on, at toy size
    "epochs": 4,
    "batch_size": 16,
    "cells": 3,
    "channels": 4,
    "learning_rate": 0.05,
    "schedule": "linear",
    "warm_up": 1,
    "crop": 1,
    "cutout": 3,
    "label_smoothing": 0.1,
    "auxiliary": 0.4,
    "drop_path": 0.2,
}
PAIR = toy_pairs().parse(
    "normal=[('sep_conv_3x3', 0), ('skip_connect', 1), ('sep_conv_3x3', 1), ('sep_conv_3x3', 2)] "
    "reduce=[('sep_conv_3x3', 0), ('skip_connect', 1), ('sep_conv_3x3', 1), ('sep_conv_3x3', 2)]"
)


def test_the_schedules_are_their_closed_forms():
    cosine = TrainingSettings(epochs=20, learning_rate=0.1)
    linear = TrainingSettings(epochs=250, learning_rate=0.5, schedule="linear", warm_up=5)
    for step in range(0, 200, 7):
        assert learning_rate(cosine, step, 10) == pytest.approx(0.05 * (1 + math.cos(math.pi * step / 200)))
    rates = [learning_rate(linear, step, 10) for step in range(2500)]
    assert rates[:50] == pytest.approx([0.5 * (step + 1) / 50 for step in range(50)])
    assert rates[50:] == pytest.approx([0.5 * (2450 - step) / 2450 for step in range(2450)])
    with pytest.raises(NesbsError, match=r"^warm_up .5. leaves none of the epochs .5. to train in$"):
        TrainingSettings.of({"epochs": 5, "warm_up": 5})


class Line(torch.nn.Module):
    """One weight; its loss is the mean pixel times the weight, so a step's gradient is known."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))


def test_a_step_is_sgd_with_the_rate_of_that_step(noise):
    line = Line()
    settings = TrainingSettings(
        epochs=2, batch_size=32, momentum=0.0, weight_decay=0.0, clip=None, crop=0, flip=False, learning_rate=0.3
    )
    train(line, noise.train, lambda batch: line.weight * 1.0, settings, seed=0, purpose=("line",))
    moved = -sum(learning_rate(settings, step, 2) for step in range(4))
    assert line.weight.item() == pytest.approx(moved, rel=1e-6)


@pytest.mark.parametrize(
    ("augmentation", "value"),
    [("crop", 2), ("flip", True), ("cutout", 4), ("colour_jitter", (0.4, 0.4, 0.4, 0.2))],
)
def test_the_images_are_changed_as_the_settings_ask(augmentation, value, noise):
    def shown(**more):
        line, seen = Line(), []

        def loss(batch):
            seen.append(batch.images)
            return line.weight * 0.0

        settings = TrainingSettings(epochs=1, batch_size=64, **{"crop": 0, "flip": False, **more})
        train(line, noise.train, loss, settings, seed=0, purpose=("line",))
        return seen[0]

    assert not torch.equal(shown(**{augmentation: value}), shown())


def test_the_loss_sees_where_it_is_and_its_noise_is_the_epochs_own(noise):
    line, seen = Line(), []

    def loss(batch):
        seen.append((batch.epoch, batch.step, len(batch.labels), batch.noise.tolist()))
        return line.weight * 0.0

    def draw(epoch, images, random):
        return torch.rand(2, images, generator=random).sum(1) + 100 * epoch

    settings = TrainingSettings(epochs=2, batch_size=32)
    train(line, noise.train, Objective(loss, noise=draw), settings, seed=0, purpose=("line",))
    assert [entry[:3] for entry in seen] == [(0, 0, 32), (0, 1, 32), (1, 0, 32), (1, 1, 32)]
    values = [entry[3][0] for entry in seen]
    assert len(set(values)) == 4
    assert all(100 * entry[0] < entry[3][0] < 100 * entry[0] + 32 for entry in seen)


def test_drop_path_keeps_the_share_it_should_on_average(noise):
    settings = MemberSettings(epochs=10, drop_path=0.5, cells=3, channels=4, batch_size=64)
    member = build_member(toy_pairs(), PAIR, noise.train, settings, seed=0, name=0)
    kept = []
    outputs = member.outputs

    def spy(images, *, drop):
        kept.append(drop)
        return outputs(images, drop=drop)

    member.outputs = spy
    side_by_side([member_training(member, noise.train, settings, seed=0, name=0)])
    assert [settings.dropped(epoch) for epoch in (0, 5, 9)] == [0.0, 0.25, 0.45]
    assert settings.model_copy(update={"drop_path_schedule": "falling"}).dropped(0) == 0.5
    for epoch, drop in enumerate(kept):
        assert drop.shape == (3, 4, 64)
        share = settings.dropped(epoch)
        zero = (drop == 0).double().mean()
        assert float(zero) == pytest.approx(share, abs=5 * math.sqrt(share * (1 - share) / drop.numel()) + 1e-9)
        assert drop[drop != 0].unique().tolist() == pytest.approx([1 / (1 - share)])


def test_the_auxiliary_tower_and_smoothing_enter_the_loss(noise):
    random = torch.Generator().manual_seed(0)
    logits, auxiliary = torch.randn(2, 64, 3, generator=random)
    settings = {"epochs": 1, "batch_size": 64, "cells": 3, "channels": 4, "crop": 0, "flip": False}
    seen = {}
    for name, extra in {"plain": {}, "smooth": {"label_smoothing": 0.3}, "tower": {"auxiliary": 0.4}}.items():
        chosen = MemberSettings.of({**settings, **extra})
        member = build_member(toy_pairs(), PAIR, noise.train, chosen, seed=0, name=0)
        tower = auxiliary if name == "tower" else None
        weight = next(member.parameters())
        member.outputs = lambda images, *, drop, weight=weight, tower=tower: (logits + 0 * weight.sum(), tower)
        # The labels arrive shuffled; logits that do not depend on the image are scored against them.
        [[seen[name]]] = side_by_side([member_training(member, noise.train, chosen, seed=0, name=0)])
    order = _labels_in_order(noise.train)
    plain, smooth = (
        float(torch.nn.functional.cross_entropy(logits, order, label_smoothing=share)) for share in (0.0, 0.3)
    )
    uniform = float(-logits.log_softmax(1).mean())
    assert smooth == pytest.approx(0.7 * plain + 0.3 * uniform, rel=1e-5)
    assert seen["plain"] == pytest.approx(plain, rel=1e-5)
    assert seen["smooth"] == pytest.approx(smooth, rel=1e-5)
    assert seen["tower"] == pytest.approx(
        plain + 0.4 * float(torch.nn.functional.cross_entropy(auxiliary, order)), rel=1e-5
    )


def _labels_in_order(split):
    from nesbs.rng import generator

    return split.labels[torch.randperm(64, generator=generator(0, "member", 0, "batches", 0))]


def test_side_by_side_is_one_after_the_other_bit_for_bit(noise):
    architectures = list(toy_edges())[-3:]
    settings = {"epochs": 2, "batch_size": 16, "cells": 1, "channels": 2, "crop": 1}
    heard = []
    one, three = (
        train_ensemble(
            toy_edges(),
            architectures,
            noise.train,
            together=together,
            on_epoch=lambda index, epoch, together=together: heard.append((together, index, epoch.number)),
            **settings,
        )
        for together in (1, 3)
    )
    assert torch.equal(one.predict(noise.test), three.predict(noise.test))
    assert [(index, number) for together, index, number in heard if together == 1] == [
        (index, number) for index in range(3) for number in (1, 2)
    ]
    assert [(index, number) for together, index, number in heard if together == 3] == [
        (index, number) for number in (1, 2) for index in range(3)
    ]


def test_low_precision_computes_in_it_and_keeps_weights_whole(noise):
    settings = MemberSettings.of({**EVERYTHING, "epochs": 1, "warm_up": 0, "precision": "bfloat16"})
    member = build_member(toy_pairs(), PAIR, noise.train, settings, seed=0, name=0)
    seen = []
    member.network.cells[0].second[1].register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    [losses] = side_by_side([member_training(member, noise.train, settings, seed=0, name=0)])
    assert set(seen) == {torch.bfloat16}
    assert all(parameter.dtype == torch.float32 for parameter in member.parameters())
    _, exact = train_member(toy_pairs(), PAIR, noise.train, settings.model_copy(update={"precision": "float32"}))
    assert losses == pytest.approx(exact, rel=0.05)
    assert not MemberSettings().lower_precision(torch.device("cpu"))


def killed_in_the_third_epoch(path):
    torch.set_num_threads(1)
    split, settings = noisy(), MemberSettings.of(EVERYTHING)
    member = build_member(toy_pairs(), PAIR, split, settings, seed=0, name=0)
    steps = member_training(member, split, settings, seed=0, name=0, checkpoint=path)
    for _ in range(10):  # four steps an epoch
        next(steps)
    os.kill(os.getpid(), signal.SIGKILL)


def noisy():
    from nesbs.data.split import make_split

    random = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (64, 1, 8, 8), generator=random, dtype=torch.uint8)
    return make_split(images, torch.arange(64) % 3, ("a", "b", "c"), source="noise")


def test_killed_in_an_epoch_and_resumed_ends_with_the_same_weights_bit_for_bit(tmp_path):
    settings = MemberSettings.of(EVERYTHING)
    whole, losses = train_member(toy_pairs(), PAIR, noisy(), settings)
    path = tmp_path / "state.safetensors"
    assert exit_code(killed_in_the_third_epoch, path) == -signal.SIGKILL
    _, about = files.read_tensors(path)
    assert len(json.loads(about["history"])) == 2
    resumed, again = train_member(toy_pairs(), PAIR, noisy(), settings, checkpoint=path)
    assert again == losses
    assert all(
        torch.equal(one, two)
        for one, two in zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True)
    )


@pytest.mark.parametrize(("clip", "advice"), [(5.0, "rate"), (None, "rate or set clip")])
def test_a_loss_that_is_not_a_number_names_its_place_and_keeps_the_last_good_state(noise, tmp_path, clip, advice):
    line, path = Line(), tmp_path / "state.safetensors"

    def loss(batch):
        return line.weight + (float("nan") if (batch.epoch, batch.step) == (2, 1) else 0.0)

    settings = TrainingSettings(epochs=4, batch_size=16, clip=clip)
    place = "training member 3: the loss is not a number at epoch 3, step 2 .the last good state is kept.: "
    with pytest.raises(NesbsError, match=f"{place}lower the learning {advice}$"):
        train(line, noise.train, loss, settings, seed=0, purpose=("member", 2), checkpoint=path)
    tensors, about = files.read_tensors(path)
    assert bool(tensors["module.weight"].isfinite())
    assert len(json.loads(about["history"])) == 2
