"""Many architectures on the same images at once: what they have in common is computed once.

Two paths through a supernet share every value up to where they part. A state is kept as its distinct values,
(distinct, batch, channels, height, width), and for every architecture the number of the value it sees. One
operation runs on all distinct values that meet it, so the number of kernels does not grow with the number of
architectures. Batches stay apart in BatchNorm, whose statistics are those of one architecture's batch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nesbs import kernels


@dataclass(frozen=True)
class SharedState:
    """Distinct values of a state, and which of them each architecture sees (None where nothing arrives)."""

    values: Tensor
    rows: tuple[int | None, ...]

    @classmethod
    def same(cls, value: Tensor, architectures: int) -> SharedState:
        """One value (batch, …) that all architectures see."""
        return cls(value[None], (0,) * architectures)

    def apply(self, module: Callable[[Tensor], Tensor]) -> SharedState:
        """The state behind a module that every architecture goes through."""
        return SharedState(each(module, self.values), self.rows)

    def expanded(self) -> Tensor:
        """Every architecture's own value, (architectures, batch, …)."""
        return self.values[_index(self.rows, self.values)]


def each(module: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """Run a module on each of several batches, (distinct, batch, channels, height, width), as if it were alone."""
    if len(values) == 1:
        return module(values[0])[None]
    with BatchesApart(len(values)):
        out: Tensor = module(values.flatten(0, 1))
    together: Tensor = out.unflatten(0, (len(values), -1))
    return together


class BatchesApart(TorchFunctionMode):
    """Within it a batch is several batches in a row, and BatchNorm takes the statistics of each on its own.

    Every other layer treats the images one by one, so it need not know.
    """

    def __init__(self, batches: int) -> None:
        super().__init__()
        self._batches = batches

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Take over BatchNorm and nothing else."""
        if function is F.batch_norm:
            return self._normalised(*args, **(kwargs or {}))
        return function(*args, **(kwargs or {}))

    def _normalised(
        self,
        x: Tensor,
        running_mean: Tensor | None,
        running_var: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
        assert running_mean is None  # of the supernet, which keeps no running averages
        fused = kernels.batch_norm(x, self._batches) if weight is None else None
        if fused is not None:
            return fused
        apart = x.unflatten(0, (self._batches, -1))
        if x.dtype is torch.bfloat16:
            apart = apart.float()
        variance, mean = torch.var_mean(apart, (1, 3, 4), correction=0, keepdim=True)
        scale = (variance + eps).rsqrt()
        if weight is not None:
            scale = scale * weight[:, None, None]
        shift = -mean * scale
        if bias is not None:
            shift = shift + bias[:, None, None]
        return torch.addcmul(shift, apart, scale).to(x.dtype).flatten(0, 1)


def join_states(
    parts: Sequence[Sequence[tuple[Hashable, Tensor, int]]], join: Callable[[list[Tensor]], Tensor]
) -> tuple[Tensor | None, tuple[int | None, ...]]:
    """Join what arrives at a node for each architecture, each distinct combination once.

    `parts` holds for every architecture the (name, values, row) of each thing that arrives; things of one
    name share their values. `join` takes one tensor for each of them, (combinations, batch, …).
    """
    combinations: dict[tuple[tuple[Hashable, int], ...], int] = {}
    rows: list[int | None] = []
    tensors: dict[Hashable, Tensor] = {}
    for arriving in parts:
        tensors.update({name: values for name, values, _ in arriving})
        key = tuple((name, row) for name, _, row in arriving)
        rows.append(combinations.setdefault(key, len(combinations)) if key else None)
    if not combinations:
        return None, tuple(rows)
    # Combinations of the same names are joined by one operation.
    by_names: dict[tuple[Hashable, ...], list[tuple[int, tuple[int, ...]]]] = {}
    for key, place in combinations.items():
        by_names.setdefault(tuple(name for name, _ in key), []).append((place, tuple(row for _, row in key)))
    joined, places = [], []
    for names, members in by_names.items():
        columns = zip(*(picked for _, picked in members), strict=True)
        joined.append(
            join([tensors[name][_index(column, tensors[name])] for name, column in zip(names, columns, strict=True)])
        )
        places += [place for place, _ in members]
    order = [0] * len(places)
    for position, place in enumerate(places):
        order[place] = position
    values = joined[0] if len(joined) == 1 else torch.cat(joined)
    return values, tuple(None if row is None else order[row] for row in rows)


def along_edge(module: nn.Module, state: SharedState, rows: Sequence[int]) -> tuple[Tensor, dict[int, int]]:
    """One operation on the distinct values among `rows` of a state: results, and the place of each row in them."""
    places = {row: place for place, row in enumerate(dict.fromkeys(rows))}
    values = state.values
    if list(places) != list(range(len(values))):
        values = values[_index(list(places), values)]
    return each(module, values), places


def _index(rows: Sequence[int | None], like: Tensor) -> Tensor:
    return torch.tensor(rows, device=like.device)
