"""The evidence for architectures: what the posterior is fitted to, on the batch of a step.

In the paper it is the log-likelihood of held-out images under the supernet's weights. A shallow supernet ranks, but
does not see what depth does to an architecture; its untrained network, as deep as a member, does (`Untrained`). Two
measures with units of their own are added as shares: how many of some random architectures each of them lets an
architecture beat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nesbs import metrics, rng
from nesbs.data import Split
from nesbs.errors import NesbsError
from nesbs.posterior.settings import PosteriorSettings
from nesbs.spaces import Architecture, Space
from nesbs.supernet import Supernet, Untrained, predictor

SMALL = 20_000  # architectures: a space whose untrained networks are all looked at ahead, on a GPU


class Evidence:
    """What speaks for architectures on the batches of held-out images, `settings.batch_size` a step."""

    def __init__(
        self,
        supernet: Supernet,
        split: Split,
        settings: PosteriorSettings,
        *,
        seed: int = 0,
        stands: Standing | None = None,
    ) -> None:
        """`stands` holds the reference that the settings ask for (`standing`)."""
        if (stands is None) != (settings.reference == 0):
            raise NesbsError("evidence goes with a standing exactly where posterior.reference is above 0")
        self._supernet, self._split, self._settings = supernet, split, settings
        size = min(settings.batch_size, len(split))
        random = rng.generator(seed, "posterior", "batches")
        # A reference is estimated on every batch, so with one the batches come again; else none is like another.
        rounds = 1 if settings.reference else -(-settings.steps * size // len(split))
        order = torch.cat([torch.randperm(len(split), generator=random) for _ in range(rounds)]).to(split.device)
        self._batches = [batch for batch in order.split(size) if len(batch) == size]
        self._predict = predictor(supernet, split)
        self._standing = stands
        self._others: dict[int, Tensor] = {}

    def of(self, architectures: Sequence[Architecture], step: int) -> Tensor:
        """The evidence for each of several architectures, (architectures,)."""
        found = self._log_likelihood(architectures, step)
        if self._standing is None:
            return found
        return self._standing.of(found, self._reference(step), architectures)

    def of_untrained(self, architectures: Sequence[Architecture], step: int) -> Tensor:
        """The part of it that untrained networks give, whatever the step, (architectures,)."""
        assert self._standing is not None
        return self._standing.untrained(architectures)

    def of_mixture(self, gates: Tensor, step: int) -> Tensor:
        """The other part, for a mixture weighted by gates (kinds, edges, operations): a differentiable scalar."""
        images, labels = self._batch(step)
        logits = self._supernet.mixture(images, gates.to(self._split.device))
        found = -metrics.nll(logits.log_softmax(-1), labels, noise=self._settings.noise).float().cpu()
        return found if self._standing is None else beaten(found, self._reference(step))

    def _batch(self, step: int) -> tuple[Tensor, Tensor]:
        index = self._batches[step % len(self._batches)]
        return self._split.pixels(index), self._split.labels[index]

    @torch.no_grad()
    def _log_likelihood(self, architectures: Sequence[Architecture], step: int) -> Tensor:
        images, labels = self._batch(step)
        logits = self._predict(images, architectures)
        return -metrics.nll(logits.log_softmax(-1), labels, noise=self._settings.noise).cpu()

    def _reference(self, step: int) -> Tensor:
        """The log-likelihoods of the reference on the batch of a step, computed once."""
        assert self._standing is not None
        place, others, size = step % len(self._batches), self._standing.reference, self._settings.architectures
        if place not in self._others:
            parts = [self._log_likelihood(others[i : i + size], step) for i in range(0, len(others), size)]
            self._others[place] = torch.cat(parts)
        return self._others[place]


class Standing:
    """Where architectures stand among a reference of random ones."""

    def __init__(
        self,
        reference: Sequence[Architecture],
        untrained: Untrained | None,
        weight: float,
        heard: Callable[[int, int], None] | None = None,
    ) -> None:
        """Without `untrained` an architecture stands where its log-likelihood does; `heard` is `Untrained.scores`'s."""
        self.reference = reference
        self.weight = weight
        self._untrained = untrained
        if untrained is not None:
            self._others = untrained.scores(reference, heard)

    def look_ahead(self, heard: Callable[[int, int], None] | None = None) -> None:
        """Score all of a small space on a GPU, where many at a time cost little more than one."""
        untrained = self._untrained
        if untrained is not None and untrained.device.type == "cuda" and len(untrained.space) <= SMALL:
            untrained.scores(list(untrained.space), heard)

    def untrained(self, architectures: Sequence[Architecture]) -> Tensor:
        """The weighted share of the reference that untrained networks let each beat, (architectures,)."""
        if self._untrained is None:
            return torch.zeros(len(architectures))
        return self.weight * beaten(self._untrained.scores(architectures), self._others)

    def of(self, values: Tensor, others: Tensor, architectures: Sequence[Architecture]) -> Tensor:
        """The evidence of architectures with log-likelihoods `values`, the reference having `others`."""
        return beaten(values, others) + self.untrained(architectures)


def standing(
    space: Space,
    split: Split,
    settings: PosteriorSettings,
    *,
    seed: int,
    members: tuple[int | None, int | None] = (None, None),
    heard: Callable[[int, int], None] | None = None,
) -> Standing | None:
    """The reference that the settings ask for, None where they ask for none.

    `members` are their cells and channels; `heard` learns how many untrained networks have been looked at.
    """
    if not settings.reference:
        return None
    reference = space.sample(settings.reference, generator=rng.generator(seed, "posterior", "reference"))
    cells, channels = members
    deep = Untrained(space, split, cells=cells, channels=channels, seed=seed) if settings.untrained > 0 else None
    return Standing(reference, deep, settings.untrained, heard)


def beaten(values: Tensor, others: Tensor) -> Tensor:
    """The share of `others` (number,) that lie below each of `values` (…); between two of them in proportion.

    Its gradient is the density of the others around a value, over a tenth of them: between two that lie close together
    the share itself is as good as a step.

    >>> beaten(torch.tensor([0.0, 1.5, 2.0, 9.0]), torch.tensor([3.0, 1.0, 2.0]))
    tensor([0.1667, 0.3333, 0.5000, 0.8333])
    """
    ordered, found, last = others.sort().values.to(values), values.detach().contiguous(), len(others) - 1
    above = torch.searchsorted(ordered, found).clamp(1, last)
    low, high = ordered[above - 1], ordered[above]
    between = torch.where(high > low, (found - low) / (high - low), (found > low).to(found)).clamp(0, 1)
    share = (above - 0.5 + between) / len(ordered)
    if not values.requires_grad:
        return share
    first, end = (above - 1 - last // 20).clamp_min(0), (above + last // 20).clamp_max(last)
    width = ordered[end] - ordered[first]
    inside = (width > 0) & (found >= ordered[0]) & (found <= ordered[-1])
    slope = torch.where(inside, (end - first) / len(ordered) / torch.where(inside, width, 1), 0)
    return share + (values - found) * slope
