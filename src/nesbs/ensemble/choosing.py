"""Algorithm 1: propose ensembles, estimate each one's validation loss, keep the best.

Choosing takes proposals and a score, not the stages that made them: every rival is another proposal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from pydantic import Field, field_validator
from torch import Tensor

from nesbs import metrics, rng
from nesbs.data import Split
from nesbs.ensemble.tuning import tune
from nesbs.errors import NesbsError
from nesbs.posterior import Posterior
from nesbs.samplers import Duplicates, NoEnsembleError, Proposal, Sampler, SvgdRd
from nesbs.settings import Settings
from nesbs.spaces import Architecture, Space, duplicates
from nesbs.supernet import Estimator, Supernet

Combine = Literal["probabilities", "logits"]
Method = Literal["rounds", "forward"]
# The validation loss of each of several ensembles, (ensembles,).
Score = Callable[[Sequence[Sequence[Architecture]]], Tensor]


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


@dataclass(frozen=True)
class Selection:
    """The chosen ensemble, and every ensemble that was judged with its estimated validation loss.

    `round` and `delta` say where the choice came from; both are None for a forward selection.
    """

    architectures: tuple[Architecture, ...]
    loss: float
    round: int | None
    delta: float | None
    sampler: str
    proposals: tuple[tuple[Proposal, float], ...]
    candidates: tuple[tuple[Architecture, float], ...]  # every architecture estimated, with its own loss

    @property
    def duplicates(self) -> int:
        """How many members are copies of an earlier one."""
        return duplicates(self.architectures)

    @property
    def trace(self) -> list[tuple[float, float]]:
        """Every δ in the order it was tried, with the lowest loss among its ensembles."""
        lowest: dict[float, float] = {}
        for proposal, loss in self.proposals:
            if proposal.delta is not None:
                lowest[proposal.delta] = min(loss, lowest.get(proposal.delta, loss))
        return list(lowest.items())

    def to_json(self) -> dict[str, Any]:
        """Plain data that `from_json` reads back; no time, path, version or device."""
        return {
            "architectures": [str(architecture) for architecture in self.architectures],
            "loss": self.loss,
            "round": self.round,
            "delta": self.delta,
            "sampler": self.sampler,
            "duplicates": self.duplicates,
            "proposals": [
                {
                    "architectures": [str(architecture) for architecture in proposal.architectures],
                    "loss": loss,
                    "round": proposal.round,
                    "delta": proposal.delta,
                    "duplicates": duplicates(proposal.architectures),
                }
                for proposal, loss in self.proposals
            ],
            "candidates": [{"architecture": str(architecture), "loss": loss} for architecture, loss in self.candidates],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any], space: Space) -> Selection:
        """Read what `to_json` wrote."""

        def read(texts: list[str]) -> tuple[Architecture, ...]:
            return tuple(space.parse(text) for text in texts)

        try:
            return cls(
                read(value["architectures"]),
                value["loss"],
                value["round"],
                value["delta"],
                value["sampler"],
                tuple(
                    (Proposal(read(entry["architectures"]), entry["round"], entry["delta"]), entry["loss"])
                    for entry in value["proposals"]
                ),
                tuple((space.parse(entry["architecture"]), entry["loss"]) for entry in value["candidates"]),
            )
        except (KeyError, TypeError) as error:
            raise NesbsError(f"this is not a selection: {error!r} is missing or of the wrong kind") from None


def ensemble_losses(log_probs: Tensor, labels: Tensor, members: Tensor, combine: Combine = "probabilities") -> Tensor:
    """Validation NLL of many ensembles of cached predictions, in one computation.

    log_probs (candidates, images, classes), labels (images,), members (ensembles, size) of candidates'
    indices; returns (ensembles,).

    >>> predictions = torch.tensor([[[0.8, 0.2]], [[0.4, 0.6]]]).log()
    >>> ensemble_losses(predictions, torch.tensor([0]), torch.tensor([[0, 0], [0, 1]])).exp().reciprocal()
    tensor([0.8000, 0.6000], dtype=torch.float64)
    """
    candidates, images, _ = log_probs.shape
    share = torch.zeros(len(members), candidates, dtype=torch.float64, device=log_probs.device)
    share.scatter_add_(1, members, torch.full(members.shape, 1 / members.shape[1]).to(share))
    losses = torch.zeros(len(members), dtype=torch.float64, device=log_probs.device)
    # Images in parts, so that memory stays bounded whatever the number of ensembles.
    width = 1 if combine == "probabilities" else log_probs.shape[-1]
    for part in torch.arange(images, device=log_probs.device).split(max(1, 2**24 // (len(members) * width))):
        if combine == "probabilities":
            # The loss needs the label's probability alone: an average of ensembles is a matrix product.
            of_label = log_probs[:, part, labels[part]].double().exp()
            losses -= (share @ of_label).clamp_min(torch.finfo(torch.float64).tiny).log().sum(1)
        else:
            logits = torch.einsum("ec,cik->eik", share, log_probs[:, part].double())
            losses += metrics.nll(logits.log_softmax(-1), labels[part]).double() * len(part)
    return losses / images


def scorer(estimator: Estimator, combine: Combine = "probabilities") -> Score:
    """Score ensembles by the validation loss that the supernet's weights estimate (Algorithm 1, line 6)."""

    def score(ensembles: Sequence[Sequence[Architecture]]) -> Tensor:
        known = list(dict.fromkeys(member for ensemble in ensembles for member in ensemble))
        place = {architecture: i for i, architecture in enumerate(known)}
        members = torch.tensor([[place[member] for member in ensemble] for ensemble in ensembles])
        labels = estimator.split.labels
        return ensemble_losses(estimator.log_probs(known), labels, members.to(labels.device), combine).cpu()

    return score


def choose(proposals: Sequence[Proposal], score: Score) -> tuple[int, list[float]]:
    """The position of the proposal with the lowest loss (the first of equals), and all losses (line 8)."""
    losses = score([proposal.architectures for proposal in proposals]).tolist()
    return min(range(len(losses)), key=losses.__getitem__), losses


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
        best = min(range(len(left)), key=losses.__getitem__)
        chosen.append(left.pop(best))
        loss = losses[best]
    return chosen, loss


def estimate(
    estimator: Estimator, proposals: Sequence[Proposal], heard: Callable[[int, int], None] | None = None
) -> None:
    """Compute the predictions of every architecture among the proposals; `heard` learns how many are done."""
    candidates = list(dict.fromkeys(a for proposal in proposals for a in proposal.architectures))
    for done, candidate in enumerate(candidates, start=1):
        estimator.logits(candidate)
        if heard is not None:
            heard(done, len(candidates))


def sampler_proposals(
    sampler: Sampler, trial: int, *, posterior: Posterior, size: int, settings: SearchSettings, seed: int
) -> list[Proposal]:
    """The rounds of one sampler; `trial` tells repeated askings of a tuning apart (0: there is but one)."""
    names = (sampler.name, trial) if trial else (sampler.name,)
    return sampler.propose(
        posterior,
        size=size,
        rounds=settings.rounds,
        duplicates=settings.duplicates,
        generator=rng.generator(seed, "search", *names),
    )


def _tuned(
    sampler: Sampler,
    ask: Callable[[Sampler, int], list[Proposal]],
    score: Score,
    settings: SearchSettings,
    seed: int,
    heard: Callable[[int, int], None] | None,
) -> list[Proposal]:
    """The proposals of every δ that Bayesian optimisation tries."""
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
    tune(loss, trials=settings.trials, low=low, high=high, seed=rng.derive(seed, "tune") % 2**32)
    if not proposals:
        raise NesbsError("no δ that was tried gave an ensemble without duplicates: set search.duplicates=allow")
    return proposals


def search(
    supernet: Supernet,
    posterior: Posterior,
    split: Split,
    *,
    size: int = 3,
    sampler: Sampler | None = None,
    combine: Combine = "probabilities",
    seed: int = 0,
    on_estimate: Callable[[int, int], None] | None = None,
    **settings: object,
) -> Selection:
    """Choose an ensemble of `size` architectures (Algorithm 1, lines 4 to 8).

    `sampler` is `SvgdRd(delta=…)` (δ = 0.5 when none is given), `MonteCarlo()` or `Uniform()`; members'
    predictions are averaged after the softmax, or with `combine="logits"` before it. The other settings are
    those of the recipe's section `search`: `rounds`, `method`, `duplicates`, `batch_size`.
    `tune="bayesian"` optimises δ instead of taking the sampler's. `on_estimate` hears how many of the
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
    estimator = Estimator(supernet, split, batch_size=chosen.batch_size)
    score = scorer(estimator, combine)
    ask = partial(sampler_proposals, posterior=posterior, size=size, settings=chosen, seed=seed)
    if chosen.tune == "bayesian":
        proposals = _tuned(sampler, ask, score, chosen, seed, on_estimate)
    else:
        proposals = ask(sampler, 0)
        estimate(estimator, proposals, on_estimate)
    candidates = list(dict.fromkeys(a for proposal in proposals for a in proposal.architectures))
    best, losses = choose(proposals, score)
    members, loss = proposals[best].architectures, losses[best]
    round_: int | None = proposals[best].round
    delta = proposals[best].delta
    if chosen.method == "forward" and len(candidates) >= size:
        # Greedy is usually better than the best round, not always: keep the better of the two.
        greedy, greedy_loss = forward_select(candidates, size, score)
        if greedy_loss < loss:
            members, loss, round_, delta = tuple(greedy), greedy_loss, None, None
    alone = score([[candidate] for candidate in candidates]).tolist()
    return Selection(
        members,
        loss,
        round_,
        delta,
        sampler.name,
        tuple(zip(proposals, losses, strict=True)),
        tuple(zip(candidates, alone, strict=True)),
    )
