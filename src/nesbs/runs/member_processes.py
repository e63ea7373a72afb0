"""Members trained in several processes, an epoch at a time.

A training resumes exactly from its checkpoint after every epoch, so any process can train a member's next epoch: three
members keep two processes busy to the end. What comes out has the same bytes as in one process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

from nesbs.cluster import run_tasks
from nesbs.cluster.torchrun import on_all_ranks
from nesbs.data import Split
from nesbs.ensemble import Criterion, MemberSettings, build_member, member_training
from nesbs.spaces import Architecture, Space
from nesbs.training import Epoch, side_by_side


@dataclass(frozen=True)
class MemberTraining:
    """What the members of an ensemble share."""

    space: Space
    split: Split
    settings: MemberSettings
    seed: int
    criterion: Criterion | None = None  # instead of the cross-entropy to the labels

    def train(
        self,
        architecture: Architecture,
        name: str | int,
        *,
        checkpoint: Path | None = None,
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> list[float]:
        """Train a member whose random streams have this name; the mean loss of every epoch."""
        member = build_member(self.space, architecture, self.split, self.settings, seed=self.seed, name=name)
        steps = member_training(
            member,
            self.split,
            self.settings,
            seed=self.seed,
            name=name,
            criterion=self.criterion,
            checkpoint=checkpoint,
            on_epoch=on_epoch,
        )
        return side_by_side([steps])[0]


@dataclass(frozen=True)
class MemberEpoch:
    """The task to train one member for its next epoch, from its checkpoint and into it."""

    index: int  # of the member in its ensemble
    architecture: Architecture
    name: str | int  # of its random streams
    checkpoint: Path

    def __str__(self) -> str:
        return f"training member {self.name}"

    def __call__(self, shared: MemberTraining) -> tuple[int, Epoch]:
        """Train; the member's index and the epoch that has ended, its last where none was left."""
        try:
            losses = shared.train(self.architecture, self.name, checkpoint=self.checkpoint, on_epoch=_stop)
        except _EpochEndedError as ended:
            return self.index, ended.epoch
        return self.index, Epoch(len(losses), len(losses), losses[-1], 0.0)


class _EpochEndedError(Exception):
    """Leaves a training after an epoch, when its checkpoint is written."""

    def __init__(self, epoch: Epoch) -> None:
        super().__init__()
        self.epoch = epoch


def _stop(epoch: Epoch) -> NoReturn:
    raise _EpochEndedError(epoch)


def train_in_processes(
    members: Sequence[MemberEpoch], shared: MemberTraining, on_epoch: Callable[[int, Epoch], None]
) -> None:
    """Bring the checkpoint of every member to its last epoch; `on_epoch` is told the member's index and each epoch.

    A free process takes the member with the most epochs left among those that no other is at work on. Where there is
    none it can go: those left are at most as many as the other processes.
    """
    tasks = {member.index: member for member in members}
    left = dict.fromkeys(tasks, shared.settings.epochs)
    waiting = set(tasks)

    def next_task() -> MemberEpoch | None:
        ready = [index for index in sorted(waiting) if left[index]]
        if not ready:
            return None
        chosen = max(ready, key=left.__getitem__)
        waiting.remove(chosen)
        return tasks[chosen]

    with contextlib.closing(run_tasks(next_task, shared, workers=shared.settings.workers)) as ended:
        for index, epoch in ended:
            left[index] = epoch.epochs - epoch.number
            waiting.add(index)
            on_epoch(index, epoch)


def train_on_all_ranks(
    members: Sequence[MemberEpoch], shared: MemberTraining, on_epoch: Callable[[int, Epoch], None]
) -> None:
    """The same by the processes that torchrun started: all of them train one member after the other."""
    for member in members:
        train = partial(shared.train, member.architecture, member.name)
        on_all_ranks(train, checkpoint=member.checkpoint, on_epoch=partial(on_epoch, member.index))
