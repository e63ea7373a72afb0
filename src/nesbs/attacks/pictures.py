"""Pictures of what an attack did, as text that a record can hold."""

import base64
import io
from typing import Any

from PIL import Image
from torch import Tensor

from nesbs.attacks.defence import AttackedBatch


class Album:
    """Keeps pictures of the first images that an attack broke: clean, perturbed, and their difference."""

    def __init__(self, wanted: int, class_names: tuple[str, ...]) -> None:
        self.pictures: list[dict[str, Any]] = []
        self._wanted = wanted
        self._names = class_names

    def add(self, batch: AttackedBatch) -> None:
        """Add pictures of images that were right before the attack and are wrong after it, up to the number wanted."""
        for place in ((batch.before == batch.labels) & (batch.after != batch.labels)).nonzero()[:, 0].tolist():
            if len(self.pictures) == self._wanted:
                return
            change = batch.perturbed[place] - batch.images[place]
            largest = float(change.abs().max())
            self.pictures.append(
                {
                    "label": self._names[int(batch.labels[place])],
                    "attacked": self._names[int(batch.after[place])],
                    "ensemble": self._names[int(batch.ensemble[place])],
                    "largest": largest,
                    "clean": png(batch.images[place]),
                    "perturbed": png(batch.perturbed[place]),
                    "difference": png(0.5 + change / (2 * max(largest, 1e-12))),
                }
            )


def png(image: Tensor) -> str:
    """An image (channels, height, width) in [0, 1] as a PNG file in base64.

    >>> import torch
    >>> png(torch.zeros(1, 2, 2))[:8]
    'iVBORw0K'
    """
    pixels = image.mul(255).round().byte().permute(1, 2, 0).cpu().numpy()
    with io.BytesIO() as file:
        Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels).save(file, "PNG")
        return base64.b64encode(file.getvalue()).decode("ascii")
