"""RSPS (Li and Talwalkar, 2019): random search with parameter sharing.

    weights ← a supernet trained on uniformly drawn paths
    draw N architectures uniformly; judge each on one validation batch; keep the best 10
    return the best of those on all validation images

By error, as the paper judges. The supernet is the one NESBS trains, which is trained just so.
"""

import itertools

from nesbs import rng
from nesbs.rivals.learner import best_of, by_error
from nesbs.rivals.pools import uniform_draws
from nesbs.rivals.request import SearchRequest, SearchResult
from nesbs.supernet import Supernet, content_order

FINALISTS = 10  # of the paper


def rsps(request: SearchRequest, supernet: Supernet) -> SearchResult:
    """The best of `samples` uniform draws: all on the first batch of `valid`, ten of them on the whole of it.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> from nesbs.supernet import train_supernet
    >>> data = load_dataset("fashion-mini", train_limit=200)
    >>> supernet = train_supernet(toy_edges(), data.search_train, epochs=1, channels=4, seed=0)
    >>> request = SearchRequest(toy_edges(), data.search_train, data.search_valid, samples=20)
    >>> rsps(request, supernet).architecture in set(toy_edges())
    True
    """
    space, valid, size = request.space, request.valid, request.batch_size
    count = min(request.samples, space.size)
    draws = uniform_draws(space, generator=rng.generator(request.seed, "rsps"), allowed=request.allowed)
    drawn = list(itertools.islice(draws, count))
    first = valid.subset(content_order(valid)[:size])
    finalists = by_error(supernet, first, drawn, size)[:FINALISTS]
    return best_of(request, supernet, finalists)
