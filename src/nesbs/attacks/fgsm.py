"""FGSM: one step along the sign of the gradient (Goodfellow et al., 2015)."""

from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from nesbs.attacks.gradient import Model, check_batch, loss_gradient
from nesbs.settings import Settings


class Fgsm(Settings):
    """Move every pixel by ε, up or down, whichever raises the loss.

    >>> import torch
    >>> grey = torch.full((1, 1, 1, 2), 0.5)
    >>> def model(images):  # class 0 where the first pixel is the brighter one
    ...     return images[:, 0, 0]
    >>> Fgsm(epsilon=0.1).perturb(model, grey, torch.tensor([0]))
    tensor([[[[0.4000, 0.6000]]]])
    """

    name: ClassVar[str] = "fgsm"

    epsilon: float = Field(0.01, ge=0, le=1, description="largest change of a pixel; paper: 0.01")

    def perturb(
        self, model: Model, images: Tensor, labels: Tensor, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Images (batch, channels, height, width) in [0, 1], changed against labels (batch,); draws nothing."""
        check_batch(model, images, labels)
        return (images + self.epsilon * loss_gradient(model, images, labels).sign()).clamp(0, 1)
