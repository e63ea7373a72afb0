"""SNAS (Xie et al., 2019) as the paper's appendix C.2 has it: the likeliest of the best-response posterior."""

from __future__ import annotations

from nesbs.posterior import PosteriorSettings
from nesbs.rivals.best_response import best_response
from nesbs.rivals.learner import LEARNING_RATE
from nesbs.rivals.request import SearchRequest, SearchResult

NO_PRIOR = 1e9  # observations the likelihood counts for, beside which the prior's KL is nothing: SNAS has none


def snas(request: SearchRequest) -> SearchResult:
    """Search by SNAS; the request's learning rate is that of the architecture's distribution.

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
        learning_rate=LEARNING_RATE if request.learning_rate is None else request.learning_rate,
        batch_size=request.settings.batch_size,
        evidence=NO_PRIOR,
    )
    supernet, posterior = best_response(request, fitted)
    return SearchResult(posterior.mode(), supernet)
