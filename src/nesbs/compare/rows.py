"""The rows of a comparison: what run folders hold of a method, over their seeds, beside the reference's row.

The runs of a row may lie in one comparison's folder or in several, made on other machines or by another recipe. Two
rows are paired over the seeds that both have, and image by image.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from nesbs import files
from nesbs.compare.harness import rival_file
from nesbs.errors import NesbsError
from nesbs.evaluation import over_images, paired, summarise
from nesbs.records import RunRecord
from nesbs.records.comparison import (
    ComparisonRecord,
    DifferenceRecord,
    ImagesRecord,
    MethodRecord,
    OutcomeRecord,
    RivalsRecord,
    SummaryRecord,
)
from nesbs.records.metrics import EnsembleMetrics
from nesbs.records.recipe import Recipe

MEASURES = ("error", "nll", "brier", "ece", "member_error", "disagreement", "scaled_nll", "scaled_ece")
PER_IMAGE = ("error", "nll")
Table = np.ndarray[Any, np.dtype[np.float64]]
COSTS = ("search_seconds", "training_seconds", "evaluations", "parameters", "multiply_adds", "peak_memory")


@dataclass(frozen=True)
class Row:
    """A method in run folders, each of another seed."""

    method: str
    runs: tuple[Path, ...]

    @cached_property
    def by_seed(self) -> dict[int, Path]:
        """The folders by their seeds."""
        seeds = [(RunRecord.find(run) or RunRecord()).seed for run in self.runs]
        if None in seeds or len(set(seeds)) < len(seeds):
            places = ", ".join(map(str, self.runs))
            raise NesbsError(f"every run of {self.method} needs a seed of its own, found {seeds} in {places}")
        return {int(seed or 0): run for seed, run in zip(seeds, self.runs, strict=True)}

    def outcomes(self) -> dict[int, OutcomeRecord]:
        """What the method found, by seed."""
        paths = {seed: rival_file(run, self.method, "json") for seed, run in self.by_seed.items()}
        return {seed: OutcomeRecord.read(path).replace(seed=seed) for seed, path in paths.items()}

    def per_image(self, seeds: Sequence[int]) -> Table | None:
        """Mean error and NLL over the seeds, (images, 2); None where a seed's are missing or not numbers."""
        runs = [self.by_seed[seed] for seed in seeds]
        paths = {run: rival_file(run, self.method, "images.safetensors") for run in runs}
        if not all(path.is_file() for path in paths.values()):
            return None
        of = f"the test images of {self.method} in "
        found = [files.read_tensors(path, of=of + run.name)[0] for run, path in paths.items()]
        table = np.stack([np.mean([seed[measure].double().numpy() for seed in found], 0) for measure in PER_IMAGE], 1)
        return table if np.isfinite(table).all() else None


@dataclass(frozen=True)
class EarlierRow:
    """A method in an earlier comparison's record, which no longer holds what each image got."""

    record: MethodRecord

    def outcomes(self) -> dict[int, OutcomeRecord]:
        """What the method found, by seed."""
        return {outcome.seed or 0: outcome for outcome in self.record.seeds or ()}

    def per_image(self, seeds: Sequence[int]) -> None:
        """Nothing is known of single images."""


AnyRow = Row | EarlierRow


def comparison_of(rows: Mapping[str, AnyRow], reference: str, recipe: Recipe, device: str) -> ComparisonRecord:
    """The rows as a comparison's record; the recipe is the reference's, the device in words."""
    return ComparisonRecord(
        data=recipe.data.short_name,
        space=recipe.space.name,
        size=recipe.ensemble.size,
        seeds=tuple(sorted({seed for row in rows.values() for seed in row.outcomes()})),
        device=device,
        reference=reference,
        sampler=recipe.sampler.name,
        rivals=RivalsRecord(**recipe.rivals.model_dump(mode="json")),
        added=recipe.additions(),
        methods=over_seeds(rows, reference),
    )


def over_seeds(rows: Mapping[str, AnyRow], reference: str) -> dict[str, MethodRecord]:
    """Every row over its seeds: outcomes, means, costs, and differences to the reference under the same seeds."""
    outcomes = {name: row.outcomes() for name, row in rows.items()}
    found = {}
    for name, own in outcomes.items():
        common = [seed for seed in own if seed in outcomes[reference]]
        compared = {} if name == reference else _differences([(own[s], outcomes[reference][s]) for s in common])
        found[name] = MethodRecord(
            seeds=tuple(own.values()),
            mean={each: _mean(values) for each in MEASURES if (values := _scores(own.values(), each))},
            cost={each: _mean(values) for each in COSTS if (values := _values(own.values(), each))},
            difference=None if name == reference else compared,
            images=_over_images(rows[name], list(own), None if name == reference else rows[reference], common),
        )
    return found


def _values(records: Any, name: str) -> list[float]:
    """A figure of each record; nothing where one lacks it, as older ones do."""
    values = [getattr(record, name) for record in records]
    return [] if None in values else [float(value) for value in values]


def _scores(outcomes: Any, measure: str) -> list[float]:
    return _values([outcome.scores or EnsembleMetrics() for outcome in outcomes], measure)


def _differences(pairs: Sequence[tuple[OutcomeRecord, OutcomeRecord]]) -> dict[str, DifferenceRecord]:
    """Paired differences over seeds of every measure that all outcomes have."""
    found = {}
    for measure in MEASURES:
        own, reference = (_scores(outcomes, measure) for outcomes in zip(*pairs, strict=True)) if pairs else ((), ())
        if own and reference:
            found[measure] = DifferenceRecord(**paired(own, reference).to_json())
    return found


def _mean(values: Sequence[float]) -> SummaryRecord:
    return SummaryRecord(**asdict(summarise(values)))


def _over_images(
    row: AnyRow, seeds: Sequence[int], reference: AnyRow | None, common: Sequence[int]
) -> ImagesRecord | None:
    """Bootstrap intervals over the test images, of means over the seeds; None where images were not kept.

    Differences are those to the reference under the seeds that both have, where there are any.
    """
    own = row.per_image(seeds)
    if own is None:
        return None
    tables = [own]
    if reference is not None and common:
        shared, theirs = row.per_image(common), reference.per_image(common)
        if shared is not None and theirs is not None and shared.shape == theirs.shape:
            tables.append(shared - theirs)
    intervals = [DifferenceRecord(**asdict(interval)) for interval in over_images(np.concatenate(tables, 1))]
    differences = dict(zip(PER_IMAGE, intervals[len(PER_IMAGE) :], strict=False))
    return ImagesRecord(**dict(zip(PER_IMAGE, intervals, strict=False)), difference=differences or None)
