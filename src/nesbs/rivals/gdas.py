"""GDAS (Dong and Yang, 2019): one path a step, drawn by Gumbel-Softmax with a temperature that falls.

    each step   A ∼ p_α by argmax(log α + Gumbel);  weights on the path A ← SGD on a training batch
                α ← Adam on a validation batch, the softmax at temperature τ standing in for the argmax backward
                τ falls along a line from 10 to 0.1 over the epochs
    return the most probable architecture

A space that chooses a node's inputs has them drawn as its operations are.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from nesbs.data import Split
from nesbs.posterior import straight_through
from nesbs.rivals.learner import Found, Learner, Moment, alive, learn
from nesbs.spaces import Space
from nesbs.supernet import SupernetSettings, build_supernet
from nesbs.training import Epoch

HOTTEST, COLDEST = 10.0, 0.1  # of the paper


def gdas(
    space: Space,
    train_split: Split,
    valid_split: Split,
    *,
    settings: SupernetSettings | None = None,
    learning_rate: float = 3e-4,
    seed: int = 0,
    checkpoint: Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Found:
    """Search by GDAS; `learning_rate` is that of α.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> data = load_dataset("fashion-mini", train_limit=100)
    >>> small = SupernetSettings(epochs=1, channels=4, cells=1, batch_size=20)
    >>> gdas(toy_edges(), data.search_train, data.search_valid, settings=small).architecture in set(toy_edges())
    True
    """
    settings = settings or SupernetSettings()
    learner = Learner(build_supernet(space, train_split, settings, seed=seed))
    learner.supernet.check_mixture("gdas")

    def gradient(moment: Moment) -> Tensor:
        def log_likelihood(gates: Tensor, _: int) -> Tensor:
            logits = learner.supernet.mixture(moment.images, gates.to(moment.images.device))
            return -F.cross_entropy(logits, moment.labels).cpu()

        now = learner.posterior()
        now.logits.requires_grad_()
        temperature = HOTTEST + (COLDEST - HOTTEST) * moment.share
        drawn = straight_through(log_likelihood, temperature)(now, 0, moment.random)
        (slope,) = torch.autograd.grad(drawn, now.logits)
        return slope

    def loss(moment: Moment) -> Tensor:
        path = alive(space, settings, lambda: learner.posterior().sample(1, generator=moment.random)[0])
        return F.cross_entropy(learner.supernet(moment.batch.images, path), moment.batch.labels)

    learn(
        learner,
        train_split,
        valid_split,
        settings,
        name="gdas",
        gradient=gradient,
        loss=loss,
        learning_rate=learning_rate,
        momentum=0.5,
        seed=seed,
        checkpoint=checkpoint,
        on_epoch=on_epoch,
    )
    return Found(learner.posterior().mode(), learner.supernet)
