"""The posterior as a density on ℝ^dims (paper, app. B.4), and the way back from a particle to choices."""

from __future__ import annotations

import torch
from torch import Tensor


class Relaxation:
    """A mixture of Gaussians for every variable, centred on its choices' one-hot vectors.

        p̂(x) ∝ Π_v Σ_c p_v(c) N(x_v | e_c, variance·I)

    `log_probabilities` is (variables, choices) with −inf where a variable has fewer choices; `variance` is
    the paper's |O|. A particle is the blocks of all variables side by side, (dims,).
    """

    def __init__(self, log_probabilities: Tensor, variance: float) -> None:
        self._log_p = log_probabilities.detach()
        self._real = self._log_p > -torch.inf
        self._variance = variance
        # Where each place of the (variables, choices) table sits in a particle.
        self._places = self._real.flatten().nonzero()[:, 0]
        self.dims = len(self._places)

    def log_density(self, x: Tensor) -> Tensor:
        """Return the unnormalised log p̂ of particles, (…, dims) to (…)."""
        blocks = self._blocks(x)
        # ‖x_v − e_c‖² = ‖x_v‖² − 2 x_vc + 1
        distance = blocks.square().sum(-1, keepdim=True) - 2 * blocks + 1
        return (self._log_p - distance / (2 * self._variance)).logsumexp(-1).sum(-1)

    def decode(self, x: Tensor) -> Tensor:
        """Return the nearest choice of every variable, (…, dims) to (…, variables) int64."""
        return self._blocks(x).masked_fill(~self._real, -torch.inf).argmax(-1)

    def _blocks(self, x: Tensor) -> Tensor:
        """(…, dims) to (…, variables, choices), zero where there is no choice."""
        table = x.new_zeros(*x.shape[:-1], self._real.numel())
        table = table.index_copy(-1, self._places, x)
        return table.reshape(*x.shape[:-1], *self._real.shape)
