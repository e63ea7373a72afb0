"""SETN (Dong and Yang, 2019): weights trained fairly, an evaluator that learns which paths deserve to be looked at.

each step   A drawn uniformly;  weights on the path A ← SGD on a training batch
            α ← Adam on a validation batch of the mixture weighted by p_α
draw N architectures from p_α;  return the one with the lowest validation error under the shared weights
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from nesbs import rng
from nesbs.rivals.learner import Learner, Step, by_error, learn, live_path
from nesbs.rivals.request import SearchRequest, SearchResult
from nesbs.supernet import build_supernet


def setn(request: SearchRequest) -> SearchResult:
    """Search by SETN; the request's learning rate is that of α, its `samples` are judged at the end.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> from nesbs.supernet import SupernetSettings
    >>> data = load_dataset("fashion-mini", train_limit=100)
    >>> small = SupernetSettings(epochs=1, channels=4, cells=1, batch_size=20)
    >>> request = SearchRequest(toy_edges(), data.search_train, data.search_valid, small)
    >>> setn(request).architecture in set(toy_edges())
    True
    """
    space = request.space
    learner = Learner(build_supernet(space, request.train, request.settings, seed=request.seed))
    learner.supernet.check_mixture("setn")

    def gradient(step: Step) -> Tensor:
        now = learner.posterior()
        now.logits.requires_grad_()
        gates = space.gates(now.log_probabilities().exp()).to(step.images.device)
        loss = F.cross_entropy(learner.supernet.mixture(step.images, gates), step.labels)
        (slope,) = torch.autograd.grad(loss, now.logits)
        return -slope

    def loss(step: Step) -> Tensor:
        path = live_path(space, request.settings, lambda: space.sample(generator=step.random))
        return F.cross_entropy(learner.supernet(step.batch.images, path), step.batch.labels)

    learn(learner, request, name="setn", gradient=gradient, loss=loss, momentum=0.5)
    drawn = learner.posterior().sample(request.samples, generator=rng.generator(request.seed, "setn", "drawn"))
    best, *_ = by_error(learner.supernet, request.valid, list(dict.fromkeys(drawn)), request.batch_size)
    return SearchResult(best, learner.supernet)
