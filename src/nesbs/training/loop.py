"""The one training loop: SGD with momentum, a schedule, clipping, a checkpoint an epoch.

Supernet, members and rivals call it with their own loss. Randomness is a function of seed, purpose and
epoch, so a resumed run is the run that was not interrupted. Nothing in a step waits for the host: losses
stay on the device and are read once an epoch.
"""

import contextlib
import functools
import inspect
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from nesbs.data import Split, batches, steps_per_epoch
from nesbs.data.batches import Share
from nesbs.errors import DivergedError
from nesbs.rng import generator
from nesbs.spaces.operations import Normalise
from nesbs.training import checkpoint as checkpoints
from nesbs.training.capture import Batch
from nesbs.training.ranks import Ranks, from_first, ranks_at_work, synchronised_batch_norm
from nesbs.training.schedule import learning_rate
from nesbs.training.settings import TrainingSettings

Loss = Callable[[Batch], Tensor]  # of one batch, a scalar
Noise = Callable[[int, int, torch.Generator], Tensor]  # (epoch, images, generator) → random numbers (…, images)
Step = Callable[[Batch], Tensor]  # trains on one batch; its loss
Record = Callable[[Step, Batch, torch.optim.SGD], Step]  # (plain step, an example, optimiser) → a faster one
Training = Generator[None, None, list[float]]  # stops after every step; its value is the mean loss of every epoch
Purpose = tuple[str | int, ...]  # names a training in its random streams and in errors
# SGD's step without what torch wraps around it: that imports torch's compiler, which takes seconds.
DESCEND: Callable[[torch.optim.SGD], object] = inspect.unwrap(torch.optim.SGD.step)


@dataclass(frozen=True)
class Objective:
    """What a training minimises: the loss, the random numbers that it asks for, and a faster step for a GPU.

    `record` makes the step that a GPU runs instead of the plain one (see `CapturedStep`); what is random in the loss
    must then come from `noise`.
    """

    loss: Loss
    noise: Noise | None = None
    record: Record | None = None


@dataclass(frozen=True)
class Epoch:
    """What a finished epoch tells: its number (from 1), how many there are, the mean loss, its seconds.

    Of one that a worker trained also the peak memory there, in bytes.
    """

    number: int
    epochs: int
    loss: float
    seconds: float
    peak_memory: int = 0


def train(
    module: nn.Module,
    split: Split,
    loss: Loss | Objective,
    settings: TrainingSettings,
    *,
    seed: int,
    purpose: Purpose,
    checkpoint: Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> list[float]:
    """Train `module` in place where `split` lives; the mean loss of every epoch.

    Parameters a step's loss does not reach are left alone by it: no gradient, no decay, no momentum. With a
    `checkpoint` path the state is written there after every epoch, and training resumes from it where it exists;
    removing it when the result is safe is the caller's part.
    """
    objective = loss if isinstance(loss, Objective) else Objective(loss)
    steps = training(
        module, split, objective, settings, seed=seed, purpose=purpose, checkpoint=checkpoint, on_epoch=on_epoch
    )
    return side_by_side([steps])[0]


def side_by_side(trainings: Sequence[Training], after_round: Callable[[], object] | None = None) -> list[list[float]]:
    """Run several trainings step by step in turn, on a GPU each in a stream of its own; the losses of each.

    One small network does not fill a GPU; several do better, since no step waits for the host. The result
    is that of one after the other. Where steps are only asked for, `after_round` does those of all trainings at once.
    """
    several = len(trainings) > 1 and torch.cuda.is_available() and after_round is None
    streams = [torch.cuda.Stream() if several else None for _ in trainings]
    losses: list[list[float]] = [[] for _ in trainings]
    running = dict(enumerate(trainings))
    if several:
        torch.cuda.synchronize()  # what the networks were built from is there
    while running:
        for index, steps in list(running.items()):
            try:
                with torch.cuda.stream(streams[index]) if several else contextlib.nullcontext():
                    next(steps)
            except StopIteration as finished:
                losses[index] = finished.value
                del running[index]
        if after_round is not None:
            after_round()
    if several:
        torch.cuda.synchronize()
    return losses


def training(
    module: nn.Module,
    split: Split,
    objective: Objective,
    settings: TrainingSettings,
    *,
    seed: int,
    purpose: Purpose,
    checkpoint: Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> Training:
    """What `train` does, one step at a time, for `side_by_side`.

    Where all ranks run it (`all_ranks`), each trains on its share of every batch, with the plain step; checkpoint and
    `on_epoch` are the first one's.
    """
    device, ranks = split.device, ranks_at_work()
    share = ranks.share(len(split), settings)
    optimiser = _optimiser(module, settings, device)
    history: list[float] = []
    of = f"the training of {' '.join(map(str, purpose))} under seed {seed}"
    if checkpoint is not None and checkpoint.exists():
        history = checkpoints.resume(module, optimiser, checkpoint, of=of)
    history = _same_state(module, optimiser, history, ranks)
    plain = _plain_step(module, objective.loss, settings, optimiser, ranks)
    step = plain if objective.record is None or device.type != "cuda" or ranks.several else None
    steps = steps_per_epoch(split, settings.batch_size)
    module.train()
    with synchronised_batch_norm(module) if _synchronises(settings, ranks) else contextlib.nullcontext():
        for epoch in range(len(history), settings.epochs):
            started = time.perf_counter()
            losses = torch.zeros(steps, device=device)
            for batch in _batches(split, objective.noise, settings, seed, purpose, epoch, share):
                _set_rate(optimiser, learning_rate(settings, epoch * steps + batch.step, steps))
                if step is None:
                    assert objective.record is not None
                    step = objective.record(plain, batch, optimiser)
                loss = step(batch)
                yield
                losses[batch.step] = loss  # by now a step that trains several networks at once has been made
            ranks.average(losses)
            _check_finite(losses, module, settings, purpose, epoch, checkpoint)
            history.append(losses.mean().item())
            if checkpoint is not None:
                checkpoints.save(module, optimiser, history, checkpoint, of=of)
            if on_epoch is not None:
                on_epoch(Epoch(epoch + 1, settings.epochs, history[-1], time.perf_counter() - started))
    optimiser.zero_grad(set_to_none=True)
    module.eval()
    return history


def _synchronises(settings: TrainingSettings, ranks: Ranks) -> bool:
    return ranks.several and settings.batch_norm == "synchronised"


def _same_state(module: nn.Module, optimiser: torch.optim.Optimizer, history: list[float], ranks: Ranks) -> list[float]:
    """Let all ranks begin with what the first one has; the mean loss of every epoch so far."""
    if not ranks.several:
        return history
    tensors = {name: tensor.cpu() for name, tensor in checkpoints.state(module, optimiser).items()}
    history, tensors = from_first((history, tensors))
    checkpoints.load(tensors, module, optimiser, Path("the first rank's state"))
    return history


@functools.cache
def _without_compiler() -> None:
    """Let torch make an optimiser without importing its compiler, which takes seconds.

    torch does so to tell the compiler to leave these methods alone; what is compiled here holds no optimiser.
    """
    for name in ("add_param_group", "zero_grad"):
        method = getattr(getattr(torch.optim.Optimizer, name), "__wrapped__", None)
        if method is not None and not hasattr(method, "__dynamo_disable"):
            setattr(method, "__dynamo_disable", method)


def _optimiser(module: nn.Module, settings: TrainingSettings, device: torch.device) -> torch.optim.SGD:
    _without_compiler()
    on_gpu = device.type == "cuda"
    rate = torch.tensor(settings.learning_rate, device=device) if on_gpu else settings.learning_rate
    optimiser = torch.optim.SGD(
        module.parameters(),
        lr=rate,  # on a GPU in its memory, where a captured step reads it
        momentum=settings.momentum,
        nesterov=settings.nesterov and settings.momentum > 0,
        weight_decay=settings.weight_decay,
        fused=on_gpu,
    )
    if on_gpu and settings.momentum > 0:
        # The fused kernel wants momentum for every parameter. From zeros it begins as from nothing.
        for parameter in module.parameters():
            optimiser.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
    return optimiser


def _set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    group = optimiser.param_groups[0]
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


def _plain_step(
    module: nn.Module, loss: Loss, settings: TrainingSettings, optimiser: torch.optim.SGD, ranks: Ranks
) -> Step:
    device = next(module.parameters()).device
    lower = settings.lower_precision(device)

    def step(batch: Batch) -> Tensor:
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16, enabled=lower):
            value = loss(batch)
        value.backward()
        ranks.average_gradients(module)
        if settings.clip is not None:
            reached = [parameter for parameter in module.parameters() if parameter.grad is not None]
            nn.utils.clip_grad_norm_(reached, settings.clip)
        with torch.no_grad():
            DESCEND(optimiser)
        return value.detach()

    return step


def _batches(
    split: Split,
    noise: Noise | None,
    settings: TrainingSettings,
    seed: int,
    purpose: Purpose,
    epoch: int,
    share: Share,
) -> Iterator[Batch]:
    """This process's share of an epoch's batches: shuffled, augmented, with random numbers as the loss asks for."""
    random, for_noise = (generator(seed, *purpose, use, epoch, device=split.device) for use in ("batches", "noise"))
    augmented = batches(
        split,
        settings.batch_size,
        generator=random,
        crop=settings.crop,
        flip=settings.flip,
        colour_jitter=settings.colour_jitter,
        cutout=settings.cutout,
        share=share,
    )
    for step, (images, labels) in enumerate(augmented):
        drawn = None if noise is None else noise(epoch, len(labels) * share.count, for_noise)
        if drawn is not None and share.count > 1:
            drawn = drawn.narrow(-1, share.number * len(labels), len(labels))
        yield Batch(images, labels, epoch, step, drawn)


def place(module: nn.Module, split: Split, *, channels_last: bool | None = None) -> None:
    """Move a network to where a split lives and take over its mean and deviation (`module.normalise`).

    Weights are stored channels last on a CPU, which on two cores took NAS-Bench-201's operations a third to
    two thirds of the time (forward, 8 channels, 28×28), and on a GPU where `channels_last` asks for it.
    """
    normalise = module.get_submodule("normalise")
    assert isinstance(normalise, Normalise)
    normalise.set(split.mean.cpu(), split.std.cpu())
    module.to(split.device)
    if channels_last or (channels_last is None and split.device.type == "cpu"):
        module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def _check_finite(
    losses: Tensor,
    module: nn.Module,
    settings: TrainingSettings,
    purpose: Purpose,
    epoch: int,
    checkpoint: Path | None,
) -> None:
    bad = (~losses.isfinite()).nonzero()
    # The last step's update is not seen by any loss of this epoch: look at the weights too.
    weights = torch.stack([parameter.detach().sum() for parameter in module.parameters()])
    if len(bad) == 0 and bool(weights.isfinite().all()):
        return
    step = int(bad[0]) if len(bad) else len(losses) - 1
    saved = " (the last good state is kept)" if checkpoint is not None and checkpoint.exists() else ""
    called = " ".join(str(part + 1 if isinstance(part, int) else part) for part in purpose)  # people count from 1
    advice = "lower the learning rate" + (" or set clip" if settings.clip is None else "")
    raise DivergedError(
        f"training {called}: the loss is not a number at epoch {epoch + 1}, step {step + 1}{saved}: {advice}"
    )
