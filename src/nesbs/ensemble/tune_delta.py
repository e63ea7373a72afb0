"""δ by Bayesian optimisation (paper, app. B.4): ensembles are drawn and judged at one value after the other."""

import warnings
from collections.abc import Callable
from dataclasses import replace

from nesbs import rng
from nesbs.ensemble.scoring import Score
from nesbs.ensemble.settings import SearchSettings
from nesbs.errors import NesbsError
from nesbs.samplers import NoEnsembleError, Proposal, Sampler, SvgdRd

OnProgress = Callable[[int, int], None]  # how many values are tried, of how many


def tuned_proposals(
    sampler: Sampler,
    propose: Callable[..., list[Proposal]],
    score: Score,
    settings: SearchSettings,
    seed: int,
    on_progress: OnProgress | None,
) -> tuple[list[Proposal], list[float]]:
    """The proposals of every δ that Bayesian optimisation tries, and those values."""
    if not isinstance(sampler, SvgdRd):
        raise NesbsError(f"search.tune=bayesian tunes the δ of svgd-rd; sampler {sampler.name} has none")
    proposals: list[Proposal] = []
    trial = 0

    def loss(delta: float) -> float | None:
        nonlocal trial
        trial += 1
        try:
            drawn = propose(replace(sampler, delta=delta), trial)
        except NoEnsembleError:
            return None  # attraction so strong that all members are one: nothing to judge
        finally:
            if on_progress is not None:
                on_progress(trial, settings.trials)
        proposals.extend(drawn)
        return float(score([proposal.architectures for proposal in drawn]).min())

    low, high = settings.delta_range
    deltas = tune_delta(loss, trials=settings.trials, low=low, high=high, seed=rng.derive(seed, "tune") % 2**32)
    if not proposals:
        raise NesbsError("no δ that was tried gave an ensemble without duplicates: set search.duplicates=allow")
    return proposals, deltas


def tune_delta(
    loss: Callable[[float], float | None], *, trials: int, low: float, high: float, seed: int
) -> list[float]:
    """Minimise `loss` over [low, high] by Bayesian optimisation (paper, app. B.4); return every value tried, in order.

    A Gaussian process proposes the next value to try. `loss` may answer None for a value at which there is nothing to
    judge. Needs the `hpo` extra.

    >>> tried = tune_delta(lambda x: (x - 0.3) ** 2, trials=12, low=-2, high=1, seed=0)
    >>> min(abs(value - 0.3) for value in tried) < 0.1
    True
    """
    try:
        import optuna
    except ImportError:
        raise NesbsError(
            "search.tune=bayesian needs Optuna: install it with `pip install 'nesbs[hpo]'`, or set search.tune=grid"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    tried: list[float] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.GPSampler(seed=seed, n_startup_trials=min(5, trials), deterministic_objective=True)
        study = optuna.create_study(direction="minimize", sampler=sampler)
        for _ in range(trials):
            trial = study.ask()
            value = trial.suggest_float("delta", low, high)
            tried.append(value)
            answer = loss(value)
            study.tell(trial, answer, state=optuna.trial.TrialState.FAIL if answer is None else None)
    return tried
