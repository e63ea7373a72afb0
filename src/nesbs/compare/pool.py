"""Networks of a run that had the same training: each is trained once, whichever method asks for it.

    RUN/pool-EPOCHS-epochs-IMAGES/  a file a network, named after its architecture; costs.json: the seconds of each

Methods that judge architectures trained on their own share one such pool, and those that train what they chose
share another; both resume.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from nesbs import files
from nesbs.data import Split
from nesbs.ensemble import Ensemble, by_content, groups
from nesbs.runs.member_processes import MemberTraining
from nesbs.runs.members import trained_members
from nesbs.runs.resumable_run import Run
from nesbs.runs.stage_progress import Progress, Stage
from nesbs.spaces import Architecture, Member

COSTS = "costs.json"


class Pool:
    """The networks of one run with one schedule; predictions on `split` are made once while the pool lives."""

    def __init__(
        self, run: Run, split: Split, *, epochs: int | None = None, images: Literal["all", "search_train"]
    ) -> None:
        own = run.recipe.members
        epochs = own.epochs if epochs is None else min(epochs, own.epochs)
        self.run = run
        self.split = split
        self.settings = own.model_copy(
            update={"epochs": epochs, "warm_up": min(own.warm_up, epochs - 1), "images": images}
        )
        self.folder = run.folder / f"pool-{epochs}-epochs-{images}"
        self._log_probs: dict[Architecture, Tensor] = {}

    def members(self, architectures: Sequence[Architecture]) -> list[Member]:
        """The trained networks; an architecture that is named several times has as many different networks."""
        self.train(architectures)
        return self._members(architectures, by_content(architectures), Progress())

    def log_probs(self, architectures: Sequence[Architecture]) -> Tensor:
        """Log-probabilities on the split's images, (architectures, images, classes)."""
        missing = [architecture for architecture in dict.fromkeys(architectures) if architecture not in self._log_probs]
        self.train(missing)
        for architecture in missing:
            predicted = Ensemble(self.members([architecture])).predict(
                self.split, batch_size=self.run.recipe.evaluation.batch_size
            )
            self._log_probs[architecture] = predicted[0].log_softmax(-1)
        return torch.stack([self._log_probs[architecture] for architecture in architectures])

    def train(self, architectures: Sequence[Architecture]) -> None:
        """Train those that are not there yet, `members.together` at a time."""
        stems = by_content(architectures)
        missing = [place for place, stem in enumerate(stems) if not (self.folder / f"{stem}.safetensors").is_file()]
        if not missing:
            return
        progress = self.run.progress
        progress.start(self.folder.name, len(missing) * self.settings.epochs)
        done = 0
        for group in groups(missing, self.settings.together):
            part = _Part(progress, done * self.settings.epochs, f"network {done + 1} of {len(missing)}")
            self._members([architectures[place] for place in group], [stems[place] for place in group], part)
            done += len(group)
        progress.finish(f"{sum(self.costs().values()):.1f} s in all")

    def seconds(self, architectures: Sequence[Architecture]) -> float:
        """What the training of these took, also where another method had asked for it."""
        costs = self.costs()
        return sum(costs.get(stem, 0.0) for stem in by_content(architectures))

    def costs(self) -> dict[str, float]:
        """The seconds of every network's training, by its file's name."""
        path = self.folder / COSTS
        return files.read_mapping(path) if path.is_file() else {}

    def _members(self, architectures: Sequence[Architecture], stems: Sequence[str], progress: Progress) -> list[Member]:
        @contextlib.contextmanager
        def stage(_: int) -> Iterator[Stage]:
            name, costs = self.folder.name, self.costs()
            work = Stage(self.run.folder, name, device=self.run.device, progress=progress)
            yield work
            spent = work.seconds  # what the record will say: writing it takes a while on a busy machine
            work.write()
            # What the stage has taken beyond the networks counted before, interrupted training included.
            new = [stem for stem in stems if stem not in costs]
            share = max(spent - sum(costs.values()), 0.0) / max(len(new), 1)
            files.write_json(self.folder / COSTS, costs | {stem: round(share, 3) for stem in new})

        images = self.run.data.train if self.settings.images == "all" else self.run.data.search_train
        shared = MemberTraining(self.run.space, images, self.settings, self.run.recipe.seed)
        return trained_members(architectures, shared, folder=self.folder, stage=stage, stems=stems)


class _Part(Progress):
    """Is told of one group of networks and reports how far the whole pool is."""

    def __init__(self, whole: Progress, before: int, note: str) -> None:
        self._whole, self._before, self._note = whole, before, note

    def advance(self, done: int, note: str = "") -> None:
        """So many epochs of the group are finished."""
        self._whole.advance(self._before + done, self._note)

    def figure(self, folder: Path, name: str, value: float, step: int) -> None:
        """Hand on a figure of one network."""
        self._whole.figure(folder, name, value, step)
