"""Everything that is measured of an ensemble, part by part, as plain data (the entries of `metrics.json`).

`scores` comes first, `temperature` and `intervals` with it; `human`, `unseen` and `corruptions` where settings ask
for them. Each part has `ensemble`, `members` (a list) and what it was made with; it can be made later and on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nesbs import metrics, rng
from nesbs.data import Dataset, Split, load_dataset
from nesbs.ensemble import Ensemble
from nesbs.errors import NesbsError
from nesbs.evaluation.calibration import calibrate, cross_calibrate, scaled
from nesbs.evaluation.corruptions import corrupt, usable
from nesbs.evaluation.human import about_people, agreement, load_human
from nesbs.evaluation.resampling import intervals
from nesbs.evaluation.scores import predictions, score_logits
from nesbs.evaluation.settings import EvaluationSettings
from nesbs.evaluation.unseen import brought_to, certainties, detection
from nesbs.spaces import sizes_of

ASKED = ("human", "unseen", "corruptions")  # the parts that a setting of the same name asks for
ALWAYS = ("temperature", "intervals")
PARTS = (*ALWAYS, *ASKED)

Heard = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Material:
    """What measuring needs beside an ensemble; `held_out` are training images that members did not learn from."""

    data: Dataset
    settings: EvaluationSettings
    held_out: Split | None = None
    human: Tensor | None = None
    unseen: Dataset | None = None


def gather(data: Dataset, settings: EvaluationSettings, held_out: Split | None = None) -> Material:
    """Load what the settings ask for; raises where it does not go with the data set."""
    if settings.images == "search_valid":
        # What is held out is then what is measured, and nothing else is left to fit a temperature on.
        data, held_out = replace(data, test=data.search_valid), None
    human = None if settings.human is None else load_human(settings.human, data.test)
    names = settings.corruption_names
    if names and not usable(names, data.test.channels)[0]:
        raise NesbsError(
            f"evaluation.corruptions: {', '.join(names)} needs colour images, those of {data.name} are grey"
        )
    unseen = None
    if settings.unseen is not None:
        try:
            unseen = load_dataset(settings.unseen, root=settings.unseen_root)
        except NesbsError as error:
            said = str(error).replace("data.root", "evaluation.unseen_root (--unseen-root)")
            raise NesbsError(f"evaluation.unseen: {said}") from None
    return Material(data, settings, held_out, human, unseen)


def to_make(entry: Mapping[str, Any], settings: EvaluationSettings, asked: Iterable[str] = ()) -> tuple[str, ...]:
    """The parts an entry of `metrics.json` still lacks, and those that are `asked` for anew.

    An entry of before there were reliability diagrams gets its `temperature` again.

    >>> to_make({}, EvaluationSettings())
    ('scores', 'temperature', 'intervals')
    >>> to_make({"error": 0.1, "temperature": None}, EvaluationSettings(corruptions="all"))
    ('intervals', 'corruptions')
    """
    first = () if entry else ("scores",)
    lacking = [part for part in ALWAYS if part not in entry or not _complete(part, entry[part])]
    wanted = [part for part in ASKED if getattr(settings, part) is not None]
    return (*first, *lacking, *(part for part in wanted if part in asked or part not in entry))


def _complete(part: str, made: Any) -> bool:
    """Whether a part holds all that it would hold today; a temperature that could not be fitted stays None."""
    return part != "temperature" or made is None or "reliability" in made


def units(parts: Sequence[str], material: Material) -> int:
    """How many units of work the parts are, for one ensemble."""
    names, _ = usable(material.settings.corruption_names, material.data.test.channels)
    return sum(len(names) * len(material.settings.severities) if part == "corruptions" else 1 for part in parts)


def measure(
    entry: Mapping[str, Any],
    ensemble: Ensemble,
    material: Material,
    parts: Sequence[str],
    heard: Heard = lambda unit: None,
) -> dict[str, Any]:
    """An entry of `metrics.json` with these parts made, the others as they were; `heard` hears of each unit of work."""
    test, settings = material.data.test, material.settings
    logits, combined = predictions(ensemble, test, batch_size=settings.batch_size)
    made: dict[str, Any] = {}
    if "scores" in parts:
        entry = {
            **score_logits(logits, combined, test.labels, bins=settings.bins).to_json(),
            "architectures": [str(architecture) for architecture in ensemble.architectures],
            **sizes_of(ensemble.members, (test.channels, *test.size)),  # type: ignore[arg-type]
        }
        heard("scores")
    for part in PARTS:
        if part in parts:
            made[part] = MAKERS[part](ensemble, material, _networks(logits, combined), heard)
            if part != "corruptions":  # which speaks for itself: it has many units
                heard(part)
    parted = {part: made.get(part, entry.get(part)) for part in PARTS if part in made or part in entry}
    return {**{key: value for key, value in entry.items() if key not in PARTS}, **parted}


def _temperature(ensemble: Ensemble, material: Material, test: Tensor, heard: Heard) -> dict[str, Any] | None:
    labels, bins, held_out = material.data.test.labels, material.settings.bins, material.held_out
    if held_out is not None:
        predicted = _networks(*predictions(ensemble, held_out, batch_size=material.settings.batch_size))
        rows = [
            calibrate(held, held_out.labels, own, labels, bins=bins) for held, own in zip(predicted, test, strict=True)
        ]
        fitted: dict[str, Any] = {"fitted_on": "search_valid", "images": len(held_out)}
    elif len(labels) < 2:
        return None  # nothing to fit on that is not what is measured
    else:
        rows = [cross_calibrate(own, labels, bins=bins) for own in test]
        fitted = {"fitted_on": "test halves", "images": len(labels)}
    after = scaled(test[0], labels, rows[0].temperatures)
    diagram = {"before": reliability(test[0], labels, bins), "after": reliability(after, labels, bins)}
    return {**fitted, **_shared([row.to_json() for row in rows]), "reliability": diagram}


def reliability(log_probs: Tensor, labels: Tensor, bins: int) -> dict[str, list[float | None]]:
    """A reliability diagram as plain data: number of images, mean confidence and accuracy of every bin.

    >>> reliability(torch.tensor([[0.8, 0.2]] * 2).log(), torch.tensor([0, 1]), 2)
    {'images': [0, 2], 'confidence': [None, 0.8], 'accuracy': [None, 0.5]}
    """
    count, *means = metrics.reliability(log_probs, labels, bins)
    known = [[None if held == 0 else value for held, value in zip(count, column, strict=True)] for column in means]
    confidence, accuracy = ([None if v is None else round(float(v), 6) for v in column] for column in known)
    return {"images": [int(held) for held in count], "confidence": confidence, "accuracy": accuracy}


def _intervals(ensemble: Ensemble, material: Material, test: Tensor, heard: Heard) -> dict[str, Any]:
    return intervals(test, material.data.test.labels)


def _human(ensemble: Ensemble, material: Material, test: Tensor, heard: Heard) -> dict[str, Any]:
    assert material.human is not None
    assert material.settings.human is not None
    people = about_people(material.human, material.data.test.labels)
    return {"file": Path(material.settings.human).name, "people": people, **_shared(agreement(test, material.human))}


def _unseen(ensemble: Ensemble, material: Material, test: Tensor, heard: Heard) -> dict[str, Any]:
    assert material.unseen is not None
    split = brought_to(material.unseen.test, material.data.test)
    other = _networks(*predictions(ensemble, split, batch_size=material.settings.batch_size))
    rows = [
        detection(*(certainties(networks[index], networks[1:] if index == 0 else None) for networks in (test, other)))
        for index in range(len(test))
    ]
    return {"data": material.unseen.name, "images": len(split), "seen_images": test.shape[1], **_shared(rows)}


def _corruptions(ensemble: Ensemble, material: Material, test: Tensor, heard: Heard) -> dict[str, Any]:
    """The corrupted images are the same for every run: their noise has a seed of its own."""
    split, settings = material.data.test, material.settings
    names, skipped = usable(settings.corruption_names, split.channels)
    tables: list[dict[str, dict[str, list[float]]]] = [{} for _ in range(len(test))]
    for name in names:
        for severity in settings.severities:
            random = rng.generator(0, "corruption", name, device=split.device)

            def change(images: Tensor, name: str = name, severity: int = severity, random: Any = random) -> Tensor:
                return corrupt(images, name, severity, generator=random)

            predicted = _networks(*predictions(ensemble, split, batch_size=settings.batch_size, change=change))
            measured = {
                "error": metrics.error(predicted, split.labels),
                "nll": metrics.nll(predicted, split.labels),
                "ece": metrics.ece(predicted, split.labels, settings.bins),
            }
            heard(f"{name}, severity {severity}")
            for index, table in enumerate(tables):
                for measure_, values in measured.items():
                    table.setdefault(name, {}).setdefault(measure_, []).append(float(values[index]))
    rows = [{"by_corruption": table, **_means(list(table.values()))} for table in tables]
    return {"severities": list(settings.severities), "skipped": list(skipped), **_shared(rows)}


def _means(rows: list[dict[str, list[float]]]) -> dict[str, Any]:
    """Means over corruptions, for each severity and over all of them."""
    by_severity = {
        name: [sum(values) / len(values) for values in zip(*(row[name] for row in rows), strict=True)]
        for name in rows[0]
    }
    return {"by_severity": by_severity, "mean": {name: sum(v) / len(v) for name, v in by_severity.items()}}


def _networks(logits: Tensor, combined: Tensor) -> Tensor:
    """Log-probabilities of the ensemble and then of its members, (1 + members, images, classes)."""
    return torch.cat([combined[None], logits.log_softmax(-1)])


def _shared(rows: list[Any]) -> dict[str, Any]:
    """Rows of the ensemble and then of its members, under their names."""
    return {"ensemble": rows[0], "members": rows[1:]}


MAKERS: dict[str, Callable[[Ensemble, Material, Tensor, Heard], dict[str, Any] | None]] = {
    "temperature": _temperature,
    "intervals": _intervals,
    "human": _human,
    "unseen": _unseen,
    "corruptions": _corruptions,
}
