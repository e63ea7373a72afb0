"""Fitting p_α to the evidence (paper, sec. 3.2 and app. B.3): the ELBO and two estimators of its gradient.

    max_α  E_{A∼p_α}[log p(D|A)] − KL[p_α ‖ uniform]

log p(D|A) is a mean over observations that counts as `evidence` of them; dividing by it, the objective
here is the mean log-likelihood minus KL / evidence. Where `evidence` is to be found, it is the multiplier of
a constraint: of all posteriors with a given entropy the one with the highest expected log-likelihood, so that
the posterior is neither flat nor a point whatever the scale of the losses. An estimator turns a log-likelihood
into a surrogate whose gradient is (or approximates) that of the expectation; the KL's gradient is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from nesbs import metrics, rng
from nesbs.data import Split
from nesbs.errors import NesbsError
from nesbs.posterior.categorical import Posterior
from nesbs.settings import Settings
from nesbs.spaces import Architecture, Space
from nesbs.supernet import Supernet, predictor
from nesbs.training import cosine


class PosteriorSettings(Settings):
    """The posterior and its fitting (recipe section `posterior`)."""

    estimator: Literal["leave-one-out", "straight-through"] = Field(
        "leave-one-out", description="of the gradient: unbiased score function, or the paper's Gumbel-Softmax"
    )
    evidence: Annotated[float, Field(gt=0)] | Literal["auto"] = Field(
        100.0, description="observations the mean log-likelihood counts for; auto: what `entropy` asks for"
    )
    entropy: float = Field(0.5, gt=0, lt=1, description="of evidence=auto: share of the uniform prior's entropy")
    noise: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share of labels the likelihood takes for random, so that no image decides; paper: 0",
    )
    steps: int = Field(700, ge=1)
    batch_size: int = Field(500, ge=2)
    architectures: int = Field(4, ge=2, description="drawn a step by leave-one-out")
    learning_rate: float = Field(0.03, gt=0, description="Adam's, falling to 0 along a cosine")
    weight_decay: float = Field(0.0, ge=0, description="paper: 3e-4")
    gumbel_temperature: float = Field(1.0, gt=0, description="of straight-through's softmax; not τ")
    temperature: float = Field(1.0, gt=0, description="the paper's τ, which divides the fitted logits")


# Mean log-likelihood of each of several architectures on the step's batch: (architectures, step) → (architectures,)
LogLikelihood = Callable[[Sequence[Architecture], int], Tensor]
# The same of a weighted mixture: gates (kinds, edges, operations) and step → a differentiable scalar
RelaxedLogLikelihood = Callable[[Tensor, int], Tensor]
# (step from 1, entropy in nats, evidence) after every step
Heard = Callable[[int, float, float], None]
START = 100.0  # evidence to begin with where it is to be found
EVERY = 10  # steps after which it is looked at
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
    on_step: Heard | None = None,
    **settings: object,
) -> Posterior:
    """Fit the posterior to a trained supernet on images it has not seen (Algorithm 1, line 3).

    `settings` are those of the recipe's section `posterior`: `estimator`, `evidence`, `steps`, …

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
    learned = any(isinstance(m, torch.nn.BatchNorm2d) and m.affine for m in supernet.modules())
    if chosen.estimator == "straight-through" and learned and "none" in supernet.space.operations:
        # Operations that nothing arrives at would add their BatchNorm's offset to the mixture, but not to a path.
        raise NesbsError(
            f"straight-through needs supernet.affine=false on space {supernet.space.name}, which has the operation none"
        )
    size = min(chosen.batch_size, len(split))
    random = rng.generator(seed, "posterior", "batches")
    order = torch.cat(
        [torch.randperm(len(split), generator=random) for _ in range(-(-chosen.steps * size // len(split)))]
    ).to(split.device)

    def batch(step: int) -> tuple[Tensor, Tensor]:
        index = order[step * size : (step + 1) * size]
        return split.pixels(index), split.labels[index]

    predict = predictor(supernet, split)

    @torch.no_grad()
    def log_likelihood(architectures: Sequence[Architecture], step: int) -> Tensor:
        images, labels = batch(step)
        logits = predict(images, architectures)
        return -metrics.nll(logits.log_softmax(-1), labels, noise=chosen.noise).cpu()

    def relaxed(gates: Tensor, step: int) -> Tensor:
        images, labels = batch(step)
        logits = supernet.mixture(images, gates.to(split.device))
        return -metrics.nll(logits.log_softmax(-1), labels, noise=chosen.noise).float().cpu()

    supernet.eval()
    surrogate = (
        leave_one_out(log_likelihood, chosen.architectures)
        if chosen.estimator == "leave-one-out"
        else straight_through(relaxed, chosen.gumbel_temperature)
    )
    trainable = [parameter for parameter in supernet.parameters() if parameter.requires_grad]
    for parameter in trainable:
        parameter.requires_grad_(False)  # the supernet is fixed while the posterior is fitted
    try:
        posterior = fit_elbo(
            supernet.space,
            surrogate,
            evidence=None if chosen.evidence == "auto" else chosen.evidence,
            entropy=chosen.entropy,
            steps=chosen.steps,
            learning_rate=chosen.learning_rate,
            weight_decay=chosen.weight_decay,
            generator=rng.generator(seed, "posterior", "architectures"),
            on_step=on_step,
        )
    finally:
        for parameter in trainable:
            parameter.requires_grad_(True)
    return posterior.tempered(chosen.temperature)
