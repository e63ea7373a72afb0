"""The best-response posterior (SNAS, GDAS; paper, app. C.2): learned while the supernet is trained, not after it.

    each step   α ← α + Adam(∇_α  log-likelihood of a validation batch, estimated as for the other posterior)
                A ∼ p_α;  weights on the path A ← SGD on a training batch

The likelihood alone, without the KL to the prior (sec. 3.2): nothing holds it back from a single architecture.

What is good early is drawn more often and so trained more (the Matthew effect): a fair comparison of
architectures is lost, which is why the paper fits its posterior afterwards, on a supernet trained uniformly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from nesbs import metrics, rng
from nesbs.errors import NesbsError
from nesbs.posterior import Posterior, PosteriorSettings, Surrogate, leave_one_out, straight_through
from nesbs.rivals.learner import LEARNING_RATE, Ascent, Learner, Step, learn_paths, likeliest_of, live_path
from nesbs.rivals.request import SearchRequest, SearchResult
from nesbs.spaces import Architecture
from nesbs.supernet import Estimator, Supernet

NAME = "best response"  # of its random streams


class LearnedTogether(NamedTuple):
    """A supernet and the posterior that was learned with it."""

    supernet: Supernet
    posterior: Posterior


def best_response(request: SearchRequest, posterior: PosteriorSettings | None = None) -> LearnedTogether:
    """Train a supernet and its posterior together.

    Of `posterior` the estimator of the gradient (by default the paper's) and its `architectures`, learning rate, weight
    decay, batch size and temperatures count; its steps are the supernet's. A learning rate of the request goes first.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> from nesbs.supernet import SupernetSettings
    >>> data = load_dataset("fashion-mini", train_limit=200)
    >>> small = SupernetSettings(epochs=1, channels=4, cells=1, batch_size=20)
    >>> _, learned = best_response(SearchRequest(toy_edges(), data.search_train, data.search_valid, small))
    >>> 0 < float(learned.entropy()) < float(Posterior(toy_edges()).entropy())
    True
    """
    fitted = posterior or PosteriorSettings(estimator="straight-through")
    if request.settings.paths != "one":
        raise NesbsError("the best-response posterior draws its own paths: set supernet.paths=one")
    mixes = fitted.estimator == "straight-through"
    learner = Learner(request.supernet(mixed_by="the best-response posterior" if mixes else None))

    def surrogate_of(step: Step) -> Surrogate:
        def of_mixture(gates: Tensor, _: int) -> Tensor:
            return -learner.mixture_loss(gates, step.images, step.labels).cpu()

        def of_each(paths: Sequence[Architecture], _: int) -> Tensor:
            return learner.log_likelihoods(paths, step.images, step.labels).cpu()

        if mixes:
            return straight_through(of_mixture, fitted.gumbel_temperature)
        return leave_one_out(of_each, fitted.architectures)

    def gradient(step: Step) -> Tensor:
        return learner.slope(lambda now: surrogate_of(step)(now, step.batch.step, step.random))

    def path(step: Step) -> Architecture:
        random = rng.generator(request.seed, NAME, "path", step.batch.epoch, step.batch.step)
        return live_path(request, lambda: learner.posterior().sample(1, generator=random)[0])

    own = fitted.learning_rate
    ascent = Ascent(gradient, own, weight_decay=fitted.weight_decay, batch_size=fitted.batch_size)
    learn_paths(learner, request, ascent, path, name=NAME)
    return LearnedTogether(learner.supernet, learner.posterior().tempered(fitted.temperature))


def snas(request: SearchRequest) -> SearchResult:
    """Search by SNAS (Xie et al., 2019) as the paper's app. C.2 has it: the likeliest of the best-response posterior.

    The request's learning rate is that of the architecture's distribution.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> from nesbs.supernet import SupernetSettings
    >>> data = load_dataset("fashion-mini", train_limit=100)
    >>> small = SupernetSettings(epochs=1, channels=4, cells=1, batch_size=20)
    >>> request = SearchRequest(toy_edges(), data.search_train, data.search_valid, small)
    >>> snas(request).architecture in set(toy_edges())
    True
    """
    fitted = PosteriorSettings(
        estimator="straight-through",
        learning_rate=LEARNING_RATE,
        batch_size=request.settings.batch_size,
    )
    supernet, posterior = best_response(request, fitted)
    return SearchResult(likeliest_of(request, posterior, posterior.mode(), "snas"), supernet)


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
    architectures = list(dict.fromkeys([posterior.mode(), *drawn, *others]))
    errors = metrics.error(estimator.log_probs(architectures), estimator.split.labels).tolist()
    return Discrepancy(errors[0], min(errors), errors[0] - min(errors))
