"""Agreement with people: how near predictions are to the labels that many of them gave to the same test images."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nesbs import files, metrics
from nesbs.data import Split
from nesbs.data.arrays import read_arrays
from nesbs.errors import NesbsError

KEYS = ("counts", "probs")  # as CIFAR-10H's files are called
LARGEST = 4.0  # GiB: two tables for ImageNet's test images take less than one


def load_human(path: str | Path, split: Split) -> Tensor:
    """Read people's label distributions for the images of a split, (images, classes), from an `.npy` or `.npz` file.

    The file holds counts or probabilities, a row for each image in the split's own order (an `.npz` under `counts`
    or `probs`, or as its only array of two axes); rows are brought to a sum of 1.
    """
    path = files.expanded(path)
    array = _read(path)
    if not np.issubdtype(array.dtype, np.number) or np.issubdtype(array.dtype, np.complexfloating):
        raise NesbsError(f"{path}: human labels must be counts or probabilities, found {array.dtype}")
    if array.shape != (len(split), split.classes):
        raise NesbsError(
            f"{path}: human labels must be (test images, classes) = ({len(split)}, {split.classes}), found "
            f"{array.shape}: take all test images (data.test_limit=null) of the data set they belong to"
        )
    counts = torch.from_numpy(array.astype(np.float64))
    bad = ~(counts.isfinite().all(-1) & (counts >= 0).all(-1) & (counts.sum(-1) > 0))
    if bool(bad.any()):
        raise NesbsError(
            f"{path}: human labels must be numbers, none negative, not all zero; row {int(bad.nonzero()[0])} is not"
        )
    return (counts / counts.sum(-1, keepdim=True)).to(split.device)


def agreement(log_probs: Tensor, human: Tensor) -> list[dict[str, float]]:
    """Return distances to people for each network: (networks, images, classes) and (images, classes) to plain data.

    >>> [row] = agreement(torch.tensor([[[0.5, 0.5]]]).log(), torch.tensor([[1.0, 0.0]]))
    >>> {name: round(value, 4) for name, value in row.items()}
    {'cross_entropy': 0.6931, 'kl_divergence': 0.6931, 'total_variation': 0.5}
    """
    columns = {
        measure.__name__: measure(log_probs, human).tolist()
        for measure in (metrics.cross_entropy, metrics.kl_divergence, metrics.total_variation)
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def about_people(human: Tensor, labels: Tensor) -> dict[str, Any]:
    """Return how often most people did not choose the label, and how undecided they were.

    Both are large where the order of classes or images is not the data set's.
    """
    log_probs = human.log()
    return {"error": float(metrics.error(log_probs, labels)), "entropy": float(metrics.entropy(log_probs).mean())}


def _read(path: Path) -> np.ndarray:
    if not path.is_file():
        raise NesbsError(f"there is no file {path}: evaluation.human names an .npy or .npz file of human labels")
    arrays = read_arrays(path, LARGEST)
    tables: list[np.ndarray] = [array for array in arrays.values() if array.ndim == 2]
    named = [arrays[key] for key in KEYS if key in arrays]
    if named or len(tables) == 1:
        return named[0] if named else tables[0]
    raise NesbsError(f"{path}: needs an array counts or probs, found {', '.join(arrays) or 'none'}")
