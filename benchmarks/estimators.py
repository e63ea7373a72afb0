"""Both estimators of the posterior's gradient against the exact one: bias and variance on a space of 27 architectures.

    python -m benchmarks.estimators --json estimators.json

A supernet of the toy space is trained on `fashion-mini`; the gradient of the expected log-likelihood by the logits is
then known exactly, by enumeration. Each estimator is drawn many times on one batch, so what varies is the drawing.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.timing import machine
from nesbs import files
from nesbs.data import load_dataset
from nesbs.posterior import Posterior, fit_posterior, leave_one_out, straight_through
from nesbs.posterior.fit import Surrogate
from nesbs.spaces import Architecture, toy_edges
from nesbs.supernet import Supernet, train_supernet


def exact_gradient(posterior: Posterior, values: dict[Architecture, float]) -> Tensor:
    """∇ Σ_A p(A) ℓ(A) by the logits, every architecture counted."""
    logits = posterior.logits.detach().clone().requires_grad_()
    known = Posterior(posterior.space, logits)
    weights = known.log_prob(list(values)).exp()
    (gradient,) = torch.autograd.grad((weights * torch.tensor(list(values.values()))).sum(), logits)
    return gradient


def drawn_gradients(posterior: Posterior, surrogate: Surrogate, draws: int) -> Tensor:
    """Gradients by the logits, one for each draw."""
    random = torch.Generator().manual_seed(0)
    found = []
    for _ in range(draws):
        logits = posterior.logits.detach().clone().requires_grad_()
        found.append(torch.autograd.grad(surrogate(Posterior(posterior.space, logits), 0, random), logits)[0])
    return torch.stack(found)


def judge(name: str, gradients: Tensor, exact: Tensor, passes: int, seconds: float) -> dict[str, Any]:
    """Bias and deviation, as shares of the exact gradient's length; its cosine with the mean of the draws."""
    mean, length = gradients.mean(0), exact.norm()
    noise = (gradients - mean).square().sum(tuple(range(1, gradients.ndim))).mean().sqrt()
    return {
        "name": name,
        "bias": float((mean - exact).norm() / length),
        "deviation": float(noise / length),
        # what the mean of the draws still owes to chance
        "error_of_bias": float(noise / length / len(gradients) ** 0.5),
        "cosine": float(F.cosine_similarity(mean.flatten(), exact.flatten(), dim=0)),
        "network_passes": passes,
        "seconds_a_draw": seconds / len(gradients),
    }


def compare(
    supernet: Supernet, posterior: Posterior, images: Tensor, labels: Tensor, draws: int
) -> list[dict[str, Any]]:
    """Leave-one-out with 2, 4 and 16 architectures, straight-through at three temperatures."""

    @torch.no_grad()
    def likelihood(architecture: Architecture) -> float:
        return -float(F.cross_entropy(supernet(images, architecture), labels))

    values = {architecture: likelihood(architecture) for architecture in supernet.space}

    def known(architectures: Sequence[Architecture], _: int) -> Tensor:
        return torch.tensor([values[architecture] for architecture in architectures])

    def relaxed(gates: Tensor, _: int) -> Tensor:
        return -F.cross_entropy(supernet.mixture(images, gates), labels)

    exact = exact_gradient(posterior, values)
    surrogates = {f"leave-one-out, {count} architectures": (leave_one_out(known, count), count) for count in (2, 4, 16)}
    surrogates |= {
        f"straight-through, Gumbel temperature {temperature:g}": (straight_through(relaxed, temperature), 1)
        for temperature in (0.3, 1.0, 3.0)
    }
    rows = []
    for name, (surrogate, passes) in surrogates.items():
        started = time.perf_counter()
        gradients = drawn_gradients(posterior, surrogate, draws)
        rows.append(judge(name, gradients, exact, passes, time.perf_counter() - started))
    return rows


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimators", description=__doc__.split("\n\n")[0])
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--images", type=int, default=2000, help="the supernet is trained on")
    parser.add_argument("--epochs", type=int, default=10, help="of the supernet")
    parser.add_argument("--json", type=Path, help="also write the figures here")
    chosen = parser.parse_args(arguments)
    data = load_dataset("fashion-mini", train_limit=chosen.images, size=12)
    supernet = train_supernet(toy_edges(), data.search_train, epochs=chosen.epochs, channels=8, cells=1, paths="fair")
    for parameter in supernet.parameters():
        parameter.requires_grad_(False)
    index = torch.arange(min(100, len(data.search_valid)))
    images, labels = data.search_valid.pixels(index), data.search_valid.labels[index]
    fitted = fit_posterior(supernet.eval(), data.search_valid, steps=100, evidence="auto", batch_size=100)
    results = {
        "at the uniform posterior": compare(supernet, Posterior(toy_edges()), images, labels, chosen.draws),
        "at the fitted posterior": compare(supernet, fitted, images, labels, chosen.draws),
    }
    for place, rows in results.items():
        print(f"{place:<44}{'bias':>8}{'deviation':>11}{'cosine':>8}")
        for row in rows:
            print(f"  {row['name']:<42}{row['bias']:>8.2f}{row['deviation']:>11.2f}{row['cosine']:>8.2f}")
    print(f"shares of the exact gradient's length; {chosen.draws} draws")
    if chosen.json:
        files.write_json(chosen.json, {"machine": machine(), "draws": chosen.draws, "results": results})


if __name__ == "__main__":
    main()
