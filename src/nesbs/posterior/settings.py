"""Settings of the posterior and its fitting."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from nesbs.settings import (
    MAX_ARCHITECTURES,
    MAX_BATCH,
    MAX_CELLS,
    MAX_CHANNELS,
    MAX_STEPS,
    MAX_TEMPERATURE,
    MAX_WEIGHT,
    MIN_TEMPERATURE,
    Settings,
)

Temperature = Annotated[float, Field(ge=MIN_TEMPERATURE, le=MAX_TEMPERATURE)]


class PosteriorSettings(Settings):
    """The posterior and its fitting (recipe section `posterior`)."""

    estimator: Literal["leave-one-out", "straight-through"] = Field(
        "leave-one-out", description="of the gradient: unbiased score function, or the paper's Gumbel-Softmax"
    )
    evidence: Annotated[float, Field(gt=0, le=1e12)] | Literal["auto"] = Field(
        100.0, description="observations the mean log-likelihood counts for; auto: what `entropy` asks for"
    )
    entropy: float = Field(0.5, gt=0, lt=1, description="of evidence=auto: share of the uniform prior's entropy")
    noise: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="share of labels the likelihood takes for random, so that no image decides; paper: 0",
    )
    reference: int = Field(
        0,
        ge=0,
        le=MAX_ARCHITECTURES,
        description="random architectures to compare with: the evidence is the share of them that score lower; "
        "0: the log-likelihood itself (paper)",
    )
    untrained: float = Field(
        0.0,
        ge=0,
        le=MAX_WEIGHT,
        description="with reference: weight of the same share by untrained networks, beside "
        "the likelihood's 1; paper: 0",
    )
    untrained_cells: int | None = Field(
        None, ge=1, le=MAX_CELLS, description="of untrained networks; null: the members'"
    )
    untrained_channels: int | None = Field(
        None, ge=1, le=MAX_CHANNELS, description="of untrained networks; null: the members'"
    )
    starts: int = Field(
        1, ge=1, le=10_000, description="fits with different draws, of which the best is kept; paper: 1"
    )
    steps: int = Field(700, ge=1, le=MAX_STEPS, description="of each fit")
    batch_size: int = Field(500, ge=2, le=MAX_BATCH)
    architectures: int = Field(4, ge=2, le=10_000, description="drawn a step by leave-one-out")
    learning_rate: float = Field(0.03, gt=0, le=MAX_WEIGHT, description="Adam's, at its highest")
    schedule: Literal["cosine", "constant"] = Field(
        "cosine", description="whether the learning rate falls to 0 along a cosine or stays (paper)"
    )
    weight_decay: float = Field(0.0, ge=0, le=MAX_WEIGHT, description="paper: 3e-4")
    gumbel_temperature: Temperature = Field(1.0, description="of straight-through's softmax; not τ")
    temperature: Temperature = Field(1.0, description="the paper's τ, which divides the fitted logits")

    @model_validator(mode="after")
    def _go_together(self) -> PosteriorSettings:
        if self.reference == 1:
            raise ValueError("reference: one architecture is nothing to compare with: 2 or more, or 0")
        if self.untrained > 0 and self.reference == 0:
            raise ValueError("untrained goes with reference: set posterior.reference, for example to 256")
        return self
