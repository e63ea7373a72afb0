"""Candidates that a run trains to judge ensembles by (`search.judge=trained`), kept in its folder.

    RUN/judge/  a file a network, named after its architecture, and a checkpoint until it is trained

The same command resumes: what has been trained is loaded, what was begun is trained to its end.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from nesbs.cluster import Workers
from nesbs.data import SearchTrain
from nesbs.ensemble import MemberSettings, Selection, ShortTraining
from nesbs.records.run import JudgingRecord
from nesbs.runs.by_workers import MemberTraining
from nesbs.runs.members import trained_members, workers_of
from nesbs.runs.stage_progress import Stage
from nesbs.spaces import Architecture, Member, Space, TimedCosts


class KeptTraining(ShortTraining):
    """Trains candidates in a folder of a run; their seconds, also those before a kill, are in the stage's record."""

    def __init__(
        self,
        split: SearchTrain,
        settings: MemberSettings,
        *,
        folder: Path,
        stage: Stage,
        costs: TimedCosts | None = None,
        workers: Workers | None = None,
    ) -> None:
        super().__init__(split, settings, costs=costs)
        self._folder, self._stage, self._workers = folder, stage, workers
        before = stage.earlier.judging or JudgingRecord()
        self._seconds_before = float(before.seconds or 0.0)
        self._trained, self._total = 0, 0

    def begin(self, networks: int, epochs: int) -> None:
        """Show so many epochs of all networks together as the stage's work."""
        super().begin(networks, epochs)
        self._total = networks
        self._stage.restart(networks * epochs)

    def seconds(self) -> float:
        """Return the seconds of all trainings, those before an interruption included."""
        return self._seconds_before + super().seconds()

    def has_begun(self, stem: str) -> bool:
        """Whether a network, or a checkpoint of it, is in the folder."""
        return any(self._folder.glob(f"{stem}.*safetensors"))

    def at_a_time(self, networks: int, *, hurry: bool) -> int:
        """Return how many are trained before the next ones begin: with workers all, in a hurry one each."""
        workers = self._workers or workers_of(self.split, self.settings)
        if not workers.take(networks):
            return self.settings.together
        return (workers.count or networks) if hurry else networks

    def networks(
        self, space: Space, architectures: Sequence[Architecture], stems: Sequence[str], epochs: int, *, seed: int
    ) -> list[Member]:
        """Train architectures side by side, or load them where they have been trained."""

        @contextlib.contextmanager
        def stage(_: int) -> Iterator[Stage]:
            yield _Group(self, self._stage, self._trained * epochs, f"candidate {self._trained + 1} of {self._total}")

        shared = MemberTraining(space, self.split, self.shortened(epochs), seed)
        members = trained_members(
            architectures, shared, folder=self._folder, stage=stage, stems=stems, workers=self._workers
        )
        self._trained += len(members)
        return members


class _Group(Stage):
    """Is told of the training of one group of candidates, and tells the stage of the whole choice."""

    def __init__(self, training: KeptTraining, whole: Stage, before: int, text: str) -> None:
        self._training, self._whole, self._before, self._text = training, whole, before, text

    def advance(self, done: int, note: str = "") -> None:
        """Report that so many epochs of the group are finished."""
        self._whole.advance(self._before + done, self._text)

    def figure(self, name: str, value: float, step: int) -> None:
        """Hand on a figure of one network."""
        self._whole.figure(name, value, step)

    def note(self, **values: Any) -> None:
        """Leave facts about single networks out."""

    def took_elsewhere(self, peak: int | None) -> None:
        """Hand on what another process took."""
        self._whole.took_elsewhere(peak)

    def write(self) -> float:
        """Bring the seconds of training in the record up to date; return them."""
        seconds = self._training.seconds()
        self._whole.note(judging=JudgingRecord(judge="trained", seconds=round(seconds, 3)))
        return seconds


def note_judging(stage: Stage, selection: Selection, seconds: float = 0.0) -> None:
    """Put what a judge other than the loss took into the record; `seconds` are those of its preparation."""
    if selection.judge != "likelihood":
        networks = {"networks": len(selection.trained)} if selection.trained else {}
        spent = round(selection.judge_seconds + seconds, 3)
        stage.note(judging=JudgingRecord(judge=selection.judge, seconds=spent, **networks))
