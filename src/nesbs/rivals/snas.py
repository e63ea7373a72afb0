"""SNAS (Xie et al., 2019) as the paper's appendix C.2 has it: the likeliest of the best-response posterior."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nesbs.data import Split
from nesbs.posterior import PosteriorSettings
from nesbs.rivals.best_response import best_response
from nesbs.rivals.learner import Found
from nesbs.spaces import Space
from nesbs.supernet import SupernetSettings
from nesbs.training import Epoch

NO_PRIOR = 1e9  # observations the likelihood counts for, beside which the prior's KL is nothing: SNAS has none


def snas(
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
    """Search by SNAS; `learning_rate` is that of the architecture's distribution.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> data = load_dataset("fashion-mini", train_limit=100)
    >>> small = SupernetSettings(epochs=1, channels=4, cells=1, batch_size=20)
    >>> snas(toy_edges(), data.search_train, data.search_valid, settings=small).architecture in set(toy_edges())
    True
    """
    settings = settings or SupernetSettings()
    supernet, posterior = best_response(
        space,
        train_split,
        valid_split,
        seed=seed,
        supernet=settings,
        posterior=PosteriorSettings(learning_rate=learning_rate, batch_size=settings.batch_size, evidence=NO_PRIOR),
        checkpoint=checkpoint,
        on_epoch=on_epoch,
    )
    return Found(posterior.mode(), supernet)
