"""PGD: many small steps along the sign of the gradient, each brought back into the ball (Madry et al., 2018)."""

from __future__ import annotations

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from nesbs.attacks.gradient import Model, check_batch, loss_gradient
from nesbs.settings import MAX_STEPS, Settings


class Pgd(Settings):
    """Climb the loss inside the L∞ ball of radius ε around each image.

    >>> import torch
    >>> grey = torch.full((1, 1, 1, 2), 0.5)
    >>> def model(images):
    ...     return images[:, 0, 0]
    >>> Pgd(epsilon=0.1, step_size=0.04, steps=9).perturb(model, grey, torch.tensor([0]))
    tensor([[[[0.4000, 0.6000]]]])
    """

    name: ClassVar[str] = "pgd"

    epsilon: float = Field(0.01, ge=0, le=1, description="largest change of a pixel; paper: 0.01")
    step_size: float = Field(0.008, gt=0, le=1, description="change of a pixel in a step; paper: 0.008")
    steps: int = Field(40, ge=1, le=MAX_STEPS, description="paper: 40")
    random_start: bool = Field(False, description="begin at a random place of the ball")

    def at(self, epsilon: float) -> Pgd:
        """The same attack of another size, its steps in proportion; where it has none, in that of the paper's.

        >>> Pgd(epsilon=0.25, step_size=0.125).at(0.5).step_size
        0.25
        """
        asked = self if self.epsilon > 0 else Pgd()
        share = asked.step_size / asked.epsilon
        return self.model_copy(update={"epsilon": epsilon, "step_size": min(1.0, share * epsilon)})

    def perturb(
        self, model: Model, images: Tensor, labels: Tensor, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Images (batch, channels, height, width) in [0, 1], changed against labels (batch,).

        `generator`, on the images' device, draws the random start.
        """
        check_batch(model, images, labels)
        low, high = (images - self.epsilon).clamp_min(0), (images + self.epsilon).clamp_max(1)
        perturbed = images
        if self.random_start:
            share = torch.rand(images.shape, generator=generator, dtype=images.dtype, device=images.device)
            perturbed = (images + self.epsilon * (2 * share - 1)).clamp(0, 1)
        for _ in range(self.steps):
            step = self.step_size * loss_gradient(model, perturbed, labels).sign()
            perturbed = torch.minimum(torch.maximum(perturbed + step, low), high)
        return perturbed
