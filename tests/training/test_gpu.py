"""On a GPU: a captured step does what the plain one does; members side by side are members one by one."""

from functools import partial

import pytest
import torch
from toys import train_member

from nesbs.data import load_dataset
from nesbs.ensemble import MemberSettings, build_member, joint_step, member_training, train_ensemble
from nesbs.posterior import Posterior
from nesbs.samplers import Relaxation, sample_svgd_rd
from nesbs.spaces import darts, nasbench201, zoo
from nesbs.spaces.operations import DepthwiseUnits
from nesbs.supernet import SupernetSettings, build_supernet, predictor
from nesbs.training import side_by_side

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA"),
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),  # torch's own, where torch.compile is imported
    pytest.mark.filterwarnings("ignore:.*attribute of a Tensor that is not a leaf:UserWarning"),  # its own too
    pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS:UserWarning"),  # of its thread for gradients
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
    return train_member(space, architecture, split, MemberSettings.of(settings))


@pytest.mark.parametrize(("space", "architecture", "settings"), NETWORKS)
def test_a_captured_step_gives_the_plain_steps_numbers(space, architecture, settings, split):
    # Twenty steps: two epochs of ten.
    plain, plain_losses = trained(space, architecture, split, **settings, capture=False, compile=False)
    captured, losses = trained(space, architecture, split, **settings, capture=True, compile=False)
    assert losses == pytest.approx(plain_losses, rel=1e-3)
    start = build_member(space, architecture, split, MemberSettings.of(settings), seed=0, name=0)
    for (name, one), two, before in zip(
        plain.named_parameters(), captured.parameters(), start.parameters(), strict=True
    ):
        moved = (one - before).norm()
        assert (one - two).norm() <= 0.02 * moved + 1e-6, name


def all_weights(network):
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])


@pytest.mark.parametrize(("space", "architecture", "settings"), NETWORKS)
def test_a_compiled_training_drifts_as_far_as_rounding_makes_it(space, architecture, settings, split, monkeypatch):
    # Sums in another order round otherwise, and training magnifies that: so does a millionth at the start.
    plain, plain_losses = trained(space, architecture, split, **settings, capture=False, compile=False)
    compiled, losses = trained(space, architecture, split, **settings, capture=True, compile=True)

    def nudged(*of, **how):
        network = build_member(*of, **how)
        random = torch.Generator("cuda").manual_seed(0)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter *= 1 + 1e-6 * torch.randn(parameter.shape, generator=random, device="cuda")
        return network

    monkeypatch.setattr("toys.build_member", nudged)
    near, _ = trained(space, architecture, split, **settings, capture=False, compile=False)
    assert losses == pytest.approx(plain_losses, rel=0.01)
    ours, theirs = ((all_weights(other) - all_weights(plain)).norm() for other in (compiled, near))
    assert ours <= 3 * theirs


def test_a_captured_training_resumes_from_its_checkpoint(split, tmp_path):
    space, architecture, settings = NETWORKS[1]
    whole, losses = trained(space, architecture, split, **settings)

    class StopError(Exception):
        pass

    def stop(epoch):
        raise StopError

    checkpoint = tmp_path / "state.safetensors"
    chosen = MemberSettings.of(settings)
    with pytest.raises(StopError):
        train_member(space, architecture, split, chosen, checkpoint=checkpoint, on_epoch=stop)
    resumed, again = train_member(space, architecture, split, chosen, checkpoint=checkpoint)
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


@pytest.mark.parametrize("space", [nasbench201(), darts()], ids=["nasbench201", "darts"])
def test_captured_estimates_do_not_change_with_what_else_is_in_memory(space, split):
    settings = SupernetSettings.of({"cells": 3, "channels": 16, "precision": "bfloat16"})
    predict = predictor(build_supernet(space, split, settings, seed=0), split)
    drawn = space.sample(4, generator=torch.Generator().manual_seed(0))
    images = split.pixels(slice(0, 32))
    before = predict(images, drawn).clone()
    for size in range(64, 2**14, 64):  # whatever the graph has let go is overwritten
        torch.full((size,), torch.nan, device="cuda")
    assert torch.equal(predict(images, drawn), before)


def test_captured_particles_are_those_of_a_cpu():
    space = nasbench201()
    logits = torch.randn(Posterior(space).logits.shape, generator=torch.Generator().manual_seed(0))
    found = []
    for device in ("cpu", "cuda"):
        relaxation = Relaxation(Posterior(space, logits).log_probabilities().to(device), variance=5)
        start = torch.randn(3, 4, relaxation.dims, generator=torch.Generator().manual_seed(1)).to(device)
        delta = torch.tensor([0.0, 0.5, 1.0], device=device)
        found.append(sample_svgd_rd(relaxation.log_density, start, delta=delta, steps=200, record=True).cpu())
    torch.testing.assert_close(*found, atol=1e-3, rtol=1e-3)


def test_depthwise_convolutions_by_our_kernels_learn_as_plain_ones_do(split):
    space, architecture, settings = NETWORKS[1]
    settings = {**settings, "precision": "bfloat16", "channels": 12}
    _, expected = trained(space, architecture, split, **settings, kernels="plain")
    member, losses = trained(space, architecture, split, **settings, kernels="ours")
    assert any(part.fused for part in member.modules() if isinstance(part, DepthwiseUnits))
    assert losses == pytest.approx(expected, rel=0.05)


JOINT = {**SMALL, "channels": 16, "kernels": "ours", "together": 2}
OTHER = nasbench201().parse("|nor_conv_1x1~0|+|none~0|nor_conv_3x3~1|+|avg_pool_3x3~0|none~1|nor_conv_3x3~2|")


def test_members_in_one_step_learn_what_plain_ones_do(split):
    def trained_two(**more):
        losses = {}
        ensemble = train_ensemble(
            nasbench201(),
            [DEEP, OTHER],
            split,
            on_epoch=lambda index, epoch: losses.update({(index, epoch.number): epoch.loss}),
            **{**JOINT, **more},
        )
        return ensemble, losses

    ours, losses = trained_two()
    plain, expected = trained_two(kernels="plain", capture=False)
    assert losses == pytest.approx(expected, rel=0.01)
    # Running averages are those of the training: both answer alike without being told the batch's own.
    torch.testing.assert_close(ours.predict(split), plain.predict(split), atol=0.05, rtol=0.1)
    _, rounded = trained_two(precision="bfloat16", epochs=8)
    _, exact = trained_two(epochs=8)
    for index in (0, 1):
        assert rounded[index, 8] < rounded[index, 1] - 0.3
        assert rounded[index, 8] == pytest.approx(exact[index, 8], abs=0.25)


def test_members_in_one_step_resume_where_they_stopped(split, tmp_path):
    settings = MemberSettings.of({**JOINT, "epochs": 3})

    class StopError(Exception):
        pass

    def run(folder, stop_after=None):
        members = [
            build_member(nasbench201(), one, split, settings, seed=0, name=i) for i, one in enumerate((DEEP, OTHER))
        ]
        joint = joint_step(members, split, settings)

        def on_epoch(index, epoch):
            if (index, epoch.number) == stop_after:  # the first has written this epoch, the second has not
                raise StopError

        steps = [
            member_training(
                one,
                split,
                settings,
                seed=0,
                name=i,
                criterion=joint,
                checkpoint=folder / f"{i}.safetensors",
                on_epoch=partial(on_epoch, i),
            )
            for i, one in enumerate(members)
        ]
        return members, side_by_side(steps, joint.run)

    whole, losses = run(tmp_path)
    (tmp_path / "stopped").mkdir()
    with pytest.raises(StopError):
        run(tmp_path / "stopped", stop_after=(0, 2))
    resumed, again = run(tmp_path / "stopped")
    for one, two in zip(losses, again, strict=True):
        assert two == pytest.approx(one, rel=1e-3)
    for one, two in zip(whole[1].state_dict().values(), resumed[1].state_dict().values(), strict=True):
        torch.testing.assert_close(one, two, atol=2e-3, rtol=1e-2)
