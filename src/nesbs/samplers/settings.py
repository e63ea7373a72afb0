"""The recipe's section `sampler`."""

from typing import Annotated, Literal

from pydantic import Field

from nesbs.settings import MAX_DELTA, MAX_STEPS, MAX_VALUES, MAX_WEIGHT, Settings

Delta = Annotated[float, Field(ge=-MAX_DELTA, le=MAX_DELTA)]


class SamplerSettings(Settings):
    """How ensembles are drawn (recipe section `sampler`); defaults from the paper, app. B.4."""

    name: Literal["svgd-rd", "monte-carlo", "uniform"] = "svgd-rd"
    delta: Delta | Annotated[tuple[Delta, ...], Field(min_length=1, max_length=MAX_VALUES)] = Field(
        (-0.5, 0.0, 0.5, 1.0), description="diversity: one value, or a grid of which the best is kept"
    )
    steps: int = Field(1000, ge=1, le=MAX_STEPS)
    step_size: float = Field(0.1, gt=0, le=MAX_WEIGHT)
    momentum: float = Field(0.9, ge=0, lt=1)
    bandwidth: float | None = Field(None, ge=1e-9, le=1e9, description="of the kernel; by default the median rule")
    variance: float | None = Field(
        None, ge=1e-3, le=1e3, description="of the relaxed posterior's Gaussians; by default |O|, the paper's"
    )


DEFAULT = SamplerSettings()
