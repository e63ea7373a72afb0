"""Fitting p_α to the evidence (paper, sec. 3.2 and app. B.3): the ELBO and two estimators of its gradient.

    max_α  E_{A∼p_α}[log p(D|A)] − KL[p_α ‖ uniform]

log p(D|A) is a mean over observations that counts as `evidence` of them; dividing by it, the objective here is the
mean log-likelihood (or another `Evidence`) minus KL / evidence. An estimator turns a log-likelihood into a surrogate
whose gradient is (or approximates) that of the expectation; the KL's gradient is exact. Straight-through is the
paper's estimator.

Ours, not the paper's: leave-one-out; `evidence="auto"`, the multiplier of a constraint (of all posteriors with a
given entropy the one with the highest expected log-likelihood), so that the posterior is neither flat nor a point
whatever the scale of the losses; and several `starts`, of which the best is kept, since independent decisions have
several best answers next to each other and the draws decide which one a fit climbs.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.optim.adam import adam

from nesbs import rng
from nesbs.data import SearchValid, expect_held_out
from nesbs.errors import NesbsError, expect
from nesbs.posterior.categorical import Posterior
from nesbs.posterior.evidence import Evidence, OnProgress, ReferenceRanks, reference_ranks
from nesbs.posterior.settings import PosteriorSettings
from nesbs.settings import checked_keywords
from nesbs.spaces import Architecture, Space
from nesbs.supernet import Supernet
from nesbs.training import cosine

# Mean log-likelihood of each of several architectures on the step's batch: (architectures, step) → (architectures,)
LogLikelihood = Callable[[Sequence[Architecture], int], Tensor]
# The same of a weighted mixture: gates (kinds, edges, operations) and step → a differentiable scalar
RelaxedLogLikelihood = Callable[[Tensor, int], Tensor]
# A scalar whose gradient estimates that of E[log-likelihood]
Surrogate = Callable[[Posterior, int, torch.Generator], Tensor]
# The same of several posteriors, each with a generator of its own: (posteriors,)
Surrogates = Callable[[Sequence[Posterior], int, Sequence[torch.Generator]], Tensor]
OnStep = Callable[[int, float, float], None]  # step from 1, entropy in nats, evidence; after every step

DEFAULT = PosteriorSettings()
FIRST_EVIDENCE = 100.0  # of evidence="auto", which is then adapted
ADAPT_EVERY = 10  # steps between two adaptations
JUDGED = 20  # batches on which the results of several starts are compared


def leave_one_out(log_likelihood: LogLikelihood, count: int) -> Surrogate:
    """Estimate by the score function with the other samples' mean as baseline: unbiased, forward passes only.

    ∇ E[ℓ] ≈ 1/K Σ_k (ℓ_k − mean_{j≠k} ℓ_j) ∇ log p_α(A_k)
    """
    together = leave_one_out_of_all(log_likelihood, count)
    return lambda posterior, step, generator: together([posterior], step, [generator])[0]


def leave_one_out_of_all(log_likelihood: LogLikelihood, count: int) -> Surrogates:
    """`leave_one_out` of several posteriors, whose architectures are estimated together."""
    if count < 2:
        raise NesbsError(f"leave-one-out needs two architectures or more a step, found {count}")

    def surrogates(posteriors: Sequence[Posterior], step: int, generators: Sequence[torch.Generator]) -> Tensor:
        drawn = [one.sample(count, generator=random) for one, random in zip(posteriors, generators, strict=True)]
        values = log_likelihood([one for some in drawn for one in some], step).detach().to(posteriors[0].logits)
        scores = []
        for posterior, some, value in zip(posteriors, drawn, values.split(count), strict=True):
            baseline = (value.sum() - value) / (count - 1)
            scores.append(((value - baseline) * posterior.log_prob(some)).mean())
        return torch.stack(scores)

    return surrogates


def straight_through(
    relaxed: RelaxedLogLikelihood, gumbel_temperature: float = DEFAULT.gumbel_temperature
) -> Surrogate:
    """Estimate by straight-through Gumbel-Softmax: one sampled architecture forward, its gradient backward.

    Every variable is sampled so; a space with pairs of inputs multiplies an edge's operation by the pairs
    that hold the edge (`Space.gates`), which is the double-path form.
    """

    def surrogate(posterior: Posterior, step: int, generator: torch.Generator) -> Tensor:
        log_p = posterior.log_probabilities()
        uniform = torch.rand(log_p.shape, generator=generator).clamp_min(1e-20)
        noisy = log_p - (-uniform.log()).clamp_min(1e-20).log()
        soft = (noisy / gumbel_temperature).softmax(-1)
        hard = F.one_hot(noisy.argmax(-1), log_p.shape[-1]).to(soft)
        weights = hard + (soft - soft.detach())  # exactly the sample in value
        return relaxed(posterior.space.gates(weights), step)

    return surrogate


def fit_elbo(
    space: Space,
    surrogate: Surrogate,
    settings: PosteriorSettings,
    *,
    generator: torch.Generator,
    on_step: OnStep | None = None,
) -> Posterior:
    """Climb the ELBO with Adam from the uniform posterior; `on_step` is told the step, the entropy and the evidence.

    With evidence "auto" (ours, not the paper's) evidence is adapted so that the entropy becomes `settings.entropy` (a
    share of the uniform prior's). Logits are in proportion to evidence as far as decisions add up, so the factor by
    which the logits would have to grow is the factor by which evidence is wrong. What is still missing at the end is
    made up by that factor.
    """
    return fit_side_by_side(space, one_by_one(surrogate), settings, generators=[generator], on_step=on_step)[0]


def one_by_one(surrogate: Surrogate) -> Surrogates:
    """The surrogate of each of several posteriors."""

    def surrogates(posteriors: Sequence[Posterior], step: int, generators: Sequence[torch.Generator]) -> Tensor:
        pairs = zip(posteriors, generators, strict=True)
        return torch.stack([surrogate(posterior, step, generator) for posterior, generator in pairs])

    return surrogates


def fit_side_by_side(
    space: Space,
    surrogates: Surrogates,
    settings: PosteriorSettings,
    *,
    generators: Sequence[torch.Generator],
    on_step: OnStep | None = None,
) -> list[Posterior]:
    """Run `fit_elbo` for each generator, step by step in turn: a GPU then estimates the architectures of all at once.

    `on_step` is told of every fit's every step, and counts the steps of all fits together.
    """
    posteriors = [Posterior(space) for _ in generators]
    wanted = settings.entropy * math.log(space.size)
    adapts = settings.evidence == "auto"
    evidences = [FIRST_EVIDENCE if settings.evidence == "auto" else settings.evidence for _ in generators]
    logits = [posterior.logits.requires_grad_() for posterior in posteriors]
    descend = _adam(logits, settings)
    for step in range(settings.steps):
        expected = surrogates(posteriors, step, generators)
        divergences = [posterior.kl() / evidence for posterior, evidence in zip(posteriors, evidences, strict=True)]
        for one in logits:
            one.grad = None
        (torch.stack(divergences) - expected).sum().backward()
        gradients = [one.grad for one in logits if one.grad is not None]
        if not all(bool(gradient.isfinite().all()) for gradient in gradients):
            raise NesbsError(
                f"fitting the posterior: the likelihood is not a number at step {step + 1}: was the supernet trained?"
            )
        descend(gradients, step)
        for fit, posterior in enumerate(posteriors):
            now = float(posterior.entropy().detach())
            if adapts and step % ADAPT_EVERY == ADAPT_EVERY - 1:
                evidences[fit] *= factor_to(posterior, wanted) ** 0.2  # in part: the logits lag behind
            if on_step is not None:
                on_step(step * len(posteriors) + fit + 1, now, evidences[fit])
    factors = [factor_to(posterior, wanted) if adapts else 1.0 for posterior in posteriors]
    return [Posterior(space, (one * factor).detach()) for one, factor in zip(logits, factors, strict=True)]


def _adam(logits: list[Tensor], settings: PosteriorSettings) -> Callable[[Sequence[Tensor], int], None]:
    """Steps of Adam on several logits: (gradients, step) → None.

    The function, not torch's class: that one imports torch's compiler, which takes seconds.
    """
    means, squares = ([torch.zeros_like(one) for one in logits] for _ in range(2))
    counts = [torch.tensor(0.0) for _ in logits]
    rate = settings.learning_rate

    @torch.no_grad()
    def descend(gradients: Sequence[Tensor], step: int) -> None:
        adam(
            logits, list(gradients), means, squares, [], counts,
            foreach=False, amsgrad=False, beta1=0.9, beta2=0.999, weight_decay=settings.weight_decay, eps=1e-8,
            lr=cosine(step, settings.steps, rate) if settings.schedule == "cosine" else rate, maximize=False,
        )  # fmt: skip

    return descend


@torch.no_grad()
def factor_to(posterior: Posterior, entropy: float) -> float:
    """Find the factor on a posterior's logits that gives it an entropy (nats), between 1/10 and 10.

    >>> from nesbs.spaces import toy_edges
    >>> logits = torch.tensor([[0.0, 1.0, 2.0]] * 3)
    >>> wanted = float(Posterior(toy_edges(), 2 * logits).entropy())
    >>> round(factor_to(Posterior(toy_edges(), logits), wanted), 3)
    2.0
    """
    # By bisection of our own: scipy's root finders give other last digits, and the bytes of posterior.json are to stay.
    low, high = 0.1, 10.0
    for _ in range(30):
        middle = math.sqrt(low * high)
        above = float(posterior.tempered(1 / middle).entropy()) > entropy
        low, high = (middle, high) if above else (low, middle)
    return math.sqrt(low * high)


@checked_keywords
def fit_posterior(
    supernet: Supernet,
    split: SearchValid,
    *,
    seed: int = 0,
    members: tuple[int | None, int | None] = (None, None),
    ranks: ReferenceRanks | None = None,
    on_untrained: OnProgress | None = None,
    on_step: OnStep | None = None,
    on_best_start: Callable[[int], None] | None = None,
    estimator: Literal["leave-one-out", "straight-through"] = DEFAULT.estimator,
    evidence: float | Literal["auto"] = DEFAULT.evidence,
    entropy: float = DEFAULT.entropy,
    noise: float = DEFAULT.noise,
    reference: int = DEFAULT.reference,
    untrained: float = DEFAULT.untrained,
    untrained_cells: int | None = DEFAULT.untrained_cells,
    untrained_channels: int | None = DEFAULT.untrained_channels,
    starts: int = DEFAULT.starts,
    steps: int = DEFAULT.steps,
    batch_size: int = DEFAULT.batch_size,
    architectures: int = DEFAULT.architectures,
    learning_rate: float = DEFAULT.learning_rate,
    schedule: Literal["cosine", "constant"] = DEFAULT.schedule,
    weight_decay: float = DEFAULT.weight_decay,
    gumbel_temperature: float = DEFAULT.gumbel_temperature,
    temperature: float = DEFAULT.temperature,
) -> Posterior:
    """Fit the posterior to a trained supernet on images it has not seen (Algorithm 1, line 3).

    The settings are those of the recipe's section `posterior` (`PosteriorSettings`). `members` are the members' cells
    and channels, which `untrained` asks for, unless `ranks` holds a reference that exists already. `on_untrained` is
    told how many untrained networks are scored, of how many; `on_step` counts the steps of all `starts`, which take
    turns; `on_best_start` is told which of the starts was kept, from 0.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> from nesbs.supernet import train_supernet
    >>> data = load_dataset("fashion-mini", train_limit=200)
    >>> supernet = train_supernet(toy_edges(), data.search_train, epochs=1, channels=4, seed=0)
    >>> posterior = fit_posterior(supernet, data.search_valid, steps=2, seed=0)
    >>> float(posterior.entropy()) > 0
    True
    """
    settings = PosteriorSettings.from_arguments(locals())
    expect(supernet, Supernet, "supernet must be a Supernet, which train_supernet returns")
    expect(ranks, (ReferenceRanks, type(None)), "ranks must be the ReferenceRanks of another fit")
    supernet.check_split(split)
    expect_held_out(split)
    if settings.estimator == "straight-through":
        supernet.check_mixture(settings.estimator)
    ranks = ranks or reference_ranks(
        supernet.space, split, settings, seed=seed, members=members, on_progress=on_untrained
    )
    if ranks is not None:
        ranks.score_ahead(on_untrained)
    held_out = Evidence(supernet, split, settings, ranks, seed=seed)
    surrogates = _surrogates(held_out, settings, ranks)
    generators = [
        rng.generator(seed, "posterior", "architectures", *([start] if start else []))
        for start in range(settings.starts)
    ]
    with _frozen(supernet):
        fits = fit_side_by_side(supernet.space, surrogates, settings, generators=generators, on_step=on_step)
        objectives = _objectives(held_out, fits, settings, seed) if settings.starts > 1 else [0.0]
    best = max(range(settings.starts), key=objectives.__getitem__)
    if on_best_start is not None:
        on_best_start(best)
    return fits[best].tempered(settings.temperature)


def _surrogates(evidence: Evidence, settings: PosteriorSettings, ranks: ReferenceRanks | None) -> Surrogates:
    """The surrogates of the estimator that the settings name."""
    if settings.estimator == "leave-one-out":
        return leave_one_out_of_all(evidence.of, settings.architectures)
    mixture = one_by_one(straight_through(evidence.of_mixture, settings.gumbel_temperature))
    if ranks is None or ranks.weight == 0:
        return mixture
    # Untrained networks have no gradient to pass through, so leave-one-out estimates theirs; expectations add up.
    scores = leave_one_out_of_all(evidence.of_untrained, settings.architectures)
    return lambda posteriors, step, random: mixture(posteriors, step, random) + scores(posteriors, step, random)


@contextmanager
def _frozen(supernet: Supernet) -> Iterator[None]:
    """Keep the supernet's weights from collecting gradients while the posterior is fitted."""
    supernet.eval()
    trainable = [parameter for parameter in supernet.parameters() if parameter.requires_grad]
    for parameter in trainable:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trainable:
            parameter.requires_grad_(True)


def _objectives(
    evidence: Evidence, posteriors: Sequence[Posterior], settings: PosteriorSettings, seed: int
) -> list[float]:
    """The objectives that fits climbed, from architectures drawn on `JUDGED` batches. Ours, not the paper's."""
    generators = [rng.generator(seed, "posterior", "judged") for _ in posteriors]
    count, means = settings.architectures, []
    for step in range(JUDGED):
        drawn = [one.sample(count, generator=random) for one, random in zip(posteriors, generators, strict=True)]
        values = evidence.of([one for some in drawn for one in some], step)
        means.append(torch.stack([value.mean() for value in values.split(count)]))
    expected = torch.stack(means, 1).mean(1).tolist()
    if settings.evidence == "auto":  # all fits have the same entropy
        return expected
    multiplier = settings.evidence
    return [value - float(one.kl()) / multiplier for value, one in zip(expected, posteriors, strict=True)]
