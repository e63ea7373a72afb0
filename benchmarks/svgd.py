"""SVGD-RD for all rounds and all δ: one batched computation against a loop over them."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.timing import compare
from nesbs.posterior import Posterior
from nesbs.samplers import Relaxation, sample_svgd_rd
from nesbs.spaces import Space


def measure(
    space: Space,
    *,
    device: str = "cpu",
    rounds: int = 20,
    deltas: int = 13,
    size: int = 5,
    steps: int = 1000,
    repeats: int = 3,
) -> dict[str, Any]:
    """`rounds` × `deltas` ensembles of `size` on a space's relaxation."""
    random = torch.Generator().manual_seed(0)
    posterior = Posterior(space, torch.randn(Posterior(space).logits.shape, generator=random))
    relaxation = Relaxation(posterior.log_probabilities().to(device), variance=len(space.operations))
    start = torch.randn(rounds * deltas, size, relaxation.dims, generator=random).to(device)
    grid = torch.linspace(-2, 1, deltas, device=device).repeat(rounds)
    looped = min(rounds * deltas, 2)  # the loop is timed on a part and scaled up

    def loop() -> list[torch.Tensor]:
        return [
            sample_svgd_rd(relaxation.log_density, start[i], delta=float(grid[i]), steps=steps) for i in range(looped)
        ]

    result = compare(
        f"SVGD-RD, {space.name}, {rounds} rounds × {deltas} δ, n={size}, L={steps}",
        lambda: sample_svgd_rd(relaxation.log_density, start, delta=grid, steps=steps, record=True),
        loop,
        repeats=repeats,
    )
    for key in ("reference_seconds", "reference_spread", "ratio"):
        result[key] *= rounds * deltas / looped
    return result
