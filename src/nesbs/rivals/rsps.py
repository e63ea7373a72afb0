"""RSPS (Li and Talwalkar, 2019): random search with parameter sharing.

    weights ← a supernet trained on uniformly drawn paths
    draw N architectures uniformly; judge each on one validation batch; keep the best 10
    return the best of those on all validation images

By error, as the paper judges. The supernet is the one NESBS trains, which is trained just so.
"""

from __future__ import annotations

from nesbs import metrics, rng
from nesbs.data import Split
from nesbs.rivals.learner import Found
from nesbs.rivals.pools import uniform_pool
from nesbs.spaces import Architecture
from nesbs.supernet import Estimator, Supernet, content_order

FINALISTS = 10  # of the paper


def rsps(supernet: Supernet, split: Split, *, samples: int = 100, batch_size: int = 250, seed: int = 0) -> Found:
    """The best of `samples` uniform draws: all on the first batch of `split`, ten of them on the whole of it.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> from nesbs.supernet import train_supernet
    >>> data = load_dataset("fashion-mini", train_limit=200)
    >>> supernet = train_supernet(toy_edges(), data.search_train, epochs=1, channels=4, seed=0)
    >>> rsps(supernet, data.search_valid, samples=20).architecture in set(toy_edges())
    True
    """
    space = supernet.space
    drawn = uniform_pool(space, min(samples, len(space)), generator=rng.generator(seed, "rsps"))
    first = split.subset(content_order(split)[:batch_size])
    finalists = _ranked(supernet, first, drawn, batch_size)[:FINALISTS]
    return Found(_ranked(supernet, split, finalists, batch_size)[0], supernet)


def _ranked(supernet: Supernet, split: Split, architectures: list[Architecture], size: int) -> list[Architecture]:
    """The architectures by their error on a split, the lowest first; equals stay in order."""
    log_probs = Estimator(supernet, split, batch_size=size).log_probs(architectures)
    errors = metrics.error(log_probs, split.labels).tolist()
    return [architectures[place] for place in sorted(range(len(errors)), key=errors.__getitem__)]
