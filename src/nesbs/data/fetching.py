"""Fetching CIFAR-10 and CIFAR-100 through torchvision's own downloader (extra `vision`)."""

from __future__ import annotations

import importlib
from pathlib import Path

from nesbs.data.cifar import CIFAR10, CIFAR100
from nesbs.data.settings import DATASETS
from nesbs.errors import NesbsError, did_you_mean

DOWNLOADERS = {"cifar10": (CIFAR10, "CIFAR10"), "cifar100": (CIFAR100, "CIFAR100")}  # torchvision.datasets' names
ELSEWHERE = {
    "fashion-mini": "is inside the package: there is nothing to fetch",
    "imagenet": "is given out by image-net.org to those who register: unpack ILSVRC 2012 into train/ and val/",
    "imagenet16-120": "is given out with NAS-Bench-201 (github.com/D-X-Y/NAS-Bench-201): unpack it into ImageNet16/",
}


def download(name: str, root: Path) -> bool:
    """Fetch a named data set into `root` unless it is there; return whether it was fetched."""
    if name in ELSEWHERE:
        raise NesbsError(f"--download: {name} {ELSEWHERE[name]}")
    if name not in DOWNLOADERS:
        raise NesbsError(f"--download takes a named data set, found {name}: {did_you_mean(name, DATASETS)}")
    layout, torchvision_name = DOWNLOADERS[name]
    if any((root / folder).is_dir() for folder in (layout.binary, layout.python)):
        return False
    try:
        datasets = importlib.import_module("torchvision.datasets")
    except ModuleNotFoundError:
        raise NesbsError("--download needs torchvision: install it with `pip install 'nesbs[vision]'`") from None
    except Exception as error:  # its compiled part does not fit every torch
        raise NesbsError(
            f"--download: torchvision is installed but cannot be imported ({_first_line(error)}): install the one "
            "made for this torch with `pip install 'nesbs[vision]'`"
        ) from None
    try:
        root.mkdir(parents=True, exist_ok=True)
        getattr(datasets, torchvision_name)(root=str(root), download=True)
    except (OSError, RuntimeError, EOFError) as error:
        raise NesbsError(
            f"--download: {name} could not be fetched ({_first_line(error)}): is there a network? Else copy "
            f"{layout.binary} or {layout.python} into {root}"
        ) from None
    return True


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
