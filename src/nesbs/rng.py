"""Randomness by name: a stream is a function of the seed and of what it is for, never of what ran before.

Resuming therefore needs no saved random state: epoch 7 of member 2 draws the same numbers whether the run
was interrupted or not.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def derive(seed: int, *names: str | int) -> int:
    """Derive a seed for one purpose, 63 bits, from the run's seed and the names of the purpose.

    >>> derive(0, "supernet", 1) == derive(0, "supernet", 1)
    True
    >>> derive(0, "supernet", 1) == derive(0, "supernet", 2)
    False
    """
    text = "\x1f".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """Make a fresh generator for one purpose, on one device.

    >>> a, b = generator(0, "crop"), generator(0, "crop")
    >>> bool((torch.rand(3, generator=a) == torch.rand(3, generator=b)).all())
    True
    """
    return torch.Generator(device=device).manual_seed(derive(seed, *names))


@contextmanager
def seeded(seed: int, *names: str | int) -> Iterator[None]:
    """Run a block under the CPU's global stream for one purpose (modules draw their weights from it)."""
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would keep the stack of this call for every kind of device that is not in use.
        torch.default_generator.manual_seed(derive(seed, *names))
        yield
