"""What a latency is predicted from (`operation_times.json`), and the chosen members' times, predicted and measured."""

from nesbs.records.base import Record, StampedRecord
from nesbs.records.kinds import Count, Many, Number
from nesbs.spaces import Milliseconds, OperationTimes


class TimesRecord(Record):
    """Milliseconds for one image: median and quartiles over the repetitions."""

    median: Number | None = None
    lower: Number | None = None
    upper: Number | None = None


class OperationRow(TimesRecord):
    """The time of one operation on one shape."""

    operation: str | None = None
    channels: Count | None = None
    height: Count | None = None
    width: Count | None = None
    stride: Count | None = None


class MemberTimes(TimesRecord):
    """The time of a chosen member: predicted, and measured before it was trained."""

    architecture: str | None = None
    predicted: Number | None = None


class OperationTimesRecord(StampedRecord):
    """Times of all operations on a device, of what all networks share, and of the chosen members."""

    FILE = "operation_times.json"

    device: str | None = None
    scale: Number | None = None
    fixed: TimesRecord | None = None
    rows: Many[OperationRow] | None = None
    chosen: Many[MemberTimes] | None = None

    @classmethod
    def of(cls, times: OperationTimes) -> "OperationTimesRecord":
        """The record of measured times."""
        rows = [
            OperationRow(operation=op, channels=channels, height=height, width=width, stride=stride, **vars(found))
            for (op, (channels, height, width), stride), found in times.operations.items()
        ]
        fixed = TimesRecord(**vars(times.fixed))
        return cls(device=times.device, scale=times.scale, fixed=fixed, rows=tuple(rows))

    def times(self) -> OperationTimes | None:
        """The times in the record; None where a part is missing."""
        rows = self.rows or ()
        numbers = [value for row in rows for value in vars(row).values()]
        if self.device is None or self.scale is None or self.fixed is None or not rows or None in numbers:
            return None

        def times(row: TimesRecord) -> Milliseconds:
            return Milliseconds(float(row.median or 0), float(row.lower or 0), float(row.upper or 0))

        shapes = [(str(row.operation), (row.channels, row.height, row.width), row.stride) for row in rows]
        operations = {shape: times(row) for shape, row in zip(shapes, rows, strict=True)}
        return OperationTimes(self.device, times(self.fixed), float(self.scale), operations)  # type: ignore[arg-type]
