"""A map of points: t-SNE, where scikit-learn is installed."""

import importlib.util

from torch import Tensor

PERPLEXITY = 30.0  # at most


def has_tsne() -> bool:
    """Whether scikit-learn is installed."""
    return importlib.util.find_spec("sklearn") is not None


def tsne(points: Tensor, *, seed: int = 0) -> tuple[list[list[float]], float]:
    """Points (points, numbers) on a plane (points, 2) with alike ones together, and the perplexity used."""
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(points) - 1) / 3)
    model = TSNE(2, perplexity=perplexity, init="pca", random_state=seed, method="exact", max_iter=500)
    return [[float(x), float(y)] for x, y in model.fit_transform(points.double().cpu().numpy())], perplexity
