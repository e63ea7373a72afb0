"""The same images in grey or in colour, and at another size."""

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from nesbs.data.images import Mode, channels_first, opened, upright
from nesbs.data.split import Split

AnySplit = TypeVar("AnySplit", bound=Split)
LUMINANCE = (0.299, 0.587, 0.114)  # of red, green, blue; ITU-R BT.601, as Pillow's mode L


def converted(split: AnySplit, *, channels: int, size: tuple[int, int]) -> AnySplit:
    """Return the same images in grey (1) or colour (3 channels) at another size, (height, width).

    Grey becomes colour by repeating, colour grey by its luminance; sizes change by bilinear interpolation with
    antialiasing, and the sides' proportions with them. Mean and deviation stay as they are.
    """
    if (split.channels, split.size) == (channels, size):
        return split
    images = torch.empty(len(split), channels, *size, dtype=torch.uint8, device=split.device)
    for part in torch.arange(len(split), device=split.device).split(1000):  # floats take four times the room
        pixels = split.bytes(part).float()
        if split.channels == 3 and channels == 1:
            pixels = torch.einsum("ichw,c->ihw", pixels, torch.tensor(LUMINANCE, device=split.device))[:, None]
        elif split.channels == 1 and channels == 3:
            pixels = pixels.expand(-1, 3, -1, -1)
        images[part] = resized(pixels, size)
    return replace(split, stored=images, index=None)


def resized(pixels: Tensor, size: tuple[int, int]) -> Tensor:
    """Return images (images, channels, height, width) of values from 0 to 255 as bytes at another (height, width).

    >>> resized(torch.full((1, 1, 4, 4), 7.0), (2, 2)).flatten().tolist()
    [7, 7, 7, 7]
    """
    if tuple(pixels.shape[-2:]) != size:
        pixels = torch.nn.functional.interpolate(pixels, size, mode="bilinear", antialias=True, align_corners=False)
    return pixels.round().clamp(0, 255).to(torch.uint8)


@dataclass(frozen=True)
class ArrayView:
    """How an image becomes one like those of a data set that came as arrays: (channels, height, width) bytes.

    The whole image goes to `size` (height, width), as `converted` takes the data set's own images there.
    """

    mode: Mode
    size: tuple[int, int]

    def read(self, file: str) -> np.ndarray:
        """Read one image."""
        with opened(file) as image:
            return self.pixels(image)

    def pixels(self, image: Image.Image) -> np.ndarray:
        """Return an opened image as the networks see it.

        >>> ArrayView("L", (8, 12)).pixels(Image.new("RGB", (30, 20))).shape
        (1, 8, 12)
        """
        whole = torch.from_numpy(np.ascontiguousarray(channels_first(upright(image, self.mode)), dtype=np.float32))
        return resized(whole[None], self.size)[0].numpy()
