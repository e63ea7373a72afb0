"""Training the supernet (paper, sec. 3.1): one architecture a step, drawn uniformly, trained alone."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from nesbs import rng
from nesbs.data import AnySplit, SearchTrain, Split, converted, expect_split, refuse_held_out, steps_per_epoch
from nesbs.errors import NesbsError, expect
from nesbs.settings import MAX_CELLS, MAX_CHANNELS, MAX_PIXELS, checked_keywords
from nesbs.spaces import Architecture, PathNetwork, Space
from nesbs.supernet.draw_paths import Group, Paths, count_updates, draw_groups
from nesbs.supernet.fused_network import fits
from nesbs.supernet.fused_step import FusedStep
from nesbs.training import Batch, Epoch, Objective, Step, Training, TrainingSettings, place, side_by_side, training


class SupernetSettings(TrainingSettings):
    """The supernet and its training (recipe section `supernet`); defaults from the paper, app. B.2."""

    cells: int | None = Field(None, ge=1, le=MAX_CELLS, description="depth; by default the space's own")
    channels: int | None = Field(None, ge=1, le=MAX_CHANNELS, description="width; by default the space's own")
    partial: int = Field(
        1,
        ge=1,
        le=MAX_CHANNELS,
        description="K: 1/K of the channels go through an operation, the rest pass by; paper: 2",
    )
    affine: bool = Field(False, description="BatchNorm with learned scale and offset")
    record: bool = Field(
        True,
        description="on a GPU, run our kernels where they fit, each step one launch; false: the plain path, which "
        "torchrun always trains by",
    )
    paths: Paths = Field(
        "one",
        description="a step trains one architecture (paper), or a group using each operation of an edge once, where "
        "they use the edge (dense: but none; mixed: fair and dense in turn)",
    )
    skip_dead: bool = Field(False, description="redraw architectures in which nothing reaches the output")
    image_size: int | None = Field(
        None, ge=8, le=MAX_PIXELS, description="search on images of so many pixels a side; by default those of members"
    )

    def size(self, split: Split) -> tuple[int, int]:
        """Return the height and width at which the supernet sees a split's images."""
        return split.size if self.image_size is None else (self.image_size, self.image_size)

    def seen(self, split: AnySplit) -> AnySplit:
        """Return a split as the supernet sees it."""
        return converted(split, channels=split.channels, size=self.size(split))


DEFAULT = SupernetSettings()


class Supernet(nn.Module):
    """A network whose weights are shared by all of a space: `supernet(images, architecture)`."""

    def __init__(self, space: Space, network: PathNetwork, settings: SupernetSettings = DEFAULT) -> None:
        super().__init__()
        self.space = space
        self.network = network
        self.settings = settings  # estimates are made as it was trained: of images of its size, in its precision
        self.losses: list[float] = []  # mean training loss of every epoch
        self.updates: dict[str, dict[str, int]] = {}  # see `count_updates`

    def forward(self, images: Tensor, architecture: Architecture) -> Tensor:
        """Logits (batch, classes) of one architecture for images (batch, channels, height, width) in [0, 1]."""
        self.space.check(architecture)
        logits: Tensor = self.network(images, architecture)
        return logits

    def many(self, images: Tensor, architectures: Sequence[Architecture]) -> Tensor:
        """Logits (architectures, batch, classes) of many architectures at once."""
        return self.network.many(images, architectures)

    def mixture(self, images: Tensor, gates: Tensor) -> Tensor:
        """Logits with every operation weighted by gates (kinds of cell, edges, operations)."""
        return self.network.mixture(images, gates)

    def mixture_of_open(self, images: Tensor, gates: Tensor) -> Tensor:
        """The same, without the gradients through operations whose gate is 0, which are 0 (`PathNetwork`)."""
        return self.network.mixture_of_open(images, gates)

    def check_split(self, split: Split) -> None:
        """Raise where a split has no images, or others than the supernet was made for."""
        expect_split(split, "data.search_valid")
        self.network.check_data(split.channels, split.classes)

    def check_mixture(self, what: str) -> None:
        """Raise where a mixture of one operation an edge would not be that path; `what` needs it to be."""
        learned = any(isinstance(module, nn.BatchNorm2d) and module.affine for module in self.modules())
        if learned and "none" in self.space.operations:
            # Operations that nothing arrives at would add their BatchNorm's offset to the mixture, but not to a path.
            raise NesbsError(f"{what} needs supernet.affine=false on space {self.space.name}, which has `none`")


def design_supernet(space: Space, split: Split, settings: SupernetSettings) -> PathNetwork:
    """The network that the settings ask for, with random weights."""
    cells, channels = space.supernet_size
    return space.supernet(
        classes=split.classes,
        in_channels=split.channels,
        channels=settings.channels or channels,
        cells=settings.cells or cells,
        affine=settings.affine,
        partial=settings.partial,
    )


def build_supernet(space: Space, split: Split, settings: SupernetSettings, *, seed: int) -> Supernet:
    """An untrained supernet for a space and the images of a split, on the split's device."""
    space.check_images(*settings.size(split))
    with rng.seeded(seed, "supernet", "weights"):
        network = design_supernet(space, split, settings)
    place(network, split)
    return Supernet(space, network, settings)


@checked_keywords
def train_supernet(
    space: Space,
    split: SearchTrain,
    *,
    seed: int = 0,
    checkpoint: Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
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
    partial: int = DEFAULT.partial,
    affine: bool = DEFAULT.affine,
    record: bool = DEFAULT.record,
    paths: Paths = DEFAULT.paths,
    skip_dead: bool = DEFAULT.skip_dead,
    image_size: int | None = DEFAULT.image_size,
) -> Supernet:
    """Train a supernet, one uniformly drawn architecture a step (Algorithm 1, line 2).

    The keywords from `epochs` on are the settings of the recipe's section `supernet` (`SupernetSettings`). `on_epoch`
    is told of every finished epoch; with a `checkpoint` path training resumes from the last of them.

    >>> from nesbs.data import load_dataset
    >>> from nesbs.spaces import toy_edges
    >>> data = load_dataset("fashion-mini", train_limit=200)
    >>> supernet = train_supernet(toy_edges(), data.search_train, epochs=1, channels=4, seed=0)
    >>> supernet(data.test.pixels(slice(0, 8)), next(iter(toy_edges()))).shape
    torch.Size([8, 10])
    """
    settings = SupernetSettings.from_arguments(locals())
    expect(space, Space, "space must be a Space such as nasbench201()")
    expect(checkpoint, (Path, type(None)), "checkpoint must be a Path")
    expect_split(split, "data.search_train")
    refuse_held_out(split)
    split = settings.seen(split)
    supernet = build_supernet(space, split, settings, seed=seed)
    drawn = draw_epochs(space, split, settings, seed=seed)
    steps = supernet_training(supernet, split, settings, drawn, seed=seed, checkpoint=checkpoint, on_epoch=on_epoch)
    [supernet.losses] = side_by_side([steps])
    supernet.updates = count_updates(space, [path for epoch in drawn for group in epoch for path in group])
    return supernet


def draw_epochs(space: Space, split: Split, settings: SupernetSettings, *, seed: int) -> list[list[Group]]:
    """The architectures of every step of every epoch, drawn ahead; an epoch's depend on seed and epoch alone."""
    steps = steps_per_epoch(split, settings.batch_size)
    return [
        draw_groups(space, steps, seed=seed, epoch=epoch, skip_dead=settings.skip_dead, paths=settings.paths)
        for epoch in range(settings.epochs)
    ]


def supernet_training(
    supernet: Supernet,
    split: Split,
    settings: SupernetSettings,
    paths: Sequence[Sequence[Group]],
    *,
    seed: int,
    checkpoint: Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Training:
    """The training of a supernet, step by step, along `paths`: for each epoch the architectures of every step."""

    def loss(batch: Batch) -> Tensor:
        group = paths[batch.epoch][batch.step]
        losses = [F.cross_entropy(supernet(batch.images, path), batch.labels) for path in group]
        return sum(losses[1:], losses[0]) / len(group)

    def record(step: Step, batch: Batch, optimiser: torch.optim.SGD) -> Step:
        return FusedStep(supernet.network, paths, batch, settings, optimiser)

    fused = settings.record and fits(supernet.network, split.device, split.size)
    return training(
        supernet,
        split,
        Objective(loss, record=record if fused else None),
        settings,
        seed=seed,
        purpose=("supernet",),
        checkpoint=checkpoint,
        on_epoch=on_epoch,
    )
