"""Which process writes to a folder (`.lock.json`)."""

from nesbs.records.base import FileRecord
from nesbs.records.kinds import Count


class LockRecord(FileRecord):
    """The process that a folder's lock belongs to; the file is there while it is at work."""

    FILE = ".lock.json"

    process: Count | None = None
    host: str | None = None
    since: str | None = None  # date and time
    start: str | None = None  # of the process, by the clock of its machine: a later one may have its number
