"""Networks trained by workers, an epoch at a time.

A training resumes exactly from its checkpoint after every epoch, so any worker can train a network's next epoch: three
members keep two processes busy to the end, and a worker that dies costs an epoch. Checkpoints travel with the tasks and
back, and are files of this process alone. What comes out has the same bytes as in one process.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Protocol, Self

from nesbs import files
from nesbs.cluster import Workers, run_tasks
from nesbs.cluster.torchrun import on_all_ranks
from nesbs.data import AnySplit, SearchTrain, Split
from nesbs.ensemble import Criterion, MemberSettings, build_member, member_training
from nesbs.errors import NesbsError
from nesbs.rivals import LearnedTogether, SearchRequest, SearchResult
from nesbs.runs.stage_progress import peak_memory, reset_peak_memory
from nesbs.spaces import Architecture, Space
from nesbs.supernet import SupernetSettings, train_supernet
from nesbs.training import Epoch, side_by_side
from nesbs.training.checkpoint import finished_epochs

GPU_SECONDS = 300.0  # of a task on a GPU: to record or compile a step again takes a part of that


class Move(Protocol):
    """Takes images to another device."""

    def __call__(self, split: AnySplit, /) -> AnySplit:
        """The images there."""


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
        architecture: Architecture | None,
        name: str | int,
        *,
        checkpoint: Path | None = None,
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> list[float]:
        """Train a member whose random streams have this name; the mean loss of every epoch."""
        assert architecture is not None
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

    def moved(self, move: Move) -> Self:
        """The same with its images elsewhere."""
        return replace(self, split=move(self.split))


@dataclass(frozen=True)
class SupernetTraining:
    """What the training of a supernet depends on."""

    space: Space
    split: SearchTrain
    settings: SupernetSettings
    seed: int

    def train(
        self,
        architecture: Architecture | None,
        name: str | int,
        *,
        checkpoint: Path | None = None,
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> list[float]:
        """Train the supernet, which has all architectures and one name; the mean loss of every epoch."""
        settings = self.settings.model_dump()
        supernet = train_supernet(
            self.space, self.split, seed=self.seed, checkpoint=checkpoint, on_epoch=on_epoch, **settings
        )
        return supernet.losses

    def moved(self, move: Move) -> Self:
        """The same with its images elsewhere."""
        return replace(self, split=move(self.split))


@dataclass(frozen=True)
class OneShotTraining:
    """A supernet that a rival trains in a way of its own, which ends with its search."""

    request: SearchRequest
    search: Callable[[SearchRequest], SearchResult | LearnedTogether]

    @property
    def split(self) -> Split:
        """What the weights learn from."""
        return self.request.train

    @property
    def settings(self) -> SupernetSettings:
        """How the supernet is trained."""
        return self.request.settings

    def train(
        self,
        architecture: Architecture | None,
        name: str | int,
        *,
        checkpoint: Path | None = None,
        on_epoch: Callable[[Epoch], None] | None = None,
    ) -> list[float]:
        """Train the supernet; the mean loss of every epoch."""
        return self.search(replace(self.request, checkpoint=checkpoint, on_epoch=on_epoch)).supernet.losses

    def moved(self, move: Move) -> Self:
        """The same with its images elsewhere."""
        train, valid = move(self.request.train), move(self.request.valid)
        return replace(self, request=replace(self.request, train=train, valid=valid))


@dataclass(frozen=True)
class Network:
    """Which network of a training is meant, and where its checkpoint lies in a run folder."""

    checkpoint: Path
    architecture: Architecture | None = None  # of a member; None: the supernet
    name: str | int = "supernet"  # a member's, of its random streams


AnyTraining = MemberTraining | SupernetTraining | OneShotTraining


@dataclass(frozen=True)
class Trainings:
    """What the tasks share: every kind of training, with its images in main memory, and where they are to be."""

    kinds: tuple[AnyTraining, ...]
    device: str

    @cached_property
    def placed(self) -> tuple[AnyTraining, ...]:
        """The same with the images on the device; there once a worker."""
        return _moved(self.kinds, self.device)


@dataclass(frozen=True)
class EpochTask:
    """The task to train one network for its next epoch, or on a GPU for as many as some minutes hold."""

    index: int  # of the network among all
    kind: int  # of its training, in `Trainings`
    network: Network
    state: bytes | None  # of its training so far: a checkpoint's bytes

    def __str__(self) -> str:
        kind = "the supernet" if self.network.architecture is None else f"member {self.network.name}"
        return f"training {kind} ({self.network.checkpoint.parent})"

    def __call__(self, shared: Trainings) -> TrainedEpochs:
        """Train; an epoch at least, where one is left."""
        until = time.perf_counter() + (0.0 if shared.device == "cpu" else GPU_SECONDS)
        reset_peak_memory()
        epochs: list[Epoch] = []

        def on_epoch(epoch: Epoch) -> None:
            epochs.append(replace(epoch, peak_memory=peak_memory(shared.device)))
            if time.perf_counter() >= until and epoch.number < epoch.epochs:
                raise _EnoughError

        with tempfile.TemporaryDirectory(prefix="nesbs-") as folder:
            checkpoint = Path(folder) / self.network.checkpoint.name
            if self.state is not None:
                checkpoint.write_bytes(self.state)
            try:
                network, training = self.network, shared.placed[self.kind]
                losses = training.train(network.architecture, network.name, checkpoint=checkpoint, on_epoch=on_epoch)
                if not epochs:  # all had been trained before
                    epochs.append(Epoch(len(losses), len(losses), losses[-1], 0.0))
            except _EnoughError:
                pass
            except NesbsError as error:  # a message about the checkpoint names the one in the run folder
                raise type(error)(str(error).replace(str(checkpoint), str(self.network.checkpoint))) from None
            return TrainedEpochs(self.index, tuple(epochs), checkpoint.read_bytes())


@dataclass(frozen=True)
class TrainedEpochs:
    """What a task sends back: the epochs that have ended, and the state of the training after them."""

    index: int
    epochs: tuple[Epoch, ...]
    state: bytes


class _EnoughError(Exception):
    """Leaves a training after an epoch, when its checkpoint is written."""


def epochs_left(training: AnyTraining, network: Network) -> int:
    """How many epochs a network's checkpoint has before it."""
    return max(training.settings.epochs - finished_epochs(network.checkpoint), 0)


def train_by_workers(
    networks: Sequence[tuple[AnyTraining, Network]],
    workers: Workers,
    on_epoch: Callable[[int, Epoch, str], None],
    *,
    enough: Callable[[], bool] = lambda: False,
) -> None:
    """Bring the checkpoint of every network to its last epoch; once it is `enough`, no further epoch is begun.

    `on_epoch` is told the network's place in the list, each epoch and the machine that trained it. The network with the
    most epochs left among those that no worker is at work on comes next.
    """
    kinds = list({id(training): training for training, _ in networks}.values())
    places = {id(kind): place for place, kind in enumerate(kinds)}
    left = {index: epochs_left(*each) for index, each in enumerate(networks)}
    if not any(left.values()):
        return
    waiting = set(left)

    def next_task() -> EpochTask | None:
        ready = [index for index in sorted(waiting) if left[index]]
        if not ready or enough():
            return None
        chosen = max(ready, key=left.__getitem__)
        waiting.remove(chosen)
        training, network = networks[chosen]
        state = network.checkpoint.read_bytes() if network.checkpoint.is_file() else None
        return EpochTask(chosen, places[id(training)], network, state)

    shared = Trainings(_moved(kinds, "cpu"), kinds[0].split.device.type)
    with contextlib.closing(run_tasks(next_task, shared, workers=workers, gpu=shared.device != "cpu")) as ended:
        for result in ended:
            trained = result.value
            files.write_bytes(networks[trained.index][1].checkpoint, trained.state)
            left[trained.index] = trained.epochs[-1].epochs - trained.epochs[-1].number
            waiting.add(trained.index)
            for epoch in trained.epochs:
                on_epoch(trained.index, epoch, result.node)


def _moved(kinds: Sequence[AnyTraining], device: str) -> tuple[AnyTraining, ...]:
    """Trainings with their images on a device; those that share images still do."""
    moved: dict[int, Split] = {}

    def move(split: AnySplit) -> AnySplit:
        if id(split) not in moved:
            moved[id(split)] = split.to(device)
        return moved[id(split)]  # type: ignore[return-value]

    return tuple(kind.moved(move) for kind in kinds)


def train_on_all_ranks(
    members: Sequence[Network], shared: MemberTraining, on_epoch: Callable[[int, Epoch], None]
) -> None:
    """The same by the processes that torchrun started: all of them train one member after the other."""
    for place, member in enumerate(members):
        train = partial(shared.train, member.architecture, member.name)
        on_all_ranks(train, checkpoint=member.checkpoint, on_epoch=partial(on_epoch, place))
