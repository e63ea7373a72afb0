"""Settings of the rivals and of their budget: the recipe's section `rivals`."""

from typing import Literal, Self

from pydantic import Field, model_validator

from nesbs.settings import MAX_ARCHITECTURES, MAX_EPOCHS, MAX_WEIGHT, Settings


class RivalSettings(Settings):
    """Settings of the rivals and of their budget (recipe section `rivals`)."""

    judge: Literal["trained", "supernet"] = Field(
        "trained",
        description="candidates are judged trained on their own (NES), or with the supernet's weights (Fig. 5)",
    )
    measure: Literal["trained", "supernet"] = Field(
        "trained", description="chosen ensembles are trained in full and then measured, or measured as Fig. 5 does"
    )
    pool: int = Field(
        50, ge=1, le=MAX_ARCHITECTURES, description="K, architectures judged by each method that judges; paper: 50"
    )
    seconds: float | None = Field(
        None,
        gt=0,
        le=1e9,
        description="of search that each method may take, measured; then pool and rounds are what fits",
    )
    rounds: int | None = Field(
        None,
        ge=1,
        le=MAX_ARCHITECTURES,
        description="T of nesbs-mc, which has no δ; by default as many ensembles as nesbs judges, over all its δ",
    )
    pool_epochs: int = Field(
        50, ge=1, le=MAX_EPOCHS, description="of each one's training, at most members.epochs; paper: 50"
    )
    population: int | None = Field(
        None,
        ge=1,
        le=MAX_ARCHITECTURES,
        description="of NES-RE; by default 50 as in its paper, or half the pool where that is less",
    )
    parents: int = Field(
        10, ge=1, le=MAX_ARCHITECTURES, description="of NES-RE: so many of the population may have a child"
    )
    architecture: str | None = Field(
        None, description="of deep, mc-droppath and snapshot: a zoo name or a text; by default the single best's"
    )
    drop_path: float = Field(0.01, ge=0, lt=1, description="probability of mc-droppath; paper: 0.01")
    passes: int = Field(10, ge=1, le=10_000, description="of mc-droppath, whose predictions are averaged")
    learning_rate: float = Field(
        3e-4,
        gt=0,
        le=MAX_WEIGHT,
        description="of what one-shot methods learn beside the supernet's weights (Adam); DARTS: 3e-4, ENAS: 3.5e-4",
    )
    samples: int = Field(
        100, ge=1, le=MAX_ARCHITECTURES, description="architectures that rsps, setn and enas judge at the end"
    )

    @model_validator(mode="after")
    def _population_fits(self) -> Self:
        if self.population is not None and self.population > self.pool:
            raise ValueError(f"population ({self.population}) must not be larger than pool ({self.pool})")
        return self

    @property
    def first(self) -> int:
        """Size of NES-RE's population.

        >>> RivalSettings(pool=400).first, RivalSettings(pool=50).first
        (50, 25)
        """
        return min(50, max(1, self.pool // 2)) if self.population is None else self.population
