"""DARTS (Liu et al., 2019): all operations at once, weighted by a softmax that is learned by gradient descent.

    each step   α ← α − ∇_α L_val(w − ξ ∇_w L_train(w, α), α)     (ξ = 0: first order)
                w ← w − ∇_w L_train(w, α)
    return on every edge the operation of largest weight; of a node's edges those two whose largest weight is highest

While searching, a node adds up all its possible inputs. Operations are those of the space: on NAS-Bench-201 `none`
is among them and may be chosen, as in that benchmark's own runs. The unrolled step is plain gradient descent.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from nesbs.data import steps_per_epoch
from nesbs.posterior import Posterior
from nesbs.rivals.learner import Ascent, Learner, Step, learn, likeliest_of
from nesbs.rivals.request import SearchRequest, SearchResult
from nesbs.spaces import Architecture
from nesbs.training import learning_rate as scheduled


def darts(request: SearchRequest, *, second_order: bool = False) -> SearchResult:
    """Search by DARTS, first or second order; the request's learning rate is that of α.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> from nesbs.supernet import SupernetSettings
    >>> data = load_dataset("fashion-mini", train_limit=100)
    >>> small = SupernetSettings(epochs=1, channels=4, cells=1, batch_size=20)
    >>> request = SearchRequest(toy_edges(), data.search_train, data.search_valid, small)
    >>> darts(request).architecture in set(toy_edges())
    True
    """
    if second_order:  # its central differences drown in bfloat16
        request = replace(request, settings=request.settings.model_copy(update={"precision": "float32"}))
    settings = request.settings
    learner = Learner(request.supernet(mixed_by="darts"))
    steps = steps_per_epoch(request.train, settings.batch_size)
    weights = list(learner.supernet.parameters())

    def loss(logits: Tensor, images: Tensor, labels: Tensor) -> Tensor:
        return learner.mixture_loss(open_gates(Posterior(request.space, logits)), images, labels)

    def gradient(step: Step) -> Tensor:
        alpha = learner.posterior().logits.requires_grad_()
        if not second_order:
            (slope,) = torch.autograd.grad(loss(alpha, step.images, step.labels), alpha)
            return -slope
        batch = step.batch
        return -hyper_gradient(
            lambda a: loss(a, batch.images, batch.labels),
            lambda a: loss(a, step.images, step.labels),
            weights,
            alpha,
            scheduled(settings, batch.epoch * steps + batch.step, steps),
        )

    def train_loss(step: Step) -> Tensor:
        return loss(learner.posterior().logits, step.batch.images, step.batch.labels)

    name = "darts-2nd" if second_order else "darts"
    learn(learner, request, Ascent.of_darts(gradient), train_loss, name=name)
    posterior = learner.posterior()
    return SearchResult(likeliest_of(request, posterior, derive(posterior), name), learner.supernet)


def hyper_gradient(
    train_loss: Callable[[Tensor], Tensor],
    valid_loss: Callable[[Tensor], Tensor],
    weights: Sequence[Tensor],
    alpha: Tensor,
    step_size: float,
) -> Tensor:
    """∇_α L_val(w − ξ ∇_w L_train(w, α), α), the mixed derivative by central differences (DARTS, eqs. 7 and 8).

    Losses are functions of α that read `weights` (each of them a leaf), which are moved meanwhile and put back.
    """
    descent = _slopes(train_loss(alpha), weights)
    with _moved(weights, descent, -step_size):
        own, *direction = _slopes(valid_loss(alpha), [alpha, *weights])
    length = torch.stack([part.norm() for part in direction]).norm()
    if float(length) == 0:
        return own
    reach = float(0.01 / length)
    sides = []
    for sign in (1, -1):
        with _moved(weights, direction, sign * reach):
            sides.append(_slopes(train_loss(alpha), [alpha])[0])
    return own - step_size * (sides[0] - sides[1]) / (2 * reach)


def open_gates(posterior: Posterior) -> Tensor:
    """Softmax weights (kinds of cell, edges, operations) with every possible input of every node open."""
    space, weights = posterior.space, posterior.log_probabilities().exp()
    rows = list(weights)
    for root in space.input_choices():
        # An edge counts for the pairs that hold it: shared out so that each edge counts once.
        [holding] = {
            sum(child in space.children(root, choice) for choice in range(len(space.variables[root].choices)))
            for child in space.children(root, 0)
        }
        rows[root] = torch.full_like(rows[root], 1 / holding)
    return space.gates(torch.stack(rows))


def derive(posterior: Posterior) -> Architecture:
    """DARTS's rule: the strongest operation of every edge, and the inputs whose strongest operations are strongest."""
    space, weights = posterior.space, posterior.log_probabilities().detach().exp()
    strength, strongest = weights.max(-1)
    picks = strongest.tolist()
    for root in space.input_choices():
        totals = [float(strength[space.children(root, c)].sum()) for c in range(len(space.variables[root].choices))]
        picks[root] = max(range(len(totals)), key=totals.__getitem__)
    return space.architecture(picks)


def _slopes(value: Tensor, inputs: Sequence[Tensor]) -> list[Tensor]:
    slopes = torch.autograd.grad(value, list(inputs), allow_unused=True)
    return [torch.zeros_like(x) if slope is None else slope for x, slope in zip(inputs, slopes, strict=True)]


@contextlib.contextmanager
def _moved(weights: Sequence[Tensor], direction: Sequence[Tensor], by: float) -> Iterator[None]:
    """Move the weights along a direction, and put them back exactly."""
    before = [weight.detach().clone() for weight in weights]
    with torch.no_grad():
        for weight, part in zip(weights, direction, strict=True):
            weight.add_(part, alpha=by)
    try:
        yield
    finally:
        with torch.no_grad():
            for weight, earlier in zip(weights, before, strict=True):
                weight.copy_(earlier)
