"""The `Ensemble` module, and training its members from scratch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from nesbs import metrics, rng
from nesbs.data import Split
from nesbs.errors import NesbsError
from nesbs.settings import Settings
from nesbs.spaces import Architecture, Member, Space
from nesbs.training import Epoch, TrainingSettings, place, train


class EnsembleSettings(Settings):
    """What an ensemble is (recipe section `ensemble`)."""

    size: int = Field(3, ge=1, description="n, members; paper: 3")
    combine: Literal["probabilities", "logits"] = Field("probabilities", description="what is averaged")


class MemberSettings(TrainingSettings):
    """Members and their training (recipe section `members`); defaults are NAS-Bench-201's own."""

    cells: int | None = Field(None, ge=1, description="depth; by default the space's own")
    channels: int | None = Field(None, ge=1, description="width; by default the space's own")
    epochs: int = Field(200, ge=1)
    batch_size: int = Field(256, ge=2)
    nesterov: bool = True
    weight_decay: float = Field(5e-4, ge=0)


class Ensemble(nn.Module):
    """Networks with different architectures that answer together; members keep an axis of their own."""

    def __init__(
        self, members: Sequence[Member], combine: Literal["probabilities", "logits"] = "probabilities"
    ) -> None:
        super().__init__()
        if not members:
            raise NesbsError("an ensemble needs at least one member")
        self.members = nn.ModuleList(members)
        self.combine = combine

    @property
    def architectures(self) -> tuple[Architecture, ...]:
        """The members' architectures."""
        return tuple(member.architecture for member in self.members)  # type: ignore[misc]

    def forward(self, images: Tensor) -> Tensor:
        """Logits of every member, (members, batch, classes), for images (batch, channels, height, width) in [0, 1]."""
        return torch.stack([member(images) for member in self.members])

    def combined(self, logits: Tensor) -> Tensor:
        """The ensemble's log-probabilities (images, classes) from its members' logits (members, images, classes)."""
        if self.combine == "logits":
            return metrics.average_logits(logits)
        return metrics.average(logits.log_softmax(-1))

    @torch.no_grad()
    def predict(
        self, split: Split, *, batch_size: int = 500, change: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Logits of every member for all images of a split, (members, images, classes).

        `change` is applied to each batch of images (batch, channels, height, width) in [0, 1] before.
        """
        self.eval()
        index = torch.arange(len(split), device=split.device)
        batches = map(split.pixels, index.split(batch_size))
        return torch.cat([self(images if change is None else change(images)) for images in batches], 1)


def build_member(
    space: Space,
    architecture: Architecture,
    split: Split,
    settings: MemberSettings,
    *,
    seed: int,
    name: str | int,
) -> Member:
    """An untrained stand-alone network for the images of a split, on its device."""
    space.check_images(*split.size)
    with rng.seeded(seed, "member", name, "weights"):
        member = space.network(
            architecture,
            classes=split.classes,
            in_channels=split.channels,
            channels=settings.channels,
            cells=settings.cells,
        )
    place(member.network, split)
    return member


def train_member(
    space: Space,
    architecture: Architecture,
    split: Split,
    settings: MemberSettings,
    *,
    seed: int,
    name: str | int,
    checkpoint: Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> tuple[Member, list[float]]:
    """Train one stand-alone network from scratch; the network and the mean loss of every epoch.

    `name` tells members of one run apart: the same architecture under two names gets different weights,
    order of images and augmentation.
    """
    member = build_member(space, architecture, split, settings, seed=seed, name=name)

    def loss(images: Tensor, labels: Tensor, epoch: int, step: int) -> Tensor:
        return F.cross_entropy(member(images), labels)

    purpose = ("member", name)
    losses = train(member, split, loss, settings, seed=seed, purpose=purpose, checkpoint=checkpoint, on_epoch=on_epoch)
    return member, losses


def train_ensemble(
    space: Space,
    architectures: Sequence[Architecture],
    split: Split,
    *,
    seed: int = 0,
    combine: Literal["probabilities", "logits"] = "probabilities",
    on_epoch: Callable[[int, Epoch], None] | None = None,
    **settings: object,
) -> Ensemble:
    """Train every member from scratch, each on its own; `on_epoch` hears the member and the epoch.

    `settings` are those of the recipe's section `members`: `epochs`, `cells`, `channels`, …

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> data = load_dataset("fashion-mini", train_limit=200)
    >>> ensemble = train_ensemble(toy_edges(), list(toy_edges())[-2:], data.train, epochs=1, cells=1, channels=4)
    >>> ensemble(data.test.pixels(slice(0, 8))).shape
    torch.Size([2, 8, 10])
    """
    chosen = MemberSettings.of(settings)
    members = []
    for index, architecture in enumerate(architectures):
        heard = None if on_epoch is None else (lambda epoch, index=index: on_epoch(index, epoch))
        member, _ = train_member(space, architecture, split, chosen, seed=seed, name=index, on_epoch=heard)
        members.append(member)
    return Ensemble(members, combine)
