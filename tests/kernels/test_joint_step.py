"""Members by our kernels against plain ones: several of different architectures in one step."""

import pytest
import torch

from nesbs.ensemble import MemberSettings, build_member, joint_step
from nesbs.ensemble.joint_step import label_loss
from nesbs.rng import generator
from nesbs.spaces import darts, nasbench201, toy_edges, zoo
from nesbs.training import Batch
from nesbs.training.loop import _optimiser

SIZE = {"cells": 1, "channels": 16, "batch_size": 4, "learning_rate": 0.02, "label_smoothing": 0.1, "clip": 1.0}
SIZE |= {"precision": "float32", "kernels": "ours"}


def plain_step(member, batch, optimiser, settings):
    optimiser.zero_grad(set_to_none=True)
    loss = label_loss(settings)(batch)(member(batch.images))
    loss.backward()
    reached = [parameter for parameter in member.parameters() if parameter.grad is not None]
    torch.nn.utils.clip_grad_norm_(reached, settings.clip)
    optimiser.step()
    return loss.detach()


@pytest.fixture
def batches(noise, device):
    split = noise.search_train.to(device)

    def of(member, step):
        index = torch.randperm(len(split), generator=generator(member, step))[:4].to(device)
        return Batch(split.pixels(index), split.labels[index], 0, step)

    return of


@pytest.mark.parametrize(
    ("space", "texts"),
    [
        pytest.param(
            toy_edges(),
            [
                "|nor_conv_3x3~0|+|skip_connect~0|nor_conv_3x3~1|",
                "|nor_conv_3x3~0|+|nor_conv_3x3~0|none~1|",  # one convolution leads nowhere
                "|skip_connect~0|+|skip_connect~0|none~1|",  # nothing to multiply
            ],
            id="toy_edges",
        ),
        pytest.param(toy_edges(), ["|none~0|+|skip_connect~0|none~1|"], id="no convolution at all"),
        pytest.param(
            nasbench201(),
            [
                "|nor_conv_3x3~0|+|nor_conv_1x1~0|avg_pool_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_1x1~2|",
                "|nor_conv_1x1~0|+|none~0|nor_conv_3x3~1|+|avg_pool_3x3~0|none~1|nor_conv_3x3~2|",
            ],
            marks=pytest.mark.slow,
            id="nasbench201",
        ),
    ],
)
def test_members_in_one_step_are_members_one_by_one(space, texts, noise, batches, device, large_blocks):
    split, settings = noise.search_train.to(device), MemberSettings.of(SIZE)
    architectures = [space.parse(text) for text in texts]

    def built():
        members = [build_member(space, one, split, settings, seed=0, name=i) for i, one in enumerate(architectures)]
        return [member.train() for member in members]

    plain, ours = built(), built()
    fresh = [member.state_dict() for member in built()]
    joint = joint_step(ours, split, settings)
    theirs = [_optimiser(member, settings, device) for member in plain]
    optimisers = [_optimiser(member, settings, device) for member in ours]
    steps = [
        joint.record(one)(None, batches(i, 0), optimiser)
        for i, (one, optimiser) in enumerate(zip(ours, optimisers, strict=True))
    ]
    for number in range(2):
        asking = list(enumerate(steps))[: 1 if number == 1 else None]  # the second has finished by then
        losses = [step(batches(i, number)) for i, step in asking]
        joint.run()
        for i, _ in asking:
            expected = plain_step(plain[i], batches(i, number), theirs[i], settings)
            assert float(losses[i]) == pytest.approx(float(expected), rel=1e-3)
    for one, two, before in zip(plain, ours, fresh, strict=True):
        for (name, expected), found in zip(one.state_dict().items(), two.state_dict().values(), strict=True):
            torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-2, msg=name)
            assert torch.equal(expected, before[name]) == torch.equal(found, before[name]), name
    # Momentum is where a checkpoint looks for it.
    for parameter, other in zip(plain[0].parameters(), ours[0].parameters(), strict=True):
        expected, found = (
            which[0].state[p]["momentum_buffer"] for which, p in ((theirs, parameter), (optimisers, other))
        )
        torch.testing.assert_close(found, expected, atol=2e-3, rtol=1e-2)


def test_only_members_with_kernels_are_trained_together(noise, device):
    split, space = noise.search_train.to(device), toy_edges()
    convolution, nothing = (space.parse(f"|{op}~0|+|{op}~0|{op}~1|") for op in ("nor_conv_3x3", "none"))

    def fits(*architectures, of=space, **more):
        settings = MemberSettings.of({**SIZE, **more})
        members = [build_member(of, one, split, settings, seed=0, name=0) for one in architectures]
        return joint_step(members, split, settings) is not None

    assert fits(convolution, convolution)
    assert not fits(convolution, nothing)  # its stem gets no gradient
    for more in ({"kernels": "plain"}, {"capture": False}, {"drop_path": 0.2}, {"channels": 24}, {"channels": 8}):
        assert not fits(convolution, **more)
    assert not fits(zoo["darts-v2"], of=darts(), cells=3)
    assert not fits(convolution, kernels="auto", epochs=30)  # so few steps do not pay for compiling
    assert fits(convolution, kernels="auto", epochs=3000)
