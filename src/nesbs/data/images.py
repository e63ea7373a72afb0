"""Image files: what their header says, and how they become square images of one size."""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from nesbs.errors import NesbsError, printable

Mode = Literal["L", "RGB"]  # grey or colour, in Pillow's words
AREA = (0.08, 1.0)  # of a random crop, as a share of the image (ImageNet practice since Inception)
RATIO = (3 / 4, 4 / 3)  # width to height of a random crop
TRIES = 10  # before a random crop that fits is given up for the middle square
FAINT = 4096  # of 65535: below it a file of 16 bits has fewer than 16 shades of grey left in bytes
LONG = 4096  # pixels a side up to which an image of any shape is padded before it is resized


@dataclass
class Broken:
    """Images that could not be read, with the reason; more than `limit` of them are an error."""

    limit: int
    reasons: dict[str, str] = field(default_factory=dict)  # by file

    def add(self, file: str, reason: str) -> bool:
        """Remember an image; return whether it is a new one."""
        new = file not in self.reasons
        self.reasons.setdefault(file, reason)
        return new

    def check(self) -> None:
        """Raise when there are too many."""
        if len(self.reasons) > self.limit:
            first = "; ".join(list(self.reasons.values())[:3])
            raise NesbsError(
                f"{len(self.reasons)} images cannot be read, more than data.broken_limit={self.limit}: {first}"
                f"{'; …' if len(self.reasons) > 3 else ''}: mend them, take them out or raise data.broken_limit"
            )


@dataclass(frozen=True)
class View:
    """How a file becomes an image of (channels, side, side) bytes.

    `crop` takes the middle square, `share` of the shorter side; `stretch` and `pad` take the whole image and
    change its proportions or put black bars beside it.
    """

    mode: Mode
    side: int
    resize: Literal["crop", "stretch", "pad"] = "crop"
    share: float = 1.0

    @property
    def channels(self) -> int:
        """1 for grey, 3 for colour."""
        return 1 if self.mode == "L" else 3

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return self.side, self.side

    def read(self, file: str, seed: int | None = None) -> np.ndarray:
        """Read one image; with a `seed`, a random part of it instead (`random_box`)."""
        with opened(file) as image:
            return self.pixels(image, seed)

    def pixels(self, image: Image.Image, seed: int | None = None) -> np.ndarray:
        """Return an opened image as the networks see it; training and prediction both come through here.

        >>> View("RGB", 8).pixels(Image.new("L", (30, 20))).shape
        (3, 8, 8)
        """
        image = upright(image, self.mode)
        if seed is None and self.resize != "crop" and is_strip(*image.size):
            image = _shortened(image, self.side, proportional=self.resize == "pad")
        if seed is not None:
            image = image.crop(random_box(*image.size, seed=seed))
        elif self.resize != "stretch":
            side = max(image.size) if self.resize == "pad" else max(1, round(min(image.size) * self.share))
            image = image.crop(_middle(*image.size, side))  # black beyond the image's edges
        return channels_first(image.resize((self.side, self.side), Image.Resampling.BILINEAR))


def upright(image: Image.Image, mode: Mode) -> Image.Image:
    """Return an image turned as its EXIF data say, in grey or in colour; of more than 8 bits by its upper byte."""
    turned: Image.Image = ImageOps.exif_transpose(image)
    if turned.mode.startswith("I") or turned.mode == "F":
        turned = _to_bytes(turned)
    if turned.mode == "P" and "transparency" in turned.info:
        turned = turned.convert("RGBA")  # the same colours; Pillow warns of any other way
    return turned.convert(mode)


def channels_first(image: Image.Image) -> np.ndarray:
    """Return the bytes of a grey or colour image, (channels, height, width)."""
    pixels = np.asarray(image)
    return pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)


def is_strip(width: int, height: int) -> bool:
    """Whether an image is so long and thin that a square as long as it would be far larger than the image.

    >>> is_strip(4096, 1), is_strip(10_000, 5000), is_strip(10_000, 4000)
    (False, False, True)
    """
    return max(width, height) > max(LONG, 2 * min(width, height))


def read_header(file: str) -> tuple[int, bool]:
    """Read an image's shorter side and whether it is grey, from its header alone."""
    with opened(file) as image:
        return min(image.size), image.mode in ("1", "L", "LA", "I", "F") or image.mode.startswith("I;16")


@contextlib.contextmanager
def opened(file: str) -> Iterator[Image.Image]:
    """Open an image file; an error while it is open names the file. What is no file (a pipe, a device) stays shut."""
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise ValueError("it is not a file")
        with Image.open(file) as image:
            yield image
    except Exception as error:
        raise unreadable(file, error) from None


def unreadable(name: str, error: Exception) -> NesbsError:
    """What to say of an image that could not be read: decoders of a dozen formats raise whatever it leads them to."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if isinstance(error, UnidentifiedImageError):
        reason = "cannot identify its format: damaged, or to be saved as .png or .jpg"
    return NesbsError(printable(f"{name} cannot be read as an image ({reason})"))


def random_box(width: int, height: int, *, seed: int) -> tuple[int, int, int, int]:
    """Draw a random part of an image as (left, top, right, bottom): 8 to 100 % of its area, at most 4:3 or 3:4.

    It depends on the size and the seed alone.

    >>> left, top, right, bottom = random_box(400, 300, seed=0)
    >>> 0 <= left < right <= 400 and 0 <= top < bottom <= 300
    True
    """
    draws = np.random.default_rng(seed).random((TRIES, 4))
    for area, ratio, across, down in draws:
        pixels = width * height * (AREA[0] + (AREA[1] - AREA[0]) * area)
        shape = RATIO[0] * (RATIO[1] / RATIO[0]) ** ratio
        w, h = round((pixels * shape) ** 0.5), round((pixels / shape) ** 0.5)
        if 0 < w <= width and 0 < h <= height:
            left, top = int(across * (width - w + 1)), int(down * (height - h + 1))
            return left, top, left + w, top + h
    return _middle(width, height, min(width, height))


def _middle(width: int, height: int, side: int) -> tuple[int, int, int, int]:
    """A square of `side` pixels around the middle of an image."""
    left, top = int((width - side) / 2), int((height - side) / 2)
    return left, top, left + side, top + side


def _shortened(image: Image.Image, side: int, *, proportional: bool) -> Image.Image:
    """A strip brought to `side` pixels along its longer way (and across in proportion).

    Padding it first would take the longer way squared; so would stretching it, which goes across first.
    """
    scale = side / max(image.size) if proportional else 1.0
    width, height = (side if length == max(image.size) else max(1, round(length * scale)) for length in image.size)
    return image.resize((width, height), Image.Resampling.BILINEAR)


def _to_bytes(image: Image.Image) -> Image.Image:
    """A grey image of more than 8 bits, by its upper byte (converting would cut everything above 255 to white)."""
    values = np.asarray(image).astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError("some of its pixels are not numbers")
    least, largest = values.min(initial=0), values.max(initial=0)
    if least < 0 or largest > 65535:
        raise ValueError(f"its pixels lie between {least:g} and {largest:g}: save it with bytes from 0 to 255")
    if image.mode == "F" and 0 < largest <= 1:
        raise ValueError("its pixels are floats from 0 to 1: save it with bytes from 0 to 255")
    sixteen = image.mode.startswith("I;16") or largest > 255
    if sixteen and 0 < largest < FAINT:  # bytes or 12 bits in a file of 16, which would be nearly black
        raise ValueError(f"its pixels go up to {largest:g} of 65535: save it with bytes from 0 to 255")
    scale = 257 if sixteen else 1
    return Image.fromarray((values / scale).clip(0, 255).astype(np.uint8))
