"""What one-shot methods share: a supernet whose weights learn from one half of the data, and what chooses paths
through it from the other half, step by step.

    each step   θ ← θ + Adam(the method's gradient on a validation batch)
                weights ← SGD on a training batch, along the path or the mixture that the method takes
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.adam import adam

from nesbs import metrics, rng
from nesbs.data import Split
from nesbs.posterior import Posterior
from nesbs.rivals.pools import likeliest_allowed
from nesbs.rivals.request import SearchRequest, SearchResult
from nesbs.samplers import draws_within
from nesbs.spaces import Architecture
from nesbs.supernet import Estimator, FusedStep, Supernet, fits
from nesbs.training import Batch, Objective, train

LEARNING_RATE = 3e-4  # of DARTS's α, and of the methods that came after it
TRIES = 100  # draws of a path before a dead one is taken


class Learner(nn.Module):
    """A supernet with what chooses its paths (`logits`, by default those of a posterior) and Adam's state beside it.

    All of it is in the module, so that a checkpoint holds it.
    """

    logits: Tensor
    mean: Tensor
    square: Tensor
    steps: Tensor
    fused: FusedStep | None = None  # while a GPU trains paths by our kernels

    def __init__(self, supernet: Supernet, start: Tensor | None = None) -> None:
        super().__init__()
        self.supernet = supernet
        start = Posterior(supernet.space).logits if start is None else start
        self.register_buffer("logits", start.clone())
        for name in ("mean", "square"):
            self.register_buffer(name, torch.zeros_like(start))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def posterior(self) -> Posterior:
        """The posterior of the present logits."""
        return Posterior(self.supernet.space, self.logits.detach().cpu())

    def slope(self, objective: Callable[[Posterior], Tensor]) -> Tensor:
        """The gradient of an objective of the present posterior, in its logits."""
        now = self.posterior()
        now.logits.requires_grad_()
        return torch.autograd.grad(objective(now), now.logits)[0]

    def mixture_loss(self, gates: Tensor, images: Tensor, labels: Tensor) -> Tensor:
        """The loss of all operations at once, weighted by `gates` (kinds of cell, edges, operations)."""
        lower = self.supernet.settings.lower_precision(images.device)
        with torch.autocast(images.device.type, torch.bfloat16, enabled=lower):
            return F.cross_entropy(self.supernet.mixture_of_open(images, gates), labels)

    @torch.no_grad()
    def predict(self, images: Tensor, paths: Sequence[Architecture]) -> Tensor:
        """Logits (paths, batch, classes), without gradients, valid until the next call."""
        if self.fused is not None:
            return self.fused.predict(images, paths)
        return torch.stack([self.supernet(images, path) for path in paths])

    def log_likelihoods(self, paths: Sequence[Architecture], images: Tensor, labels: Tensor) -> Tensor:
        """The mean log-likelihood of a batch under each of several paths, without gradients, (paths,)."""
        return -metrics.nll(self.predict(images, paths).log_softmax(-1), labels)

    def path_loss(self, batch: Batch, path: Architecture) -> Tensor:
        """The loss of a training batch along a path."""
        return F.cross_entropy(self.supernet(batch.images, path), batch.labels)

    def climb(
        self, gradient: Tensor, learning_rate: float, *, momentum: float = 0.9, weight_decay: float = 0.0
    ) -> None:
        """Take one step of Adam uphill."""
        adam(
            [self.logits],
            [gradient],
            [self.mean],
            [self.square],
            [],
            [self.steps],
            foreach=False,
            amsgrad=False,
            beta1=momentum,
            beta2=0.999,
            lr=learning_rate,
            weight_decay=weight_decay,
            eps=1e-8,
            maximize=True,
        )


@dataclass(frozen=True)
class Step:
    """One step: its training batch, a validation batch (`images`, `labels`), its randomness, how far the search is."""

    batch: Batch
    images: Tensor
    labels: Tensor
    random: torch.Generator
    share: float  # how far the training is: 0 in its first epoch, 1 in its last


@dataclass(frozen=True)
class Ascent:
    """How the logits learn: uphill along `gradient`, by Adam.

    The request's learning rate goes before `learning_rate`, the method's own. Validation batches hold `batch_size`
    images, by default as many as training batches.
    """

    gradient: Callable[[Step], Tensor]
    learning_rate: float = LEARNING_RATE
    momentum: float = 0.9
    weight_decay: float = 0.0
    batch_size: int | None = None

    @classmethod
    def of_darts(cls, gradient: Callable[[Step], Tensor]) -> Self:
        """Adam as DARTS has it for α, and as GDAS and SETN have taken it over."""
        return cls(gradient, momentum=0.5, weight_decay=1e-3)


def learn(
    learner: Learner, request: SearchRequest, ascent: Ascent, loss: Callable[[Step], Tensor], *, name: str
) -> None:
    """Train the logits along their gradient and the weights by `loss`, a step of each in turn."""
    climb = _climber(learner, request, ascent, name)
    _train(learner, request, Objective(lambda batch: loss(climb(batch))), name)


def learn_paths(
    learner: Learner, request: SearchRequest, ascent: Ascent, path: Callable[[Step], Architecture], *, name: str
) -> None:
    """Train the logits along their gradient and the weights on one path, a step of each in turn.

    On a GPU our kernels train the path, where they fit.
    """
    settings, network = request.settings, learner.supernet.network
    climb = _climber(learner, request, ascent, name)

    def plain(batch: Batch) -> Tensor:
        return learner.path_loss(batch, path(climb(batch)))

    def record(_: object, batch: Batch, optimiser: torch.optim.SGD) -> Callable[[Batch], Tensor]:
        learner.fused = fused = FusedStep(network, None, batch, settings, optimiser)
        # Outside of autocast: it would keep rounded weights, and what is recorded in it would never see new ones.
        return lambda batch: fused.along(batch, path(climb(batch)))

    by_kernels = settings.record and fits(network, request.train.device, settings.size(request.train))
    _train(learner, request, Objective(plain, record=record if by_kernels else None), name)
    learner.fused = None


def _climber(learner: Learner, request: SearchRequest, ascent: Ascent, name: str) -> Callable[[Batch], Step]:
    """What takes one step of the logits beside a training batch, on a validation batch of its own."""
    settings = request.settings
    valid = settings.seen(request.valid)
    rate = ascent.learning_rate if request.learning_rate is None else request.learning_rate
    size = min(ascent.batch_size or settings.batch_size, len(valid))

    def climb(batch: Batch) -> Step:
        random = rng.generator(request.seed, name, batch.epoch, batch.step)
        index = torch.randperm(len(valid), generator=random)[:size].to(valid.device)
        share = batch.epoch / max(1, settings.epochs - 1)
        now = Step(batch, valid.pixels(index), valid.labels[index], random, share)
        gradient = ascent.gradient(now).to(learner.logits.device)
        learner.climb(gradient, rate, momentum=ascent.momentum, weight_decay=ascent.weight_decay)
        return now

    return climb


def _train(learner: Learner, request: SearchRequest, objective: Objective, name: str) -> None:
    images = request.settings.seen(request.train)
    learner.supernet.losses = train(
        learner.to(images.device),
        images,
        objective,
        request.settings,
        seed=request.seed,
        purpose=(name,),
        checkpoint=request.checkpoint,
        on_epoch=request.on_epoch,
    )
    learner.supernet.eval()


def live_path(request: SearchRequest, draw: Callable[[], Architecture]) -> Architecture:
    """A path to train: drawn again while nothing reaches the output, where the settings ask for that.

    What has learned to draw dead paths alone gets one of them in the end; its step trains nothing but the head.
    """
    for _ in range(TRIES):
        path = draw()
        if not (request.settings.skip_dead and request.space.is_dead(path)):
            break
    return path


def likeliest_of(request: SearchRequest, posterior: Posterior, wanted: Architecture, name: str) -> Architecture:
    """What a search would end with, or where that is beyond the limits the likeliest architecture that is not."""
    return likeliest_allowed(
        posterior, wanted, request.allowed, generator=rng.generator(request.seed, name, "within limits")
    )


def samples_of(request: SearchRequest, draw: Callable[[int], list[Architecture]]) -> list[Architecture]:
    """As many draws as the request asks for, all of them within its limits."""
    if request.allowed is None:
        return draw(request.samples)
    return list(itertools.islice(draws_within(draw, 1, request.allowed), request.samples))


def best_of(request: SearchRequest, supernet: Supernet, drawn: Sequence[Architecture]) -> SearchResult:
    """The architecture with the lowest error on all validation images, the first of equals."""
    return SearchResult(by_error(supernet, request.valid, list(dict.fromkeys(drawn)), request.batch_size)[0], supernet)


def by_error(
    supernet: Supernet, split: Split, architectures: Sequence[Architecture], batch_size: int
) -> list[Architecture]:
    """The architectures by their error on a split, the lowest first; equals stay in order."""
    log_probs = Estimator(supernet, split, batch_size=batch_size).log_probs(architectures)
    errors = metrics.error(log_probs, split.labels).tolist()
    return [architectures[place] for place in sorted(range(len(errors)), key=errors.__getitem__)]
