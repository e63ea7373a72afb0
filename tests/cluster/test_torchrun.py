"""Two processes as torchrun starts them: a network trained as by one process, checkpoints that either resumes."""

import shutil
from functools import partial

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from toys import tiny
from two_processes import two_processes

from nesbs import files
from nesbs.cluster.torchrun import joined, on_all_ranks, processes
from nesbs.data import batches
from nesbs.ensemble import MemberSettings, build_member, member_training
from nesbs.errors import DivergedError, NesbsError
from nesbs.rng import generator
from nesbs.spaces import darts, nasbench201, zoo
from nesbs.supernet import SupernetSettings, build_supernet
from nesbs.supernet.train import draw_epochs, supernet_training
from nesbs.training import side_by_side
from nesbs.training.ranks import synchronised_batch_norm

STEPS = 5
# One step an epoch, so that an epoch's loss is a step's.
COMMON = {"epochs": STEPS, "batch_size": 64, "learning_rate": 0.01, "crop": 1}
MEMBER = {**COMMON, "cells": 1, "channels": 4}
DARTS = {**COMMON, "cells": 3, "channels": 4, "auxiliary": 0.4, "drop_path": 0.2, "cutout": 3, "label_smoothing": 0.1}
WIDE = nasbench201().parse(
    "|nor_conv_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|avg_pool_3x3~0|nor_conv_3x3~1|nor_conv_3x3~2|"
)


@pytest.fixture(scope="module")
def _two():
    with two_processes() as other, joined():
        yield
    assert other.exitcode == 0


def train_member(space, architecture, settings, split, *, wide=False, change=0, checkpoint=None, on_epoch=None):
    """The losses of a member, in float64 (`wide`) where rounding is not to matter; `change` numbers a nudge."""
    member = build_member(space, architecture, split, settings, seed=0, name=0)
    prepare(member, wide, change)
    steps = member_training(member, split, settings, seed=0, name=0, checkpoint=checkpoint, on_epoch=on_epoch)
    return side_by_side([steps])[0]


def train_supernet(space, settings, split, *, wide=False, change=0, checkpoint=None, on_epoch=None):
    """The losses of a supernet."""
    supernet = build_supernet(space, split, settings, seed=0)
    prepare(supernet, wide, change)
    drawn = draw_epochs(space, split, settings, seed=0)
    steps = supernet_training(supernet, split, settings, drawn, seed=0, checkpoint=checkpoint, on_epoch=on_epoch)
    return side_by_side([steps])[0]


def prepare(network, wide, change):
    """Change the first weights by a millionth, in a way that has a number; 0 for not at all."""
    network.to(torch.float64 if wide else torch.float32)
    random = torch.Generator().manual_seed(change)
    with torch.no_grad():
        for parameter in network.parameters() if change else ():
            parameter *= 1 + 1e-6 * torch.randn(parameter.shape, generator=random)


def networks(split, **changes):
    """What is trained, by name: functions that return the loss of every step."""
    member, pair = ({**settings, **changes} for settings in (MEMBER, DARTS))
    supernet = SupernetSettings.of({**member, "paths": "one", "affine": True})
    return {
        "nasbench201": partial(train_member, nasbench201(), WIDE, MemberSettings.of(member), split),
        "darts": partial(train_member, darts(), zoo["darts-v2"], MemberSettings.of(pair), split),
        "supernet": partial(train_supernet, nasbench201(), supernet, split),
    }


NAMES = ["nasbench201", "darts", "supernet"]


@pytest.mark.usefixtures("_two")
@pytest.mark.parametrize("name", NAMES)
def test_two_processes_lose_what_one_does(name, noise):
    train = networks(noise.train)[name]
    alone, together = train(), on_all_ranks(train)
    assert len(set(alone)) == STEPS
    assert together == pytest.approx(alone, abs=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("_two")
@pytest.mark.parametrize("name", NAMES)
def test_over_fifty_steps_two_processes_differ_by_rounding_alone(name, noise):
    # Without rounding the losses are the same (they are kept in float32); with it they drift as from a millionth.
    train = networks(noise.train, epochs=50)[name]
    wide = partial(train, wide=True)
    assert on_all_ranks(wide) == pytest.approx(wide(), abs=1e-6)
    alone, together, *nudged = train(), on_all_ranks(train), *(train(change=number) for number in (1, 2, 3))
    drifts = [max(abs(ours - theirs) for ours, theirs in zip(alone, other, strict=True)) for other in nudged]
    assert together == pytest.approx(alone, abs=max(drifts))


@pytest.mark.usefixtures("_two")
def test_a_checkpoint_moves_between_one_process_and_two(noise, tmp_path):
    train = networks(noise.train, epochs=3)["nasbench201"]
    losses, half = {}, {}
    for name, run in {"one": lambda work, **here: work(**here), "two": on_all_ranks}.items():
        checkpoint, half[name] = tmp_path / f"{name}.safetensors", tmp_path / f"{name}-half.safetensors"

        def keep(epoch, checkpoint=checkpoint, half=half[name]):
            if epoch.number == 1:
                shutil.copy(checkpoint, half)

        losses[name] = run(train, checkpoint=checkpoint, on_epoch=keep)
        assert len(list(tmp_path.iterdir())) == (2 if name == "one" else 4)  # the other process wrote nothing
    ours, theirs = (files.read_tensors(half[name], "cpu")[0] for name in ("one", "two"))
    assert ours.keys() == theirs.keys()
    seen = []
    on_two = on_all_ranks(train, checkpoint=half["one"], on_epoch=seen.append)
    on_one = train(checkpoint=half["two"], on_epoch=seen.append)
    assert [epoch.number for epoch in seen] == 2 * [2, 3]
    for resumed in (on_two, on_one, losses["two"]):
        assert resumed == pytest.approx(losses["one"], abs=1e-5)


def normalise(affine):
    """A BatchNorm over both processes: its output, its gradients, its running averages, of the first half."""
    x, weights, layer = batch_norm_case(affine)
    ours = x.detach().chunk(dist.get_world_size())[dist.get_rank()].requires_grad_()
    with synchronised_batch_norm(layer):
        out = layer(ours)
    (out * weights.chunk(dist.get_world_size())[dist.get_rank()]).sum().backward()
    for parameter in layer.parameters():
        dist.all_reduce(parameter.grad)
    return out.detach(), ours.grad, layer


def batch_norm_case(affine):
    random = torch.Generator().manual_seed(0)
    x, weights = (3 + torch.randn(8, 3, 4, 4, generator=random, dtype=torch.float64) for _ in range(2))
    layer = nn.BatchNorm2d(3, affine=affine, track_running_stats=affine).double()
    if affine:
        nn.init.uniform_(layer.weight, 1, 2, generator=random)
    return x.requires_grad_(), weights, layer


@pytest.mark.usefixtures("_two")
@pytest.mark.parametrize("affine", [True, False])
def test_synchronised_batch_norm_is_that_of_the_whole_batch(affine):
    x, weights, layer = batch_norm_case(affine)
    expected = layer(x)
    (expected * weights).sum().backward()
    out, gradient, ours = on_all_ranks(partial(normalise, affine))
    torch.testing.assert_close(out, expected[:4].detach())
    torch.testing.assert_close(gradient, x.grad[:4])
    torch.testing.assert_close(ours.state_dict(), layer.state_dict())
    for one, other in zip(ours.parameters(), layer.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad)
    assert "forward" not in vars(ours)  # afterwards it is torch's again


@pytest.mark.usefixtures("_two")
def test_batch_norm_may_be_each_process_own(noise):
    settings = MemberSettings.of({**MEMBER, "epochs": 1, "batch_norm": "own"})
    [loss] = on_all_ranks(partial(train_member, nasbench201(), WIDE, settings, noise.train))
    member = build_member(nasbench201(), WIDE, noise.train, settings, seed=0, name=0).train()
    random = generator(0, "member", 0, "batches", 0)
    [(images, labels)] = batches(noise.train, 64, generator=random, crop=1, flip=True)
    halves = zip(images.chunk(2), labels.chunk(2), strict=True)
    each = [F.cross_entropy(member(half), answers).item() for half, answers in halves]
    assert loss == pytest.approx(sum(each) / 2, abs=1e-6)
    assert loss != pytest.approx(F.cross_entropy(member(images), labels).item(), abs=1e-4)


@pytest.mark.usefixtures("_two")
def test_a_training_that_diverges_ends_in_both_and_the_next_one_runs(noise):
    with pytest.raises(DivergedError, match="the loss is not a number at epoch"):
        on_all_ranks(networks(noise.train, learning_rate=1e6, clip=None, weight_decay=1e6, epochs=30)["nasbench201"])
    assert on_all_ranks(dist.get_world_size) == processes() == 2


@pytest.mark.usefixtures("_two")
def test_a_run_by_two_processes_is_that_of_one_and_written_once(tmp_path):
    run = tiny(tmp_path / "two")
    run.ensemble()
    names = {path.relative_to(run.folder).as_posix() for path in run.folder.rglob("*") if path.is_file()}
    assert not [name for name in names if "checkpoint" in name]
    assert {"selection.json", "members/0.safetensors", "members/1.safetensors"} <= names
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nesbs.cluster.torchrun._group.listening", False)
        one = tiny(tmp_path / "one")
        one.supernet()
    ours, theirs = (each.record.stage("supernet").losses for each in (run, one))
    assert ours == pytest.approx(theirs, abs=1e-4)


@pytest.mark.usefixtures("_two")
@pytest.mark.parametrize("section", ["members", "supernet"])
def test_a_batch_that_two_processes_cannot_share_is_refused_before_anything(section, tmp_path):
    message = rf"^{section}: 2 processes cannot share a batch of 21 images equally: set batch_size to a multiple of 2$"
    with pytest.raises(NesbsError, match=message):
        tiny(tmp_path / "run", changes=[f"{section}.batch_size=21"])
    with pytest.raises(NesbsError, match="2 processes get one image each of a batch of 2, and BatchNorm needs two"):
        tiny(tmp_path / "run", changes=[f"{section}.batch_size=2", f"{section}.batch_norm=own"])
    assert not list(tmp_path.iterdir())
