"""One-shot methods in a run folder: each a stage that goes on where it stopped and ends with one architecture."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from nesbs.compare.budgets import remembered, times_within
from nesbs.rivals import Found, darts, enas, gdas, rsps, setn, snas
from nesbs.runs.run import Run
from nesbs.spaces import Architecture

# Those that train a supernet of their own.
_TRAINED: dict[str, Callable[..., Found]] = {
    "darts": darts,
    "darts-2nd": partial(darts, second_order=True),
    "gdas": gdas,
    "setn": setn,
    "enas": enas,
    "snas": snas,
}
ONE_SHOT = ("rsps", *_TRAINED)
MIXTURES = tuple(name for name in _TRAINED if name != "enas")  # they look at mixtures of operations


def one_shot(run: Run, method: str) -> Architecture:
    """The architecture that a method finds with the recipe's supernet settings; its seconds are in the record.

    A budget in seconds shortens its training to the epochs that fit.
    """
    settings, rivals = run.recipe.supernet, run.recipe.rivals
    if method == "rsps":
        supernet = run.supernet()
        with run.stage("rival rsps", 1):
            batch_size, seed = run.recipe.search.batch_size, run.recipe.seed
            found = rsps(supernet, run.data.search_valid, samples=rivals.samples, batch_size=batch_size, seed=seed)
        return found.architecture
    more: dict[str, Any] = {}
    if method in ("setn", "enas"):
        more = {"samples": rivals.samples, "batch_size": run.recipe.search.batch_size}

    def found_in(epochs: int, **kept: Any) -> Found:
        return _TRAINED[method](
            run.space,
            run.data.search_train,
            run.data.search_valid,
            settings=settings.model_copy(update={"paths": "one", "epochs": epochs}),
            learning_rate=rivals.learning_rate,
            seed=run.recipe.seed,
            **kept,
            **more,
        )

    epochs = settings.epochs
    if (seconds := rivals.seconds) is not None:
        epochs = remembered(run, f"{method} epochs", lambda: times_within(seconds, found_in, 1, most=settings.epochs))
    with run.stage(f"rival {method}", epochs) as stage:
        found = found_in(epochs, checkpoint=checkpoint_of(run, method), on_epoch=stage.epoch)
    return found.architecture


def checkpoint_of(run: Run, method: str) -> Path:
    """Where a method's training is kept until its choice is written."""
    return run.folder / "rivals" / f"{method}.checkpoint.safetensors"
