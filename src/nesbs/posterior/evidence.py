"""The evidence for architectures: what the posterior is fitted to, on the batch of a step.

The paper's evidence is the log-likelihood of held-out images under the supernet's weights. Ours, not the paper's, are
rank shares: the share of some random reference architectures that score lower (`ReferenceRanks`). As shares, two
measures with units of their own can be added: the log-likelihood, and the score of an untrained network as deep as a
member (`Untrained`), which sees what depth does to an architecture where a shallow supernet does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nesbs import metrics, rng
from nesbs.data import SearchValid
from nesbs.errors import NesbsError
from nesbs.posterior.settings import PosteriorSettings
from nesbs.spaces import Architecture, Space
from nesbs.spaces.architecture import Cell
from nesbs.supernet import Supernet, Untrained, predictor
from nesbs.training import capture_graph

SMALL = 20_000  # architectures: on a GPU the untrained networks of a space up to this size are all scored ahead
OnProgress = Callable[[int, int], None]  # how many are done, how many there are


class Evidence:
    """The evidence for architectures on batches of held-out images, `settings.batch_size` a step."""

    def __init__(
        self,
        supernet: Supernet,
        split: SearchValid,
        settings: PosteriorSettings,
        ranks: ReferenceRanks | None,
        *,
        seed: int,
    ) -> None:
        """`ranks` holds the reference that the settings ask for (`reference_ranks`)."""
        if (ranks is None) != (settings.reference == 0):
            raise NesbsError("evidence needs reference ranks exactly where posterior.reference is above 0")
        split = supernet.settings.seen(split)
        self._supernet, self._split, self._settings, self._ranks = supernet, split, settings, ranks
        size = min(settings.batch_size, len(split))
        random = rng.generator(seed, "posterior", "batches")
        # A reference is estimated on every batch, so with one the batches come again; else none is like another.
        rounds = 1 if settings.reference else -(-settings.steps * size // len(split))
        order = torch.cat([torch.randperm(len(split), generator=random) for _ in range(rounds)]).to(split.device)
        self._batches = [batch for batch in order.split(size) if len(batch) == size]
        self._predict = predictor(supernet, split)
        self._reference_values: dict[int, Tensor] = {}  # by batch
        self._values: dict[tuple[int, tuple[Cell, ...]], Tensor] = {}  # by batch and what is live
        self._records = split.device.type == "cuda" and supernet.settings.record
        self._recorded: RecordedMixture | None = None

    def of(self, architectures: Sequence[Architecture], step: int) -> Tensor:
        """Return the evidence for each of several architectures, (architectures,)."""
        values = self._log_likelihood(architectures, step)
        return values if self._ranks is None else self._ranks.of(values, self._reference(step), architectures)

    def of_untrained(self, architectures: Sequence[Architecture], step: int) -> Tensor:
        """Return what untrained networks add to the evidence, whatever the step, (architectures,). Ours."""
        assert self._ranks is not None
        return self._ranks.untrained(architectures)

    def of_mixture(self, gates: Tensor, step: int) -> Tensor:
        """Return the other part for a mixture weighted by gates (kinds, edges, operations): a differentiable scalar."""
        images, labels = self._batch(step)
        if self._records:
            self._recorded = self._recorded or RecordedMixture(self._mixture_value, images, labels, gates)
            value = self._recorded(images, labels, gates)
        else:
            value = self._mixture_value(images, labels, gates.to(self._split.device)).cpu()
        return value if self._ranks is None else share_below(value, self._reference(step))

    def _mixture_value(self, images: Tensor, labels: Tensor, gates: Tensor) -> Tensor:
        logits = self._supernet.mixture(images, gates)
        return -metrics.nll(logits.log_softmax(-1), labels, noise=self._settings.noise).float()

    def _batch(self, step: int) -> tuple[Tensor, Tensor]:
        index = self._batches[step % len(self._batches)]
        return self._split.pixels(index), self._split.labels[index]

    def _log_likelihood(self, architectures: Sequence[Architecture], step: int) -> Tensor:
        """The log-likelihood of each architecture on the batch of a step; computed once, where batches repeat.

        As a fit narrows, it draws the same architectures again, and so do other fits.
        """
        if not self._settings.reference:
            return self._estimated(architectures, step)
        keys = [(step % len(self._batches), self._supernet.space.live(one)) for one in architectures]
        missing = {key: one for key, one in zip(keys, architectures, strict=True) if key not in self._values}
        if missing:
            self._values.update(zip(missing, self._estimated(list(missing.values()), step), strict=True))
        return torch.stack([self._values[key] for key in keys])

    @torch.no_grad()
    def _estimated(self, architectures: Sequence[Architecture], step: int) -> Tensor:
        images, labels = self._batch(step)
        size = self._settings.architectures  # go through the supernet together
        values = []
        for i in range(0, len(architectures), size):
            logits = self._predict(images, architectures[i : i + size])
            values.append(-metrics.nll(logits.log_softmax(-1), labels, noise=self._settings.noise))
        return torch.cat(values).cpu()

    def _reference(self, step: int) -> Tensor:
        """The log-likelihoods of the reference on the batch of a step, computed once."""
        assert self._ranks is not None
        batch = step % len(self._batches)
        if batch not in self._reference_values:
            self._reference_values[batch] = self._log_likelihood(self._ranks.reference, step)
        return self._reference_values[batch]


class RecordedMixture:
    """A value of images, labels and gates, and its gradient by the gates, recorded as one CUDA graph.

    Else the host would have to launch a mixture's thousands of small kernels one by one.
    """

    def __init__(
        self, value_of: Callable[[Tensor, Tensor, Tensor], Tensor], images: Tensor, labels: Tensor, gates: Tensor
    ) -> None:
        """`gates` may be elsewhere than the images, and so is the value then."""
        self._inputs = [images.clone(), labels.clone(), gates.detach().to(images.device, copy=True)]

        @torch.enable_grad()
        def work() -> tuple[Tensor, Tensor]:
            images, labels, gates = self._inputs
            leaf = gates.detach().requires_grad_()
            value = value_of(images, labels, leaf)
            [gradient] = torch.autograd.grad(value, leaf)
            return value.detach(), gradient

        self._graph = capture_graph(work)

    def __call__(self, images: Tensor, labels: Tensor, gates: Tensor) -> Tensor:
        """Return the value, a scalar that is differentiable by the gates."""
        for ours, theirs in zip(self._inputs, (images, labels, gates.detach()), strict=True):
            ours.copy_(theirs)
        self._graph.replay()
        value, gradient = (found.to(gates.device, copy=True) for found in self._graph.result)
        return value + ((gates - gates.detach()) * gradient).sum()  # exactly the value


class ReferenceRanks:
    """Rank shares of architectures among a reference of random ones. Ours, not the paper's."""

    def __init__(
        self,
        reference: Sequence[Architecture],
        untrained: Untrained | None,
        weight: float,
        on_progress: OnProgress | None = None,
        *,
        noise: float = 0.0,
    ) -> None:
        """Without `untrained` the log-likelihood alone decides the rank; `on_progress` counts untrained networks.

        `noise` is the share of labels that this likelihood takes for random.
        """
        self.reference = reference
        self.weight = weight
        self.noise = noise
        self._untrained = untrained
        if untrained is not None:
            self._untrained_reference = untrained.scores(reference, on_progress)

    def score_ahead(self, on_progress: OnProgress | None = None) -> None:
        """Score all of a small space on a GPU, where many at a time cost little more than one."""
        untrained = self._untrained
        if untrained is not None and untrained.device.type == "cuda" and untrained.space.size <= SMALL:
            untrained.scores(list(untrained.space), on_progress)

    def untrained(self, architectures: Sequence[Architecture]) -> Tensor:
        """Return the weighted share of the reference whose untrained networks score lower, (architectures,)."""
        if self._untrained is None:
            return torch.zeros(len(architectures))
        return self.weight * share_below(self._untrained.scores(architectures), self._untrained_reference)

    def of(self, values: Tensor, reference: Tensor, architectures: Sequence[Architecture]) -> Tensor:
        """Return the evidence for architectures from their log-likelihoods, `values`, and those of the reference."""
        return share_below(values, reference) + self.untrained(architectures)


def reference_ranks(
    space: Space,
    split: SearchValid,
    settings: PosteriorSettings,
    *,
    seed: int,
    members: tuple[int | None, int | None] = (None, None),
    on_progress: OnProgress | None = None,
) -> ReferenceRanks | None:
    """Draw and score the reference that the settings ask for; None where they ask for none.

    `members` are the members' cells and channels, which the settings may replace; `on_progress` counts untrained
    networks. Ours, not the paper's.
    """
    if not settings.reference:
        return None
    reference = space.sample(settings.reference, generator=rng.generator(seed, "posterior", "reference"))
    cells, channels = settings.untrained_cells or members[0], settings.untrained_channels or members[1]
    deep = Untrained(space, split, cells=cells, channels=channels, seed=seed) if settings.untrained > 0 else None
    return ReferenceRanks(reference, deep, settings.untrained, on_progress, noise=settings.noise)


def share_below(values: Tensor, reference: Tensor) -> Tensor:
    """Return the share of `reference` (number,) below each of `values` (…); between two of them in proportion.

    Its gradient is the density of the reference around a value, taken over a tenth of the reference: between two that
    lie close together the share itself is as good as a step. Ours, not the paper's.

    >>> share_below(torch.tensor([0.0, 1.5, 2.0, 9.0]), torch.tensor([3.0, 1.0, 2.0]))
    tensor([0.1667, 0.3333, 0.5000, 0.8333])
    """
    ordered, value, last = reference.sort().values.to(values), values.detach().contiguous(), len(reference) - 1
    above = torch.searchsorted(ordered, value).clamp(1, last)
    low, high = ordered[above - 1], ordered[above]
    between = torch.where(high > low, (value - low) / (high - low), (value > low).to(value)).clamp(0, 1)
    share = (above - 0.5 + between) / len(ordered)
    if not values.requires_grad:
        return share
    first, end = (above - 1 - last // 20).clamp_min(0), (above + last // 20).clamp_max(last)
    width = ordered[end] - ordered[first]
    inside = (width > 0) & (value >= ordered[0]) & (value <= ordered[-1])
    slope = torch.where(inside, (end - first) / len(ordered) / torch.where(inside, width, 1), 0)
    return share + (values - value) * slope
