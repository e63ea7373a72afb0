"""The same change of size without looking at the network: what an attack must beat."""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from nesbs.attacks.gradient import Model
from nesbs.settings import Settings


class Noise(Settings):
    """Move every pixel by ε, up or down by the toss of a coin: a corner of the ball, as FGSM's answer is.

    >>> import torch
    >>> random = torch.Generator().manual_seed(0)
    >>> grey, label = torch.full((1, 1, 1, 4), 0.5), torch.tensor([0])
    >>> (Noise(epsilon=0.25).perturb(None, grey, label, generator=random) - grey).abs()
    tensor([[[[0.2500, 0.2500, 0.2500, 0.2500]]]])
    """

    name: ClassVar[str] = "noise"

    epsilon: float = Field(0.01, ge=0, le=1, description="change of a pixel")

    def perturb(
        self, model: Model, images: Tensor, labels: Tensor, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Images (batch, channels, height, width) in [0, 1] with random signs times ε added."""
        up = torch.rand(images.shape, generator=generator, dtype=images.dtype, device=images.device) < 0.5
        return torch.where(up, images + self.epsilon, images - self.epsilon).clamp(0, 1)
