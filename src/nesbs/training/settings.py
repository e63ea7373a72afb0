"""How a network is trained."""

from typing import Annotated, Literal, Self

import torch
from pydantic import Field, model_validator

from nesbs.settings import MAX_BATCH, MAX_EPOCHS, MAX_PIXELS, MAX_WEIGHT, Settings

Strength = Annotated[float, Field(ge=0, le=1)]
# Of brightness, contrast and saturation as shares, and of hue as a share of the colour circle, of which a half is all.
ColourJitter = tuple[Strength, Strength, Strength, Annotated[float, Field(ge=0, le=0.5)]]


class TrainingSettings(Settings):
    """How a network is trained; the supernet's and the members' settings add to it."""

    epochs: int = Field(50, ge=1, le=MAX_EPOCHS)
    batch_size: int = Field(128, ge=2, le=MAX_BATCH)
    learning_rate: float = Field(0.1, gt=0, le=MAX_WEIGHT, description="at its highest; falls to 0 by the schedule")
    schedule: Literal["cosine", "linear"] = Field("cosine", description="how the learning rate falls")
    warm_up: int = Field(
        0, ge=0, le=MAX_EPOCHS, description="epochs in which the learning rate first rises to its highest"
    )
    momentum: float = Field(0.9, ge=0, lt=1)
    nesterov: bool = False
    weight_decay: float = Field(3e-4, ge=0, le=MAX_WEIGHT)
    clip: float | None = Field(5.0, gt=0, le=MAX_WEIGHT, description="largest norm of the gradient (DARTS: 5)")
    crop: int = Field(4, ge=0, le=MAX_PIXELS, description="shift images by up to so many pixels")
    flip: bool = Field(True, description="mirror images half the time")
    cutout: int = Field(0, ge=0, le=MAX_PIXELS, description="cover a square of so many pixels a side (DARTS: 16)")
    colour_jitter: ColourJitter = Field(
        (0.0, 0.0, 0.0, 0.0),
        description="change brightness, contrast, saturation and hue by up to so much (P-DARTS on ImageNet: 0.4, 0.4, "
        "0.4, 0.2)",
    )
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "float32", description="of convolutions; auto is bfloat16 on a GPU that has it"
    )
    batch_norm: Literal["synchronised", "own"] = Field(
        "synchronised",
        description="under torchrun, BatchNorm's statistics are of the whole batch, or of each process's own part",
    )

    @model_validator(mode="after")
    def _falls(self) -> Self:
        if self.warm_up >= self.epochs:
            raise ValueError(f"warm_up ({self.warm_up}) leaves none of the epochs ({self.epochs}) to train in")
        return self

    def lower_precision(self, device: torch.device) -> bool:
        """Whether convolutions run in bfloat16 on a device."""
        if self.precision == "auto":
            return device.type == "cuda" and torch.cuda.is_bf16_supported()
        return self.precision == "bfloat16"
