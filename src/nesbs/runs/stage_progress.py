"""A stage at work: its progress, and its seconds and peak memory in the run record."""

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from nesbs.records.run import RunRecord, StageRecord
from nesbs.runs.plan import PlannedStage
from nesbs.training import Epoch

_WRITING = threading.Lock()  # a record is read and written again in one step for the threads of this process


class Progress:
    """Is told how a run proceeds; this one ignores it. The command line has one that draws bars."""

    def plan(self, stages: Sequence[PlannedStage], seeds_left: int | None = None) -> None:
        """These stages will come; or a seed of a comparison, after which so many are left."""

    def start(self, stage: str, total: int) -> None:
        """A stage of `total` units of work begins."""

    def advance(self, done: int, note: str = "") -> None:
        """`done` units of the stage are finished."""

    def finish(self, note: str = "") -> None:
        """The stage is finished."""

    def note(self, text: str) -> None:
        """Something that the user should know has happened."""

    def figure(self, folder: Path, name: str, value: float, step: int) -> None:
        """A figure of the run in a folder, such as a loss after so many epochs, for those who follow it."""


class Stage:
    """Keeps a stage's seconds and peak memory in the record while it runs, and reports progress."""

    def __init__(
        self,
        folder: Path,
        name: str,
        *,
        device: str,
        progress: Progress,
        fresh: bool = False,
        beside: Callable[[], str] = lambda: "",
    ) -> None:
        """`beside` says in words what else is in training while this stage runs."""
        self._folder = folder
        self._name = name
        self._device = device
        self._progress = progress
        self._beside = beside
        earlier = StageRecord() if fresh else (RunRecord.find(folder) or RunRecord()).stage(name)
        self.earlier = earlier  # what the record said of it before
        self._notes = StageRecord() if earlier.beside is None else StageRecord(beside=earlier.beside)
        # The seconds of an interrupted stage count from what its finished epochs took.
        self._seconds_before = float(earlier.seconds or 0.0)
        self._peak_before = earlier.peak_memory or 0
        self._started = time.perf_counter()
        reset_peak_memory()

    @property
    def seconds(self) -> float:
        """Spent on the stage so far, also before it was resumed."""
        return self._seconds_before + time.perf_counter() - self._started

    @property
    def took(self) -> str:
        """Its seconds in words, which say where some are of an earlier command."""
        return f"{self.seconds:.1f} s{' in all' if self._seconds_before else ''}"

    def advance(self, done: int, note: str = "") -> None:
        """Report that so much of the stage is finished."""
        self._progress.advance(done, "; ".join(filter(None, (note, self._beside()))))

    def share(self, done: int, total: int) -> None:
        """Report progress of a stage that learns its amount of work on the way."""
        if done == 1:
            self._progress.start(self._name, total)
        self.advance(done, "candidates estimated")

    def untrained(self, done: int, total: int) -> None:
        """Report how many untrained networks are scored, before the stage's own work begins."""
        self.advance(0, f"{done} of {total} untrained networks")

    def restart(self, total: int) -> None:
        """Report that the stage's work is now counted in other units, so many of them."""
        self._progress.start(self._name, total)

    def epoch(self, epoch: Epoch) -> None:
        """Report that an epoch is finished and its checkpoint written."""
        self.write()
        self.figure("loss", epoch.loss, epoch.number)
        self.advance(epoch.number, f"loss {epoch.loss:.3f}")

    def figure(self, name: str, value: float, step: int) -> None:
        """Report a figure of the stage, after so many steps."""
        self._progress.figure(self._folder, f"{self._name}/{name}", value, step)

    def note(self, **values: Any) -> None:
        """Put facts about the stage, fields of `StageRecord`, into the record before its own file says it is done."""
        self._notes = self._notes.replace(**values)
        self.write()

    def took_elsewhere(self, peak: int | None) -> None:
        """Count the memory that another process took for the stage at most."""
        self._peak_before = max(self._peak_before, peak or 0)

    def write(self) -> float:
        """Bring the stage's entry in the record up to date; return the seconds that it says, unrounded."""
        seconds = self.seconds
        entry = self._notes.replace(
            seconds=round(seconds, 3),
            device=device_name(self._device),
            peak_memory=max(peak_memory(self._device), self._peak_before),
        )
        with _WRITING:
            record = RunRecord.find(self._folder) or RunRecord()
            record.with_stage(self._name, entry).write(self._folder / RunRecord.FILE)
        return seconds


def add_epoch(
    folder: Path, stage: str, epoch: Epoch, device: str, *, beside: bool = False, fresh: bool = False
) -> None:
    """Count an epoch that a worker trained for a stage in the run's record; its seconds also as those `beside` it.

    They are added to those in the record, unless the stage begins `fresh`.
    """
    with _WRITING:
        record = RunRecord.find(folder) or RunRecord()
        earlier = StageRecord() if fresh else record.stage(stage)
        entry = earlier.replace(seconds=round((earlier.seconds or 0.0) + epoch.seconds, 3), device=device_name(device))
        if epoch.peak_memory:
            entry = entry.replace(peak_memory=max(epoch.peak_memory, earlier.peak_memory or 0))
        if beside:
            entry = entry.replace(beside=round((earlier.beside or 0.0) + epoch.seconds, 3))
        record.with_stage(stage, entry).write(folder / RunRecord.FILE)


def device_name(device: str) -> str:
    """A device in words: `cpu`, or the GPU's name."""
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def reset_peak_memory() -> None:
    """Start counting peak memory anew, where the system allows it."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory(device: str) -> int:
    """Bytes: on a GPU what torch allocated there at most, else the process's largest resident size."""
    if device.startswith("cuda"):
        return int(torch.cuda.max_memory_allocated(device))
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
