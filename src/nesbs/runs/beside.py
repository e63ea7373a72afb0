"""Networks that processes of their own train beside the search, on cores that it leaves idle.

What depends on no search, the uniform-random ensemble, is begun while the supernet is trained. Each epoch ends in a
checkpoint of the run folder, from which the stage that asks for the networks goes on: with the same bytes, whoever
trained which epoch, and also after `kill -9`.
"""

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import torch

from nesbs.cluster import Workers
from nesbs.runs.by_workers import AnyTraining, Network, epochs_left, train_by_workers
from nesbs.runs.stage_progress import add_epoch
from nesbs.training import Epoch
from nesbs.training.threads import use_threads


def idle_workers(workers: Workers) -> Workers | None:
    """Those of the workers for which this machine has a core beside the one at work; None where there is none.

    >>> idle_workers(Workers(1)) is None
    True
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    count = min(workers.count or 1, cores // torch.get_num_threads()) - 1
    return None if workers.on_ray or count < 1 else Workers(count, apart=True)


class Beside:
    """Networks of one stage in training, by a thread that hands their epochs to other processes."""

    def __init__(
        self, folder: Path, stage: str, networks: Sequence[tuple[AnyTraining, Network]], workers: Workers
    ) -> None:
        self._folder, self._stage, self._networks, self._workers = folder, stage, networks, workers
        self._epochs, self._total, self._enough = 0, sum(epochs_left(*each) for each in networks), False
        self._threads = torch.get_num_threads()  # of this thread; a new one has another number
        self._thread = threading.Thread(target=self._train, daemon=True)
        self._thread.start()

    def in_words(self) -> str:
        """How far the networks are, while they are in training; empty before and after."""
        at_work = self._thread.is_alive() and self._epochs
        return f"{self._stage} beside it: {self._epochs} of {self._total} epochs" if at_work else ""

    def end(self) -> None:
        """Begin no further epoch."""
        self._enough = True

    def join(self) -> None:
        """Return when all networks are trained; after `end`, when the last epoch is."""
        self._thread.join()

    def _train(self) -> None:
        use_threads(self._threads)
        try:
            train_by_workers(self._networks, self._workers, self._on_epoch, enough=lambda: self._enough)
        except Exception:  # the stage itself, which goes on from the checkpoints, meets it again and tells the user
            self._enough = True

    def _on_epoch(self, index: int, epoch: Epoch, node: str) -> None:
        self._epochs += 1
        add_epoch(self._folder, self._stage, epoch, "cpu", beside=True)
