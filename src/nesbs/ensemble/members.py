"""The `Ensemble` module, and training its members from scratch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from nesbs import metrics, rng
from nesbs.data import Split, steps_per_epoch
from nesbs.errors import NesbsError
from nesbs.metrics import Combine
from nesbs.settings import Settings
from nesbs.spaces import Architecture, ChoiceCell, Member, Space, Stem, named_architecture, widest
from nesbs.training import Batch, CapturedStep, Epoch, Step, Training, TrainingSettings, place, side_by_side, training

WORTH_COMPILING = 10_000  # steps: on an H200 compiling took 9 to 38 s and won 2 to 7 ms a step


class EnsembleSettings(Settings):
    """What an ensemble is (recipe section `ensemble`)."""

    size: int = Field(3, ge=1, description="n, members; paper: 3")
    architectures: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="fixed instead of searched: names from the zoo or texts; one is trained size times",
    )
    combine: Combine = Field("probabilities", description="what is averaged")

    @model_validator(mode="after")
    def _one_for_each(self) -> EnsembleSettings:
        if self.architectures is not None and len(self.architectures) not in (1, self.size):
            raise ValueError(f"one architecture, or as many as size ({self.size})")
        return self

    def fixed(self, space: Space) -> tuple[Architecture, ...] | None:
        """The architectures that the user fixed, `size` of them; None where they are to be searched."""
        if self.architectures is None:
            return None
        named = tuple(named_architecture(space, text) for text in self.architectures)
        return named * self.size if len(named) == 1 else named


class MemberSettings(TrainingSettings):
    """Members and their training (recipe section `members`); defaults are NAS-Bench-201's own."""

    cells: int | None = Field(None, ge=1, description="depth; by default the space's own")
    channels: int | None = Field(None, ge=1, description="width; by default the space's own")
    multiply_adds: int | None = Field(
        None, ge=1, description="instead of channels: the widest network under so many (mobile setting: 600000000)"
    )
    stem: Stem = Field("cifar", description="how the network begins: at the images' size, or at an eighth of it")
    epochs: int = Field(200, ge=1)
    batch_size: int = Field(256, ge=2)
    nesterov: bool = True
    weight_decay: float = Field(5e-4, ge=0)
    precision: Literal["auto", "float32", "bfloat16"] = Field(
        "auto", description="of convolutions; auto is bfloat16 on a GPU that has it"
    )
    label_smoothing: float = Field(0.0, ge=0, lt=1, description="share of the label spread over all classes")
    auxiliary: float = Field(0.0, ge=0, description="weight of the auxiliary tower's loss (DARTS: 0.4)")
    drop_path: float = Field(0.0, ge=0, lt=1, description="DropPath's probability at its highest (DARTS: 0.2)")
    drop_path_schedule: Literal["rising", "falling"] = Field(
        "rising", description="linear in the epoch, from 0 (DARTS) or to 0 (the paper's wording)"
    )
    images: Literal["all", "search_train"] = Field(
        "all", description="train on all training images, or leave those held out from the supernet unseen"
    )
    together: int = Field(1, ge=1, description="members trained side by side on one GPU")
    capture: bool = Field(True, description="on a GPU, record a member's step once and replay it")
    compile: bool | Literal["auto"] = Field(
        "auto", description="on a GPU, fuse a cell's kernels by torch.compile; auto: where training is long enough"
    )

    @model_validator(mode="after")
    def _one_width(self) -> MemberSettings:
        if self.channels is not None and self.multiply_adds is not None:
            raise ValueError("set channels or multiply_adds, not both")
        return self

    def compiles(self, split: Split) -> bool:
        """Whether kernels are fused for a training on these images: it takes some seconds, so a long one."""
        if split.device.type != "cuda":
            return False
        long_enough = self.epochs * steps_per_epoch(split, self.batch_size) >= WORTH_COMPILING
        return long_enough if self.compile == "auto" else self.compile

    def dropped(self, epoch: int) -> float:
        """DropPath's probability in an epoch (from 0).

        >>> MemberSettings(epochs=4, drop_path=0.2).dropped(2)
        0.1
        """
        share = epoch / self.epochs
        return self.drop_path * (share if self.drop_path_schedule == "rising" else 1 - share)


class Ensemble(nn.Module):
    """Networks with different architectures that answer together; members keep an axis of their own."""

    def __init__(self, members: Sequence[Member], combine: Combine = "probabilities") -> None:
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
        return metrics.combine(logits, self.combine)

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


def design_member(space: Space, architecture: Architecture, split: Split, settings: MemberSettings) -> Member:
    """The stand-alone network that the settings ask for, with random weights."""

    def network(channels: int | None) -> Member:
        return space.network(
            architecture,
            classes=split.classes,
            in_channels=split.channels,
            channels=channels,
            cells=settings.cells,
            stem=settings.stem,
            auxiliary=settings.auxiliary > 0,
        )

    if settings.multiply_adds is None:
        return network(settings.channels)
    return network(widest(network, (split.channels, *split.size), settings.multiply_adds))


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
    space.check_images(*split.size, settings.stem)
    with rng.seeded(seed, "member", name, "weights"):
        member = design_member(space, architecture, split, settings)
    # On a GPU low precision gains nothing without channels last.
    place(member.network, split, channels_last=settings.lower_precision(split.device) or None)
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
    steps = member_training(member, split, settings, seed=seed, name=name, checkpoint=checkpoint, on_epoch=on_epoch)
    return member, side_by_side([steps])[0]


def member_training(
    member: Member,
    split: Split,
    settings: MemberSettings,
    *,
    seed: int,
    name: str | int,
    checkpoint: Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Training:
    """The training of one member, to be run beside others (`side_by_side`)."""

    def loss(batch: Batch) -> Tensor:
        logits, auxiliary = member.outputs(batch.images, drop=batch.noise)
        value = F.cross_entropy(logits, batch.labels, label_smoothing=settings.label_smoothing)
        if auxiliary is None:
            return value
        return value + settings.auxiliary * F.cross_entropy(
            auxiliary, batch.labels, label_smoothing=settings.label_smoothing
        )

    def drop(epoch: int, images: int, random: torch.Generator) -> Tensor:
        share = settings.dropped(epoch)
        kept = torch.rand(*member.network.drop_paths, images, generator=random, device=random.device) >= share
        return kept / (1 - share)

    def record(step: Step, batch: Batch, optimiser: torch.optim.SGD) -> Step:
        return CapturedStep(step, batch, member, optimiser)

    for cell in member.modules():
        if isinstance(cell, ChoiceCell):
            cell.compiled = settings.compiles(split)
    return training(
        member,
        split,
        loss,
        settings,
        seed=seed,
        purpose=("member", name),
        noise=drop if settings.drop_path > 0 else None,
        record=record if settings.capture else None,
        checkpoint=checkpoint,
        on_epoch=on_epoch,
    )


def groups(indices: Sequence[int], size: int) -> list[Sequence[int]]:
    """`indices` in groups of `size`, those that are trained side by side.

    >>> groups(range(5), 2)
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    return [indices[start : start + size] for start in range(0, len(indices), size)]


def train_ensemble(
    space: Space,
    architectures: Sequence[Architecture],
    split: Split,
    *,
    seed: int = 0,
    combine: Combine = "probabilities",
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
    members = [
        build_member(space, architecture, split, chosen, seed=seed, name=index)
        for index, architecture in enumerate(architectures)
    ]

    def steps(index: int) -> Training:
        heard = None if on_epoch is None else (lambda epoch: on_epoch(index, epoch))
        return member_training(members[index], split, chosen, seed=seed, name=index, on_epoch=heard)

    for group in groups(range(len(members)), chosen.together):
        side_by_side([steps(index) for index in group])
    return Ensemble(members, combine)
