"""The settings of choosing, of the ensemble and of its members' training."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from nesbs.data import Dataset, Split, steps_per_epoch
from nesbs.errors import NesbsError
from nesbs.kernels import usable
from nesbs.metrics import Combine
from nesbs.samplers import DUPLICATES, Delta, Duplicates
from nesbs.settings import (
    MAX_ARCHITECTURES,
    MAX_BATCH,
    MAX_CELLS,
    MAX_CHANNELS,
    MAX_EPOCHS,
    MAX_MEMBERS,
    MAX_SECONDS,
    MAX_WEIGHT,
    Settings,
)
from nesbs.spaces import Architecture, Space, Stem, named_architecture
from nesbs.supernet.estimate import BATCH_SIZE
from nesbs.training import TrainingSettings

Method = Literal["rounds", "forward"]
JudgeName = Literal["likelihood", "posterior", "evidence", "trained"]
WORTH_COMPILING = 10_000  # steps: on an H200 compiling took 9 to 38 s and won 2 to 7 ms a step
WORTH_OUR_KERNELS = 1_500  # steps: compiling takes some 10 s, once for a machine, and wins 4 to 6 ms a step


class LimitSettings(Settings):
    """What members may cost at most, as they are built (recipe section `search.limits`)."""

    parameters: int | None = Field(None, ge=1, le=10**15, description="without the auxiliary tower")
    multiply_adds: int | None = Field(
        None, ge=1, le=10**15, description="for one image, of convolutions and linear layers"
    )
    latency: float | None = Field(
        None, gt=0, le=1e9, description="milliseconds for one image, predicted from the times of operations"
    )
    device: str = Field(
        "cpu", pattern=r"^(cpu|cuda(:\d+)?)$", description="where latency is measured: cpu, cuda or cuda:1"
    )
    per: Literal["member", "ensemble"] = Field("member", description="of each member, or of all together")

    @property
    def bounds(self) -> dict[str, float]:
        """The limits that are set, by name.

        >>> LimitSettings(parameters=500_000).bounds
        {'parameters': 500000}
        """
        names = ("parameters", "multiply_adds", "latency")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


RECORDED = 2000  # held-out images of losses that decide nothing


class SearchSettings(Settings):
    """How an ensemble is chosen (recipe section `search`)."""

    rounds: int = Field(5, ge=1, le=MAX_ARCHITECTURES, description="T, ensembles drawn (for each δ); paper: 5")
    method: Method = Field(
        "rounds", description="the paper's best of the rounds, or also forward selection over all candidates (ours)"
    )
    duplicates: Duplicates = Field(DUPLICATES, description="members alike: allow, refuse, or redraw the ensemble")
    batch_size: int = Field(
        BATCH_SIZE, ge=2, le=MAX_BATCH, description="of estimation; BatchNorm sees batches of this size"
    )
    tune: Literal["grid", "bayesian"] = Field(
        "grid", description="δ from sampler.delta, or by Bayesian optimisation over delta_range (extra hpo)"
    )
    trials: int = Field(15, ge=1, le=10_000, description="values of δ that Bayesian optimisation tries")
    delta_range: tuple[Delta, Delta] = Field((-2.0, 1.0), description="paper, app. B.4")
    judge: JudgeName = Field(
        "likelihood",
        description="what ensembles are judged by: the supernet's loss (paper), the members' probability under the "
        "posterior, its evidence, or candidates that are trained for a few epochs",
    )
    gain: float = Field(
        0.5,
        ge=0,
        le=MAX_WEIGHT,
        description="of the judges posterior and evidence: weight of what the ensemble adds, beside its members' 1",
    )
    gain_pool: Literal["uniform", "posterior"] = Field(
        "uniform", description="whose ensembles it is compared with: drawn uniformly, or from the posterior"
    )
    noise: int = Field(
        0,
        ge=0,
        le=10_000,
        description="resamples of the held-out images: of ensembles that they do not tell apart the most probable is "
        "taken; 0: the best in any case (paper)",
    )
    apart: float = Field(
        0.0,
        ge=0,
        le=1,
        description="share of edges on which two members must differ in the mean; where no ensemble does, those that "
        "differ most count",
    )
    limits: LimitSettings = LimitSettings()
    judge_candidates: int = Field(
        16, ge=1, le=MAX_ARCHITECTURES, description="of the judge trained: candidates, the most probable ones"
    )
    judge_pool: Literal["drawn", "likeliest"] = Field(
        "drawn", description="of the judge trained: candidates from the ensembles drawn, or from the whole posterior"
    )
    judge_epochs: int = Field(6, ge=1, le=MAX_EPOCHS, description="of the judge trained: epochs of each training")
    judge_seconds: float | None = Field(
        None, gt=0, le=MAX_SECONDS, description="of the judge trained: after so many seconds no training begins"
    )

    @field_validator("delta_range")
    @classmethod
    def _ordered(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not value[0] < value[1]:
            raise ValueError("the range's lower end must be below its upper end")
        return value

    @property
    def looks_at_losses(self) -> bool:
        """Whether the supernet's losses play a part in the choice; else they are estimated for the record alone.

        >>> SearchSettings().looks_at_losses, SearchSettings(judge="posterior", gain=0).looks_at_losses
        (True, False)
        """
        if self.judge == "posterior":
            return self.gain > 0
        return self.judge != "trained" or self.tune == "bayesian"

    def images(self, held_out: int) -> int:
        """Return of how many of the held-out images the losses are: of all, or of some where they decide nothing."""
        return held_out if self.looks_at_losses else min(held_out, max(RECORDED, self.batch_size))

    def check_candidates(self, size: int) -> None:
        """Raise where fewer candidates are to be trained than an ensemble has members."""
        if self.judge == "trained" and self.judge_candidates < size:
            raise NesbsError(f"search.judge_candidates={self.judge_candidates} is less than one ensemble of {size}")


class EnsembleSettings(Settings):
    """What an ensemble is (recipe section `ensemble`)."""

    size: int = Field(3, ge=1, le=MAX_MEMBERS, description="n, members; paper: 3")
    architectures: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="fixed instead of searched: names from the zoo or texts; one is trained size times",
    )
    combine: Combine = Field("probabilities", description="what is averaged")

    @model_validator(mode="after")
    def _one_for_each(self) -> EnsembleSettings:
        if self.architectures is not None and len(self.architectures) not in (1, self.size):
            raise ValueError(f"one architecture, or as many as size ({self.size})")
        return self

    def fixed(self, space: Space) -> tuple[Architecture, ...] | None:
        """Return the architectures that the user fixed, `size` of them; None where they are to be searched."""
        if self.architectures is None:
            return None
        named = tuple(named_architecture(space, text) for text in self.architectures)
        return named * self.size if len(named) == 1 else named


class MemberSettings(TrainingSettings):
    """Members and their training (recipe section `members`); defaults are NAS-Bench-201's own."""

    cells: int | None = Field(None, ge=1, le=MAX_CELLS, description="depth; by default the space's own")
    channels: int | None = Field(None, ge=1, le=MAX_CHANNELS, description="width; by default the space's own")
    multiply_adds: int | None = Field(
        None,
        ge=1,
        le=10**15,
        description="instead of channels: the widest network under so many (mobile setting: 600000000)",
    )
    stem: Stem = Field("cifar", description="how the network begins: at the images' size, or at an eighth of it")
    epochs: int = Field(200, ge=1, le=MAX_EPOCHS)
    batch_size: int = Field(256, ge=2, le=MAX_BATCH)
    nesterov: bool = True
    weight_decay: float = Field(5e-4, ge=0, le=MAX_WEIGHT)
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="of convolutions; auto is bfloat16 on a GPU that has it"
    )
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the label spread over all classes")
    auxiliary: float = Field(0.0, ge=0, le=MAX_WEIGHT, description="weight of the auxiliary tower's loss (DARTS: 0.4)")
    drop_path: float = Field(0.0, ge=0, lt=1, description="DropPath's probability at its highest (DARTS: 0.2)")
    drop_path_schedule: Literal["rising", "falling"] = Field(
        "rising", description="linear in the epoch, from 0 (DARTS) or to 0 (the paper's wording)"
    )
    images: Literal["all", "search_train"] = Field(
        "all", description="train on all training images, or leave those held out from the supernet unseen"
    )
    together: int = Field(1, ge=1, le=MAX_MEMBERS, description="members trained side by side on one GPU")
    workers: int = Field(
        1, ge=1, le=MAX_MEMBERS, description="processes that train members on a CPU, each with `threads` threads"
    )
    capture: bool = Field(True, description="on a GPU, record a member's step once and replay it; not under torchrun")
    compile: bool | Literal["auto"] = Field(
        "auto",
        description="on a GPU, fuse a cell's kernels by torch.compile; auto: where training is long enough; not under "
        "torchrun",
    )
    kernels: Literal["auto", "ours", "plain"] = Field(
        "auto",
        description="on a GPU, train the members that are side by side in one step of our own kernels where these fit "
        "(NAS-Bench-201 without DropPath, widths of a power of two), or run their separable and dilated convolutions "
        "by them (DARTS, bfloat16); auto: where training is long enough",
    )

    @model_validator(mode="after")
    def _one_width(self) -> MemberSettings:
        if self.channels is not None and self.multiply_adds is not None:
            raise ValueError("set channels or multiply_adds, not both")
        return self

    def trained_on(self, data: Dataset) -> Split:
        """Return the images that members are trained on."""
        return data.train if self.images == "all" else data.search_train

    def compiles(self, split: Split) -> bool:
        """Return whether kernels are fused for training on these images: only where it is long enough to pay."""
        if split.device.type != "cuda":
            return False
        return self._steps(split) >= WORTH_COMPILING if self.compile == "auto" else self.compile

    def ours(self, split: Split) -> bool:
        """Return whether our own kernels are asked for when training on these images."""
        return self._steps(split) >= WORTH_OUR_KERNELS if self.kernels == "auto" else self.kernels == "ours"

    def _steps(self, split: Split) -> int:
        """How many steps a training takes."""
        return self.epochs * steps_per_epoch(split, self.batch_size)

    def fuses_depthwise(self, split: Split) -> bool:
        """Return whether our kernels run depthwise convolutions: asked for, and with channels last (bfloat16)."""
        return self.ours(split) and self.lower_precision(split.device) and usable(split.device)

    def dropped(self, epoch: int) -> float:
        """Return DropPath's probability in an epoch (from 0).

        >>> MemberSettings(epochs=4, drop_path=0.2).dropped(2)
        0.1
        """
        share = epoch / self.epochs
        return self.drop_path * (share if self.drop_path_schedule == "rising" else 1 - share)
