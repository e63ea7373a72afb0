"""SETN (Dong and Yang, 2019): weights trained fairly, an evaluator that learns which paths deserve to be looked at.

each step   A drawn uniformly;  weights on the path A ← SGD on a training batch
            α ← Adam on a validation batch of the mixture weighted by p_α
draw N architectures from p_α;  return the one with the lowest validation error under the shared weights
"""

from torch import Tensor

from nesbs import rng
from nesbs.posterior import Posterior
from nesbs.rivals.learner import Ascent, Learner, Step, best_of, learn_paths, live_path, samples_of
from nesbs.rivals.request import SearchRequest, SearchResult
from nesbs.spaces import Architecture


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
    learner = Learner(request.supernet(mixed_by="setn"))

    def gradient(step: Step) -> Tensor:
        def mixture_loss(now: Posterior) -> Tensor:
            return learner.mixture_loss(space.gates(now.log_probabilities().exp()), step.images, step.labels)

        return -learner.slope(mixture_loss)

    def path(step: Step) -> Architecture:
        return live_path(request, lambda: space.sample(generator=step.random))

    learn_paths(learner, request, Ascent.of_darts(gradient), path, name="setn")
    random = rng.generator(request.seed, "setn", "drawn")
    drawn = samples_of(request, lambda count: learner.posterior().sample(count, generator=random))
    return best_of(request, learner.supernet, drawn)
