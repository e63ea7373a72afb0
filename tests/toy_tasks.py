"""Tasks for the tests of `cluster`, in a module that other processes can import."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from nesbs import files
from nesbs.errors import DivergedError


@dataclass(frozen=True)
class Square:
    """A number, its square plus what is shared, and what computed it."""

    number: int

    def __call__(self, shared):
        return self.number, self.number**2 + shared, os.getpid(), torch.get_num_threads()


@dataclass(frozen=True)
class Wait:
    """Writes its process into a folder and never ends."""

    folder: Path
    number: int

    def __call__(self, shared):
        (self.folder / f"{self.number}-{os.getpid()}-{files.process_start(os.getpid())}").touch()
        while True:
            time.sleep(1)


@dataclass(frozen=True)
class Fail:
    """Ends its process or raises, once the folder holds what another task wrote there."""

    how: str
    folder: Path

    def __str__(self):
        return "the failing task"

    def __call__(self, shared):
        if self.how == "killed":
            while not any(self.folder.iterdir()):
                time.sleep(0.02)
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "odd":
            raise OddError(lambda: None)
        raise DivergedError("the loss is not a number")


@dataclass(frozen=True)
class DieOnce:
    """Kills the first process that tries it, and adds a number in the next one."""

    mark: Path
    number: int

    def __call__(self, shared):
        if not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.number + shared


class OddError(Exception):
    """An error that cannot be pickled."""


def workers_in(folder):
    """The process of every `Wait` that is at work in a folder, and when it was started."""
    return [(int(process), start) for _, process, start in (entry.name.split("-") for entry in folder.iterdir())]


def handing_out(tasks):
    """A function that gives the tasks one by one, then None."""
    left = iter(tasks)
    return lambda: next(left, None)
