"""The `Ensemble` module, and training its members from scratch."""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from nesbs import metrics, rng
from nesbs.data import Split, expect_split
from nesbs.ensemble.joint_step import Criterion, JointStep, joint_step, label_loss
from nesbs.ensemble.settings import EnsembleSettings, MemberSettings
from nesbs.errors import NesbsError, expect, expect_all, expect_whole
from nesbs.metrics import Combine
from nesbs.settings import checked_keywords
from nesbs.spaces import Architecture, ChoiceCell, Member, Space, Stem, widest
from nesbs.spaces.operations import DepthwiseUnits, Units
from nesbs.training import Batch, CapturedStep, Epoch, Objective, Step, Training, place, side_by_side, training
from nesbs.training.ranks import ranks_at_work

DEFAULT = MemberSettings()
COMBINE = EnsembleSettings().combine
BATCH_SIZE = 500  # images that are predicted at once


class Ensemble(nn.Module):
    """Networks with different architectures that answer together; members keep an axis of their own."""

    def __init__(self, members: Sequence[Member] | nn.ModuleList, combine: Combine = COMBINE) -> None:
        super().__init__()
        if not members:
            raise NesbsError("an ensemble needs at least one member")
        members = list(members) if isinstance(members, nn.ModuleList) else members  # type: ignore[arg-type]
        expect_all(members, nn.Module, "members must be a list of networks such as space.network returns")
        EnsembleSettings.of({"combine": combine})
        self.members = nn.ModuleList(members)
        self.combine = combine

    @property
    def architectures(self) -> tuple[Architecture, ...]:
        """The members' architectures."""
        return tuple(member.architecture for member in self.members)  # type: ignore[misc]

    def check_split(self, split: Split) -> None:
        """Raise where a split has no images, or others than the members were made for."""
        expect_split(split, "data.test")
        for member in self.members:
            if isinstance(member, Member):
                member.network.check_data(split.channels, split.classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits (members, batch, classes) for images (batch, channels, height, width) in [0, 1]."""
        if not images.is_floating_point():
            raise NesbsError(f"an ensemble takes floats from 0 to 1, found {images.dtype}: divide bytes by 255")
        return torch.stack([member(images) for member in self.members])

    def combined(self, logits: Tensor) -> Tensor:
        """Return the ensemble's log-probabilities (images, classes) from logits (members, images, classes)."""
        return metrics.combine(logits, self.combine)

    @torch.no_grad()
    def predict(
        self, split: Split, *, batch_size: int = BATCH_SIZE, change: Callable[[Tensor], Tensor] | None = None
    ) -> Tensor:
        """Return the logits of every member for all images of a split, (members, images, classes).

        `change` is applied to each batch of images (batch, channels, height, width) in [0, 1] before.
        """
        expect_split(split, "data.test")
        expect_whole(batch_size, "batch_size")
        self.eval()
        index = torch.arange(len(split), device=split.device)
        batches = map(split.pixels, index.split(batch_size))
        return torch.cat([self(images if change is None else change(images)) for images in batches], 1)


def design_member(space: Space, architecture: Architecture, split: Split, settings: MemberSettings) -> Member:
    """Build the stand-alone network that the settings ask for, with random weights."""

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
    space: Space, architecture: Architecture, split: Split, settings: MemberSettings, *, seed: int, name: str | int
) -> Member:
    """Build an untrained stand-alone network for the images of a split, on its device."""
    space.check_images(*split.size, settings.stem)
    with rng.seeded(seed, "member", name, "weights"):
        member = design_member(space, architecture, split, settings)
    # On a GPU low precision gains nothing without channels last.
    place(member.network, split, channels_last=settings.lower_precision(split.device) or None)
    return member


def member_training(
    member: Member,
    split: Split,
    settings: MemberSettings,
    *,
    seed: int,
    name: str | int,
    criterion: Criterion | JointStep | None = None,
    checkpoint: Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Training:
    """Prepare the training of one member, to be run beside others (`side_by_side`).

    `name` tells members of one run apart: the same architecture under two names gets different weights, order of
    images and augmentation. `criterion` takes the place of the cross-entropy to the labels; it may be a joint step,
    which on a GPU trains several members at once.
    """

    def loss(batch: Batch) -> Tensor:
        logits, auxiliary = member.outputs(batch.images, drop=batch.noise)
        loss_of = (criterion or label_loss(settings))(batch)
        value = loss_of(logits)
        return value if auxiliary is None else value + settings.auxiliary * loss_of(auxiliary)

    def drop(epoch: int, images: int, random: torch.Generator) -> Tensor:
        share = settings.dropped(epoch)
        stays = torch.rand(*member.network.drop_paths, images, generator=random, device=random.device) >= share
        return stays / (1 - share)

    def record(step: Step, batch: Batch, optimiser: torch.optim.SGD) -> Step:
        ours = any(part.fused for part in member.modules() if isinstance(part, Units))
        return CapturedStep(step, batch, member, optimiser, own_kernels=ours)

    _choose_kernels(member, split, settings)
    recorded = criterion.record(member) if isinstance(criterion, JointStep) else record
    objective = Objective(loss, drop if settings.drop_path > 0 else None, recorded if settings.capture else None)
    return training(
        member,
        split,
        objective,
        settings,
        seed=seed,
        purpose=("member", name),
        checkpoint=checkpoint,
        on_epoch=on_epoch,
    )


def _choose_kernels(member: Member, split: Split, settings: MemberSettings) -> None:
    """Let a member's cells be compiled, or run our kernels, as the settings ask."""
    alone = not ranks_at_work().several
    units = [part for part in member.modules() if isinstance(part, Units)]
    depthwise = any(isinstance(one, DepthwiseUnits) and one.fits() for one in units)
    for one in units:
        one.fused = alone and depthwise and settings.fuses_depthwise(split) and one.fits()
    for cell in member.modules():
        if isinstance(cell, ChoiceCell):
            cell.compiled = alone and settings.compiles(split) and not any(one.fused for one in units)


def groups(indices: Sequence[int], size: int) -> list[Sequence[int]]:
    """Split `indices` into groups of `size`, those that are trained side by side.

    >>> groups(range(5), 2)
    [range(0, 2), range(2, 4), range(4, 5)]
    """
    return [indices[start : start + size] for start in range(0, len(indices), size)]


def by_content(architectures: Sequence[Architecture]) -> list[str]:
    """Return a short name for each architecture that depends on nothing else; copies of one are counted.

    >>> from nesbs.spaces import toy_edges
    >>> one, other, *_ = toy_edges()
    >>> by_content([one, other, one])
    ['fcc28762ac9b', '9c8db497d31c', 'fcc28762ac9b-1']
    """
    seen: Counter[Architecture] = Counter()
    stems = []
    for architecture in architectures:
        digest = hashlib.sha256(str(architecture).encode()).hexdigest()[:12]
        stems.append(f"{digest}-{seen[architecture]}" if seen[architecture] else digest)
        seen[architecture] += 1
    return stems


@checked_keywords
def train_ensemble(
    space: Space,
    architectures: Sequence[Architecture],
    split: Split,
    *,
    seed: int = 0,
    combine: Combine = COMBINE,
    on_epoch: Callable[[int, Epoch], None] | None = None,
    epochs: int = DEFAULT.epochs,
    batch_size: int = DEFAULT.batch_size,
    learning_rate: float = DEFAULT.learning_rate,
    schedule: Literal["cosine", "linear"] = DEFAULT.schedule,
    warm_up: int = DEFAULT.warm_up,
    momentum: float = DEFAULT.momentum,
    nesterov: bool = DEFAULT.nesterov,
    weight_decay: float = DEFAULT.weight_decay,
    clip: float | None = DEFAULT.clip,
    crop: int = DEFAULT.crop,
    flip: bool = DEFAULT.flip,
    cutout: int = DEFAULT.cutout,
    colour_jitter: tuple[float, float, float, float] = DEFAULT.colour_jitter,
    precision: Literal["auto", "float32", "bfloat16"] = DEFAULT.precision,
    batch_norm: Literal["synchronised", "own"] = DEFAULT.batch_norm,
    cells: int | None = DEFAULT.cells,
    channels: int | None = DEFAULT.channels,
    multiply_adds: int | None = DEFAULT.multiply_adds,
    stem: Stem = DEFAULT.stem,
    label_smoothing: float = DEFAULT.label_smoothing,
    auxiliary: float = DEFAULT.auxiliary,
    drop_path: float = DEFAULT.drop_path,
    drop_path_schedule: Literal["rising", "falling"] = DEFAULT.drop_path_schedule,
    together: int = DEFAULT.together,
    capture: bool = DEFAULT.capture,
    compile: bool | Literal["auto"] = DEFAULT.compile,
    kernels: Literal["auto", "ours", "plain"] = DEFAULT.kernels,
) -> Ensemble:
    """Train every member from scratch on the images of `split`, each on its own.

    The settings are those of the recipe's section `members` (`MemberSettings`). `on_epoch` is told the member, from 0,
    and the epoch that has ended.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> data = load_dataset("fashion-mini", train_limit=200)
    >>> ensemble = train_ensemble(toy_edges(), list(toy_edges())[-2:], data.train, epochs=1, cells=1, channels=4)
    >>> ensemble(data.test.pixels(slice(0, 8))).shape
    torch.Size([2, 8, 10])
    """
    settings = MemberSettings.from_arguments(locals())
    EnsembleSettings.of({"combine": combine})
    expect(space, Space, "space must be a Space such as nasbench201()")
    expect_split(split, "data.train")
    expect_all(architectures, Architecture, "architectures must be a list of Architecture (space.parse reads one)")
    members = [build_member(space, one, split, settings, seed=seed, name=i) for i, one in enumerate(architectures)]

    def steps(index: int, joint: JointStep | None) -> Training:
        told = None if on_epoch is None else (lambda epoch: on_epoch(index, epoch))
        return member_training(members[index], split, settings, seed=seed, name=index, criterion=joint, on_epoch=told)

    for group in groups(range(len(members)), settings.together):
        joint = joint_step([members[index] for index in group], split, settings)
        side_by_side([steps(index, joint) for index in group], None if joint is None else joint.run)
    return Ensemble(members, combine)
