"""Batches made on the device: one shuffle an epoch; crop, flip and cutout as index arithmetic, colour jitter."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from nesbs.data.sample_weights import shown
from nesbs.data.split import Split
from nesbs.data.streaming import FileImages

AHEAD = 16  # batches made at once on a GPU
LUMA = (0.299, 0.587, 0.114)  # how light red, green and blue are (ITU-R BT.601)


@dataclass(frozen=True)
class Share:
    """The images of every batch that this process trains on, where several train one network: an equal part.

    Random numbers are drawn for whole batches everywhere, so an image is changed as it would be by one process alone.
    """

    number: int = 0  # of this process, from 0
    count: int = 1  # of processes
    batch_size: int = 1  # of the whole batch

    def of(self, whole: Tensor) -> Tensor:
        """Return this part of each of the batches that lie one after the other along the first axis.

        >>> Share(number=1, count=2, batch_size=4).of(torch.arange(8))
        tensor([2, 3, 6, 7])
        """
        if self.count == 1:
            return whole
        parts = whole.reshape(-1, self.count, self.batch_size // self.count, *whole.shape[1:])
        return parts[:, self.number].flatten(0, 1)


ALL = Share()


def batches(
    split: Split,
    batch_size: int,
    *,
    generator: torch.Generator,
    crop: int = 0,
    flip: bool = False,
    colour_jitter: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0),
    cutout: int = 0,
    share: Share = ALL,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield one epoch of shuffled batches: images (batch, channels, height, width) in [0, 1], labels (batch,).

    All batches have the same size; what does not fill one waits for the next epoch's shuffle. A split
    smaller than a batch is one batch. `generator` is on the split's device. Streamed images are read ahead by
    processes; how many there are changes nothing in what comes. Where the split has `sample_weights`, images come in
    proportion to them (`shown`). With a `share` each batch is that part of it.
    """
    order = torch.randperm(len(split), generator=generator, device=split.device)
    if split.sample_weights is not None:
        order = shown(order, split.sample_weights, generator=generator)
    size = min(batch_size, len(split))
    used = order[: size * steps_per_epoch(split, batch_size)]
    parts = list(used.split(size * _ahead(split, size)))
    for index, stored in zip(map(share.of, parts), _stored(split, parts, generator, share), strict=True):
        images = stored.float().div_(255)
        if crop or flip:
            images = augment(images, crop=crop, flip=flip, generator=generator, share=share)
        if any(colour_jitter):
            images = jitter_colours(images, colour_jitter, generator=generator, share=share)
        if cutout:
            images = cut_out(images, cutout, fill=split.mean, generator=generator, share=share)
        own = size // share.count
        yield from zip(images.split(own), split.labels[index].split(own), strict=True)


def _ahead(split: Split, size: int) -> int:
    """How many batches are made at once: on a GPU several, since launching the work takes longer than doing it."""
    if split.device.type != "cuda" or split.streamed:
        return 1
    height, width = split.size
    return max(1, min(AHEAD, 2**25 // (size * split.channels * height * width)))


def _stored(split: Split, parts: list[Tensor], generator: torch.Generator, share: Share) -> Iterator[Tensor]:
    """This process's share of the images of each part, as bytes."""
    if isinstance(split.stored, FileImages):
        files = parts if split.index is None else [split.index[part] for part in parts]
        return split.stored.batches(files, generator=generator, keep=share.of)
    return (split.bytes(share.of(part)) for part in parts)


def steps_per_epoch(split: Split, batch_size: int) -> int:
    """Return how many batches `batches` yields."""
    return max(1, len(split) // batch_size)


def augment(images: Tensor, *, crop: int, flip: bool, generator: torch.Generator, share: Share = ALL) -> Tensor:
    """Shift each image by up to `crop` pixels (black comes in from outside) and mirror it half the time.

    Here and below, `images` are a `share` of those for which random numbers are drawn.

    >>> random = torch.Generator().manual_seed(0)
    >>> augment(torch.ones(4, 3, 8, 8), crop=2, flip=True, generator=random).shape
    torch.Size([4, 3, 8, 8])
    """
    batch, _, height, width = images.shape
    device = images.device
    padded = torch.nn.functional.pad(images, (crop, crop, crop, crop))
    whole = batch * share.count
    top, left = map(share.of, torch.randint(0, 2 * crop + 1, (2, whole, 1), generator=generator, device=device))
    rows = top + torch.arange(height, device=device)
    columns = torch.arange(width, device=device).expand(batch, width)
    if flip:
        mirrored = share.of(torch.rand(whole, 1, generator=generator, device=device)) < 0.5
        columns = torch.where(mirrored, width - 1 - columns, columns)
    columns = left + columns
    image = torch.arange(batch, device=device)[:, None, None]
    # Indices around a slice put the indexed axes first: (batch, height, width, channels).
    return padded[image, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()


def jitter_colours(
    images: Tensor,
    strengths: tuple[float, float, float, float],
    *,
    generator: torch.Generator,
    share: Share = ALL,
) -> Tensor:
    """Change brightness, contrast, saturation and hue of each image in [0, 1] at random, each by up to its strength.

    The first three are multiplied by 1 ± strength (contrast around the image's mean lightness, saturation around each
    pixel's), the hue is turned by up to ± strength of the colour circle. Images of one channel have neither saturation
    nor hue. These are the changes of torchvision's `ColorJitter`, by which P-DARTS trains on ImageNet; there their
    order is drawn for each image, here it is always this one.

    >>> random = torch.Generator().manual_seed(0)
    >>> jitter_colours(torch.rand(4, 3, 8, 8), (0.4, 0.4, 0.4, 0.2), generator=random).shape
    torch.Size([4, 3, 8, 8])
    """
    shape = (len(strengths), len(images) * share.count, 1, 1, 1)
    changes = 2 * torch.rand(shape, generator=generator, device=images.device) - 1
    brightness, contrast, saturation, turn = (
        strength * share.of(change) for strength, change in zip(strengths, changes, strict=True)
    )
    images = (images * (1 + brightness)).clamp(0, 1)
    grey = lightness(images).mean((2, 3), keepdim=True)
    images = (grey + (images - grey) * (1 + contrast)).clamp(0, 1)
    if images.shape[1] != len(LUMA):
        return images
    grey = lightness(images)
    return turn_hue((grey + (images - grey) * (1 + saturation)).clamp(0, 1), turn)


def lightness(images: Tensor) -> Tensor:
    """Return how light each pixel is, (batch, 1, height, width); images of one channel as they are."""
    if images.shape[1] != len(LUMA):
        return images
    return torch.einsum("bchw,c->bhw", images, images.new_tensor(LUMA))[:, None]


def turn_hue(images: Tensor, turn: Tensor) -> Tensor:
    """Turn the hue of every pixel by a share of the colour circle, (batch, 1, 1, 1); lightest and darkest part stay.

    >>> red = torch.tensor([1.0, 0.0, 0.0]).view(1, 3, 1, 1)
    >>> turn_hue(red, torch.full((1, 1, 1, 1), 1 / 3)).flatten().round(decimals=4)  # green
    tensor([0., 1., 0.])
    """
    red, green, blue = images.split(1, 1)
    high, low = images.amax(1, keepdim=True), images.amin(1, keepdim=True)
    span = high - low
    divisor = span.masked_fill(span == 0, 1)  # greys have no hue, and need none
    hue = torch.where(
        high == red,
        (green - blue) / divisor,
        torch.where(high == green, 2 + (blue - red) / divisor, 4 + (red - green) / divisor),
    )
    # From hue (in sixths of the circle) to red, green, blue: low for two sixths, high for two, between them else.
    sixths = (hue + 6 * turn + images.new_tensor([5.0, 3.0, 1.0]).view(1, 3, 1, 1)) % 6
    return high - span * torch.minimum(sixths, 4 - sixths).clamp(0, 1)


def cut_out(images: Tensor, side: int, *, fill: Tensor, generator: torch.Generator, share: Share = ALL) -> Tensor:
    """Cover a square of `side` pixels of each image with `fill` (channels,), the data set's mean colour.

    Its centre is anywhere in the image, so part of the square may lie outside (Cutout, as DARTS uses it: the
    zero it writes after normalisation is the mean before it).

    >>> random = torch.Generator().manual_seed(0)
    >>> cut_out(torch.ones(1, 1, 8, 8), 16, fill=torch.zeros(1), generator=random).sum()
    tensor(0.)
    """
    batch, _, height, width = images.shape
    device = images.device

    def covered(length: int) -> Tensor:
        drawn = torch.randint(0, length, (batch * share.count, 1), generator=generator, device=device)
        start = share.of(drawn) - side // 2
        place = torch.arange(length, device=device)
        return (place >= start) & (place < start + side)

    square = covered(height)[:, None, :, None] & covered(width)[:, None, None, :]
    return torch.where(square, fill[:, None, None], images)
