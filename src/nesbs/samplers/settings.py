"""The recipe's section `sampler`."""

from typing import Annotated, Literal

from pydantic import Field

from nesbs.settings import Settings


class SamplerSettings(Settings):
    """How ensembles are drawn (recipe section `sampler`); defaults from the paper, app. B.4."""

    name: Literal["svgd-rd", "monte-carlo", "uniform"] = "svgd-rd"
    delta: float | Annotated[tuple[float, ...], Field(min_length=1)] = Field(
        (-0.5, 0.0, 0.5, 1.0), description="diversity: one value, or a grid of which the best is kept"
    )
    steps: int = Field(1000, ge=1)
    step_size: float = Field(0.1, gt=0)
    momentum: float = Field(0.9, ge=0, lt=1)
    bandwidth: float | None = Field(None, gt=0, description="of the kernel; by default the median rule")


DEFAULT = SamplerSettings()
