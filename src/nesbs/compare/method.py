"""A method as an object: what it needs, how it chooses, how it predicts, what it cost.

The comparison and the budget curves know methods by this class alone. A new one chooses (`choose`), or judges a pool of
candidates (`PoolSearch.select`), and changes further steps where it differs from the others.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from torch import Tensor

from nesbs import files, metrics
from nesbs.compare.ahead import Ahead
from nesbs.compare.budgets import OVER
from nesbs.compare.harness import CurveHarness, Harness, Point, rival_file
from nesbs.data import Dataset
from nesbs.ensemble import Selection
from nesbs.errors import NesbsError, expect
from nesbs.evaluation import score_logits
from nesbs.evaluation.calibration import cross_calibrate
from nesbs.records.comparison import OutcomeRecord
from nesbs.records.metrics import Calibrated, EnsembleMetrics, Temperature
from nesbs.records.recipe import Recipe
from nesbs.runs.folder import read_selection
from nesbs.runs.stage_progress import device_name
from nesbs.spaces import Architecture, Space


class Method(ABC):
    """One way to find an ensemble; its choice is made, trained and measured once in a run."""

    name: str
    description: str  # one line, for the list of methods
    own_training = True  # cannot be measured with the supernet's weights, and has no budget curve
    mixes_operations = False  # looks at mixtures of operations, which `none` and learned scales do not allow
    one_network = False  # trains one network in full, where others train a member each
    one_member = True  # a chosen architecture predicts with one set of weights
    in_pool = True  # what it chose is trained as members are, in a pool of the run
    own_supernet = False  # trains a supernet in its own way
    stages: tuple[str, ...] = ()  # of the run, which its search uses and pays for beside its own
    draws_from_posterior = False  # its budget curve has a temperature, and all its budgets are parts of one draw

    def check(self, recipe: Recipe, data: Dataset, space: Space) -> None:  # noqa: B027 - most need nothing special
        """Raise where the method cannot work under the recipe."""

    def trains_pool(self, recipe: Recipe) -> bool:
        """Whether candidates are trained on their own to be judged."""
        return False

    def judged_ahead(self, harness: Harness) -> Sequence[Architecture]:
        """Candidates that workers can train before the method chooses: all that it judges whatever comes out."""
        return harness.candidates if self.trains_pool(harness.run.recipe) else ()

    def trains_ahead(self, harness: Harness) -> list[Ahead]:
        """What workers can train before the method chooses, beside the run's supernet and a pool."""
        return []

    @abstractmethod
    def choose(self, harness: Harness) -> Selection:
        """Choose architectures; called once in a run."""

    def predict(self, harness: Harness, selection: Selection) -> Tensor:
        """Logits of what was chosen on the test images, (members, images, classes)."""
        return harness.predict(selection.architectures)

    def search_seconds(self, harness: Harness) -> float:
        """What finding the architectures took: a method pays for what it used, whoever had it made."""
        return harness.seconds(*self.stages, f"rival {self.name}")

    def evaluations(self, harness: Harness) -> int:
        """How many architectures were judged to find the method's."""
        return len(self.selection(harness).candidates)

    def training_seconds(self, harness: Harness, selection: Selection) -> float:
        """What training the chosen networks in full took."""
        return 0.0 if harness.settings.measure == "supernet" else harness.trained.seconds(selection.architectures)

    def peak_memory(self, harness: Harness) -> int | None:
        """Bytes of a GPU's memory that the stages which the method used took at most, whoever had them made.

        None on a CPU: what a process holds depends on what else it did, and on who trained.
        """
        used = [harness.judged.folder.name] if self.trains_pool(harness.run.recipe) else [*self.stages]
        used += [f"rival {self.name}", self.name]
        used += [harness.trained.folder.name] if harness.settings.measure == "trained" and self.in_pool else []
        made = [harness.run.record.stage(stage) for stage in used]
        return max(
            (one.peak_memory for one in made if one.peak_memory is not None and one.device != "cpu"), default=None
        )

    def copies(self, harness: Harness) -> int:
        """How often each chosen network predicts: once, but for methods that make several predictions of one."""
        return 1

    def size(self, harness: Harness, selection: Selection) -> dict[str, int]:
        """Parameters and multiply-adds of what predicts: of all networks, and of one image through all of them."""
        costs = [harness.run.costs.members(one) for one in selection.architectures]
        copies = self.copies(harness)
        return {
            "parameters": sum(cost.parameters for cost in costs) * (1 if self.one_member else copies),
            "multiply_adds": sum(cost.multiply_adds for cost in costs) * copies,
        }

    def within(self, harness: CurveHarness, point: Point) -> tuple[Architecture, ...] | None:
        """The ensemble of a point of the budget curves; None where the budget holds none."""
        raise NesbsError(self.no_curve)

    @property
    def no_curve(self) -> str:
        """Why a method that needs a training of its own has no budget curve."""
        own = f"{self.name} needs a training of its own"
        return f"--methods: {own}: set rivals.measure=trained for compare, leave it out of curves"

    def has_chosen(self, run: Path) -> bool:
        """Whether a run folder holds what the method chose."""
        return rival_file(run, self.name, "selection.json").is_file()

    def is_measured(self, run: Path) -> bool:
        """Whether a run folder holds what the method is worth."""
        return rival_file(run, self.name, "json").is_file()

    def selection(self, harness: Harness) -> Selection:
        """What the method chooses, once in a run."""
        folder = harness.run.folder
        path = rival_file(folder, self.name, "selection.json")
        if not self.has_chosen(folder):
            files.write_json(path, self._checked(self.choose(harness), harness).to_json())
        files.discard(rival_file(folder, self.name, "checkpoint.safetensors"))
        return read_selection(path, harness.run.space)

    def _checked(self, chosen: Selection, harness: Harness) -> Selection:
        """What was chosen; raises where it is no ensemble of the right size, or free since no stage is named."""
        expect(chosen, Selection, f"method {self.name} must return a Selection")
        count = len(chosen.architectures)
        wanted = 1 if self.one_network else harness.size
        if count != wanted:
            raise NesbsError(
                f"method {self.name} chose {count} architectures, not {wanted}: choose as many, or say by one_network "
                "whether it is meant to find one"
            )
        own, made = f"rival {self.name}", harness.run.record.stages or {}
        if type(self).search_seconds is Method.search_seconds and not made.keys() & {own, *self.stages}:
            raise NesbsError(
                f"method {self.name} would be charged no seconds of search: name the stages of the run that it uses in "
                f'`stages`, and do its own work inside `with harness.run.stage("{own}", 1):`'
            )
        return chosen

    def over_budget(self, harness: Harness) -> bool:
        """Whether the search took more seconds than it might, beyond the noise of measuring."""
        seconds = harness.settings.seconds
        return seconds is not None and self.search_seconds(harness) > OVER * seconds

    def outcome(self, harness: Harness) -> OutcomeRecord:
        """What the method is worth on the test images and what it cost, once in a run."""
        run = harness.run
        path = rival_file(run.folder, self.name, "json")
        if self.is_measured(run.folder):
            earlier = OutcomeRecord.read(path)
            if earlier.method != self.name:
                raise NesbsError(f"{path} is of {earlier.method}, not of {self.name}: {files.AGAIN}")
            return earlier
        run.progress.note(f"{run.folder.name}: {self.name}")  # whose stages those are that follow
        selection, labels = self.selection(harness), run.data.test.labels
        logits = self.predict(harness, selection)
        if not bool(logits.isfinite().all()):
            advice = "lower members.learning_rate or set members.clip"
            raise NesbsError(f"{self.name}: predictions are not numbers: {advice}")
        combined = metrics.combine(logits, run.recipe.ensemble.combine)
        bins = run.recipe.evaluation.bins
        scores = score_logits(logits, combined, labels, bins=bins)
        outcome = OutcomeRecord(
            method=self.name,
            architectures=tuple(str(architecture) for architecture in selection.architectures),
            validation_loss=selection.loss,
            evaluations=self.evaluations(harness),
            device=device_name(run.device),
            search_seconds=round(self.search_seconds(harness), 3),
            over_budget=self.over_budget(harness),
            training_seconds=round(self.training_seconds(harness, selection), 3),
            peak_memory=self.peak_memory(harness),
            **self.size(harness, selection),
            scores=EnsembleMetrics(**scores.to_json(), temperature=_scaled(combined, labels, bins)),
        )
        images = {"error": combined.argmax(-1) != labels, "nll": -combined.gather(1, labels[:, None])[:, 0]}
        of = f"the test images of {self.name} in {run.folder.name}"
        files.write_tensors(rival_file(run.folder, self.name, "images.safetensors"), images, of=of)
        outcome.write(path)
        return outcome


def _scaled(combined: Tensor, labels: Tensor, bins: int) -> Temperature | None:
    """Temperature scaling of the ensemble alone, for all methods on the same halves of the test images."""
    if len(labels) < 2:
        return None
    scaled = cross_calibrate(combined, labels, bins=bins)
    return Temperature(fitted_on="test halves", images=len(labels), ensemble=Calibrated(**asdict(scaled)))
