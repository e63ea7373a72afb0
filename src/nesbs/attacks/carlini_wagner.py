"""CW: the nearest image that is classified wrongly, by gradient descent and a search over c (Carlini & Wagner, 2017).

For an image x it minimises |x' − x|² + c · max(0, margin(x') + confidence) over w, where x' = (tanh w + 1) / 2 stays
in [0, 1] by itself and the margin is the label's logit less the best other one. Every image has its own c.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from nesbs.attacks.gradient import Model, check_batch, differentiate
from nesbs.settings import MAX_STEPS, MAX_WEIGHT, Settings

SHRINK = 0.999999  # black and white would lie at infinity


class CarliniWagner(Settings):
    """Find the smallest change in the L2 norm that makes each image wrong; where none is found it stays clean.

    >>> import torch
    >>> def model(images):  # class 0 where the pixel is brighter than a half
    ...     pixel = images[:, 0, 0]
    ...     return torch.cat([8 * pixel - 4, 0 * pixel], 1)
    >>> nearest = CarliniWagner().perturb(model, torch.tensor([[[[0.52]]], [[[0.9]]]]), torch.tensor([0, 0]))
    >>> bool(0.49 < nearest[0] < 0.5), nearest[1].item() == torch.tensor(0.9).item()  # the second was too far away
    (True, True)
    """

    name: ClassVar[str] = "cw"

    confidence: float = Field(0.0, ge=0, le=MAX_WEIGHT, description="by how much another logit must lead; paper: 0")
    search_steps: int = Field(3, ge=1, le=1_000, description="values of c that are tried for an image; paper: 3")
    c_low: float = Field(0.001, ge=1e-12, le=1e12, description="lowest c; paper: 0.001")
    c_high: float = Field(10.0, ge=1e-12, le=1e12, description="highest c; paper: 10")
    rule: Literal["grow", "bisect"] = Field(
        "grow", description="how c is found: from the lowest, times 10 until a success, then halving; or halving alone"
    )
    steps: int = Field(50, ge=1, le=MAX_STEPS, description="of Adam for each c; paper: 50")
    learning_rate: float = Field(0.01, gt=0, le=MAX_WEIGHT, description="of Adam; paper: 0.01")

    @model_validator(mode="after")
    def _ordered(self) -> CarliniWagner:
        if self.c_low > self.c_high:
            raise ValueError(f"c_low must not be above c_high ({self.c_high})")
        return self

    def perturb(
        self, model: Model, images: Tensor, labels: Tensor, *, generator: torch.Generator | None = None
    ) -> Tensor:
        """Images (batch, channels, height, width) in [0, 1], changed against labels (batch,); draws nothing.

        An image that is wrong already stays as it is, and so does one on which the attack fails.
        """
        check_batch(model, images, labels)
        start = torch.atanh((2 * images - 1) * SHRINK)
        wrong = _detached(model, images).argmax(1) != labels  # however small the lead
        best = images.clone()
        shortest = torch.full_like(images[:, 0, 0, 0], torch.inf).masked_fill(wrong, 0)
        low, high = torch.full_like(shortest, self.c_low), torch.full_like(shortest, self.c_high)
        succeeded = torch.zeros_like(wrong)
        c = low if self.rule == "grow" else (low + high) / 2
        for _ in range(self.search_steps):
            success, near, length = self._descend(model, images, labels, start, c)
            closer = success & (length < shortest)
            best = torch.where(closer[:, None, None, None], near, best)
            shortest = torch.where(closer, length, shortest)
            low, high = torch.where(success, low, c), torch.where(success, c, high)
            succeeded |= success
            c = (low + high) / 2
            if self.rule == "grow":
                c = torch.where(succeeded, c, (10 * low).clamp_max(self.c_high))
        return best

    def _descend(
        self, model: Model, images: Tensor, labels: Tensor, start: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Adam at one c an image, (batch,): whether it succeeded, the nearest success on its way, and how near."""
        anchor = _image(start)
        w = start.clone()
        optimiser = torch.optim.Adam([w], lr=self.learning_rate)
        near, shortest = images.clone(), torch.full_like(c, torch.inf)

        def objective(w: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
            perturbed = _image(w)
            logits = model(perturbed)
            own = logits.gather(1, labels[:, None])[:, 0]
            other = logits.scatter(1, labels[:, None], -torch.inf).amax(1)
            hinge = (own - other + self.confidence).clamp_min(0)
            return ((perturbed - anchor).square().sum() + (c * hinge).sum()), (perturbed.detach(), logits.detach())

        for _ in range(self.steps):
            w.grad, (perturbed, logits) = differentiate(objective, w)
            length = (perturbed - images).flatten(1).norm(dim=1)
            closer = self._wrong(logits, labels) & (length < shortest)
            near = torch.where(closer[:, None, None, None], perturbed, near)
            shortest = torch.where(closer, length, shortest)
            optimiser.step()
        return shortest.isfinite(), near, shortest

    def _wrong(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Which images (batch,) are misclassified with the confidence asked for."""
        favoured = logits.scatter_add(1, labels[:, None], torch.full_like(logits[:, :1], self.confidence))
        return favoured.argmax(1) != labels


def _image(w: Tensor) -> Tensor:
    return (w.tanh() + 1) / 2


def _detached(model: Model, images: Tensor) -> Tensor:
    with torch.no_grad():
        return model(images)
