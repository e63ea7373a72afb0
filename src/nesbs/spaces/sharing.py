"""Many architectures on the same images at once: what they have in common is computed once.

Two paths through a supernet share every value up to where they part. A state is kept as its distinct values,
(distinct, batch, channels, height, width), and for every architecture the number of the value it sees. One
operation runs on all distinct values that meet it, so the number of kernels does not grow with the number of
architectures. Batches stay apart in BatchNorm, whose statistics are those of one architecture's batch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Shared:
    """Distinct values of a state, and which of them each architecture sees (None where nothing arrives)."""

    values: Tensor
    rows: tuple[int | None, ...]

    @classmethod
    def same(cls, value: Tensor, architectures: int) -> Shared:
        """One value (batch, …) that all architectures see."""
        return cls(value[None], (0,) * architectures)

    def apply(self, module: Callable[[Tensor], Tensor]) -> Shared:
        """The state behind a module that every architecture goes through."""
        return Shared(each(module, self.values), self.rows)

    def expanded(self) -> Tensor:
        """Every architecture's own value, (architectures, batch, …)."""
        return self.values[_index(self.rows, self.values)]


def each(module: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """Run a module on each of several batches, (distinct, batch, channels, height, width), as if it were alone."""
    if len(values) == 1:
        return module(values[0])[None]
    return torch.vmap(module)(values)


def combine(
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


def along_edge(module: nn.Module, state: Shared, rows: Sequence[int]) -> tuple[Tensor, dict[int, int]]:
    """One operation on the distinct values among `rows` of a state: results, and the place of each row in them."""
    places = {row: place for place, row in enumerate(dict.fromkeys(rows))}
    values = state.values
    if list(places) != list(range(len(values))):
        values = values[_index(list(places), values)]
    return each(module, values), places


def _index(rows: Sequence[int | None], like: Tensor) -> Tensor:
    return torch.tensor(rows, device=like.device)
