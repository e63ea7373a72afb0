"""On a GPU: a recorded step does what the plain one does; members side by side are members one by one."""

import pytest
import torch

from nesbs.data import load_dataset
from nesbs.ensemble import MemberSettings, build_member, train_ensemble, train_member
from nesbs.spaces import darts, nasbench201, zoo

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"),
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),  # torch's own, where torch.compile is imported
]

DEEP = nasbench201().parse(
    "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|"
)
SMALL = {"epochs": 2, "batch_size": 32, "cells": 1, "channels": 8, "precision": "float32", "learning_rate": 0.02}
NETWORKS = [
    (nasbench201(), DEEP, SMALL),
    (darts(), zoo["darts-v2"], {**SMALL, "cells": 3, "auxiliary": 0.4, "drop_path": 0.2, "cutout": 8}),
    (darts(), zoo["enas-script"], {**SMALL, "cells": 3, "auxiliary": 0.4, "drop_path": 0.2}),  # outside the space
]


@pytest.fixture(scope="module")
def split():
    return load_dataset("fashion-mini", train_limit=320).to("cuda").train


@pytest.fixture(autouse=True)
def _exact():
    torch.backends.cudnn.deterministic = True
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    yield
    torch.backends.cudnn.allow_tf32 = before


def trained(space, architecture, split, **settings):
    return train_member(space, architecture, split, MemberSettings.of(settings), seed=0, name=0)


@pytest.mark.parametrize("compiled", [False, True], ids=["recorded", "compiled"])
@pytest.mark.parametrize(("space", "architecture", "settings"), NETWORKS)
def test_a_recorded_step_gives_the_plain_steps_numbers(space, architecture, settings, compiled, split):
    # Twenty steps: two epochs of ten.
    plain, plain_losses = trained(space, architecture, split, **settings, capture=False, compile=False)
    recorded, losses = trained(space, architecture, split, **settings, capture=True, compile=compiled)
    assert losses == pytest.approx(plain_losses, rel=1e-3)
    start = build_member(space, architecture, split, MemberSettings.of(settings), seed=0, name=0)
    for (name, one), two, before in zip(
        plain.named_parameters(), recorded.parameters(), start.parameters(), strict=True
    ):
        moved = (one - before).norm()
        assert (one - two).norm() <= 0.02 * moved + 1e-6, name


def test_a_recorded_training_goes_on_from_its_checkpoint(split, tmp_path):
    space, architecture, settings = NETWORKS[1]
    whole, losses = trained(space, architecture, split, **settings)

    class StopError(Exception):
        pass

    def stop(epoch):
        raise StopError

    checkpoint = tmp_path / "state.safetensors"
    chosen = MemberSettings.of(settings)
    with pytest.raises(StopError):
        train_member(space, architecture, split, chosen, seed=0, name=0, checkpoint=checkpoint, on_epoch=stop)
    resumed, again = train_member(space, architecture, split, chosen, seed=0, name=0, checkpoint=checkpoint)
    assert again == pytest.approx(losses, rel=1e-3)
    for one, two in zip(whole.parameters(), resumed.parameters(), strict=True):
        torch.testing.assert_close(one, two, atol=2e-3, rtol=1e-2)


def test_members_side_by_side_are_members_one_by_one(split):
    space, architecture, settings = NETWORKS[0]
    heard = {1: {}, 3: {}}
    ensembles = {
        together: train_ensemble(
            space,
            [architecture] * 3,
            split,
            together=together,
            on_epoch=lambda index, epoch, together=together: heard[together].update(
                {(index, epoch.number): epoch.loss}
            ),
            **settings,
        )
        for together in (1, 3)
    }
    assert heard[3] == pytest.approx(heard[1], rel=1e-3)
    one, three = (ensembles[n].predict(split) for n in (1, 3))
    torch.testing.assert_close(one, three, atol=0.02, rtol=0.05)


def test_low_precision_with_channels_last_learns(split):
    space, architecture, settings = NETWORKS[0]
    _, losses = trained(space, architecture, split, **{**settings, "precision": "auto", "epochs": 8})
    _, exact = trained(space, architecture, split, **{**settings, "epochs": 8})
    assert losses[-1] < losses[0] - 0.5
    assert losses[-1] == pytest.approx(exact[-1], abs=0.25)
