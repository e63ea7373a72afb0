"""What predicting needs beside the weights (`members/classifier.json`), so that neither recipe nor data are asked."""

from typing import Annotated, Literal

from pydantic import Field

from nesbs.data.images import Mode
from nesbs.metrics import Combine
from nesbs.records.base import FileRecord, Record
from nesbs.records.kinds import Count, Many
from nesbs.settings import MAX_CELLS, MAX_CHANNELS, MAX_TEMPERATURE, MIN_TEMPERATURE
from nesbs.spaces import Stem

FORMAT = 1  # of the file: a later one may mean something else by the same fields
MOST_PIXELS = 2**14  # a side of an image: more than any data set's, less than what exhausts the memory

Side = Annotated[int, Field(ge=1, le=MOST_PIXELS)]
Share = Annotated[float, Field(gt=0, le=1)]
Resize = Literal["crop", "stretch", "pad", "interpolate"]  # of files as in `data.resize`; of arrays by interpolation


class PreprocessingRecord(Record):
    """How an image becomes what the networks were trained on."""

    mode: Mode | None = None
    size: tuple[Side, Side] | None = None  # height, width
    resize: Resize | None = None
    share: Share | None = None  # of the shorter side, where the middle is cut out
    mean: tuple[Annotated[float, Field(ge=0, le=1)], ...] | None = None  # of each channel, in [0, 1]
    std: tuple[Share, ...] | None = None


class MemberRecord(Record):
    """One member: its architecture, its width, and the SHA-256 of its weights' file."""

    architecture: str | None = None
    channels: Annotated[Count, Field(ge=1, le=MAX_CHANNELS)] | None = None
    sha256: str | None = None


class ClassifierRecord(FileRecord):
    """What predicting needs beside the weights, which lie beside it as `0.safetensors` and so on."""

    FILE = "classifier.json"

    format: Count | None = None
    data: str | None = None  # the name of what the members were trained on
    classes: tuple[str, ...] | None = None
    preprocessing: PreprocessingRecord | None = None
    space: str | None = None
    cells: Annotated[Count, Field(ge=1, le=MAX_CELLS)] | None = None
    stem: Stem | None = None
    combine: Combine | None = None
    # Divides the ensemble's log-probabilities; 1 where none was measured.
    temperature: Annotated[float, Field(ge=MIN_TEMPERATURE, le=MAX_TEMPERATURE)] | None = None
    members: Many[MemberRecord] | None = None

    def missing(self) -> list[str]:
        """The fields that are missing or of another kind: nothing can be predicted without them."""
        parts: list[tuple[str, Record]] = [("", self)]
        parts += [("preprocessing.", self.preprocessing)] if self.preprocessing else []
        parts += [(f"members.{place}.", member) for place, member in enumerate(self.members or ())]
        return [
            prefix + name for prefix, part in parts for name in type(part).model_fields if getattr(part, name) is None
        ]


class ExportRecord(Record):
    """What an exported file says about itself; in ONNX each field is an entry of the metadata, written as JSON."""

    nesbs: str | None = None  # the version that wrote it
    format: Count | None = None
    classes: tuple[str, ...] | None = None
    preprocessing: PreprocessingRecord | None = None  # mean and deviation are inside the networks
    combine: Combine | None = None
    temperature: float | None = None
    architectures: tuple[str, ...] | None = None
