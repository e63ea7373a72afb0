"""Image corruptions of five severities, made on the fly.

The set is our own, so its figures cannot be compared with those of others.
Every corruption takes images (images, channels, height, width) in [0, 1], grey or colour, a strength and a
generator on their device, and returns images of the same shape, kind and range. Lengths in pixels are for sides
of 32 and grow with the shorter side. From the same generator state every severity draws the same noise (shot noise
excepted), so that one differs from the next by its strength alone.
"""

import io
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Generator, Tensor

from nesbs.data.conversion import LUMINANCE
from nesbs.errors import NesbsError, did_you_mean, named

SEVERITIES = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Corruption:
    """What is done to the images, and how strongly at severities 1 to 5 (chosen by eye on images of 28 and 32)."""

    apply: Callable[[Tensor, float, Generator], Tensor]
    strengths: tuple[float, float, float, float, float]
    needs_colour: bool = False


def corrupt(images: Tensor, name: str, severity: int, *, generator: Generator) -> Tensor:
    """Corrupt images (images, channels, height, width) in [0, 1] by one of `CORRUPTIONS`, at a severity from 1 to 5.

    >>> random = torch.Generator().manual_seed(0)
    >>> corrupt(torch.full((1, 1, 4, 4), 0.5), "brightness", 1, generator=random).max()
    tensor(0.6000)
    """
    check_names([name])
    if severity not in SEVERITIES:
        raise NesbsError(f"a severity is 1, 2, 3, 4 or 5, found {severity}")
    corruption = CORRUPTIONS[name]
    if corruption.needs_colour and images.shape[1] != 3:
        raise NesbsError(f"corruption {name} needs colour images, found {images.shape[1]} channel")
    return corruption.apply(images, corruption.strengths[severity - 1], generator).clamp(0, 1)


def check_names(names: object) -> None:
    """Raise where a name is not that of a corruption."""
    for name in names if isinstance(names, list | tuple) else [names]:
        if name not in CORRUPTIONS:
            raise NesbsError(f"unknown corruption {named(str(name))}: {did_you_mean(str(name), CORRUPTIONS)}")


def usable(names: tuple[str, ...], channels: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the corruptions that work with so many channels, and those that do not.

    >>> usable(("fog", "saturation"), 1)
    (('fog',), ('saturation',))
    """
    skipped = tuple(name for name in names if CORRUPTIONS[name].needs_colour and channels != 3)
    return tuple(name for name in names if name not in skipped), skipped


def _gaussian_noise(images: Tensor, deviation: float, random: Generator) -> Tensor:
    return images + deviation * torch.randn(images.shape, generator=random, dtype=images.dtype, device=images.device)


def _shot_noise(images: Tensor, deviation: float, random: Generator) -> Tensor:
    """Poisson noise; `deviation` is that of a white pixel."""
    photons = 1 / deviation**2
    return torch.poisson(images * photons, generator=random) / photons


def _impulse_noise(images: Tensor, share: float, random: Generator) -> Tensor:
    """A share of all values becomes black or white, half of it each."""
    drawn = _uniform(images, images.shape, random)
    images = images.masked_fill(drawn < share / 2, 0)
    return images.masked_fill(drawn > 1 - share / 2, 1)


def _gaussian_blur(images: Tensor, deviation: float, random: Generator) -> Tensor:
    deviation *= _scale(images)
    reach = math.ceil(3 * deviation)
    weights = torch.exp(-_offsets(images, reach).square() / (2 * deviation**2))
    return _filtered(_filtered(images, weights[:, None]), weights[None])


def _defocus_blur(images: Tensor, radius: float, random: Generator) -> Tensor:
    """The mean over a disc with a soft edge of one pixel."""
    radius *= _scale(images)
    offsets = _offsets(images, math.ceil(radius))
    distance = (offsets[:, None].square() + offsets.square()).sqrt()
    return _filtered(images, (radius + 0.5 - distance).clamp(0, 1))


def _motion_blur(images: Tensor, length: float, random: Generator) -> Tensor:
    """The mean along a line of so many pixels; every image has a direction of its own."""
    length *= _scale(images)
    angle = math.pi * _uniform(images, (len(images),), random)
    steps = torch.linspace(-length / 2, length / 2, 2 * math.ceil(length) + 1).tolist()
    height, width = images.shape[2:]
    # A grid's unit is half a side.
    direction = torch.stack([2 * angle.cos() / width, 2 * angle.sin() / height], -1)[:, None, None]
    grid = _grid(images)
    return sum((_sampled(images, grid + step * direction) for step in steps), torch.zeros_like(images)) / len(steps)


def _fog(images: Tensor, density: float, random: Generator) -> Tensor:
    """Images fade into light grey clouds: waves of a half, a quarter, … of the side, each half as strong."""
    clouds = torch.stack([_waves(images, 1, cells, random) / cells for cells in (2, 4, 8)]).sum(0)
    low, high = clouds.amin((2, 3), keepdim=True), clouds.amax((2, 3), keepdim=True)
    return torch.lerp(images, 0.6 + 0.4 * (clouds - low) / (high - low).clamp_min(1e-6), density)


def _contrast(images: Tensor, lost: float, random: Generator) -> Tensor:
    """Values draw nearer to the image's mean."""
    return torch.lerp(images, images.mean((1, 2, 3), keepdim=True), lost)


def _saturation(images: Tensor, lost: float, random: Generator) -> Tensor:
    """Colours draw nearer to the grey of their luminance."""
    weights = torch.tensor(LUMINANCE, dtype=images.dtype, device=images.device)
    return torch.lerp(images, torch.einsum("ichw,c->ihw", images, weights)[:, None], lost)


def _pixelate(images: Tensor, lost: float, random: Generator) -> Tensor:
    """Shown on so many fewer rows and columns; a pixel that two of the large ones share is their mix."""

    def mosaic(length: int) -> Tensor:
        """(length, length): means over large pixels by their overlap, laid over the small ones by the same."""
        count = max(1, round(length * (1 - lost)))
        large, small = (torch.linspace(0, 1, number + 1, dtype=images.dtype) for number in (count, length))
        overlap = torch.minimum(large[1:, None], small[1:]) - torch.maximum(large[:-1, None], small[:-1])
        overlap = overlap.clamp_min(0).to(images.device)
        return length * count * overlap.T @ overlap

    return mosaic(images.shape[2]) @ images @ mosaic(images.shape[3])


def _jpeg(images: Tensor, lost: float, random: Generator) -> Tensor:
    """Saved and loaded with the quality 100 less what is lost."""
    planes = images.mul(255).round().byte().permute(0, 2, 3, 1).cpu().numpy()
    grey = planes.shape[-1] == 1
    loaded = []
    for plane in planes[..., 0] if grey else planes:
        with io.BytesIO() as file:
            Image.fromarray(plane).save(file, "JPEG", quality=round(100 - lost))
            loaded.append(np.asarray(Image.open(file)))
    stacked = torch.from_numpy(np.stack(loaded)).to(images)
    return (stacked[:, None] if grey else stacked.permute(0, 3, 1, 2)) / 255


def _rotation(images: Tensor, degrees: float, random: Generator) -> Tensor:
    """Turned by so many degrees, to the left or to the right."""
    side = torch.where(_uniform(images, (len(images),), random) < 0.5, -1, 1)
    turn = side * math.radians(degrees)
    height, width = images.shape[2:]
    # In pixels a rotation; the grid's unit is half a side, which differs between height and width.
    rows = (turn.cos(), -turn.sin() * height / width), (turn.sin() * width / height, turn.cos())
    matrix = torch.stack([torch.stack([*row, torch.zeros_like(turn)], -1) for row in rows], 1)
    return _sampled(images, F.affine_grid(matrix.to(images), list(images.shape), align_corners=False))


def _elastic(images: Tensor, pixels: float, random: Generator) -> Tensor:
    """Every point moves by a smooth field of about so many pixels."""
    height, width = images.shape[2:]
    unit = torch.tensor([2 / width, 2 / height], dtype=images.dtype, device=images.device)
    moved = (2 * _waves(images, 2, 5, random) - 1).permute(0, 2, 3, 1) * pixels * _scale(images)
    return _sampled(images, _grid(images) + moved * unit)


CORRUPTIONS = {
    "gaussian-noise": Corruption(_gaussian_noise, (0.04, 0.08, 0.12, 0.18, 0.26)),
    "shot-noise": Corruption(_shot_noise, (0.08, 0.14, 0.2, 0.3, 0.42)),
    "impulse-noise": Corruption(_impulse_noise, (0.02, 0.05, 0.09, 0.15, 0.24)),
    "gaussian-blur": Corruption(_gaussian_blur, (0.5, 0.8, 1.1, 1.5, 2.1)),
    "defocus-blur": Corruption(_defocus_blur, (0.9, 1.4, 1.9, 2.5, 3.3)),
    "motion-blur": Corruption(_motion_blur, (2.0, 3.5, 5.0, 7.0, 10.0)),
    "fog": Corruption(_fog, (0.2, 0.35, 0.5, 0.62, 0.74)),
    "brightness": Corruption(lambda images, added, _: images + added, (0.1, 0.2, 0.3, 0.4, 0.5)),
    "contrast": Corruption(_contrast, (0.3, 0.5, 0.65, 0.78, 0.88)),
    "saturation": Corruption(_saturation, (0.3, 0.5, 0.7, 0.85, 1.0), needs_colour=True),
    "pixelate": Corruption(_pixelate, (0.2, 0.35, 0.5, 0.62, 0.72)),
    "jpeg": Corruption(_jpeg, (40, 60, 75, 86, 94)),
    "rotation": Corruption(_rotation, (6, 12, 18, 25, 35)),
    "elastic": Corruption(_elastic, (1.0, 1.8, 2.6, 3.6, 5.0)),
}


def _scale(images: Tensor) -> float:
    """Pixels of an image for a pixel of one of side 32."""
    return min(images.shape[2:]) / 32


def _uniform(images: Tensor, shape: tuple[int, ...], random: Generator) -> Tensor:
    return torch.rand(shape, generator=random, dtype=images.dtype, device=images.device)


def _waves(images: Tensor, channels: int, cells: int, random: Generator) -> Tensor:
    """Smooth noise about [0, 1], (images, channels, height, width), of so many cells a side."""
    coarse = _uniform(images, (len(images), channels, cells + 1, cells + 1), random)
    return F.interpolate(coarse, images.shape[2:], mode="bicubic", align_corners=True)


def _offsets(images: Tensor, reach: int) -> Tensor:
    return torch.arange(-reach, reach + 1, dtype=images.dtype, device=images.device)


def _filtered(images: Tensor, weights: Tensor) -> Tensor:
    """Every channel under a window (height, width) of weights, brought to a sum of 1; edges are repeated."""
    down, across = (side // 2 for side in weights.shape)
    padded = F.pad(images, (across, across, down, down), mode="replicate")
    kernel = (weights / weights.sum()).expand(images.shape[1], 1, *weights.shape)
    return F.conv2d(padded, kernel, groups=images.shape[1])


def _grid(images: Tensor) -> Tensor:
    """Where every pixel lies, (1, height, width, 2); the unit is half a side."""
    same = torch.eye(2, 3, dtype=images.dtype, device=images.device)[None]
    return F.affine_grid(same, [1, *images.shape[1:]], align_corners=False)


def _sampled(images: Tensor, grid: Tensor) -> Tensor:
    """Values at the places of a grid (images, height, width, 2), bilinear; outside, the edge is repeated."""
    grid = grid.expand(len(images), -1, -1, -1)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)
