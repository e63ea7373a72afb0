"""A command under `torchrun`: its first process runs it, the others train along wherever a network is trained.

What the others are to train, images included, comes from the first one. They read no recipe, write no file and print
nothing, so that everything but training is as without torchrun.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from nesbs.errors import DivergedError, NesbsError
from nesbs.training.ranks import all_ranks, from_first
from nesbs.training.threads import use_threads

Result = TypeVar("Result")
WAITS = timedelta(days=30)  # the others wait while the first one searches, measures and writes
TOLD = "nesbs: processes that had something to tell"


class Group:
    """The processes that torchrun started; without it, this one alone."""

    def __init__(self, rank: int = 0, count: int = 1, store: dist.Store | None = None) -> None:
        self.rank, self.count = rank, count
        self.listening = store is not None  # whether others wait for what the first one sends, and none is at work
        self._store = store

    def tells(self) -> bool:
        """Whether this process tells the user why the command ends: the first that fails, so that it is told once."""
        try:
            return self._store is None or self._store.add(TOLD, 1) == 1
        except RuntimeError:  # torchrun, which keeps the store, has ended
            return False

    def follow(self) -> int:
        """Train along with the first process until it ends; the exit code."""
        while (message := from_first(None)) is not None:
            self.listening = False
            threads, torch.backends.cudnn.deterministic, work = message
            use_threads(threads)
            try:
                with all_ranks():
                    self._unpacked(work)()
            except DivergedError:
                pass  # here as in the first process, which knows whether it goes on without that network
            self.listening = True
        return 0

    def _unpacked(self, work: bytes) -> Callable[[], object]:
        try:
            unpacked: Callable[[], object] = pickle.loads(work)
        except RuntimeError:
            if torch.cuda.is_available():
                raise
            raise NesbsError(
                f"process {self.rank} of torchrun has no GPU of its own: start as many processes as there are GPUs, or "
                "take --device cpu"
            ) from None
        return unpacked


_group = Group()


@contextmanager
def joined() -> Iterator[Group]:
    """Join the other processes of torchrun inside a `with` block; without torchrun there are none."""
    global _group
    if not (dist.is_available() and dist.is_torchelastic_launched() and os.environ.get("WORLD_SIZE", "1") != "1"):
        yield _group
        return
    _see_own_gpu(int(os.environ["LOCAL_RANK"]))
    store, rank, count = next(rendezvous("env://", timeout=WAITS))
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=dist.PrefixStore("nesbs", store), rank=rank, world_size=count, timeout=WAITS)
    alone, _group = _group, Group(rank, count, store)
    try:
        yield _group
    finally:
        if _group.listening:
            with suppress(RuntimeError):  # another one has ended already
                if rank == 0:
                    from_first(None)
                dist.destroy_process_group()
        _group = alone


def processes() -> int:
    """Return how many processes do work together (`on_all_ranks`): those that torchrun started, else this one alone."""
    return _group.count if _group.listening else 1


def on_all_ranks(work: Callable[..., Result], **here: Any) -> Result:
    """Do work in every process of torchrun and return this one's result; without torchrun, here alone.

    `work` can be pickled. The arguments in `here`, such as where to keep a checkpoint, are for this process alone.

    >>> from functools import partial
    >>> on_all_ranks(partial(sorted, [2, 1, 3]), reverse=True)
    [3, 2, 1]
    """
    if processes() == 1:
        return work(**here)
    message = torch.get_num_threads(), torch.backends.cudnn.deterministic, pickle.dumps(work)
    _group.listening = False  # for good where an error leaves them in the middle of the work
    try:
        from_first(message)
        with all_ranks():
            result = work(**here)
    except DivergedError:
        _group.listening = True
        raise
    _group.listening = True
    return result


def is_lost(error: Exception) -> bool:
    """Whether an error says that another process of torchrun cannot be reached any more."""
    return isinstance(error, dist.DistError) or (isinstance(error, RuntimeError) and "gloo" in str(error))


def _see_own_gpu(number: int) -> None:
    """Let this process see its own GPU alone, so that it is `cuda` here as in every other process."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    numbers = None if visible is None else visible.split(",")
    own = str(number) if numbers is None else numbers[number] if number < len(numbers) else ""
    os.environ["CUDA_VISIBLE_DEVICES"] = own
