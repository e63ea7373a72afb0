"""CIFAR-10 in its official binary layout: `cifar-10-batches-bin` below `root`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from nesbs.data.split import Split, make_split
from nesbs.errors import NesbsError

FOLDER = "cifar-10-batches-bin"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
RECORD = 1 + 3 * 32 * 32  # a label byte, then red, green and blue planes


def load_cifar10(root: Path) -> tuple[Split, Split]:
    """Training (50,000) and test (10,000) part."""
    folder = root / FOLDER
    if not folder.is_dir():
        raise NesbsError(f"{root} has no folder {FOLDER}: unpack the CIFAR-10 binary release there (data.root)")
    batches = [_read(folder / f"data_batch_{number}.bin") for number in range(1, 6)]
    images, labels = (torch.cat(parts) for parts in zip(*batches, strict=True))
    train = make_split(images, labels, CLASSES, source=str(folder))
    return train, make_split(*_read(folder / "test_batch.bin"), CLASSES, source=str(folder), like=train)


def _read(path: Path) -> tuple[torch.Tensor, torch.Tensor]:
    if not path.is_file():
        raise NesbsError(f"there is no file {path}")
    blob = np.frombuffer(bytearray(path.read_bytes()), dtype=np.uint8)
    if len(blob) == 0 or len(blob) % RECORD:
        raise NesbsError(
            f"{path} is {len(blob)} bytes long, not a multiple of {RECORD}: it is cut short, copy it again"
        )
    records = torch.from_numpy(blob.reshape(-1, RECORD))
    return records[:, 1:].reshape(-1, 3, 32, 32).contiguous(), records[:, 0].long()
