"""The same images in grey or in colour, and at another size."""

import torch

from nesbs.data.split import Split

LUMINANCE = (0.299, 0.587, 0.114)  # of red, green, blue; ITU-R BT.601, as Pillow's mode L


def converted(split: Split, *, channels: int, size: tuple[int, int]) -> Split:
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
        if split.size != size:
            pixels = torch.nn.functional.interpolate(pixels, size, mode="bilinear", antialias=True, align_corners=False)
        images[part] = pixels.round().clamp(0, 255).to(torch.uint8)
    return Split(images, split.labels, split.class_names, split.mean, split.std)
