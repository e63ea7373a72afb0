"""A training's state in a file: weights, buffers, momentum, the losses so far.

Everything random is drawn anew for each epoch from seed, purpose and epoch, and the learning rate is a
function of the step, so this is all that a training needs to resume exactly.
"""

import json
from pathlib import Path

import torch
from torch import Tensor, nn

from nesbs import files
from nesbs.errors import NesbsError


def save(module: nn.Module, optimiser: torch.optim.Optimizer, history: list[float], path: Path, *, of: str) -> None:
    """Write the state after a finished epoch, atomically: until then the state before it stays.

    `of` says in words which training it is.
    """
    files.write_tensors(path, state(module, optimiser), history=json.dumps(history), of=of)


def state(module: nn.Module, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return weights, buffers and momentum by name."""
    tensors = {f"module.{name}": tensor for name, tensor in module.state_dict().items()}
    for name, parameter in module.named_parameters():
        buffer = optimiser.state[parameter].get("momentum_buffer")
        if buffer is not None:
            tensors[f"momentum.{name}"] = buffer
    return tensors


def load(tensors: dict[str, Tensor], module: nn.Module, optimiser: torch.optim.Optimizer, path: Path) -> None:
    """Put a state into a network and its optimiser; `path` names it in errors."""
    weights = {name.removeprefix("module."): t for name, t in tensors.items() if name.startswith("module.")}
    files.load_into(module, weights, path)
    for name, parameter in module.named_parameters():
        if f"momentum.{name}" in tensors:
            # In the parameter's own layout, which the optimiser's fused kernels ask for.
            optimiser.state[parameter]["momentum_buffer"] = torch.empty_like(parameter).copy_(
                tensors[f"momentum.{name}"]
            )


def finished_epochs(path: Path) -> int:
    """How many epochs a saved state has behind it, from the file's header alone; 0 where there is none to read."""
    try:
        return len(files.about_json(files.read_about(path), "history", path))
    except (NesbsError, TypeError):
        return 0


def resume(module: nn.Module, optimiser: torch.optim.Optimizer, path: Path, *, of: str) -> list[float]:
    """Load a saved state into a network and its optimiser; the mean loss of every epoch so far."""
    device = next(module.parameters()).device
    tensors, about = files.read_tensors(path, device, of=of)
    load(tensors, module, optimiser, path)
    return [float(loss) for loss in files.about_json(about, "history", path)]
