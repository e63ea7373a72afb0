"""Where a run comes from: the code that made it, the machine, the seed and the data."""

from __future__ import annotations

from nesbs.records import RunRecords
from nesbs.records.base import StampedRecord
from nesbs.records.run import DataRecord
from nesbs.report import formats


def code(record: StampedRecord) -> str | None:
    """The code that wrote a record: version, and commit where it ran from a checkout; None where it does not say.

    >>> code(StampedRecord(nesbs="0.1.0", commit="0123456789abcdef", clean=False))
    '0.1.0, commit 0123456789ab with changes that were not committed'
    """
    if record.commit is None:
        return record.nesbs
    changes = {True: " (clean)", False: " with changes that were not committed", None: ""}[record.clean]
    return f"{record.nesbs or formats.NOTHING}, commit {record.commit[:12]}{changes}"


def facts(run: RunRecords) -> list[tuple[str, str]]:
    """Versions, machine, seed and data: (name, value); and which code wrote the other files, where it was another."""
    record = run.record
    if record is None:
        return []
    names = ("started", "nesbs", "torch", "python", "platform", "device", "threads", "seed")
    values = {name: code(record) if name == "nesbs" else getattr(record, name) for name in names}
    for other in (run.metrics, run.quality, run.attacks):
        if other and code(other) != code(record):
            values[f"nesbs of {other.FILE}"] = code(other)
    shown = [(name, str(value)) for name, value in values.items() if value is not None]
    return shown + (_data(record.data) if record.data else [])


def _data(data: DataRecord) -> list[tuple[str, str]]:
    """The data set: (name, value)."""
    size, classes = " × ".join(map(str, data.size or ())), data.classes or ()
    return [
        ("data", str(data.name)),
        (
            "training images",
            f"{formats.count(data.train_images)}, of which {formats.count(data.search_train)} train the "
            f"supernet and {formats.count(data.search_valid)} fit the posterior and judge ensembles",
        ),
        ("test images", formats.count(data.test_images)),
        *([("left out", f"{len(data.left_out)} images that cannot be read")] if data.left_out else []),
        ("image size", f"{size}, channels {formats.NOTHING if data.channels is None else data.channels}"),
        (f"classes ({len(classes)})", ", ".join(classes)),
    ]
