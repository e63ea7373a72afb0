"""Algorithm 1: propose ensembles, estimate each one's validation loss, keep the best.

Which of them is kept is decided in `decide`. Forward selection (`search.method`), other judges (`search.judge`),
`search.noise`, `search.apart` and `search.limits` are ours, not the paper's.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from torch import Tensor

from nesbs import rng
from nesbs.data import SearchValid, Split, expect_held_out
from nesbs.ensemble.decide import candidates_of, decide, forward_select, which_count
from nesbs.ensemble.judges import JudgeNoise, RankJudge, make_judge, noise_under, resamples
from nesbs.ensemble.limits import Limits, member_costs
from nesbs.ensemble.scoring import Judge, Score, scorer
from nesbs.ensemble.selection import Selection
from nesbs.ensemble.settings import (
    EnsembleSettings,
    JudgeName,
    LimitSettings,
    MemberSettings,
    Method,
    SearchSettings,
)
from nesbs.ensemble.trained_judge import ShortTraining, TrainedJudge, promising
from nesbs.ensemble.tune_delta import tuned_proposals
from nesbs.errors import NesbsError, expect
from nesbs.metrics import Combine
from nesbs.posterior import Posterior, ReferenceRanks
from nesbs.samplers import Duplicates, Proposal, Sampler, SvgdRd
from nesbs.settings import checked_keywords
from nesbs.spaces import Architecture
from nesbs.supernet import Estimator, Supernet
from nesbs.supernet.estimate import content_order

PROGRESS_EVERY = 8  # candidates between two progress updates
OnProgress = Callable[[int, int], None]  # how many are done, how many there are
DIGITS = 6  # of rank shares in a file: their last digits depend on the device
DEFAULT = SearchSettings()
ENSEMBLE = EnsembleSettings()


def _losses_alone(candidates: Sequence[Architecture], score: Score, on_progress: OnProgress | None) -> list[float]:
    """The loss of every candidate by itself."""
    losses: list[float] = []
    while len(losses) < len(candidates):
        part = candidates[len(losses) : len(losses) + (PROGRESS_EVERY if losses else 1)]  # a first update soon
        losses += score([[candidate] for candidate in part]).tolist()
        if on_progress is not None:
            on_progress(len(losses), len(candidates))
    return losses


@checked_keywords
def search(
    supernet: Supernet,
    posterior: Posterior,
    split: SearchValid,
    *,
    size: int = ENSEMBLE.size,
    sampler: Sampler | None = None,
    combine: Combine = ENSEMBLE.combine,
    seed: int = 0,
    ranks: ReferenceRanks | None = None,
    training: ShortTraining | None = None,
    on_progress: OnProgress | None = None,
    rounds: int = DEFAULT.rounds,
    method: Method = DEFAULT.method,
    duplicates: Duplicates = DEFAULT.duplicates,
    batch_size: int = DEFAULT.batch_size,
    tune: Literal["grid", "bayesian"] = DEFAULT.tune,
    trials: int = DEFAULT.trials,
    delta_range: tuple[float, float] = DEFAULT.delta_range,
    judge: JudgeName = DEFAULT.judge,
    gain: float = DEFAULT.gain,
    gain_pool: Literal["uniform", "posterior"] = DEFAULT.gain_pool,
    noise: int = DEFAULT.noise,
    apart: float = DEFAULT.apart,
    limits: LimitSettings = DEFAULT.limits,
    judge_candidates: int = DEFAULT.judge_candidates,
    judge_pool: Literal["drawn", "likeliest"] = DEFAULT.judge_pool,
    judge_epochs: int = DEFAULT.judge_epochs,
    judge_seconds: float | None = DEFAULT.judge_seconds,
) -> Selection:
    """Choose an ensemble of `size` architectures (Algorithm 1, lines 4 to 8).

    `sampler` is `SvgdRd(delta=…)`, `MonteCarlo()` or `Uniform()`; by default `SvgdRd()`, which tries a grid of δ.
    Members' predictions are averaged after the softmax, or with `combine="logits"` before it. The other settings are
    those of the recipe's section `search` (`SearchSettings`); `tune="bayesian"` optimises δ instead of taking the
    sampler's. `judge="evidence"` asks for the `ranks` that the posterior was fitted to, `judge="trained"` for a
    `training` of candidates. `limits` are those of networks as the settings of `training` build them, by default the
    space's own. `on_progress` is told how many candidates are estimated, of how many (when δ is tuned:
    values of δ), and then those that a judge compares with.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> from nesbs.supernet import train_supernet
    >>> data = load_dataset("fashion-mini", train_limit=200)
    >>> supernet = train_supernet(toy_edges(), data.search_train, epochs=1, channels=4, seed=0)
    >>> sampler = SvgdRd(delta=0.5)
    >>> choice = search(supernet, Posterior(toy_edges()), data.search_valid, size=2, rounds=2, sampler=sampler, seed=0)
    >>> len(choice.architectures), len(choice.proposals)
    (2, 2)
    """
    settings = SearchSettings.from_arguments(locals())
    sampler = SvgdRd() if sampler is None else sampler
    _check(supernet, posterior, split, sampler, size, combine)
    _check_judge(settings, training, size)
    if isinstance(sampler, SvgdRd):
        sampler = replace(sampler, device=str(split.device))
    images = settings.images(len(split))
    looked_at = split if images == len(split) else split.subset(content_order(split)[:images])
    estimator = Estimator(supernet, looked_at, batch_size=settings.batch_size)
    score = scorer(estimator, combine)
    used = make_judge(settings, score, estimator, posterior, ranks, size=size, seed=seed)
    within = _limits(settings, posterior, split, training, size)

    def propose(drawing: Sampler, *trial: int) -> list[Proposal]:
        random = rng.generator(seed, "search", drawing.name, *trial)
        rounds, policy = settings.rounds, settings.duplicates
        return drawing.propose(posterior, size=size, rounds=rounds, duplicates=policy, allowed=within, generator=random)

    if settings.tune == "bayesian":
        proposals, deltas = tuned_proposals(sampler, propose, used, settings, seed, on_progress)
        on_progress = None  # it has counted values of δ
    else:
        proposals, deltas = propose(sampler), sampler.deltas if isinstance(sampler, SvgdRd) else []
    candidates = candidates_of(proposals)
    alone = _losses_alone(candidates, score, on_progress)
    proposed = {proposal.delta for proposal in proposals}
    passed_over = tuple(delta for delta in deltas if delta not in proposed)
    estimated = tuple(zip(candidates, alone, strict=True))
    losses = score([proposal.architectures for proposal in proposals]).tolist()
    judged = tuple(zip(proposals, losses, strict=True))
    some = images if images < len(split) else None
    drawn = Selection((), None, None, None, sampler.name, judged, estimated, passed_over, loss_images=some)
    weights = resamples(len(split), settings.noise, seed=seed).to(split.device) if settings.noise else None
    if settings.judge == "trained" and training is not None:
        networks = TrainedJudge(posterior.space, training, split, settings, size=size, combine=combine, seed=seed)
        return _chosen_by_training(drawn, networks, posterior, settings, weights, within)
    noise_ = None if weights is None else noise_under(weights, used, posterior)
    return _chosen(drawn, used, score, settings, noise_, on_progress, within)


def _limits(
    settings: SearchSettings, posterior: Posterior, split: Split, training: ShortTraining | None, size: int
) -> Limits | None:
    """The limits of what members cost, None where there are none; raises where they are impossible."""
    if not settings.limits.bounds:
        return None
    costs = None if training is None else training.costs
    members = MemberSettings() if training is None else training.settings
    limits = Limits(settings.limits, costs or member_costs(posterior.space, split, members), size)
    limits.check()
    return limits


def _chosen(
    drawn: Selection,
    judge: Judge,
    score: Judge,
    settings: SearchSettings,
    noise: JudgeNoise[Architecture] | None,
    on_progress: OnProgress | None,
    limits: Limits | None,
) -> Selection:
    """What a judge chooses from the ensembles drawn; what it compares with is estimated first."""
    started = time.perf_counter()
    if isinstance(judge, RankJudge):
        _losses_alone(judge.compared, score, on_progress)
    proposals = [proposal for proposal, _ in drawn.proposals]
    members, value, proposal, values = decide(
        proposals, judge, settings.method, noise, apart=settings.apart, limits=limits
    )
    round_, delta = (None, None) if proposal is None else (proposal.round, proposal.delta)
    choice = replace(drawn, architectures=members, loss=value, round=round_, delta=delta)
    if settings.judge == "likelihood":
        return choice
    return replace(
        choice,
        loss=float(score([members])) if proposal is None else drawn.proposals[proposals.index(proposal)][1],
        judge=settings.judge,
        score=round(value, DIGITS),
        scores=tuple(round(one, DIGITS) for one in values),
        judge_seconds=time.perf_counter() - started,
    )


def _chosen_by_training(
    drawn: Selection,
    networks: TrainedJudge,
    posterior: Posterior,
    settings: SearchSettings,
    weights: Tensor | None,
    limits: Limits | None,
) -> Selection:
    """What forward selection chooses from candidates that are trained; copies of one where duplicates are allowed."""
    pool = [architecture for architecture, _ in drawn.candidates] if settings.judge_pool == "drawn" else []
    count = settings.judge_candidates
    first: tuple[Architecture, ...] = ()
    if limits is not None:  # candidates hold an ensemble that is within the limits
        whole = [proposal.architectures for proposal, _ in drawn.proposals]
        first = max(whole, key=lambda one: float(posterior.log_prob(one).sum()))
    places = networks.train(promising(posterior, pool, count, seed=networks.seed, first=first, allowed=limits))
    noise = None if weights is None else noise_under(weights, networks, posterior, networks.architectures.__getitem__)
    more = networks.another if settings.duplicates == "allow" else None

    def counted(ensembles: Sequence[Sequence[int]]) -> list[int]:
        members = [[networks.architectures[place] for place in one] for one in ensembles]
        return which_count(members, settings.apart, limits)

    chosen, loss = forward_select(places, networks.size, networks, noise, more=more, counted=counted)
    alone = networks([[place] for place in range(len(networks.architectures))]).tolist()
    return replace(
        drawn,
        architectures=tuple(networks.architectures[place] for place in chosen),
        loss=loss,
        judge=settings.judge,
        trained=tuple(zip(networks.architectures, alone, strict=True)),
        judge_seconds=networks.seconds,
    )


def _check_judge(settings: SearchSettings, training: ShortTraining | None, size: int) -> None:
    """Raise where candidates are to be trained and it is not said how, or too few are."""
    expect(training, (ShortTraining, type(None)), "training must be a ShortTraining of nesbs.ensemble")
    if settings.judge == "trained" and training is None:
        raise NesbsError(
            "search(judge='trained') trains candidates: give training=ShortTraining(data.search_train, …) of "
            "nesbs.ensemble"
        )
    settings.check_candidates(size)


def _check(
    supernet: Supernet, posterior: Posterior, split: Split, sampler: Sampler, size: int, combine: Combine
) -> None:
    """Raise where an argument of `search` is of the wrong kind."""
    expect(supernet, Supernet, "supernet must be a Supernet, which train_supernet returns")
    expect(posterior, Posterior, "posterior must be a Posterior, which fit_posterior returns")
    if posterior.space.name != supernet.space.name:
        raise NesbsError(f"the posterior is of space {posterior.space.name}, the supernet of {supernet.space.name}")
    supernet.check_split(split)
    expect_held_out(split)
    expect(sampler, Sampler, "sampler must be a sampler such as SvgdRd(delta=0.5)")
    expect(size, int, "size must be a whole number")
    if size < 1:
        raise NesbsError(f"ensemble.size must be at least 1, found {size}")
    EnsembleSettings.of({"combine": combine})
