"""δ by Bayesian optimisation (paper, app. B.4): a Gaussian process proposes the next value to try."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from nesbs.errors import NesbsError


def tune(
    loss: Callable[[float], float | None], *, trials: int, low: float, high: float, seed: int
) -> list[tuple[float, float | None]]:
    """Minimise `loss` over [low, high]; return every value tried with its loss, in order.

    `loss` may answer None for a value at which there is nothing to judge. Needs the `hpo` extra.

    >>> trace = tune(lambda x: (x - 0.3) ** 2, trials=12, low=-2, high=1, seed=0)
    >>> abs(min(trace, key=lambda pair: pair[1])[0] - 0.3) < 0.1
    True
    """
    try:
        import optuna
    except ImportError:
        raise NesbsError(
            "search.tune=bayesian needs Optuna: install it with `pip install 'nesbs[hpo]'`, or set search.tune=grid"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    trace: list[tuple[float, float | None]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.GPSampler(seed=seed, n_startup_trials=min(5, trials), deterministic_objective=True)
        study = optuna.create_study(direction="minimize", sampler=sampler)
        for _ in range(trials):
            trial = study.ask()
            value = trial.suggest_float("delta", low, high)
            answer = loss(value)
            if answer is None:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, answer)
            trace.append((value, answer))
    return trace
