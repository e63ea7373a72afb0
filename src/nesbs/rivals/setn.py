"""SETN (Dong and Yang, 2019): weights trained fairly, an evaluator that learns which paths deserve to be looked at.

each step   A drawn uniformly;  weights on the path A ← SGD on a training batch
            α ← Adam on a validation batch of the mixture weighted by p_α
draw N architectures from p_α;  return the one with the lowest validation error under the shared weights
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from nesbs import metrics, rng
from nesbs.data import Split
from nesbs.rivals.learner import Found, Learner, Moment, alive, learn
from nesbs.spaces import Space
from nesbs.supernet import Estimator, SupernetSettings, build_supernet
from nesbs.training import Epoch


def setn(
    space: Space,
    train_split: Split,
    valid_split: Split,
    *,
    settings: SupernetSettings | None = None,
    learning_rate: float = 3e-4,
    samples: int = 100,
    batch_size: int = 250,
    seed: int = 0,
    checkpoint: Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Found:
    """Search by SETN; `learning_rate` is that of α, `samples` are judged at the end in batches of `batch_size`.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> data = load_dataset("fashion-mini", train_limit=100)
    >>> small = SupernetSettings(epochs=1, channels=4, cells=1, batch_size=20)
    >>> setn(toy_edges(), data.search_train, data.search_valid, settings=small).architecture in set(toy_edges())
    True
    """
    settings = settings or SupernetSettings()
    learner = Learner(build_supernet(space, train_split, settings, seed=seed))
    learner.supernet.check_mixture("setn")

    def gradient(moment: Moment) -> Tensor:
        now = learner.posterior()
        now.logits.requires_grad_()
        gates = space.gates(now.log_probabilities().exp()).to(moment.images.device)
        loss = F.cross_entropy(learner.supernet.mixture(moment.images, gates), moment.labels)
        (slope,) = torch.autograd.grad(loss, now.logits)
        return -slope

    def loss(moment: Moment) -> Tensor:
        path = alive(space, settings, lambda: space.sample(generator=moment.random))
        return F.cross_entropy(learner.supernet(moment.batch.images, path), moment.batch.labels)

    learn(
        learner,
        train_split,
        valid_split,
        settings,
        name="setn",
        gradient=gradient,
        loss=loss,
        learning_rate=learning_rate,
        momentum=0.5,
        seed=seed,
        checkpoint=checkpoint,
        on_epoch=on_epoch,
    )
    drawn = learner.posterior().sample(samples, generator=rng.generator(seed, "setn", "drawn"))
    known = list(dict.fromkeys(drawn))
    log_probs = Estimator(learner.supernet, valid_split, batch_size=batch_size).log_probs(known)
    errors = metrics.error(log_probs, valid_split.labels).tolist()
    return Found(known[min(range(len(known)), key=errors.__getitem__)], learner.supernet)
