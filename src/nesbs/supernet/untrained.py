"""What untrained networks tell about architectures, at the depth that members have.

A supernet that ranks is shallow, and cannot see what becomes of an architecture when fifteen of its cells follow one
another. An untrained network of full depth can: change all images by the same little, and look at how the last
feature map changes. Where cells blur or saturate, it changes alike whatever the image; nothing that differs between
images arrives, and little can be learned. Where they carry the images through, every image is answered in its own
way. (In the spirit of Mellor et al., "Neural Architecture Search without Training", ICML 2021, whose first version
looked at the correlation of gradients; a change looked at forwards needs no gradients.)
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor

from nesbs import rng
from nesbs.data import Split
from nesbs.spaces import Architecture, PathNetwork, Space
from nesbs.spaces.architecture import Cell
from nesbs.supernet.estimate import content_order
from nesbs.supernet.fused_network import fits, fused_network
from nesbs.training import place

IMAGES = 24
CHANGE = 0.01  # of images in [0, 1]
AT_ONCE = 2**27  # values of one state that go through the network together on a GPU


class Untrained:
    """Scores of architectures without training: how many different answers a change gets from so many images.

    The operations' random weights are the same whatever the architecture, so that chance favours none.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> data = load_dataset("fashion-mini", train_limit=200)
    >>> untrained = Untrained(toy_edges(), data.search_train, cells=1, channels=4)
    >>> untrained.scores([next(iter(toy_edges()))])  # `none` everywhere: nothing arrives
    tensor([0.])
    """

    def __init__(
        self, space: Space, split: Split, *, cells: int | None = None, channels: int | None = None, seed: int = 0
    ) -> None:
        """`cells` and `channels` are the members'; by default the space's own."""
        space.check_images(*split.size)
        own_cells, own_channels = space.member_size
        with rng.seeded(seed, "untrained", "weights"):
            self._network: PathNetwork = space.supernet(
                classes=split.classes,
                in_channels=split.channels,
                channels=channels or own_channels,
                cells=cells or own_cells,
                affine=False,
            )
        place(self._network, split)
        self._images = split.pixels(content_order(split)[:IMAGES])
        noise = torch.randn(self._images.shape[1:], generator=rng.generator(seed, "untrained", "change"))
        self._changed = self._images + CHANGE * noise.to(self._images.device)
        self.space = space
        self.device = split.device
        self._fused = fused_network(self._network) if fits(self._network, split.device, split.size) else None
        self._cache: dict[tuple[Cell, ...], float] = {}

    def scores(
        self, architectures: Sequence[Architecture], on_progress: Callable[[int, int], None] | None = None
    ) -> Tensor:
        """The logarithm of the number of different answers (architectures,), from 0.

        `on_progress` is told how many are done. Architectures that differ only in what nothing passes through have the
        same score.
        """
        live = [self.space.live(architecture) for architecture in architectures]
        missing = {cells: one for cells, one in zip(live, architectures, strict=True) if cells not in self._cache}
        size = max(1, AT_ONCE // self._images[:, :1].numel() // self._network.channels)
        size = 2 ** (size.bit_length() - 1) if self.device.type == "cuda" else 1
        for start in range(0, len(missing), size):
            part = dict(list(missing.items())[start : start + size])
            self._cache.update(zip(part, self._scored(list(part.values())).tolist(), strict=True))
            if on_progress is not None:
                on_progress(min(start + size, len(missing)), len(missing))
        return torch.tensor([self._cache[cells] for cells in live])

    @torch.no_grad()
    def _scored(self, architectures: Sequence[Architecture]) -> Tensor:
        with without_tf32():
            if self._fused is not None:
                return self._fused.run(self._answers, architectures).cpu()
            before = self._network.last_states(self._images, architectures).expanded()
            after = self._network.last_states(self._changed, architectures).expanded()
        return answers((after - before).flatten(2)).log().cpu()

    def _answers(self, codes: Tensor) -> Tensor:
        """The scores (paths,) of the paths that `codes` stand for, by the kernels."""
        assert self._fused is not None
        before, after = (self._fused.last_states(images, codes) for images in (self._images, self._changed))
        return answers((after - before).flatten(1).unflatten(0, (len(codes), -1))).log()


@contextmanager
def without_tf32() -> Iterator[None]:
    """Run convolutions on a GPU without TF32, whose rounding is not small beside a small change."""
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = before


def answers(changes: Tensor) -> Tensor:
    """How many of several vectors (…, vectors, length) differ, as an effective number (…,) between 1 and all.

    It is n² / Σ ρ², over the correlations ρ of every vector with every other and itself: n where none correlate, 1
    where all are the same.

    >>> a, b = torch.tensor([1.0, -1.0, 1.0, -1.0]), torch.tensor([1.0, 1.0, -1.0, -1.0])
    >>> answers(torch.stack([torch.stack([a, b, a, b]), torch.stack([a, a, a, a])]))
    tensor([2., 1.])
    """
    centred = changes.float() - changes.float().mean(-1, keepdim=True)
    lengths = centred.norm(dim=-1, keepdim=True)
    unit = centred / lengths.clamp_min(torch.finfo(lengths.dtype).tiny)
    correlations = unit @ unit.mT
    silent = lengths == 0  # where nothing changes, nothing differs
    correlations = torch.where(silent | silent.mT, 1.0, correlations)
    count: int = changes.shape[-2]
    return count**2 / correlations.square().sum((-2, -1))
