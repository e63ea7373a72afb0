"""GDAS (Dong and Yang, 2019): one path a step, drawn by Gumbel-Softmax with a temperature that falls.

    each step   A ∼ p_α by argmax(log α + Gumbel);  weights on the path A ← SGD on a training batch
                α ← Adam on a validation batch, the softmax at temperature τ standing in for the argmax backward
                τ falls along a line from 10 to 0.1 over the epochs
    return the most probable architecture

A space that chooses a node's inputs has them drawn as its operations are.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from nesbs.posterior import straight_through
from nesbs.rivals.learner import Learner, Step, learn, live_path
from nesbs.rivals.request import SearchRequest, SearchResult
from nesbs.supernet import build_supernet

HOTTEST, COLDEST = 10.0, 0.1  # of the paper


def gdas(request: SearchRequest) -> SearchResult:
    """Search by GDAS; the request's learning rate is that of α.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> from nesbs.supernet import SupernetSettings
    >>> data = load_dataset("fashion-mini", train_limit=100)
    >>> small = SupernetSettings(epochs=1, channels=4, cells=1, batch_size=20)
    >>> request = SearchRequest(toy_edges(), data.search_train, data.search_valid, small)
    >>> gdas(request).architecture in set(toy_edges())
    True
    """
    learner = Learner(build_supernet(request.space, request.train, request.settings, seed=request.seed))
    learner.supernet.check_mixture("gdas")

    def gradient(step: Step) -> Tensor:
        def log_likelihood(gates: Tensor, _: int) -> Tensor:
            logits = learner.supernet.mixture(step.images, gates.to(step.images.device))
            return -F.cross_entropy(logits, step.labels).cpu()

        now = learner.posterior()
        now.logits.requires_grad_()
        temperature = HOTTEST + (COLDEST - HOTTEST) * step.share
        drawn = straight_through(log_likelihood, temperature)(now, 0, step.random)
        (slope,) = torch.autograd.grad(drawn, now.logits)
        return slope

    def loss(step: Step) -> Tensor:
        draw = learner.posterior().sample
        path = live_path(request.space, request.settings, lambda: draw(1, generator=step.random)[0])
        return F.cross_entropy(learner.supernet(step.batch.images, path), step.batch.labels)

    learn(learner, request, name="gdas", gradient=gradient, loss=loss, momentum=0.5)
    return SearchResult(learner.posterior().mode(), learner.supernet)
