"""Shows the progress of a run: bars with the time left on a terminal, plain lines elsewhere."""

import contextlib
import sys
import time
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from nesbs.report.formats import duration
from nesbs.runs.plan import PlannedStage
from nesbs.runs.stage_progress import Progress
from nesbs.runs.time_left import TimeLeft

LINE_EVERY = 10.0  # seconds between two plain lines of one stage


class Timed(Progress):
    """Keeps the time left of the whole command, for those that show it."""

    def __init__(self) -> None:
        self._time_left = TimeLeft()

    def plan(self, stages: Sequence[PlannedStage], seeds_left: int | None = None) -> None:
        """Remember what is to come."""
        self._time_left.plan(stages, seeds_left)

    def whole(self) -> str:
        """The time left of the whole command in words, and what it does not count; empty where nothing is known."""
        seconds, uncounted = self._time_left.seconds(), self._time_left.uncounted
        if seconds is None:
            return ""
        return f"{duration(seconds)} left" + (f", then {', '.join(uncounted)}" if uncounted else " in all")


class Bars(Timed):
    """A bar for each stage, with its time left and that of the whole command; for terminals."""

    def __init__(self) -> None:
        super().__init__()
        self._bars = RichProgress(
            TextColumn("{task.description:<10}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            TextColumn("{task.fields[whole]}"),
            console=Console(stderr=True),
        )
        self._task: TaskID | None = None
        self._stage = ""

    def start(self, stage: str, total: int) -> None:
        """Show a new bar, or the same one with another total."""
        self._bars.start()
        self._time_left.start(stage, total)
        if stage == self._stage and self._task is not None:
            self._bars.update(self._task, total=total)
        else:
            self._task, self._stage = self._bars.add_task(stage, total=total, note="", whole=""), stage

    def advance(self, done: int, note: str = "") -> None:
        """Move the bar."""
        self._time_left.advance(done)
        if self._task is not None:
            self._bars.update(self._task, completed=done, note=note, whole=self.whole())

    def finish(self, note: str = "") -> None:
        """Fill the bar and leave it on the screen."""
        if self._task is not None:
            total = self._bars.tasks[self._bars.task_ids.index(self._task)].total
            self._bars.update(self._task, completed=total, note=note, whole="")
        self._bars.stop()
        self._task, self._stage = None, ""

    def note(self, text: str) -> None:
        """Print the text above the bars."""
        self._bars.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        """Stop drawing, also after an error."""
        if self._bars.live.is_started:
            self._bars.stop()


class Lines(Timed):
    """A line when a stage starts, every few seconds and when it ends; for logs and pipes."""

    def __init__(self) -> None:
        super().__init__()
        self._stage, self._total, self._last = "", 0, 0.0

    def start(self, stage: str, total: int) -> None:
        """Print which stage begins."""
        self._time_left.start(stage, total)
        if stage != self._stage:
            print(f"{stage}: started", file=sys.stderr, flush=True)
        self._stage, self._total, self._last = stage, total, time.monotonic()

    def advance(self, done: int, note: str = "") -> None:
        """Print how far the stage is, now and then."""
        self._time_left.advance(done)
        if time.monotonic() - self._last >= LINE_EVERY:
            self._last = time.monotonic()
            parts = ", ".join(filter(None, (f"{done} of {self._total}", note, self.whole())))
            print(f"{self._stage}: {parts}", file=sys.stderr, flush=True)

    def finish(self, note: str = "") -> None:
        """Print that the stage is done."""
        print(f"{self._stage}: done, {note}", file=sys.stderr, flush=True)
        self._stage = ""

    def note(self, text: str) -> None:
        """Print the text."""
        print(text, file=sys.stderr, flush=True)


class StoppedError(Exception):
    """The user pressed Ctrl-C (the option parser keeps a plain KeyboardInterrupt to itself)."""


@contextlib.contextmanager
def progress_shown(quiet: bool) -> Iterator[Progress]:
    """Show progress inside a `with` block, and turn Ctrl-C into `StoppedError`."""
    bars = Bars()
    try:
        nowhere = quiet or sys.stderr is None  # a program that starts others may close it
        yield Progress() if nowhere else bars if sys.stderr.isatty() else Lines()
    except KeyboardInterrupt:
        raise StoppedError from None
    finally:
        bars.close()
