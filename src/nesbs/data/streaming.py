"""Images that stay in their files and are read when they are needed.

What is random about an image is drawn before it is read, from the epoch's generator. So the same epoch is
the same epoch whether it is read by eight processes or by none, and after a resume.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from nesbs.data.images import Broken, View
from nesbs.errors import NesbsError, reader_ended

GREY = 128  # shown in place of an image that turns out to be broken
MOST_WORKERS = 8
AHEAD = 2  # batches that each process reads before they are asked for

# What one process is given, the numbers of files and a seed each or none, and what it gives back: the images
# (batch, channels, side, side) and the reasons of those that could not be read, by their place.
Request = tuple[np.ndarray, np.ndarray | None]
Answer = tuple[Tensor, dict[int, str]]


def default_workers() -> int:
    """Return the number of cores less one for the training, at most 8."""
    return max(0, min(MOST_WORKERS, (os.cpu_count() or 1) - 1))


@dataclass(frozen=True, eq=False)
class FileImages:
    """Images in their files, in the place of a `Split`'s stored images: `files` (images,) are paths as bytes.

    Indexing reads images, in threads, as (images, channels, side, side) uint8 on `device`; `batches` reads an
    epoch ahead of its use, in processes. Headers were looked at when the folder was listed; a file whose
    content turns out to be broken is shown as an even grey, named in a warning once, and counts towards
    `data.broken_limit`, beyond which the run ends.
    """

    files: np.ndarray
    view: View
    broken: Broken
    workers: int = 0
    random_crop: bool = False
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def shape(self) -> torch.Size:
        """As a tensor of all images would have it: (images, channels, side, side)."""
        return torch.Size((len(self.files), self.view.channels, self.view.side, self.view.side))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: Tensor | slice) -> Tensor:
        numbers = np.arange(len(self))[index if isinstance(index, slice) else index.cpu().numpy()]
        if self.workers < 2 or len(numbers) < 2:
            return self._received(numbers, self.read(numbers)).to(self.device)
        with ThreadPoolExecutor(self.workers) as pool:  # decoders let go of the interpreter while they work
            parts = [part for part in np.array_split(numbers, 4 * self.workers) if len(part)]
            answers = list(pool.map(self.read, parts))
        images = [self._received(part, answer) for part, answer in zip(parts, answers, strict=True)]
        return torch.cat(images).to(self.device)

    def to(self, device: torch.device | str) -> FileImages:
        """Return the same images for another device."""
        return replace(self, device=torch.device(device))

    def read(self, numbers: np.ndarray, seeds: np.ndarray | None = None) -> Answer:
        """Read files by number; with `seeds`, a random part of each image."""
        images = np.full((len(numbers), *self.shape[1:]), GREY, dtype=np.uint8)
        failed = {}
        for place, number in enumerate(numbers):
            try:
                seed = None if seeds is None else int(seeds[place])
                images[place] = self.view.read(os.fsdecode(self.files[number]), seed)
            except NesbsError as error:
                failed[place] = str(error)
        return torch.from_numpy(images), failed

    def batches(
        self,
        index: Sequence[Tensor],
        *,
        generator: torch.Generator,
        keep: Callable[[Tensor], Tensor] = lambda whole: whole,
    ) -> Iterator[Tensor]:
        """Yield the images of each batch of `index`, read ahead by `workers` processes, (batch, channels, side, side).

        Where `random_crop` is set, each image's part is drawn from `generator`, which is on this device. Of each batch
        only what `keep` returns is read; numbers are drawn for all of it.
        """
        requests: list[Request] = []
        for part in index:
            seeds = None
            if self.random_crop:
                drawn = torch.randint(2**62, part.shape, generator=generator, device=self.device)
                seeds = keep(drawn).cpu().numpy()
            requests.append((keep(part).cpu().numpy(), seeds))
        with warnings.catch_warnings():  # about the number of processes, which the user chose, and fork: they only read
            warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
            warnings.filterwarnings("ignore", message="This DataLoader will create", category=UserWarning)
            loader = DataLoader(
                _Reader(self),
                batch_size=None,
                sampler=requests,
                num_workers=self.workers,
                pin_memory=self.device.type == "cuda",
                prefetch_factor=AHEAD if self.workers else None,
                generator=torch.Generator().manual_seed(0),  # not the global one: it would move with every epoch
            )
            answers = iter(loader)
        try:  # around everything: torch says that a process has ended wherever this one just is
            for numbers, _ in requests:
                try:
                    images = self._received(numbers, next(answers)).to(self.device, non_blocking=True)
                except (ConnectionError, EOFError) as error:  # it ended while it handed its images over
                    _end(answers)
                    raise RuntimeError(f"DataLoader worker: {str(error) or 'no more images came'}") from None
                yield images
        except RuntimeError as error:
            if not (words := reader_ended(error)):
                raise
            _end(answers)
            raise NesbsError(words) from None

    def _received(self, numbers: np.ndarray, answer: Answer) -> Tensor:
        images, failed = answer
        for place, reason in failed.items():
            if self.broken.add(os.fsdecode(self.files[numbers[place]]), reason):
                self.broken.check()
                warnings.warn(f"{reason}: it is shown as an even grey", stacklevel=2)
        return images


def _end(answers: Iterator[Answer]) -> None:
    """End the processes that read, if there are any."""
    if hasattr(answers, "_shutdown_workers"):
        answers._shutdown_workers()


class _Reader(Dataset[Answer]):
    """Reads the images of a batch, in a process of its own."""

    def __init__(self, images: FileImages) -> None:
        self._images = images.to("cpu")

    def __getitem__(self, request: Request) -> Answer:
        return self._images.read(*request)
