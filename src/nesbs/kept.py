"""What a run folder keeps, read back with care: its choice, its measures, and what it says of its data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from nesbs import files
from nesbs.data import Dataset
from nesbs.ensemble import Selection
from nesbs.errors import NesbsError
from nesbs.spaces import Space


def read_selection(path: Path, space: Space) -> Selection:
    """What was chosen (`selection.json`)."""
    value = files.read_json(path)
    try:
        return Selection.from_json(value, space)
    except NesbsError as error:
        raise NesbsError(f"{path}: {error}: remove it, and the same command chooses again") from None


def read_metrics(path: Path) -> dict[str, Any]:
    """What was measured (`metrics.json`)."""
    value = files.read_mapping(path)
    if not {"data", "test_images"} <= value.keys():
        raise NesbsError(f"{path} is not what `nesbs evaluate` writes: remove it, and the same command measures again")
    return value


def with_others(path: Path, before: Mapping[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The measures `now`, beside what another process has written since they were read as `before`."""
    latest = read_metrics(path) if path.is_file() else {}
    merged = {**now}
    for name in ("ensemble", "uniform"):
        old, new, theirs = (value.get(name) or {} for value in (before, now, latest))
        if theirs:
            own = {key: part for key, part in new.items() if key not in old or old[key] != part}
            merged[name] = {**new, **theirs, **own}
    return merged


def about_data(data: Dataset, before: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """What a record says of the data set; raises where it is no longer the one the run began with.

    One image more or less in a folder splits it anew: what members have learned from would become test images.
    """
    now = {
        "name": data.name,
        "train_images": len(data.train),
        "test_images": len(data.test),
        "search_train": len(data.search_train),
        "search_valid": len(data.search_valid),
        "size": list(data.train.size),
        "channels": data.train.channels,
        "left_out": list(data.broken),  # images that could not be read
        "classes": list(data.train.class_names),
        "labels": _digest(data.train.labels, data.test.labels),
    }
    for key in ("classes", "train_images", "test_images", "labels"):
        if key in before and before[key] != now[key]:
            what = ", though not in number" if key == "labels" else f": {key} {before[key]} then, {now[key]} now"
            raise NesbsError(
                f"{folder}: the images of {data.name} have changed since the run began{what}; put them back, or begin "
                "again in another folder"
            )
    return now


def _digest(*labels: Tensor) -> str:
    """A short name for labels in their order."""
    found = hashlib.sha256()
    for some in labels:
        found.update(some.cpu().numpy().tobytes())
    return found.hexdigest()[:16]
