"""What one-shot methods share: a supernet whose weights learn from one half of the data, and what chooses paths
through it from the other half, step by step.

    each step   θ ← θ + Adam(the method's gradient on a validation batch)
                weights ← SGD on a training batch, along the path or the mixture that the method takes
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from nesbs import rng
from nesbs.data import Split
from nesbs.posterior import Posterior
from nesbs.spaces import Architecture, Space
from nesbs.supernet import Supernet, SupernetSettings
from nesbs.training import Batch, Epoch, train

TRIES = 100  # draws of a path before a dead one is taken


class Learner(nn.Module):
    """A supernet with what chooses its paths (`logits`, by default those of a posterior) and Adam's state beside it.

    All of it is in the module, so that a checkpoint holds it.
    """

    logits: Tensor
    mean: Tensor
    square: Tensor
    steps: Tensor

    def __init__(self, supernet: Supernet, start: Tensor | None = None) -> None:
        super().__init__()
        self.supernet = supernet
        start = Posterior(supernet.space).logits if start is None else start
        self.register_buffer("logits", start.clone())
        for name in ("mean", "square"):
            self.register_buffer(name, torch.zeros_like(start))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def posterior(self) -> Posterior:
        """The posterior as it stands."""
        return Posterior(self.supernet.space, self.logits.detach().cpu())

    def climb(self, gradient: Tensor, learning_rate: float, *, momentum: float = 0.9) -> None:
        """One step of Adam uphill."""
        self.steps += 1
        self.mean.mul_(momentum).add_(gradient, alpha=1 - momentum)
        self.square.mul_(0.999).addcmul_(gradient, gradient, value=0.001)
        mean, square = self.mean / (1 - momentum**self.steps), self.square / (1 - 0.999**self.steps)
        self.logits += learning_rate * mean / (square.sqrt() + 1e-8)


@dataclass(frozen=True)
class Moment:
    """One step: its training batch, a validation batch (`images`, `labels`), its randomness, how far the search is."""

    batch: Batch
    images: Tensor
    labels: Tensor
    random: torch.Generator
    share: float  # of the epochs that are behind, from 0 to 1


@dataclass(frozen=True)
class Found:
    """What a one-shot search ends with: the architecture by the method's own rule, and the weights it learned."""

    architecture: Architecture
    supernet: Supernet


def learn(
    learner: Learner,
    train_split: Split,
    valid_split: Split,
    settings: SupernetSettings,
    *,
    name: str,
    gradient: Callable[[Moment], Tensor],
    loss: Callable[[Moment], Tensor],
    learning_rate: float,
    momentum: float = 0.9,
    seed: int,
    checkpoint: Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> None:
    """Train weights by `loss` and `learner.logits` along `gradient` (uphill), a step of each in turn."""
    learner.to(train_split.device)
    size = min(settings.batch_size, len(valid_split))

    def step(batch: Batch) -> Tensor:
        random = rng.generator(seed, name, batch.epoch, batch.step)
        index = torch.randperm(len(valid_split), generator=random)[:size].to(valid_split.device)
        images, labels = valid_split.pixels(index), valid_split.labels[index]
        moment = Moment(batch, images, labels, random, batch.epoch / settings.epochs)
        learner.climb(gradient(moment).to(learner.logits.device), learning_rate, momentum=momentum)
        return loss(moment)

    learner.supernet.losses = train(
        learner, train_split, step, settings, seed=seed, purpose=(name,), checkpoint=checkpoint, on_epoch=on_epoch
    )
    learner.supernet.eval()


def alive(space: Space, settings: SupernetSettings, draw: Callable[[], Architecture]) -> Architecture:
    """A path to train: drawn again while nothing reaches the output, where the settings ask for that.

    What has learned to draw dead paths alone gets one of them in the end; its step trains nothing but the head.
    """
    for _ in range(TRIES):
        path = draw()
        if not (settings.skip_dead and space.is_dead(path)):
            break
    return path
