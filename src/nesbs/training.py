"""The one training loop: SGD with momentum, cosine schedule, clipping, a checkpoint an epoch.

Supernet, members and rivals call it with their own loss. Randomness is a function of seed, purpose and
epoch, so a resumed run is the run that was not interrupted. Nothing in a step waits for the host: losses
stay on the device and are looked at once an epoch.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import Field
from torch import Tensor, nn

from nesbs import files
from nesbs.data import Split, batches, steps_per_epoch
from nesbs.errors import NesbsError
from nesbs.rng import generator
from nesbs.settings import Settings
from nesbs.spaces.operations import Normalise


class TrainingSettings(Settings):
    """How a network is trained; the supernet's and the members' settings add to it."""

    epochs: int = Field(50, ge=1)
    batch_size: int = Field(128, ge=2)
    learning_rate: float = Field(0.1, gt=0, description="at the start; falls to 0 along a cosine")
    momentum: float = Field(0.9, ge=0, lt=1)
    nesterov: bool = False
    weight_decay: float = Field(3e-4, ge=0)
    clip: float | None = Field(5.0, gt=0, description="largest norm of the gradient (DARTS: 5)")
    crop: int = Field(4, ge=0, description="shift images by up to so many pixels")
    flip: bool = Field(True, description="mirror images half the time")


@dataclass(frozen=True)
class Epoch:
    """What a finished epoch tells: its number (from 1), how many there are, the mean loss, its seconds."""

    number: int
    epochs: int
    loss: float
    seconds: float


# A loss for one batch: (images, labels, epoch, step) → scalar. Epochs and steps count from 0.
Loss = Callable[[Tensor, Tensor, int, int], Tensor]


def train(
    module: nn.Module,
    split: Split,
    loss: Loss,
    settings: TrainingSettings,
    *,
    seed: int,
    purpose: tuple[str | int, ...],
    checkpoint: Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> list[float]:
    """Train `module` in place where `split` lives; the mean loss of every epoch.

    Parameters a step's loss does not reach are left alone by it: no gradient, no decay, no momentum.
    `purpose` names the training in its random streams and in errors. With a `checkpoint` path the state
    is kept there after every epoch, and training goes on from it where it exists; removing it when the
    result is safe is the caller's part.
    """
    optimiser = torch.optim.SGD(
        module.parameters(),
        lr=settings.learning_rate,
        momentum=settings.momentum,
        nesterov=settings.nesterov and settings.momentum > 0,
        weight_decay=settings.weight_decay,
    )
    history = _resume(module, optimiser, checkpoint) if checkpoint is not None and checkpoint.exists() else []
    steps = steps_per_epoch(split, settings.batch_size)
    module.train()
    for epoch in range(len(history), settings.epochs):
        started = time.perf_counter()
        losses = torch.zeros(steps, device=split.device)
        random = generator(seed, *purpose, "batches", epoch, device=split.device)
        shuffled = batches(split, settings.batch_size, generator=random, crop=settings.crop, flip=settings.flip)
        for step, (images, labels) in enumerate(shuffled):
            rate = cosine(epoch * steps + step, settings.epochs * steps, settings.learning_rate)
            for group in optimiser.param_groups:
                group["lr"] = rate
            optimiser.zero_grad(set_to_none=True)
            value = loss(images, labels, epoch, step)
            value.backward()
            if settings.clip is not None:
                nn.utils.clip_grad_norm_(_reached(module), settings.clip)
            optimiser.step()
            losses[step] = value.detach()
        _check_finite(losses, module, purpose, epoch, checkpoint)
        history.append(losses.mean().item())
        if checkpoint is not None:
            _save(module, optimiser, history, checkpoint)
        if on_epoch is not None:
            on_epoch(Epoch(epoch + 1, settings.epochs, history[-1], time.perf_counter() - started))
    optimiser.zero_grad(set_to_none=True)
    module.eval()
    return history


def place(module: nn.Module, split: Split) -> None:
    """Move a network to where a split lives and take over its mean and deviation (`module.normalise`).

    On a CPU weights are stored channels last, which on two cores took NAS-Bench-201's operations a third to
    two thirds of the time (forward, 8 channels, 28×28).
    """
    normalise = module.get_submodule("normalise")
    assert isinstance(normalise, Normalise)
    normalise.set(split.mean.cpu(), split.std.cpu())
    module.to(split.device)
    if split.device.type == "cpu":
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def cosine(step: int, steps: int, start: float) -> float:
    """The learning rate before `step` (from 0) of `steps`, falling from `start` to 0.

    >>> cosine(0, 10, 0.1), cosine(5, 10, 0.1)
    (0.1, 0.05)
    """
    return start * 0.5 * (1 + math.cos(math.pi * step / steps))


def _reached(module: nn.Module) -> Iterator[nn.Parameter]:
    return (parameter for parameter in module.parameters() if parameter.grad is not None)


def _check_finite(
    losses: Tensor, module: nn.Module, purpose: tuple[str | int, ...], epoch: int, checkpoint: Path | None
) -> None:
    bad = (~losses.isfinite()).nonzero()
    # The last step's update is not seen by any loss of this epoch: look at the weights too.
    weights = torch.stack([parameter.detach().sum() for parameter in module.parameters()])
    if len(bad) == 0 and bool(weights.isfinite().all()):
        return
    step = int(bad[0]) if len(bad) else len(losses) - 1
    kept = " (the last good state is kept)" if checkpoint is not None and checkpoint.exists() else ""
    raise NesbsError(
        f"training {' '.join(str(part) for part in purpose)}: the loss is not a number at epoch {epoch + 1}, "
        f"step {step + 1}{kept}: lower the learning rate or set clip"
    )


def _save(module: nn.Module, optimiser: torch.optim.Optimizer, history: list[float], path: Path) -> None:
    tensors = {f"module.{name}": tensor for name, tensor in module.state_dict().items()}
    for name, parameter in module.named_parameters():
        buffer = optimiser.state[parameter].get("momentum_buffer")
        if buffer is not None:
            tensors[f"momentum.{name}"] = buffer
    files.write_tensors(path, tensors, history=json.dumps(history))


def _resume(module: nn.Module, optimiser: torch.optim.Optimizer, path: Path) -> list[float]:
    device = next(module.parameters()).device
    tensors, about = files.read_tensors(path, device)
    weights = {name.removeprefix("module."): t for name, t in tensors.items() if name.startswith("module.")}
    files.load_into(module, weights, path)
    for name, parameter in module.named_parameters():
        if f"momentum.{name}" in tensors:
            optimiser.state[parameter]["momentum_buffer"] = tensors[f"momentum.{name}"]
    return [float(loss) for loss in json.loads(about["history"])]
