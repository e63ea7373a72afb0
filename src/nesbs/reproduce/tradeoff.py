"""Figure 3: errors of single networks and a map of their predictions, each architecture trained several times."""

import torch
from torch import Tensor

from nesbs import metrics
from nesbs.ensemble import Ensemble
from nesbs.evaluation import has_tsne, tsne
from nesbs.records.experiment import MethodEntry
from nesbs.reproduce.paper_methods import paper_method
from nesbs.reproduce.work import Work

IMAGES = 1000  # test images whose predictions the map is made of, at most


def run_tradeoff(work: Work) -> None:
    """Train every architecture of every ensemble `repeats` times; record errors, and predictions on a plane."""
    for label, _, harness in work.one_seed():
        recipe, methods = harness.run.recipe, work.methods(label, harness)
        test, networks, predictions = harness.run.data.test, {}, []
        for method in methods:
            architectures = list(dict.fromkeys(paper_method(method).selection(harness).architectures))
            trained = [architecture for architecture in architectures for _ in range(work.scale.repeats)]
            ensemble = Ensemble(harness.trained.members(trained))
            log_probs = ensemble.predict(test, batch_size=recipe.evaluation.batch_size).log_softmax(-1)
            networks[method] = MethodEntry(
                architectures=[str(architecture) for architecture in architectures],
                which=[architectures.index(architecture) for architecture in trained],
                errors=metrics.error(log_probs, test.labels).tolist(),
            )
            predictions.append(log_probs[:, :IMAGES].exp().double().flatten(1).cpu())
        how, points = plane(torch.cat(predictions), seed=recipe.seed)
        placed = iter(points)
        on_the_map = {
            method: entry.replace(points=[next(placed) for _ in entry.errors or ()])
            for method, entry in networks.items()
        }
        work.save_part(label, methods=on_the_map, plane=how, repeats=work.scale.repeats)


def plane(predictions: Tensor, *, seed: int) -> tuple[str, list[list[float]]]:
    """Put predictions (networks, numbers) on a plane, and say how: by t-SNE with scikit-learn, else by principal axes.

    >>> corners = torch.tensor([[0.0, 0.0, 0.0], [4.0, 0.0, 0.0], [0.0, 2.0, 0.0], [4.0, 2.0, 0.0]])
    >>> [[abs(round(value, 6)) for value in point] for point in principal(corners)]
    [[2.0, 1.0], [2.0, 1.0], [2.0, 1.0], [2.0, 1.0]]
    """
    if len(predictions) < 4:
        return "two principal axes (too few networks for t-SNE)", principal(predictions)
    if not has_tsne():
        return "two principal axes (t-SNE needs scikit-learn: pip install 'nesbs[sklearn]')", principal(predictions)
    points, perplexity = tsne(predictions, seed=seed)
    return f"t-SNE, perplexity {perplexity:.3g}", points


def principal(predictions: Tensor) -> list[list[float]]:
    """Return predictions (networks, numbers) along the two directions in which they vary most."""
    centred = predictions.double() - predictions.double().mean(0)
    u, s, _ = torch.linalg.svd(centred, full_matrices=False)
    points: list[list[float]] = (u * s)[:, :2].tolist()
    return [[*point, 0.0][:2] for point in points]
