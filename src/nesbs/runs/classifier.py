"""What a run keeps beside its members for predicting (`members/classifier.json`)."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from nesbs import files
from nesbs.data import Dataset
from nesbs.ensemble import Ensemble
from nesbs.errors import NesbsError
from nesbs.records import ClassifierRecord, MetricsRecord, Recipe
from nesbs.records.classifier import FORMAT, MemberRecord, PreprocessingRecord
from nesbs.spaces import get_space


def describe_classifier(
    recipe: Recipe, data: Dataset, ensemble: Ensemble, folder: Path, measured: MetricsRecord | None
) -> ClassifierRecord:
    """What predicting with the members in `folder` needs: classes, preprocessing, networks, temperature, checksums."""
    members = [
        MemberRecord(
            architecture=str(architecture),
            channels=member.network.channels,  # type: ignore[union-attr]
            sha256=files.file_checksum(folder / f"{place}.safetensors"),
        )
        for place, (architecture, member) in enumerate(zip(ensemble.architectures, ensemble.members, strict=True))
    ]
    return ClassifierRecord(
        format=FORMAT,
        data=data.name,
        classes=data.train.class_names,
        preprocessing=preprocessing_of(data),
        space=recipe.space.name,
        cells=recipe.members.cells or get_space(recipe.space.name).member_size[0],
        stem=recipe.members.stem,
        combine=ensemble.combine,
        temperature=_kept_temperature(folder, members) if measured is None else measured_temperature(measured),
        members=tuple(members),
    )


def _kept_temperature(folder: Path, members: Sequence[MemberRecord]) -> float:
    """The temperature that is kept beside the same members, of a run whose measures stayed elsewhere; else 1."""
    with contextlib.suppress(NesbsError):
        earlier = ClassifierRecord.find(folder)
        if earlier is not None and earlier.members == tuple(members):
            return earlier.temperature or 1.0
    return 1.0


def measured_temperature(measured: MetricsRecord | None) -> float:
    """The temperature that a run measured for its ensemble; 1 where there is none to predict with."""
    entry = measured.ensemble.temperature if measured is not None and measured.ensemble is not None else None
    return (entry.ensemble.usable if entry is not None and entry.ensemble is not None else None) or 1.0


def keep(record: ClassifierRecord, folder: Path) -> None:
    """Write what predicting needs into the members' folder, unless it is there already; a broken file is replaced."""
    earlier = None
    with contextlib.suppress(NesbsError):
        earlier = ClassifierRecord.find(folder)
    if earlier != record:
        record.write(folder / ClassifierRecord.FILE)


def keep_temperature(folder: Path, measured: MetricsRecord) -> None:
    """Bring the temperature in the members' folder up to date with what was measured."""
    earlier = ClassifierRecord.find(folder)
    if earlier is not None:
        keep(earlier.replace(temperature=measured_temperature(measured)), folder)


def preprocessing_of(data: Dataset) -> PreprocessingRecord:
    """How an image becomes one like those of a data set."""
    split, view = data.train, data.view
    return PreprocessingRecord(
        mode="L" if split.channels == 1 else "RGB",
        size=split.size,
        resize="interpolate" if view is None else view.resize,
        share=1.0 if view is None else view.share,
        mean=tuple(split.mean.tolist()),
        std=tuple(split.std.tolist()),
    )
