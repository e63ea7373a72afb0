"""How long answers take: the table of the page, and the same as text."""

from nesbs.records.latency import LatencyRecord, LatencyRow
from nesbs.report import formats
from nesbs.report.table import Table

COLUMNS = ("Model", "Runtime", "Images at once", "Median ms", "Quartiles ms", "Images in a second")


def latency_rows(record: LatencyRecord | None) -> list[tuple[str, ...]]:
    """Return the rows of the table, (model, runtime, batch, median, quartiles, images in a second) as texts.

    >>> row = LatencyRow(runtime="torch", device="cpu", model="ensemble", batch=64, median=32, lower=30, upper=40)
    >>> latency_rows(LatencyRecord(rows=[row]))
    [('ensemble', 'torch, cpu', '64', '32.00', '30.00 to 40.00', '2,000')]
    """
    return [_row(row) for row in (record.rows if record and record.rows else ())]


def latency_as_text(record: LatencyRecord) -> str:
    """Return the table for a terminal, with what it was measured on."""
    text = Table(COLUMNS, latency_rows(record)).as_text("<12", "<20", ">14", ">12", ">22", ">22")
    return f"{text}\n{latency_in_words(record)}"


def latency_in_words(record: LatencyRecord) -> str:
    """Return what was measured, where and with what.

    >>> latency_in_words(LatencyRecord(machine="A CPU", threads=2, torch="2.13", repeats=30))
    'A CPU, 2 threads, torch 2.13; medians and quartiles of 30 repetitions, from bytes to the answer'
    """
    versions = [f"{name} {value}" for name in ("torch", "onnxruntime") if (value := getattr(record, name))]
    threads = "1 thread" if record.threads == 1 else f"{formats.count(record.threads)} threads"
    where = ", ".join([record.machine or "an unknown machine", threads, *versions])
    return f"{where}; medians and quartiles of {formats.count(record.repeats)} repetitions, from bytes to the answer"


def _row(row: LatencyRow) -> tuple[str, ...]:
    runtime = ", ".join(filter(None, (row.runtime, row.device))) or formats.NOTHING
    quartiles = f"{formats.decimal(row.lower, 2)} to {formats.decimal(row.upper, 2)}"
    rate = 1000 * row.batch / row.median if row.batch and row.median else None
    numbers = formats.count(row.batch), formats.decimal(row.median, 2), quartiles, formats.count(rate)
    return row.model or formats.NOTHING, runtime, *numbers
