"""Images as people have them, one at a time: paths, Pillow's images, arrays and tensors.

What can be read in two ways is refused: numbers that are no bytes (0 to 1, or 0 to 255?), and shapes in which the
channels could be two of the axes, or none.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from PIL import Image
from torch import Tensor

from nesbs.data.conversion import ArrayView
from nesbs.data.images import View, unreadable
from nesbs.errors import NesbsError, expect, printable

CHANNELS = (1, 3, 4)  # grey, colour, colour with transparency, which is left out
ImageInput = str | os.PathLike[str] | Image.Image | np.ndarray | Tensor
KINDS = (str, os.PathLike, Image.Image, np.ndarray, Tensor)
EXPECTED = "images must be a path, a Pillow image, a uint8 array or tensor, or a list of these"
BYTES = "(for floats from 0 to 1: multiply by 255, round, convert to uint8)"


@dataclass(frozen=True)
class _Layout:
    """Where an array or a tensor has its channels, and how to say so."""

    kind: str
    last: bool

    def one(self, shape: Sequence[int]) -> bool:
        """Whether this is the shape of one image with channels, and of nothing else."""
        channels, other = (shape[-1], shape[0]) if self.last else (shape[0], shape[-1])
        return channels in CHANNELS and other not in CHANNELS

    def refuse(self, shape: Sequence[int], more: str = "") -> NoReturn:
        places = "(height, width, channels)" if self.last else "(channels, height, width)"
        raise NesbsError(
            f"an image as {self.kind} is (height, width) or {places} with {' or '.join(map(str, CHANNELS))} channels, "
            f"several have one axis more in front; found {tuple(shape)}{more}"
        )


ARRAY, TENSOR = _Layout("an array", last=True), _Layout("a tensor", last=False)


def listed(images: ImageInput | Sequence[ImageInput]) -> list[Callable[[View | ArrayView], np.ndarray]]:
    """Return a function for each image that makes it what the networks see, (channels, height, width) bytes.

    Nothing is read before it is called, so that thousands of files take no more memory than a few.

    >>> [image] = listed(np.zeros((30, 20, 3), dtype=np.uint8))
    >>> image(View("L", 8)).shape
    (1, 8, 8)
    """
    if isinstance(images, list | tuple):
        if not images:
            raise NesbsError("there are no images to predict: the list is empty")
        for one in images:
            expect(one, KINDS, EXPECTED)
        return [_reader(one, f"image {place}") for place, one in enumerate(images)]
    expect(images, KINDS, EXPECTED)
    if isinstance(images, np.ndarray | Tensor):
        return [_reader(one, f"image {place}") for place, one in enumerate(_separate(images))]
    return [_reader(images, "the image")]  # type: ignore[arg-type]


def _separate(images: np.ndarray | Tensor) -> Iterator[np.ndarray | Tensor]:
    """The images of one array or tensor."""
    layout, shape = (TENSOR if isinstance(images, Tensor) else ARRAY), tuple(images.shape)
    if len(shape) == 2 or (len(shape) == 3 and layout is ARRAY and layout.one(shape)):
        yield images
        return
    if len(shape) == 3:
        if shape[0] in ((3, 4) if layout is TENSOR else (3,)) or shape[-1] in CHANNELS:
            single = "[image]" if layout is TENSOR else "image.transpose(1, 2, 0)"
            several = "images[:, None]" if layout is TENSOR else "images[..., None]"
            layout.refuse(shape, f", which may be one image or several grey ones: give {single} or {several}")
    elif len(shape) != 4 or not layout.one(shape[1:]):
        layout.refuse(shape)
    if not len(images):
        raise NesbsError(f"there are no images to predict: found {layout.kind} of shape {shape}")
    yield from images


def _reader(image: ImageInput, name: str) -> Callable[[View | ArrayView], np.ndarray]:
    """What makes one image what the networks see."""
    if isinstance(image, str | os.PathLike):
        file = os.fspath(image)
        if not isinstance(file, str):
            raise NesbsError(f"a path must be text, found {file!r}")
        if os.path.isdir(file):
            raise NesbsError(printable(f"{file} is a folder: list its files, or use `nesbs predict`"))
        return lambda view: view.read(file)
    opened = image if isinstance(image, Image.Image) else _opened(image)

    def read(view: View | ArrayView) -> np.ndarray:
        try:
            return view.pixels(opened)
        except Exception as error:
            raise unreadable(name, error) from None

    return read


def _opened(image: np.ndarray | Tensor) -> Image.Image:
    """One image's array or tensor as Pillow has it."""
    layout = TENSOR if isinstance(image, Tensor) else ARRAY
    found = str(image.dtype).removeprefix("torch.")
    if found != "uint8":
        raise NesbsError(f"{layout.kind} of an image must hold bytes from 0 to 255 (uint8), found {found} {BYTES}")
    shape = tuple(image.shape)
    if (len(shape) == 3 and not layout.one(shape)) or len(shape) not in (2, 3) or 0 in shape:
        layout.refuse(shape)
    pixels = image.detach().cpu().numpy() if isinstance(image, Tensor) else image
    if pixels.ndim == 3:
        pixels = pixels if layout.last else pixels.transpose(1, 2, 0)
        pixels = pixels[..., 0] if pixels.shape[-1] == 1 else pixels
    return Image.fromarray(np.ascontiguousarray(pixels))
