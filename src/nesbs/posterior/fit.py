"""Fitting p_α to the evidence (paper, sec. 3.2 and app. B.3): the ELBO and two estimators of its gradient.

    max_α  E_{A∼p_α}[log p(D|A)] − KL[p_α ‖ uniform]

log p(D|A) is a mean over observations that counts as `evidence` of them; dividing by it, the objective
here is the mean log-likelihood (or another `Evidence`) minus KL / evidence. Where `evidence` is to be found, it
is the multiplier of a constraint: of all posteriors with a given entropy the one with the highest expected
log-likelihood, so that the posterior is neither flat nor a point whatever the scale of the losses. An estimator
turns a log-likelihood into a surrogate whose gradient is (or approximates) that of the expectation; the KL's
gradient is exact. Independent decisions have several best answers next to each other, and draws decide which one a
fit climbs; of several `starts` the best is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from nesbs import rng
from nesbs.data import Split
from nesbs.errors import NesbsError
from nesbs.posterior.categorical import Posterior
from nesbs.posterior.evidence import Evidence, Standing, standing
from nesbs.posterior.settings import PosteriorSettings
from nesbs.spaces import Architecture, Space
from nesbs.supernet import Supernet
from nesbs.training import cosine

# Mean log-likelihood of each of several architectures on the step's batch: (architectures, step) → (architectures,)
LogLikelihood = Callable[[Sequence[Architecture], int], Tensor]
# The same of a weighted mixture: gates (kinds, edges, operations) and step → a differentiable scalar
RelaxedLogLikelihood = Callable[[Tensor, int], Tensor]
# (step from 1, entropy in nats, evidence) after every step
Heard = Callable[[int, float, float], None]
START = 100.0  # evidence to begin with where it is to be found
EVERY = 10  # steps after which it is looked at
JUDGED = 20  # batches on which the results of several starts are compared
# A scalar whose gradient estimates that of E[log-likelihood]
Surrogate = Callable[[Posterior, int, torch.Generator], Tensor]


def leave_one_out(log_likelihood: LogLikelihood, count: int) -> Surrogate:
    """The score function with the other samples' mean as baseline: unbiased, forward passes only.

    ∇ E[ℓ] ≈ 1/K Σ_k (ℓ_k − mean_{j≠k} ℓ_j) ∇ log p_α(A_k)
    """
    if count < 2:
        raise NesbsError(f"leave-one-out needs two architectures or more a step, found {count}")

    def surrogate(posterior: Posterior, step: int, generator: torch.Generator) -> Tensor:
        drawn = posterior.sample(count, generator=generator)
        values = log_likelihood(drawn, step).detach().to(posterior.logits)
        baseline = (values.sum() - values) / (count - 1)
        return ((values - baseline) * posterior.log_prob(drawn)).mean()

    return surrogate


def straight_through(relaxed: RelaxedLogLikelihood, gumbel_temperature: float = 1.0) -> Surrogate:
    """Straight-through Gumbel-Softmax: one sampled architecture forward, the softmax's gradient backward.

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
    *,
    evidence: float | None,
    steps: int,
    learning_rate: float,
    weight_decay: float = 0.0,
    entropy: float = 0.5,
    generator: torch.Generator,
    on_step: Heard | None = None,
) -> Posterior:
    """Climb the ELBO with Adam from the uniform posterior; `on_step` hears the step (from 1), entropy and evidence.

    Without `evidence` it is found on the way, so that the entropy becomes `entropy` (a share of the uniform prior's):
    logits are in proportion to evidence as far as decisions add up, so the factor by which the logits would have to
    grow is the factor by which evidence is wrong. What is still missing at the end is made up by that factor.
    """
    posterior = Posterior(space)
    wanted = entropy * math.log(len(space))
    fixed, evidence = evidence is not None, evidence or START
    logits = posterior.logits.requires_grad_()
    optimiser = torch.optim.Adam([logits], lr=learning_rate, betas=(0.9, 0.999), weight_decay=weight_decay)
    for step in range(steps):
        optimiser.param_groups[0]["lr"] = cosine(step, steps, learning_rate)
        optimiser.zero_grad()
        objective = surrogate(posterior, step, generator) - posterior.kl() / evidence
        (-objective).backward()
        if not bool(logits.grad.isfinite().all()):  # type: ignore[union-attr]
            raise NesbsError(
                f"fitting the posterior: the likelihood is not a number at step {step + 1}: was the supernet trained?"
            )
        optimiser.step()
        now = float(posterior.entropy().detach())
        if not fixed and step % EVERY == EVERY - 1:
            evidence *= factor_to(posterior, wanted) ** 0.2  # in part: the logits lag behind
        if on_step is not None:
            on_step(step + 1, now, evidence)
    if not fixed:
        logits = logits * factor_to(posterior, wanted)
    return Posterior(space, logits.detach())


@torch.no_grad()
def factor_to(posterior: Posterior, entropy: float) -> float:
    """The factor on a posterior's logits that gives it an entropy (nats), between 1/10 and 10.

    >>> from nesbs.spaces import toy_edges
    >>> logits = torch.tensor([[0.0, 1.0, 2.0]] * 3)
    >>> wanted = float(Posterior(toy_edges(), 2 * logits).entropy())
    >>> round(factor_to(Posterior(toy_edges(), logits), wanted), 3)
    2.0
    """
    low, high = 0.1, 10.0
    for _ in range(30):
        middle = math.sqrt(low * high)
        above = float(posterior.tempered(1 / middle).entropy()) > entropy
        low, high = (middle, high) if above else (low, middle)
    return math.sqrt(low * high)


def fit_posterior(
    supernet: Supernet,
    split: Split,
    *,
    seed: int = 0,
    members: tuple[int | None, int | None] = (None, None),
    stands: Standing | None = None,
    on_look: Callable[[int, int], None] | None = None,
    on_step: Heard | None = None,
    on_kept: Callable[[int], None] | None = None,
    **settings: object,
) -> Posterior:
    """Fit the posterior to a trained supernet on images it has not seen (Algorithm 1, line 3).

    `settings` are those of the recipe's section `posterior`: `estimator`, `evidence`, `steps`, …; `members` are their
    cells and channels, which `untrained` asks for, unless a reference made before is given (`stands`). `on_look` hears
    how many untrained networks have been looked at; `on_step` counts on over several `starts`, `on_kept` hears which of
    them was kept, from 0.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> from nesbs.supernet import train_supernet
    >>> data = load_dataset("fashion-mini", train_limit=200)
    >>> supernet = train_supernet(toy_edges(), data.search_train, epochs=1, channels=4, seed=0)
    >>> posterior = fit_posterior(supernet, data.search_valid, steps=2, seed=0)
    >>> float(posterior.entropy()) > 0
    True
    """
    chosen = PosteriorSettings.of(settings)
    if chosen.estimator == "straight-through":
        supernet.check_mixture("straight-through")
    stands = stands or standing(supernet.space, split, chosen, seed=seed, members=members, heard=on_look)
    evidence = Evidence(supernet, split, chosen, seed=seed, stands=stands)
    if stands is not None:
        stands.look_ahead(on_look)
    surrogate = leave_one_out(evidence.of, chosen.architectures)
    if chosen.estimator == "straight-through":
        surrogate = straight_through(evidence.of_mixture, chosen.gumbel_temperature)
        if stands is not None and stands.weight > 0:  # which has no gradient to pass through; expectations add up
            surrogate = _sum(surrogate, leave_one_out(evidence.of_untrained, chosen.architectures))
    fixed = None if chosen.evidence == "auto" else chosen.evidence
    supernet.eval()
    trainable = [parameter for parameter in supernet.parameters() if parameter.requires_grad]
    for parameter in trainable:
        parameter.requires_grad_(False)  # the supernet is fixed while the posterior is fitted
    found: list[tuple[float, Posterior]] = []
    try:
        for start in range(chosen.starts):
            posterior = fit_elbo(
                supernet.space,
                surrogate,
                evidence=fixed,
                entropy=chosen.entropy,
                steps=chosen.steps,
                learning_rate=chosen.learning_rate,
                weight_decay=chosen.weight_decay,
                generator=rng.generator(seed, "posterior", "architectures", *([start] if start else [])),
                on_step=_counting_on(on_step, start * chosen.steps),
            )
            # Judged by the objective that they climbed; those of evidence=auto have the same entropy.
            objective = 0.0
            if chosen.starts > 1:
                drawn = rng.generator(seed, "posterior", "judged")
                kl = 0.0 if fixed is None else float(posterior.kl()) / fixed
                objective = _expected(evidence, posterior, chosen.architectures, drawn) - kl
            found.append((objective, posterior))
    finally:
        for parameter in trainable:
            parameter.requires_grad_(True)
    kept = max(range(chosen.starts), key=lambda start: found[start][0])
    if on_kept is not None:
        on_kept(kept)
    return found[kept][1].tempered(chosen.temperature)


def _sum(one: Surrogate, other: Surrogate) -> Surrogate:
    return lambda posterior, step, generator: one(posterior, step, generator) + other(posterior, step, generator)


def _counting_on(on_step: Heard | None, before: int) -> Heard | None:
    return None if on_step is None else lambda step, entropy, evidence: on_step(before + step, entropy, evidence)


def _expected(evidence: Evidence, posterior: Posterior, count: int, generator: torch.Generator) -> float:
    """The evidence of architectures drawn from a posterior, their mean over `JUDGED` batches."""
    means = [evidence.of(posterior.sample(count, generator=generator), step).mean() for step in range(JUDGED)]
    return float(torch.stack(means).mean())
