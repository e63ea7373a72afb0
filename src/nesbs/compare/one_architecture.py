"""Methods that take one architecture: deep ensembles, MC DropPath, snapshots.

It is the recipe's `rivals.architecture`, or that of the single best network, or a published cell of the method's own.
"""

import torch
from torch import Tensor

from nesbs import rng
from nesbs.compare.harness import Harness
from nesbs.compare.method import Method
from nesbs.compare.pool_search import SINGLE_BEST
from nesbs.data import Dataset
from nesbs.ensemble import Selection, design_member
from nesbs.records.recipe import Recipe
from nesbs.rivals import deep, mc_droppath, snapshot
from nesbs.rivals.snapshot import cycles
from nesbs.spaces import Architecture, Space, named_architecture
from nesbs.training import Epoch


class OneArchitecture(Method):
    """One network of one architecture; with a `cell` (a name or a text) of that one, under a name of its own."""

    name = "single"
    description = "one network of a published cell"
    one_network = True

    def __init__(self, cell: str | None = None) -> None:
        self.cell = cell
        if cell is not None:
            self.name = f"{self.name}-of-{cell}"

    def fixed(self, recipe: Recipe) -> str | None:
        """The architecture that nobody has to search, None where it is the single best's."""
        return self.cell or recipe.rivals.architecture

    def check(self, recipe: Recipe, data: Dataset, space: Space) -> None:
        """Raise where the architecture cannot be built, or the search for the single best cannot work."""
        fixed = self.fixed(recipe)
        if fixed is None:
            SINGLE_BEST.check(recipe, data, space)
        else:
            with torch.device("meta"):
                design_member(space, named_architecture(space, fixed), data.train, recipe.members)

    def trains_pool(self, recipe: Recipe) -> bool:
        """Whether the single best is found among candidates that are trained."""
        return self.fixed(recipe) is None and SINGLE_BEST.trains_pool(recipe)

    def architecture(self, harness: Harness) -> Architecture:
        """The one architecture."""
        fixed = self.fixed(harness.run.recipe)
        if fixed is not None:
            return named_architecture(harness.run.space, fixed)
        selection, copies = SINGLE_BEST.selection(harness), self.trained_copies(harness)
        limits = harness.run.limits(copies)
        if limits is None or limits(selection.architectures * copies):
            return selection.architectures[0]
        losses = {one: loss for one, loss in selection.candidates if limits((one,) * copies)}
        return min(losses, key=losses.__getitem__)  # the pool begins with such a one: `uniform_draws`

    def trained_copies(self, harness: Harness) -> int:
        """How many sets of weights it predicts with."""
        return 1

    def choose(self, harness: Harness) -> Selection:
        """The one architecture, once."""
        return Selection.fixed((self.architecture(harness),))

    def search_seconds(self, harness: Harness) -> float:
        """What finding the single best took; nothing for a fixed architecture."""
        return SINGLE_BEST.search_seconds(harness) if self.fixed(harness.run.recipe) is None else 0.0

    def peak_memory(self, harness: Harness) -> int | None:
        """The most that its own stages took, or those that found the single best."""
        found = SINGLE_BEST.peak_memory(harness) if self.fixed(harness.run.recipe) is None else None
        return max((one for one in (super().peak_memory(harness), found) if one is not None), default=None)

    def evaluations(self, harness: Harness) -> int:
        """How many were judged to find the single best; none for a fixed architecture."""
        return SINGLE_BEST.evaluations(harness) if self.fixed(harness.run.recipe) is None else 0


class Deep(OneArchitecture):
    """A deep ensemble: the architecture trained several times."""

    name = "deep"
    description = "a deep ensemble of one architecture"
    one_network = False

    def trained_copies(self, harness: Harness) -> int:
        """As many as an ensemble has members."""
        return harness.size

    def choose(self, harness: Harness) -> Selection:
        """As many copies of the architecture as an ensemble has members."""
        return deep(self.architecture(harness), harness.size)


class McDropPath(OneArchitecture):
    """One network that drops paths when it predicts."""

    name = "mc-droppath"
    description = "one network that drops paths when it predicts"

    def copies(self, harness: Harness) -> int:
        """As often as it drops paths."""
        return harness.settings.passes

    def predict(self, harness: Harness, selection: Selection) -> Tensor:
        """Logits of the one network, a pass for a member."""
        run = harness.run
        [member] = harness.trained.members(selection.architectures)
        return mc_droppath(
            member,
            run.data.test,
            probability=harness.settings.drop_path,
            passes=harness.settings.passes,
            generator=rng.generator(run.recipe.seed, "rivals", "mc-droppath"),
            batch_size=run.recipe.evaluation.batch_size,
        ).double()


class Snapshot(OneArchitecture):
    """The states of one training at the ends of its cycles."""

    name = "snapshot"
    description = "one training in cycles, a member at the end of each"
    one_member = False
    in_pool = False

    def copies(self, harness: Harness) -> int:
        """A network at the end of each cycle."""
        return harness.size

    def trained_copies(self, harness: Harness) -> int:
        """As many as there are cycles."""
        return harness.size

    def check(self, recipe: Recipe, data: Dataset, space: Space) -> None:
        """Raise also where there are fewer epochs than cycles."""
        super().check(recipe, data, space)
        cycles(recipe.members, recipe.ensemble.size)

    def predict(self, harness: Harness, selection: Selection) -> Tensor:
        """Logits of the snapshots of one training, which is made where it is missing."""
        run, recipe = harness.run, harness.run.recipe
        lengths = [cycle.epochs for cycle in cycles(recipe.members, harness.size)]
        folder = run.folder / "snapshot"
        with run.stage("snapshot", sum(lengths), fresh=not folder.is_dir()) as stage:

            def report(cycle: int, epoch: Epoch) -> None:
                stage.write()
                stage.advance(sum(lengths[:cycle]) + epoch.number, f"cycle {cycle + 1}, loss {epoch.loss:.3f}")

            ensemble = snapshot(
                run.space,
                selection.architectures[0],
                run.train_images,
                recipe.members,
                size=harness.size,
                seed=recipe.seed,
                folder=folder,
                on_epoch=report,
            )
        return ensemble.predict(run.data.test, batch_size=recipe.evaluation.batch_size).double()

    def training_seconds(self, harness: Harness, selection: Selection) -> float:
        """What the one training took."""
        return harness.seconds("snapshot")
