"""The best-response posterior (SNAS, GDAS; paper, app. C.2): learned while the supernet is trained, not after it.

    each step   α ← α + Adam(∇_α  log-likelihood of a validation batch, straight-through Gumbel-Softmax)
                A ∼ p_α;  weights on the path A ← SGD on a training batch

What is good early is drawn more often and so trained more (the Matthew effect): a fair comparison of
architectures is lost, which is why the paper fits its posterior afterwards, on a supernet trained uniformly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from nesbs import metrics, rng
from nesbs.data import Split
from nesbs.errors import NesbsError
from nesbs.posterior import Posterior, PosteriorSettings, straight_through
from nesbs.rivals.learner import Learner, alive
from nesbs.spaces import Space
from nesbs.supernet import Estimator, Supernet, SupernetSettings, build_supernet
from nesbs.training import Batch, Epoch, train


def best_response(
    space: Space,
    train_split: Split,
    valid_split: Split,
    *,
    seed: int = 0,
    supernet: SupernetSettings | None = None,
    posterior: PosteriorSettings | None = None,
    checkpoint: Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> tuple[Supernet, Posterior]:
    """Train a supernet and its posterior together; settings are those of the recipe's sections.

    Of `posterior` the learning rate, batch size, evidence and Gumbel temperature count; its steps are the
    supernet's.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> data = load_dataset("fashion-mini", train_limit=200)
    >>> small = SupernetSettings(epochs=1, channels=4, cells=1, batch_size=20)
    >>> _, learned = best_response(toy_edges(), data.search_train, data.search_valid, supernet=small)
    >>> 0 < float(learned.entropy()) < float(Posterior(toy_edges()).entropy())
    True
    """
    settings, fitted = supernet or SupernetSettings(), posterior or PosteriorSettings()
    if fitted.evidence == "auto":
        raise NesbsError("the best-response posterior has no posterior.evidence=auto: name a number")
    if settings.paths != "one":
        raise NesbsError("the best-response posterior draws its own paths: set supernet.paths=one")
    learner = Learner(build_supernet(space, train_split, settings, seed=seed))
    learner.supernet.check_mixture("the best-response posterior")
    learner.to(train_split.device)
    size = min(fitted.batch_size, len(valid_split))

    def respond(epoch: int, step: int) -> None:
        """α's step on a validation batch."""
        random = rng.generator(seed, "best response", epoch, step)
        index = torch.randperm(len(valid_split), generator=random)[:size].to(valid_split.device)
        images, labels = valid_split.pixels(index), valid_split.labels[index]

        def log_likelihood(gates: Tensor, _: int) -> Tensor:
            return -F.cross_entropy(learner.supernet.mixture(images, gates.to(images.device)), labels).cpu()

        now = learner.posterior()
        now.logits.requires_grad_()
        surrogate = straight_through(log_likelihood, fitted.gumbel_temperature)
        objective = surrogate(now, step, random) - now.kl() / float(fitted.evidence)
        (gradient,) = torch.autograd.grad(objective, now.logits)
        learner.climb(gradient.to(learner.logits.device), fitted.learning_rate)

    def loss(batch: Batch) -> Tensor:
        respond(batch.epoch, batch.step)
        random = rng.generator(seed, "best response", "path", batch.epoch, batch.step)
        path = alive(space, settings, lambda: learner.posterior().sample(1, generator=random)[0])
        return F.cross_entropy(learner.supernet(batch.images, path), batch.labels)

    losses = train(
        learner,
        train_split,
        loss,
        settings,
        seed=seed,
        purpose=("best response",),
        checkpoint=checkpoint,
        on_epoch=on_epoch,
    )
    learner.supernet.losses = losses
    learner.supernet.eval()
    return learner.supernet, learner.posterior().tempered(fitted.temperature)


@dataclass(frozen=True)
class Discrepancy:
    """Errors with the supernet's weights: of the likeliest architecture and of the best one found; their gap."""

    mode: float
    best: float
    gap: float


def discrepancy(estimator: Estimator, posterior: Posterior, *, count: int = 100, seed: int = 0) -> Discrepancy:
    """How far the posterior's mode is from the best architecture (paper, app. C.2).

    The best is looked for among `count` draws from the posterior and as many uniform ones, the same for all posteriors
    of a seed: by its own draws alone one that is sure of a bad architecture would have no gap at all.
    """
    drawn = posterior.sample(count, generator=rng.generator(seed, "discrepancy"))
    others = posterior.space.sample(count, generator=rng.generator(seed, "discrepancy", "uniform"))
    known = list(dict.fromkeys([posterior.mode(), *drawn, *others]))
    errors = metrics.error(estimator.log_probs(known), estimator.split.labels).tolist()
    return Discrepancy(errors[0], min(errors), errors[0] - min(errors))
