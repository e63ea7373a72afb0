"""Figures of a training to follow while it runs: `--track tensorboard`, written into RUN/tensorboard."""

import contextlib
import importlib.util
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nesbs.errors import NesbsError, did_you_mean
from nesbs.runs.folder import TRACKED
from nesbs.runs.plan import PlannedStage
from nesbs.runs.stage_progress import Progress

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

FLUSH_EVERY = 10  # seconds after which what was written is in its file


class Tracked(Progress):
    """Hands everything on to another progress, and writes figures into a folder `tensorboard` of each run."""

    def __init__(self, shown: Progress) -> None:
        self._shown = shown
        self._writers: dict[Path, SummaryWriter] = {}

    def plan(self, stages: Sequence[PlannedStage], seeds_left: int | None = None) -> None:
        """Hand it on."""
        self._shown.plan(stages, seeds_left)

    def start(self, stage: str, total: int) -> None:
        """Hand it on."""
        self._shown.start(stage, total)

    def advance(self, done: int, note: str = "") -> None:
        """Hand it on."""
        self._shown.advance(done, note)

    def finish(self, note: str = "") -> None:
        """Hand it on."""
        self._shown.finish(note)

    def note(self, text: str) -> None:
        """Hand it on."""
        self._shown.note(text)

    def figure(self, folder: Path, name: str, value: float, step: int) -> None:
        """Write a figure of the run in a folder; one that is no number is left out."""
        if math.isfinite(value):
            if folder not in self._writers:
                self._writers[folder] = _writer(folder / TRACKED)
            self._writers[folder].add_scalar(name, value, step)

    def close(self) -> None:
        """Bring everything into the files."""
        for writer in self._writers.values():
            writer.close()


@contextlib.contextmanager
def tracked(shown: Progress, track: str | None) -> Iterator[Progress]:
    """The progress to tell inside a `with` block: `shown`, or one that also writes what --track asks for."""
    if track is None:
        yield shown
        return
    progress = Tracked(shown)
    try:
        yield progress
    finally:
        progress.close()


def has_tensorboard() -> bool:
    """Whether what the extra `track` installs is there."""
    return importlib.util.find_spec("tensorboard") is not None


def check_track(track: str | None) -> None:
    """Raise where --track names something unknown, or what it needs is missing."""
    if track is None:
        return
    if track != "tensorboard":
        raise NesbsError(f"--track {track}: {did_you_mean(track, ['tensorboard'])}")
    if not has_tensorboard():
        raise NesbsError("--track tensorboard needs TensorBoard: install it with `pip install 'nesbs[track]'`")


def _writer(folder: Path) -> "SummaryWriter":
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder), flush_secs=FLUSH_EVERY)
