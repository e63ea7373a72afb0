"""Networks of a run that had the same training: each is trained once, whichever method asks for it.

    RUN/pool-EPOCHS-epochs-IMAGES/  a file a network, named after its architecture; costs.json: the seconds of each

Methods that judge architectures trained on their own share one such pool, and those that train what they chose
share another; both resume. Several workers train the networks of a pool, or of the pools of all seeds, at a time.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from nesbs import files
from nesbs.cluster import Workers
from nesbs.compare.ahead import Ahead, train_ahead
from nesbs.data import Split
from nesbs.ensemble import Ensemble, by_content, groups
from nesbs.runs.by_workers import MemberTraining
from nesbs.runs.members import network_in, trained_members, workers_of
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
        self.training = MemberTraining(run.space, self.settings.trained_on(run.data), self.settings, run.recipe.seed)
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

    def missing(self, architectures: Sequence[Architecture]) -> dict[str, Architecture]:
        """Those that are not trained yet, by their files' names."""
        stems = by_content(architectures)
        named = zip(stems, architectures, strict=True)
        return {stem: each for stem, each in named if not (self.folder / f"{stem}.safetensors").is_file()}

    def train(self, architectures: Sequence[Architecture]) -> None:
        """Train those that are not there yet: by workers, or in this process, `members.together` at a time."""
        missing = self.missing(architectures)
        if not missing:
            return
        progress, training = self.run.progress, self.training
        workers = self.run.workers or workers_of(training.split, training.settings)
        train_ahead(self.to_train(missing), workers, progress)
        stems = list(missing)
        progress.start(self.folder.name, len(missing) * self.settings.epochs)
        done = 0
        for group in groups(range(len(stems)), self.settings.together):
            part = _Part(progress, done * self.settings.epochs, f"network {done + 1} of {len(missing)}")
            some = [stems[place] for place in group]
            self._members([missing[stem] for stem in some], some, part)
            done += len(group)
        progress.finish(f"{sum(self.costs().values()):.1f} s in all")

    def to_train(self, missing: Mapping[str, Architecture]) -> list[Ahead]:
        """What workers are told of these networks."""
        self._forget(missing)
        networks = {stem: network_in(self.folder, stem, each) for stem, each in missing.items()}
        return [
            Ahead(self.run, self.folder.name, self.training, network, partial(self.count, [stem]))
            for stem, network in networks.items()
        ]

    def seconds(self, architectures: Sequence[Architecture]) -> float:
        """What the training of these took, also where another method had asked for it."""
        costs = self.costs()
        return sum(costs.get(stem, 0.0) for stem in by_content(architectures))

    def costs(self) -> dict[str, float]:
        """The seconds of every network's training, by its file's name."""
        path = self.folder / COSTS
        return files.read_mapping(path) if path.is_file() else {}

    def count(self, stems: Sequence[str], seconds: float) -> None:
        """Add seconds that the training of some networks took, in equal parts."""
        costs = self.costs()
        more = {stem: round(costs.get(stem, 0.0) + seconds / len(stems), 6) for stem in stems}
        files.write_json(self.folder / COSTS, costs | more)

    def _forget(self, missing: Mapping[str, Architecture]) -> None:
        """Drop the costs of networks that are trained from their beginning again: their weights were removed."""
        costs = self.costs()
        begun = {stem for stem, each in missing.items() if network_in(self.folder, stem, each).checkpoint.is_file()}
        kept = {stem: cost for stem, cost in costs.items() if stem not in missing or stem in begun}
        if kept != costs:
            files.write_json(self.folder / COSTS, kept)

    def _members(self, architectures: Sequence[Architecture], stems: Sequence[str], progress: Progress) -> list[Member]:
        @contextlib.contextmanager
        def stage(_: int) -> Iterator[Stage]:
            absent = [stem for stem in stems if not (self.folder / f"{stem}.safetensors").is_file()]
            work = _Counted(self, absent, progress)
            yield work
            work.write()

        here = Workers()  # what others were to train, they have trained
        return trained_members(architectures, self.training, folder=self.folder, stage=stage, stems=stems, workers=here)


class _Counted(Stage):
    """A stage whose seconds are also those of the networks that it trains, epoch by epoch: a kill loses one at most."""

    def __init__(self, pool: Pool, stems: Sequence[str], progress: Progress) -> None:
        run = pool.run
        super().__init__(run.folder, pool.folder.name, device=run.device, progress=progress)
        self._pool, self._stems, self._counted = pool, stems, self.earlier.seconds or 0.0

    def write(self) -> float:
        """Bring the record and the networks' costs up to date."""
        now = super().write()
        self._pool.count(self._stems, now - self._counted)
        self._counted = now
        return now


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
