"""What a saved `NesbsClassifier` has beside its members (`sklearn.json`)."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from nesbs.records.base import FileRecord
from nesbs.records.kinds import Count

Label = Count | str


class SklearnRecord(FileRecord):
    """The parameters of a `NesbsClassifier`, the labels it was given, and the shape of its images."""

    FILE = "sklearn.json"

    recipe: str | None = None
    seed: Count | None = None
    settings: dict[str, JsonValue] | None = None
    class_weight: Literal["balanced"] | tuple[tuple[Label, float], ...] | None = None  # pairs: JSON has no other keys
    labels: tuple[Count, ...] | tuple[str, ...] | None = None  # in the order of the networks' classes
    image_shape: tuple[Annotated[Count, Field(ge=1)], ...] | None = None  # height, width, channels
