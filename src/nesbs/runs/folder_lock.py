"""One process at a time writes to a folder of runs: its lock (`.lock.json`) names the process and its host.

Reading needs no lock. A lock covers the folders below, as a comparison's runs. That of a process which has ended, or
of an earlier process with the same number, is taken over; of one on another host that cannot be known, and the message
says what to remove. Within a process locks nest.
"""

import contextlib
import datetime
import os
import platform
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from nesbs import files
from nesbs.errors import NesbsError
from nesbs.records import LockRecord

_HELD: dict[Path, LockRecord] = {}  # by the folders whose locks this process holds
_BLOCKS: Counter[Path] = Counter()  # how many `with` blocks ask for each
_AT_WORK = threading.RLock()  # taking and giving back are one step for the threads of this process


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder's lock inside a `with` block; raise at once where another process has it.

    Makes the folder where there is none, and removes it at the end where nothing came into it. What killed writes have
    left behind is removed too.
    """
    place = _place(folder)
    missing = [each for each in (place, *place.parents) if not os.path.exists(each)]
    try:
        with _AT_WORK:
            if place not in _HELD:
                _HELD[place] = _take(place, folder)
                files.sweep(place)
                files.discard(_removal(place / LockRecord.FILE))  # of one that was killed while it removed
            _BLOCKS[place] += 1
        try:
            yield
        finally:
            with _AT_WORK:
                _BLOCKS[place] -= 1
                if not _BLOCKS[place]:
                    _give_back(place)
    finally:
        with contextlib.suppress(OSError):  # not empty
            for each in missing:
                each.rmdir()


def holds(folder: Path) -> bool:
    """Whether this process holds the folder's lock."""
    return _place(folder) in _HELD


def _place(folder: Path) -> Path:
    return Path(os.path.realpath(folder))


def _take(place: Path, folder: Path) -> LockRecord:
    """Make the lock of a folder this process's; raise where it, or that of a folder above, is another's."""
    if os.path.exists(place) and not place.is_dir():
        raise NesbsError(f"--out {folder} is a file: name a folder")
    for above in place.parents:
        owner = _owner(above / LockRecord.FILE)
        if above not in _HELD and owner is not None and owner.process is not None:
            _refuse_living(owner, above / LockRecord.FILE)
    record = LockRecord(
        process=os.getpid(),
        host=platform.node(),
        since=datetime.datetime.now().isoformat(" ", timespec="seconds"),
        start=files.process_start(os.getpid()),
    )
    _claim(place / LockRecord.FILE, record)
    return record


def _give_back(place: Path) -> None:
    """Remove the lock, unless somebody has removed it and another process has made its own."""
    own, path = _HELD.pop(place), place / LockRecord.FILE
    if _owner(path) == own:
        files.discard(path)


def _claim(path: Path, record: LockRecord) -> None:
    """Make a lock's file, in the place of a dead process's where there is one; raise where its process lives."""
    while not _made(path, record):
        owner = _owner(path)
        if owner is None:
            continue  # given back in this moment
        _refuse_living(owner, path)
        # Of several that find a dead process's lock one removes it, and looks again before: it may be a new one.
        _claim(_removal(path), record)
        try:
            if _owner(path) == owner:
                files.discard(path)
        finally:
            files.discard(_removal(path))


def _removal(path: Path) -> Path:
    """The lock that a process holds while it removes a dead process's lock."""
    return path.with_name(f"{path.name}.removal")


def _made(path: Path, record: LockRecord) -> bool:
    """Make a file with a record in it, whole or not at all; False where there is one already."""
    whole = path.with_name(f"{path.name}.{record.process}-{record.start}.new{files.PART}")
    try:
        record.write(whole)
        os.link(whole, path)
    except NesbsError as error:
        raise NesbsError(str(error).replace(whole.name, path.name)) from None
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        return _made_without_link(path, whole.read_bytes())
    finally:
        files.discard(whole)
    return True


def _made_without_link(path: Path, content: bytes) -> bool:
    try:
        with open(path, "xb") as file:
            file.write(content)
    except FileExistsError:
        return False
    except OSError as error:
        raise NesbsError(f"cannot write {path}: {error.strerror}") from None
    return True


def _owner(path: Path) -> LockRecord | None:
    """The process in a lock's file, without a number where it is broken; None where there is no file."""
    try:
        return LockRecord.read(path) if os.path.exists(path) else None
    except NesbsError:
        return LockRecord() if os.path.exists(path) else None


def find_lock(folder: Path) -> LockRecord | None:
    """The lock of a folder or of one above it, for looking at; None where there is none."""
    place = _place(folder)
    locks = (_owner(each / LockRecord.FILE) for each in (place, *place.parents))
    return next((lock for lock in locks if lock is not None and lock.process is not None), None)


def is_at_work(owner: LockRecord) -> bool | None:
    """Whether the process that a lock names is at work; None where it is another host's, so that nobody can know."""
    if owner.host != platform.node():
        return None
    return (owner.process or 0) > 0 and files.is_living(owner.process or 0, owner.start or "")


def in_words(owner: LockRecord) -> str:
    """The process that a lock names.

    >>> in_words(LockRecord(process=7, host="here", since="2026-01-02 03:04:05"))
    'process 7 on here since 2026-01-02 03:04:05'
    """
    return f"process {owner.process} on {owner.host} since {owner.since}"


def _refuse_living(owner: LockRecord, path: Path) -> None:
    """Raise unless the process that a lock names has ended."""
    folder, at_work = path.parent, is_at_work(owner)
    if owner.process is None:
        raise NesbsError(f"{folder} is in use by a process that {path} does not name: if none writes there, remove it")
    # One with the number of this process, which does not hold it, is an earlier one's.
    if at_work is False or (at_work and owner.process == os.getpid()):
        return
    advice = "wait until it has ended" + ("" if at_work else f"; if it has ended there, remove {path}")
    raise NesbsError(f"{folder} is in use by {in_words(owner)}: {advice}")
