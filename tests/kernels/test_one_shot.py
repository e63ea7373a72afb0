"""One-shot searches whose paths our kernels train: what comes out is what the plain step gives."""

import pytest
import torch

from nesbs.data import batches
from nesbs.posterior import PosteriorSettings
from nesbs.rivals import SearchRequest, best_response
from nesbs.rivals.learner import Learner
from nesbs.rng import generator
from nesbs.spaces import toy_edges
from nesbs.supernet import FusedStep, SupernetSettings
from nesbs.training import Batch

STEPS = 3


def short_training(by_kernels, seen):
    """A stand-in for the loop's `train`: a few steps by the plain loss, or by the step that a GPU runs."""

    def train(learner, split, objective, settings, **_):
        optimiser = torch.optim.SGD(learner.parameters(), lr=0.05, momentum=settings.momentum)
        drawn = batches(split, settings.batch_size, generator=generator(0), crop=0, flip=False)
        record = None
        for number, (images, labels) in zip(range(STEPS), drawn, strict=False):
            batch = Batch(images, labels, 0, number)
            if by_kernels:
                record = record or objective.record(None, batch, optimiser)
                seen.append(float(record(batch)))
                assert isinstance(learner.fused, FusedStep)
                continue
            optimiser.zero_grad(set_to_none=True)
            loss = objective.loss(batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_([p for p in learner.parameters() if p.grad is not None], settings.clip)
            optimiser.step()
            seen.append(float(loss.detach()))
        return seen

    return train


@pytest.mark.parametrize("estimator", ["leave-one-out", "straight-through"])
def test_the_best_response_by_kernels_is_that_of_the_plain_step(estimator, device, noise, large_blocks, monkeypatch):
    train, valid = (split.to(device) for split in (noise.search_train, noise.search_valid))
    settings = SupernetSettings(
        epochs=1, cells=1, channels=16, batch_size=4, learning_rate=0.05, weight_decay=0, crop=0, flip=False
    )
    fitting = PosteriorSettings(estimator=estimator, architectures=2, batch_size=4, learning_rate=3)
    # Not Adam's step, which makes the sign of a slope that is all rounding as large as any other.
    monkeypatch.setattr(
        Learner, "climb", lambda self, slope, rate, **_: self.logits.add_(slope.to(self.logits), alpha=rate)
    )
    found = []
    for by_kernels in (False, True):
        losses: list[float] = []
        monkeypatch.setattr("nesbs.rivals.learner.train", short_training(by_kernels, losses))
        supernet, posterior = best_response(SearchRequest(toy_edges(), train, valid, settings), fitting)
        found.append((losses, supernet, posterior))
    (plain, one, learned), (ours, two, learned_by_ours) = found
    assert len(plain) == STEPS
    assert ours == pytest.approx(plain, rel=1e-3)
    assert float(learned.logits.abs().max()) > 0.03  # it has learned something
    torch.testing.assert_close(learned_by_ours.logits, learned.logits, atol=1e-2, rtol=1e-2)
    for (name, weight), other in zip(one.named_parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(weight, other, atol=1e-3, rtol=1e-2, msg=name)


def test_a_learner_predicts_by_the_weights_as_they_are_now(device, noise, large_blocks, close):
    split = noise.search_train.to(device)
    request = SearchRequest(toy_edges(), noise.search_train, noise.search_valid, SupernetSettings(cells=1, channels=16))
    learner = Learner(request.supernet().to(device))
    batch = Batch(split.pixels(slice(0, 4)), split.labels[:4], 0, 0)
    optimiser = torch.optim.SGD(learner.parameters(), lr=0.05, momentum=0.9)
    paths = toy_edges().sample(3, generator=generator(1))
    learner.fused = fused = FusedStep(learner.supernet.network, None, batch, request.settings, optimiser)
    before = learner.predict(batch.images, paths).clone()
    for path in paths:
        fused.along(batch, path)
    after = learner.predict(batch.images, paths).clone()
    learner.fused = None
    close(after, learner.predict(batch.images, paths))
    assert float((after - before).abs().max()) > 0.01
