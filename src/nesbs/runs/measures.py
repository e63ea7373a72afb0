"""Everything that `nesbs evaluate` measures of an ensemble, measure by measure: an entry of `metrics.json`.

`scores` come first, `temperature`, `intervals`, `abstention` and `per_class` with them; `human`, `unseen` and
`corruptions` where settings ask for them. Each can be made later and on its own.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nesbs import files, metrics, rng
from nesbs.data import Dataset, SearchValid, Split, load_dataset
from nesbs.data.image_folder import load_folder
from nesbs.data.images import View
from nesbs.data.settings import DataSettings
from nesbs.data.sources import is_in_files
from nesbs.ensemble import Ensemble
from nesbs.errors import NesbsError
from nesbs.evaluation import EvaluationSettings, score_logits
from nesbs.evaluation.calibration import calibrate, cross_calibrate, scaled
from nesbs.evaluation.comparing import intervals
from nesbs.evaluation.corruptions import corrupt, usable
from nesbs.evaluation.human import about_people, agreement, load_human
from nesbs.evaluation.scores import predictions
from nesbs.evaluation.unseen import brought_to, certainties, detection
from nesbs.records.base import Record
from nesbs.records.held_out_answers import HeldOutAnswers
from nesbs.records.metrics import (
    Abstention,
    ClassRow,
    Corruptions,
    EnsembleMetrics,
    Human,
    Intervals,
    PerClass,
    ReliabilityBins,
    Temperature,
    Unseen,
)
from nesbs.runs.abstention import HALF, held_out_answers, measure_abstention, parts
from nesbs.spaces import sizes_of

ALWAYS = ("temperature", "intervals")
WITH_SCORES = (
    "abstention",
    "per_class",
)  # made with the scores; a run that was measured before it was there is asked to
MOST_CLASSES = 100  # of a confusion matrix that is kept: its numbers are the square of theirs
ON_REQUEST = ("human", "unseen", "corruptions")  # a setting of the same name asks for them

OnUnit = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Material:
    """What measuring needs beside an ensemble; `held_out` are training images that members did not learn from."""

    split: Split
    settings: EvaluationSettings
    held_out: Split | None = None
    human: Tensor | None = None
    unseen: Dataset | None = None
    train_labels: Tensor | None = None
    _predicted: dict[tuple[Ensemble, int], tuple[Tensor, Tensor]] = field(default_factory=dict)  # with the split's id

    def predictions(self, ensemble: Ensemble, split: Split) -> tuple[Tensor, Tensor]:
        """Return the `predictions` on the test or held-out images, made once for an ensemble."""
        key = ensemble, id(split)
        if key not in self._predicted:
            self._predicted[key] = predictions(ensemble, split, batch_size=self.settings.batch_size)
        return self._predicted[key]

    @property
    def fitted_on(self) -> str | None:
        """Which images the temperature, thresholds and sets are fitted to, None where the test images are halved."""
        if self.held_out is None:
            return None
        return "search_valid" if isinstance(self.held_out, SearchValid) else "calibration"


def gather(data: Dataset, settings: EvaluationSettings, held_out: SearchValid | None = None) -> Material:
    """Load what the settings ask for; raises where it does not go with the data set."""
    split = settings.measured(data)
    aside: Split | None = held_out
    if data.calibration is not None:
        aside = data.calibration
    elif settings.images == "search_valid":
        aside = None  # what is held out is measured, and nothing else is left to fit a temperature on
    human = None if settings.human is None else load_human(settings.human, split)
    names = settings.corruption_names
    if names and not usable(names, split.channels)[0]:
        raise NesbsError(
            f"evaluation.corruptions: {', '.join(names)} needs colour images, those of {data.name} are grey"
        )
    try:
        unseen = None if settings.unseen is None else _load_unseen(settings, data.view)
    except NesbsError as error:
        message = str(error).replace("data.root", "evaluation.unseen_root (--unseen-root)")
        raise NesbsError(f"evaluation.unseen: {message}") from None
    return Material(split, settings, aside, human, unseen, data.train.labels)


def _load_unseen(settings: EvaluationSettings, view: View | None) -> Dataset:
    """The other data set; its image files are read as the run's own, or a detour by another size would mark them."""
    name, root = str(settings.unseen), settings.unseen_root
    if view is None or not is_in_files(name):
        return load_dataset(name, root=root)
    asked = DataSettings(name=name, size=view.side, resize=view.resize)
    parts = load_folder(files.expanded(name), asked, share=view.share)
    return Dataset(asked.short_name, parts.train, parts.test)


def missing_measures(
    entry: EnsembleMetrics | None, settings: EvaluationSettings, asked: Iterable[str] = ()
) -> tuple[str, ...]:
    """The measures an entry of `metrics.json` still lacks, and those that are `asked` for anew.

    >>> missing_measures(None, EvaluationSettings())
    ('scores', 'temperature', 'intervals', 'abstention', 'per_class')
    >>> missing_measures(EnsembleMetrics(error=0.1, temperature=None), EvaluationSettings(corruptions="all"))
    ('intervals', 'corruptions')
    """
    there = set() if entry is None else set(entry.model_fields_set)
    first = () if there else ("scores",)
    if entry is not None and entry.temperature is not None and entry.temperature.reliability is None:
        there.discard("temperature")  # made before there were reliability diagrams
    due = (*ALWAYS, *(name for name in WITH_SCORES if first or name in asked))
    lacking = [name for name in due if name not in there]
    wanted = [name for name in ON_REQUEST if getattr(settings, name) is not None]
    return (*first, *lacking, *(name for name in wanted if name in asked or name not in there))


def units(names: Sequence[str], material: Material) -> int:
    """How many units of work the measures are, for one ensemble."""
    corruptions, _ = usable(material.settings.corruption_names, material.split.channels)
    each = len(corruptions) * len(material.settings.severities)
    return sum(each if name == "corruptions" else 1 for name in names)


def measure(
    entry: EnsembleMetrics | None,
    ensemble: Ensemble,
    material: Material,
    names: Sequence[str],
    on_unit: OnUnit = lambda unit: None,
) -> EnsembleMetrics:
    """An entry of `metrics.json` with these measures made, the others as they were; `on_unit` is told of progress."""
    split, settings = material.split, material.settings
    logits, combined = material.predictions(ensemble, split)
    if "scores" in names:
        entry = EnsembleMetrics(
            **score_logits(logits, combined, split.labels, bins=settings.bins).to_json(),
            architectures=[str(architecture) for architecture in ensemble.architectures],
            **sizes_of(ensemble.members, (split.channels, *split.size)),  # type: ignore[arg-type]
        )
        on_unit("scores")
    networks = _networks(logits, combined)
    made: dict[str, Record | None] = {}
    for name, make in MEASURES.items():
        if name in names:
            made[name] = make(ensemble, material, networks, on_unit)
            if name != "corruptions":  # which tells of each of its units
                on_unit(name)
    return (entry or EnsembleMetrics()).replace(**made)


def _temperature(ensemble: Ensemble, material: Material, test: Tensor, on_unit: OnUnit) -> Temperature | None:
    labels, bins, held_out = material.split.labels, material.settings.bins, material.held_out
    if held_out is not None:
        predicted = _networks(*material.predictions(ensemble, held_out))
        pairs = zip(predicted, test, strict=True)
        rows = [calibrate(held, held_out.labels, own, labels, bins=bins) for held, own in pairs]
    elif len(labels) < 2:
        return None  # nothing to fit on that is not what is measured
    else:
        rows = [cross_calibrate(own, labels, bins=bins) for own in test]
    after = scaled(test[0], labels, rows[0].temperatures)
    return Temperature(
        fitted_on=material.fitted_on or "test halves",
        images=len(labels if held_out is None else held_out),
        **_shared([asdict(row) for row in rows]),
        reliability={"before": reliability(test[0], labels, bins), "after": reliability(after, labels, bins)},
    )


def reliability(log_probs: Tensor, labels: Tensor, bins: int) -> ReliabilityBins:
    """A reliability diagram: number of images, mean confidence and accuracy of every bin.

    >>> reliability(torch.tensor([[0.8, 0.2]] * 2).log(), torch.tensor([0, 1]), 2)
    ReliabilityBins(images=(0, 2), confidence=(None, 0.8), accuracy=(None, 0.5))
    """
    count, *means = metrics.reliability(log_probs, labels, bins)
    confidence, accuracy = (
        [None if images == 0 else round(float(value), 6) for images, value in zip(count, column, strict=True)]
        for column in means
    )
    return ReliabilityBins(images=[int(images) for images in count], confidence=confidence, accuracy=accuracy)


def _intervals(ensemble: Ensemble, material: Material, test: Tensor, on_unit: OnUnit) -> Intervals:
    return Intervals(**intervals(test, material.split.labels))


def _abstention(ensemble: Ensemble, material: Material, test: Tensor, on_unit: OnUnit) -> Abstention | None:
    held_out, fitted_on = _held_out(ensemble, material), material.fitted_on or HALF
    return measure_abstention(test, material.split.labels, held_out, fitted_on=fitted_on)


def _held_out(ensemble: Ensemble, material: Material) -> tuple[Tensor, Tensor] | None:
    """The ensemble's log-probabilities of held-out images and their labels, None where there are none."""
    if material.held_out is None:
        return None
    return material.predictions(ensemble, material.held_out)[1], material.held_out.labels


def answers_to_keep(ensemble: Ensemble, material: Material) -> HeldOutAnswers:
    """What thresholds and sets of `nesbs predict` are fitted to: the images that `abstention` fits its own to."""
    combined = material.predictions(ensemble, material.split)[1]
    held_out = _held_out(ensemble, material)
    fit, labels, *_ = parts(combined, material.split.labels, held_out)
    return held_out_answers(fit, labels, material.fitted_on or HALF)


def _per_class(ensemble: Ensemble, material: Material, test: Tensor, on_unit: OnUnit) -> PerClass:
    split, train_labels = material.split, material.train_labels
    table = metrics.confusion(test[0], split.labels).tolist()
    trained = None if train_labels is None else train_labels.bincount(minlength=split.classes).tolist()
    rows = [
        ClassRow(
            name=name,
            train_images=None if trained is None else trained[place],
            test_images=sum(row),
            error=1 - row[place] / sum(row) if sum(row) else None,
            predicted=sum(column),
        )
        for place, (name, row, column) in enumerate(
            zip(split.class_names, table, zip(*table, strict=True), strict=True)
        )
    ]
    return PerClass(classes=rows, confusion=table if len(rows) <= MOST_CLASSES else None)


def _human(ensemble: Ensemble, material: Material, test: Tensor, on_unit: OnUnit) -> Human:
    assert material.human is not None
    assert material.settings.human is not None
    people = about_people(material.human, material.split.labels)
    return Human(file=Path(material.settings.human).name, people=people, **_shared(agreement(test, material.human)))


def _unseen(ensemble: Ensemble, material: Material, test: Tensor, on_unit: OnUnit) -> Unseen:
    assert material.unseen is not None
    split = brought_to(material.unseen.test, material.split)
    other = _networks(*predictions(ensemble, split, batch_size=material.settings.batch_size))
    rows = [
        detection(*(certainties(networks[index], networks[1:] if index == 0 else None) for networks in (test, other)))
        for index in range(len(test))
    ]
    return Unseen(data=material.unseen.name, images=len(split), seen_images=test.shape[1], **_shared(rows))


def _corruptions(ensemble: Ensemble, material: Material, test: Tensor, on_unit: OnUnit) -> Corruptions:
    """The corrupted images are the same for every run: their noise has a seed of its own."""
    split, settings = material.split, material.settings
    names, skipped = usable(settings.corruption_names, split.channels)
    tables: list[dict[str, dict[str, list[float]]]] = [{} for _ in range(len(test))]
    for name in names:
        for severity in settings.severities:
            random = rng.generator(0, "corruption", name, device=split.device)
            change = partial(corrupt, name=name, severity=severity, generator=random)
            predicted = _networks(*predictions(ensemble, split, batch_size=settings.batch_size, change=change))
            measured = {
                "error": metrics.error(predicted, split.labels),
                "nll": metrics.nll(predicted, split.labels),
                "ece": metrics.ece(predicted, split.labels, settings.bins),
            }
            on_unit(f"{name}, severity {severity}")
            for index, table in enumerate(tables):
                for measure_, values in measured.items():
                    table.setdefault(name, {}).setdefault(measure_, []).append(float(values[index]))
    rows = [{"by_corruption": table, **_means(list(table.values()))} for table in tables]
    return Corruptions(severities=settings.severities, skipped=skipped, **_shared(rows))


def _means(rows: list[dict[str, list[float]]]) -> dict[str, Any]:
    """Means over corruptions, for each severity and over all of them."""
    columns = {name: zip(*(row[name] for row in rows), strict=True) for name in rows[0]}
    by_severity = {name: [sum(values) / len(values) for values in column] for name, column in columns.items()}
    return {"by_severity": by_severity, "mean": {name: sum(v) / len(v) for name, v in by_severity.items()}}


def _networks(logits: Tensor, combined: Tensor) -> Tensor:
    """Log-probabilities of the ensemble and then of its members, (1 + members, images, classes)."""
    return torch.cat([combined[None], logits.log_softmax(-1)])


def _shared(rows: list[Any]) -> dict[str, Any]:
    """Rows of the ensemble and then of its members, under their names."""
    return {"ensemble": rows[0], "members": rows[1:]}


MEASURES: dict[str, Callable[[Ensemble, Material, Tensor, OnUnit], Record | None]] = {
    "temperature": _temperature,
    "intervals": _intervals,
    "abstention": _abstention,
    "per_class": _per_class,
    "human": _human,
    "unseen": _unseen,
    "corruptions": _corruptions,
}
