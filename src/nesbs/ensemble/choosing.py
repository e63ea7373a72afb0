"""Algorithm 1: propose ensembles, estimate each one's validation loss, keep the best.

Choosing takes proposals and a score, not the stages that made them: every rival is another proposal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field, field_validator

from nesbs import rng
from nesbs.data import Split
from nesbs.ensemble.scoring import Score, scorer
from nesbs.ensemble.selection import Selection
from nesbs.ensemble.tuning import tune
from nesbs.errors import NesbsError
from nesbs.metrics import Combine
from nesbs.posterior import Posterior
from nesbs.samplers import Duplicates, NoEnsembleError, Proposal, Sampler, SvgdRd
from nesbs.settings import Settings
from nesbs.spaces import Architecture
from nesbs.supernet import Estimator, Supernet

Method = Literal["rounds", "forward"]
HEARD = 8  # candidates that are estimated between two words of progress


class SearchSettings(Settings):
    """How an ensemble is chosen (recipe section `search`)."""

    rounds: int = Field(5, ge=1, description="T, ensembles drawn (for each δ); paper: 5")
    method: Method = Field(
        "rounds", description="the paper's best of the rounds, or also forward selection over all candidates"
    )
    duplicates: Duplicates = Field("redraw", description="members alike: allow, refuse, or redraw the ensemble")
    batch_size: int = Field(250, ge=2, description="of estimation; BatchNorm sees batches of this size")
    tune: Literal["grid", "bayesian"] = Field(
        "grid", description="δ from sampler.delta, or by Bayesian optimisation over delta_range (extra hpo)"
    )
    trials: int = Field(15, ge=1, description="values of δ that Bayesian optimisation tries")
    delta_range: tuple[float, float] = Field((-2.0, 1.0), description="paper, app. B.4")

    @field_validator("delta_range")
    @classmethod
    def _ordered(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not value[0] < value[1]:
            raise ValueError("the range's lower end must be below its upper end")
        return value


def choose(proposals: Sequence[Proposal], score: Score) -> tuple[int, list[float]]:
    """The position of the proposal with the lowest loss (the first of equals), and all losses (line 8)."""
    losses = score([proposal.architectures for proposal in proposals]).tolist()
    return _lowest(losses), losses


def _lowest(losses: Sequence[float]) -> int:
    """The place of the lowest loss, the first of equals."""
    bad = sum(not math.isfinite(loss) for loss in losses)
    if bad:
        raise NesbsError(f"{bad} of {len(losses)} estimated losses are not numbers: was the supernet trained?")
    return min(range(len(losses)), key=losses.__getitem__)


def forward_select(candidates: Sequence[Architecture], size: int, score: Score) -> tuple[list[Architecture], float]:
    """Start with the best candidate, keep adding the one not yet chosen that lowers the ensemble's loss most.

    Stops at `size`, without replacement and without an early stop.
    """
    left = list(dict.fromkeys(candidates))
    if size > len(left):
        raise NesbsError(f"forward selection of {size} needs as many different candidates, found {len(left)}")
    chosen: list[Architecture] = []
    loss = float("inf")
    for _ in range(size):
        losses = score([[*chosen, candidate] for candidate in left]).tolist()
        best = _lowest(losses)
        chosen.append(left.pop(best))
        loss = losses[best]
    return chosen, loss


def decide(
    proposals: Sequence[Proposal], score: Score, method: Method
) -> tuple[tuple[Architecture, ...], float, Proposal | None, list[float]]:
    """The ensemble that proposals end with: its members, its loss, its proposal, and the losses of all of them.

    The best proposal (line 8); with `forward` a greedy choice from all their candidates where that is better, which is
    no proposal.
    """
    best, losses = choose(proposals, score)
    candidates = list(dict.fromkeys(a for proposal in proposals for a in proposal.architectures))
    size = len(proposals[best].architectures)
    if method == "forward" and len(candidates) >= size:
        # Greedy is usually better than the best round, not always: keep the better of the two.
        greedy, greedy_loss = forward_select(candidates, size, score)
        if greedy_loss < losses[best]:
            return tuple(greedy), greedy_loss, None, losses
    return proposals[best].architectures, losses[best], proposals[best], losses


def losses_alone(
    candidates: Sequence[Architecture], score: Score, heard: Callable[[int, int], None] | None = None
) -> list[float]:
    """The loss of every candidate by itself; `heard` learns how many are done."""
    losses: list[float] = []
    while len(losses) < len(candidates):
        part = candidates[len(losses) : len(losses) + (HEARD if losses else 1)]  # a first word soon
        losses += score([[candidate] for candidate in part]).tolist()
        if heard is not None:
            heard(len(losses), len(candidates))
    return losses


def _tuned(
    sampler: Sampler,
    ask: Callable[..., list[Proposal]],
    score: Score,
    settings: SearchSettings,
    seed: int,
    heard: Callable[[int, int], None] | None,
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
            drawn = ask(replace(sampler, delta=delta), trial)
        except NoEnsembleError:
            return None  # attraction so strong that all members are one: nothing to judge
        finally:
            if heard is not None:
                heard(trial, settings.trials)
        proposals.extend(drawn)
        return float(score([proposal.architectures for proposal in drawn]).min())

    low, high = settings.delta_range
    trace = tune(loss, trials=settings.trials, low=low, high=high, seed=rng.derive(seed, "tune") % 2**32)
    if not proposals:
        raise NesbsError("no δ that was tried gave an ensemble without duplicates: set search.duplicates=allow")
    return proposals, [delta for delta, _ in trace]


def search(
    supernet: Supernet,
    posterior: Posterior,
    split: Split,
    *,
    size: int = 3,
    sampler: Sampler | None = None,
    combine: Combine = "probabilities",
    seed: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
    **settings: object,
) -> Selection:
    """Choose an ensemble of `size` architectures (Algorithm 1, lines 4 to 8).

    `sampler` is `SvgdRd(delta=…)` (δ = 0.5 when none is given), `MonteCarlo()` or `Uniform()`; members'
    predictions are averaged after the softmax, or with `combine="logits"` before it. The other settings are
    those of the recipe's section `search`: `rounds`, `method`, `duplicates`, `batch_size`.
    `tune="bayesian"` optimises δ instead of taking the sampler's. `on_progress` is told how many of the
    candidates have been estimated (of the values of δ, when it is tuned).

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> from nesbs.supernet import train_supernet
    >>> data = load_dataset("fashion-mini", train_limit=200)
    >>> supernet = train_supernet(toy_edges(), data.search_train, epochs=1, channels=4, seed=0)
    >>> choice = search(supernet, Posterior(toy_edges()), data.search_valid, size=2, rounds=2, seed=0)
    >>> len(choice.architectures), len(choice.proposals)
    (2, 2)
    """
    chosen = SearchSettings.of(settings)
    if size < 1:
        raise NesbsError(f"ensemble.size must be at least 1, found {size}")
    sampler = SvgdRd(delta=0.5) if sampler is None else sampler
    if isinstance(sampler, SvgdRd):
        sampler = replace(sampler, device=str(split.device))
    score = scorer(Estimator(supernet, split, batch_size=chosen.batch_size), combine)

    def ask(asked: Sampler, *trial: int) -> list[Proposal]:
        return asked.propose(
            posterior,
            size=size,
            rounds=chosen.rounds,
            duplicates=chosen.duplicates,
            generator=rng.generator(seed, "search", asked.name, *trial),
        )

    if chosen.tune == "bayesian":
        proposals, tried = _tuned(sampler, ask, score, chosen, seed, on_progress)
    else:
        proposals, tried = ask(sampler), sampler.deltas if isinstance(sampler, SvgdRd) else []
    candidates = list(dict.fromkeys(a for proposal in proposals for a in proposal.architectures))
    alone = losses_alone(candidates, score, None if chosen.tune == "bayesian" else on_progress)
    members, loss, proposal, losses = decide(proposals, score, chosen.method)
    return Selection(
        members,
        loss,
        None if proposal is None else proposal.round,
        None if proposal is None else proposal.delta,
        sampler.name,
        tuple(zip(proposals, losses, strict=True)),
        tuple(zip(candidates, alone, strict=True)),
        tuple(value for value in tried if not any(proposal.delta == value for proposal in proposals)),
    )
