"""Estimating an architecture's performance with the supernet's weights: held-out predictions, computed once."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from nesbs.data import Split
from nesbs.errors import NesbsError, expect, expect_whole
from nesbs.spaces import Architecture
from nesbs.supernet.fused_network import fits, fused_network
from nesbs.supernet.train import Supernet

BATCH_SIZE = 250  # images of one estimate: BatchNorm sees batches of this size
AT_ONCE = 2**12  # images times architectures that go through the supernet together on a GPU


class Estimator:
    """Predictions of any architecture on one split, cached by architecture.

    BatchNorm takes the statistics of the batch at hand (the shared running averages fit no single path), so
    batches must be alike and always the same: the images are put in an order that depends on their content
    alone, and the last batch is filled by wrapping round. An estimate therefore depends neither on what was
    estimated before nor on how the data were sorted.
    """

    def __init__(self, supernet: Supernet, split: Split, *, batch_size: int = BATCH_SIZE) -> None:
        expect(supernet, Supernet, "supernet must be a Supernet, which train_supernet returns")
        supernet.check_split(split)
        expect_whole(batch_size, "batch_size")
        self.supernet = supernet
        self.split = split = supernet.settings.seen(split)
        self._order = content_order(split)
        size = min(batch_size, len(split))
        missing = -len(split) % size
        self._batches = torch.cat([self._order, self._order[:missing]]).split(size)
        self._cache: dict[Architecture, Tensor] = {}
        self._run = predictor(supernet, split)

    def __len__(self) -> int:
        return len(self._cache)

    def logits(self, architecture: Architecture) -> Tensor:
        """Predictions for the split's images in their own order: (images, classes)."""
        self.prepare([architecture])
        return self._cache[architecture]

    @torch.no_grad()
    def prepare(
        self, architectures: Sequence[Architecture], on_progress: Callable[[int, int], None] | None = None
    ) -> None:
        """Compute the predictions of several architectures; `on_progress` is told how many are done.

        On a GPU many go through the supernet at once.
        """
        missing = [architecture for architecture in dict.fromkeys(architectures) if architecture not in self._cache]
        size = len(self._batches[0])
        at_once = max(1, AT_ONCE // size) if self.split.device.type == "cuda" else 1
        done = len(architectures) - len(missing)
        for start in range(0, len(missing), at_once):
            group = missing[start : start + at_once]
            for architecture, logits in zip(group, self._predict(group), strict=True):
                self._cache[architecture] = logits
            done += len(group)
            if on_progress is not None:
                on_progress(done, len(architectures))

    def _predict(self, group: Sequence[Architecture]) -> Tensor:
        """Predictions for the split's images in their own order: (architectures, images, classes)."""
        self.supernet.eval()
        parts = [self._run(self.split.pixels(index), group).clone() for index in self._batches]
        predicted = torch.cat(parts, 1)[:, : len(self.split)]
        logits = torch.empty_like(predicted)
        logits[:, self._order] = predicted
        return logits

    def forget(self, architectures: Sequence[Architecture] | None = None) -> None:
        """Give the memory of predictions back, of all by default; they are computed again when asked for."""
        for architecture in list(self._cache) if architectures is None else architectures:
            self._cache.pop(architecture, None)

    def log_probs(self, architectures: Sequence[Architecture]) -> Tensor:
        """Log-probabilities of several: (architectures, images, classes)."""
        if not architectures:
            raise NesbsError("log_probs takes a list of architectures, found an empty one")
        self.prepare(architectures)
        return torch.stack([self._cache[architecture] for architecture in architectures]).log_softmax(-1)


def predictor(supernet: Supernet, split: Split) -> Callable[[Tensor, Sequence[Architecture]], Tensor]:
    """A function (images, architectures) → logits (architectures, batch, classes), for weights that stay as they are.

    Images are those of a split. On a GPU all architectures go through the supernet at once; what comes out is valid
    until the next call.
    """
    device = split.device
    lower_precision = supernet.settings.lower_precision(device)
    if supernet.settings.record and fits(supernet.network, device, split.size):
        return fused_network(supernet.network, lower_precision=lower_precision).predict

    @torch.no_grad()
    def predict(images: Tensor, architectures: Sequence[Architecture]) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16, enabled=lower_precision):
            if device.type == "cuda" and len(architectures) > 1:
                logits = supernet.many(images, architectures)
            else:
                distinct = {one: supernet(images, one) for one in dict.fromkeys(architectures)}
                logits = torch.stack([distinct[architecture] for architecture in architectures])
        return logits.float() if lower_precision else logits

    return predict


def content_order(split: Split) -> Tensor:
    """An order of the images that looks random but depends on their content alone, (images,) of indices.

    Images are sorted by a random projection of their bytes in exact integer arithmetic; equal images by
    their label.
    """
    # Weights from a fixed stream: the same images get the same order on every machine.
    length = split.channels * split.size[0] * split.size[1]
    weights = torch.randint(-(2**62), 2**62, (length,), generator=torch.Generator().manual_seed(0)).to(split.device)
    at_once = max(1, 2**22 // len(weights))  # eight bytes a pixel while it is multiplied
    parts = (split.bytes(part) for part in torch.arange(len(split), device=split.device).split(at_once))
    keys = torch.cat([(part.flatten(1).long() * weights).sum(1) for part in parts])
    by_label = split.labels.argsort(stable=True)
    return by_label[keys[by_label].argsort(stable=True)]
