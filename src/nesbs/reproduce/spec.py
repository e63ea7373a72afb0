"""What is run for each of the paper's tables and figures at each scale: one YAML file each, in `experiments/`."""

from importlib import resources
from typing import Any, Literal

import yaml
from pydantic import Field

from nesbs.errors import NesbsError, did_you_mean
from nesbs.records.recipe import Recipe
from nesbs.runs.recipe import load_recipe
from nesbs.settings import Settings

ScaleName = Literal["smoke", "hour", "paper"]
BEST_RESPONSE = "-best-response"  # ends the name of NESBS with that posterior
SCALES: tuple[ScaleName, ...] = ("smoke", "hour", "paper")
# In the paper's order; `nesbs reproduce` lists them like this.
NAMES = (
    *(f"table{number}" for number in range(1, 8)),
    "fig-delta",
    "fig-tradeoff",
    "fig-discrepancy",
    "fig-efficiency",
    "fig-temperature",
    "fig-diversity",
)


class DataPart(Settings):
    """The experiment on one data set, in the place of the paper's of that name."""

    recipe: str
    set: tuple[str, ...] = Field((), description="changes of the recipe, as --set takes them")
    searched_on: str | None = Field(None, description="train what was chosen on that part, without a search here")
    search_only: bool = Field(False, description="search here for another part, and train nothing")

    def resolved(self, changes: tuple[str, ...] = (), seed: int | None = None) -> Recipe:
        """Return the recipe with the part's changes and then the user's."""
        return load_recipe(self.recipe, [*self.set, *changes], seed=seed)


class Scale(Settings):
    """What is run at one scale; a field that the experiment's kind does not know has no effect."""

    about: str
    seeds: int = Field(1, ge=1)
    parts: dict[str, DataPart] = Field({}, description="by the paper's name of the data set")
    rows: tuple[str, ...] | None = Field(None, description="the paper's rows that are run; by default all that can be")
    notes: tuple[str, ...] = Field((), description="below its tables, beside the experiment's own")
    attack: tuple[str, ...] = Field((), description="settings of nesbs attack, as its --set takes them")
    quality: dict[str, Any] = Field({}, description="settings of nesbs quality")
    repeats: int = Field(1, ge=1, description="trainings of each architecture")
    draws: int = Field(100, ge=1, description="architectures drawn from a posterior, to find the best of them")
    budgets: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    temperatures: tuple[float, ...] = ()
    deltas: tuple[float, ...] = ()
    particles: int = 15
    steps: int = 1000
    step_size: float = 0.1


class Column(Settings):
    """A column of a table: which measure on which part."""

    part: str
    name: str
    measure: str
    unit: str
    places: int = 2


class Experiment(Settings):
    """One of the paper's tables or figures."""

    name: str
    shows: str = Field(description="what it is in the paper: Table 1")
    about: str = Field(description="one line")
    kind: Literal["methods", "attacks", "quality", "posteriors", "discrepancy", "tradeoff", "curves", "gaussians"]
    rows: dict[str, str] = Field({}, description="the paper's row: our method, KIND:CELL for one of a published cell")
    averages: dict[str, dict[str, tuple[str, ...]]] = Field(
        {}, description="the paper's row that is a mean over several networks: our methods, by part"
    )
    columns: dict[str, Column] = Field({}, description="the paper's column: what we measure")
    notes: tuple[str, ...] = ()
    scales: dict[ScaleName, Scale]

    def methods(self, row: str, part: str) -> tuple[str, ...]:
        """Return our methods behind a row of the paper's on a part: one, several that it is the mean of, or none.

        >>> experiment("table2").methods("DARTS- (avg)", "CIFAR-100")[0]
        'single:darts-minus-c100'
        """
        return (self.rows[row],) if row in self.rows else self.averages.get(row, {}).get(part, ())

    def asked(self, scale: ScaleName, part: str) -> dict[str, tuple[str, ...]]:
        """Return the rows that are run at a scale on a part, with their methods."""
        wanted = self.scales[scale].rows
        rows = (*self.rows, *self.averages) if wanted is None else wanted
        return {row: methods for row in rows if (methods := self.methods(row, part))}


class PaperFigures(Settings):
    """What the paper prints: figures by row and column, as it writes them."""

    source: str
    says: str | None = Field(None, description="what the paper finds, in words")
    rows: dict[str, dict[str, str]]


def experiment(name: str) -> Experiment:
    """Read what is run for one of `NAMES`.

    >>> experiment("table5").shows
    'Table 5'
    """
    if name not in NAMES:
        raise NesbsError(f"unknown name {name}: {did_you_mean(name, NAMES)}")
    return Experiment.of({"name": name, **yaml.safe_load(_text("experiments", name))})


def paper_figures(name: str) -> PaperFigures:
    """Read the paper's own figures for one of `NAMES`.

    >>> paper_figures("table1").rows["NES-RS"]["CIFAR-10"]
    '5.83 ± 0.33'
    """
    return PaperFigures.of(yaml.load(_text("paper", name), Loader=yaml.BaseLoader))  # figures stay as they are written


def _text(folder: str, name: str) -> str:
    return (resources.files("nesbs") / "reproduce" / folder / f"{name}.yaml").read_text(encoding="utf-8")
