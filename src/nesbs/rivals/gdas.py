"""GDAS (Dong and Yang, 2019): one path a step, drawn by Gumbel-Softmax with a temperature that falls.

    each step   A ∼ p_α by argmax(log α + Gumbel);  weights on the path A ← SGD on a training batch
                α ← Adam on a validation batch, the softmax at temperature τ standing in for the argmax backward
                τ falls along a line from 10 to 0.1 over the epochs
    return the most probable architecture

A space that chooses a node's inputs has them drawn as its operations are.
"""

from torch import Tensor

from nesbs.posterior import straight_through
from nesbs.rivals.learner import Ascent, Learner, Step, learn_paths, likeliest_of, live_path
from nesbs.rivals.request import SearchRequest, SearchResult
from nesbs.spaces import Architecture

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
    learner = Learner(request.supernet(mixed_by="gdas"))

    def gradient(step: Step) -> Tensor:
        def log_likelihood(gates: Tensor, _: int) -> Tensor:
            return -learner.mixture_loss(gates, step.images, step.labels).cpu()

        surrogate = straight_through(log_likelihood, HOTTEST + (COLDEST - HOTTEST) * step.share)
        return learner.slope(lambda now: surrogate(now, 0, step.random))

    def path(step: Step) -> Architecture:
        draw = learner.posterior().sample
        return live_path(request, lambda: draw(1, generator=step.random)[0])

    learn_paths(learner, request, Ascent.of_darts(gradient), path, name="gdas")
    posterior = learner.posterior()
    return SearchResult(likeliest_of(request, posterior, posterior.mode(), "gdas"), learner.supernet)
