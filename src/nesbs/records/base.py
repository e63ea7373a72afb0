"""What every record has in common: frozen and typed, read with care, written whole.

Built in Python, a record is checked: a value of the wrong type is an error. Read from JSON, it is lenient: a field that
is missing, null or of another kind is None, so that a broken part does not take the rest with it. A field that this
version does not know is kept, and written again.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator, model_validator

from nesbs import files
from nesbs.records.kinds import LENIENT, Flag
from nesbs.records.provenance import provenance


class Record(BaseModel):
    """A part of a file, or a whole one.

    >>> class Oven(Record):
    ...     degrees: int | None = None
    >>> Oven.from_json({"degrees": "hot", "colour": "red"})
    Oven(degrees=None, colour='red')
    >>> Oven(degrees=180).to_json()
    {'degrees': 180}
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _empty_where_no_mapping(cls, value: Any, info: ValidationInfo) -> Any:
        return {} if info.context is LENIENT and not isinstance(value, Mapping | Record) else value

    @field_validator("*", mode="wrap")
    @classmethod
    def _none_where_another_kind(cls, value: Any, handler: Callable[[Any], Any], info: ValidationInfo) -> Any:
        if info.context is not LENIENT:
            return handler(value)
        try:
            result = None if value is None else handler(value)
        except ValidationError:
            return None
        # In lists and tables an entry of another kind is an empty one; a field is None.
        kinds = ((Record, Mapping | Record), (tuple, list | tuple))
        wrong = any(isinstance(result, made) and not isinstance(value, of) for made, of in kinds)
        return None if wrong else result

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """The record in plain data, read leniently; anything but a mapping is an empty record."""
        return cls.model_validate(value, context=LENIENT)

    def to_json(self) -> dict[str, Any]:
        """Plain data: the fields that were set, in the order of the class, then those it does not know."""
        return self.model_dump(mode="json", exclude_unset=True)

    def replace(self, **values: Any) -> Self:
        """The same record with other values, which are checked."""
        own = {name: getattr(self, name) for name in type(self).model_fields if name in self.model_fields_set}
        return type(self)(**{**own, **(self.model_extra or {}), **values})

    @classmethod
    def read(cls, path: Path) -> Self:
        """The record in a JSON file; one that is missing or no mapping is a `NesbsError`."""
        return cls.from_json(files.read_mapping(path))

    def write(self, path: Path) -> Self:
        """Write the record as JSON, whole or not at all; the record as it was written."""
        files.write_json(path, self.to_json())
        return self


class FileRecord(Record):
    """A whole file of a run's folder, or of a comparison's."""

    FILE: ClassVar[str]

    @classmethod
    def find(cls, folder: Path) -> Self | None:
        """The record in a folder, None where the file is missing."""
        path = folder / cls.FILE
        return cls.read(path) if path.is_file() else None


class StampedRecord(FileRecord):
    """A file that says which code wrote it last."""

    nesbs: str | None = None
    commit: str | None = None
    clean: Flag | None = None

    def write(self, path: Path) -> Self:
        """Write the record as JSON with the version and commit of today; the record as it was written."""
        return super(StampedRecord, self.replace(**provenance())).write(path)
