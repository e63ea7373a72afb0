"""What is measured: the recipe's section `evaluation`."""

import os
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator

from nesbs import files
from nesbs.data import Dataset, DataSettings, Split
from nesbs.ensemble.members import BATCH_SIZE
from nesbs.evaluation.corruptions import CORRUPTIONS, SEVERITIES, check_names
from nesbs.metrics import BINS
from nesbs.settings import MAX_BATCH, Settings

Severity = Annotated[int, Field(ge=min(SEVERITIES), le=max(SEVERITIES))]


class EvaluationSettings(Settings):
    """What is measured (recipe section `evaluation`)."""

    images: Literal["test", "search_valid"] = Field(
        "test", description="measure on the test images, or on those that members.images=search_train leaves unseen"
    )
    batch_size: int = Field(BATCH_SIZE, ge=1, le=MAX_BATCH)
    bins: int = Field(BINS, ge=1, le=1000, description="of the calibration error")
    uniform: bool = Field(False, description="also train and measure a uniform-random ensemble of the same size")
    human: str | None = Field(
        None, description="an .npy or .npz file of people's labels, (test images, classes), such as CIFAR-10H"
    )
    unseen: str | None = Field(None, description="a second data set, to be told from the first: a name or a path")
    unseen_root: str | None = Field(None, description="the folder that holds the second data set's own folder")
    corruptions: Literal["all"] | tuple[str, ...] | None = Field(
        None, description=f"measure on corrupted test images: all, or a list of {', '.join(CORRUPTIONS)}"
    )
    shown: int = Field(12, ge=0, le=1_000, description="test images in the report: those that members disagree on most")
    map: int = Field(
        60, ge=0, le=5_000, description="test images of the t-SNE map of predictions (extra sklearn); 0: no map"
    )
    severities: tuple[Severity, ...] = Field(SEVERITIES, min_length=1, description="of corruptions")

    @field_validator("corruptions", mode="before")
    @classmethod
    def _names(cls, value: object) -> object:
        """A single string is `all` or names with commas between."""
        if value is None or value == "all":
            return value
        names = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
            raise ValueError("input should be all, or a list of names")
        check_names(names)
        return names

    @field_validator("severities")
    @classmethod
    def _graded(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(value)))

    @property
    def corruption_names(self) -> tuple[str, ...]:
        """The corruptions asked for, in the order of `CORRUPTIONS`.

        >>> EvaluationSettings(corruptions=("jpeg", "fog")).corruption_names
        ('fog', 'jpeg')
        """
        asked = CORRUPTIONS if self.corruptions == "all" else self.corruptions or ()
        return tuple(name for name in CORRUPTIONS if name in asked)

    def measured(self, data: Dataset) -> Split:
        """The images that networks are measured on."""
        return data.test if self.images == "test" else data.search_valid

    def resolved(self) -> Self:
        """The same with whole paths, so that a run can be resumed from another folder."""
        human = None if self.human is None else os.path.realpath(files.expanded(self.human))
        if self.unseen is None:
            return self.model_copy(update={"human": human})
        second = DataSettings(name=self.unseen, root=self.unseen_root).resolved()
        return self.model_copy(update={"human": human, "unseen": second.name, "unseen_root": second.root})
