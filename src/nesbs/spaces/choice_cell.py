"""A cell with operations to choose from: one path through it, many at once, or a mixture of all."""

import functools
import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from nesbs.spaces.architecture import Cell
from nesbs.spaces.operations import Identity, Partial, Units, scaled
from nesbs.spaces.shared_state import SharedState, along_edge, join_states

Opened = Sequence[Sequence[bool]]  # of every edge and operation: whether its gate is not 0
Edges = Mapping[tuple[int, int], Sequence[str]]  # (target, source) → the operations built on that edge


class ChoiceCell(nn.Module):
    """A directed acyclic cell; each edge holds the operations an architecture may choose on it.

    With `compiled` set, a path in training runs as torch.compile makes it: cells of one shape share the work.
    """

    compiled = False
    kind = 0  # which of an architecture's cells it runs

    def __init__(self, edges: Edges, build: Callable[[str, int], nn.Module]) -> None:
        super().__init__()
        self.edges = nn.ModuleDict(
            {
                f"{target}_{source}": nn.ModuleDict({op: build(op, source) for op in operations if op != "none"})
                for (target, source), operations in edges.items()
            }
        )

    def path(self, inputs: list[Tensor], live_cell: Cell, drop: Tensor | None = None) -> list[Tensor | None]:
        """All states of the cell for one choice, given its live part; None where nothing arrives.

        DropPath: `drop` (edges, batch) multiplies what each edge carries, image by image, except where the
        edge hands its input on unchanged.
        """
        if self.compiled and self.training:
            states: list[Tensor | None] = compiled(ChoiceCell._path)(self, inputs, live_cell, drop)
            return states
        return self._path(inputs, live_cell, drop)

    def _path(self, inputs: list[Tensor], live_cell: Cell, drop: Tensor | None) -> list[Tensor | None]:
        states: list[Tensor | None] = list(inputs)
        scales = None if drop is None else iter(drop)
        for target, node in enumerate(live_cell, start=len(inputs)):
            total: Tensor | None = None
            for op, source in node:
                module = self.edges[f"{target}_{source}"][op]  # type: ignore[index]
                scale = None if scales is None else next(scales)
                if isinstance(module, Units):
                    total = module(states[source], scale, total)
                    continue
                out = module(states[source])
                out = out if scale is None or isinstance(module, Identity) else scaled(out, scale)
                total = out if total is None else total + out
            states.append(total)
        return states

    def paths(self, inputs: list[SharedState], live_cells: Sequence[Cell]) -> list[SharedState]:
        """`path` for many choices at once, one live part for each architecture."""
        states = list(inputs)
        for target in range(len(inputs), len(inputs) + len(live_cells[0])):
            wanted: dict[tuple[int, str], list[int]] = {}  # (source, operation) → the rows that meet it
            for number, cell in enumerate(live_cells):
                for op, source in cell[target - len(inputs)]:
                    row = states[source].rows[number]
                    assert row is not None  # live edges carry something
                    wanted.setdefault((source, op), []).append(row)
            done = {
                (source, op): along_edge(self.edges[f"{target}_{source}"][op], states[source], rows)  # type: ignore[index]
                for (source, op), rows in wanted.items()
            }
            arriving = []
            for number, cell in enumerate(live_cells):
                node = [(op, source, states[source].rows[number]) for op, source in cell[target - len(inputs)]]
                edges = [((source, op), *done[source, op], row) for op, source, row in node]
                arriving.append([(name, values, places[row]) for name, values, places, row in edges])  # type: ignore[index]
            values, rows = join_states(arriving, sum_in_order)
            states.append(SharedState(inputs[0].values[:0] if values is None else values, rows))
        return states

    def mixture(
        self, inputs: list[Tensor], gates: Tensor, operations: Sequence[str], opened: Opened | None = None
    ) -> list[Tensor | None]:
        """All states of the cell with every operation weighted: gates (edges, operations).

        `opened` says which gates are not 0; by default all. No gradient is computed through the others' operations:
        it is 0, and what they put out counts for the gradient of their gates alone.
        """
        states: list[Tensor | None] = list(inputs)
        numbers = itertools.count()
        columns: dict[tuple[int, ...], Tensor] = {}  # of the gates, by the operations that an edge has
        target = len(inputs)
        while f"{target}_0" in self.edges:
            total: Tensor | None = None
            for source in range(target):
                number, modules = next(numbers), dict(self.edges[f"{target}_{source}"].items())  # type: ignore[operator]
                places = tuple(operations.index(op) for op in modules)
                if places not in columns:  # without an index: the host would have to send it to a GPU
                    columns[places] = torch.stack([gates[:, place] for place in places], 1)
                passing = [opened is None or opened[number][place] for place in places]
                out = _weighted(list(modules.values()), states[source], columns[places][number], passing)  # type: ignore[arg-type]
                total = out if total is None else total + out
            states.append(total)
            target += 1
        return states


def _weighted(modules: Sequence[nn.Module], x: Tensor, weights: Tensor, passing: Sequence[bool]) -> Tensor:
    """What an edge carries: the sum of its operations' outputs, each times its weight (operations,).

    Partial channels that pass by are the same for every operation, so they are put together once.
    """
    first = modules[0]
    if isinstance(first, Partial):
        through, past = first.part(x)
        changed = _weighted([module.module for module in modules], through, weights, passing)  # type: ignore[misc]
        return first.put_together(changed, weights.sum() * first.bypass(past))
    outputs = []
    for module, passes in zip(modules, passing, strict=True):
        with torch.set_grad_enabled(passes and torch.is_grad_enabled()):
            outputs.append(module(x))
    channels_last = outputs[0].stride(1) == 1  # in memory; so it stays
    stacked = torch.stack([out.permute(0, 2, 3, 1) if channels_last else out for out in outputs])
    # In the outputs' precision, which is a lower one in training on a GPU.
    total = (weights.to(stacked.dtype)[:, None, None, None, None] * stacked).sum(0)
    return total.permute(0, 3, 1, 2) if channels_last else total


@functools.cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """A cell's function as torch.compile makes it: every shape of cell of every member is one version of it."""
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, 256)
    return torch.compile(function, dynamic=False)


def sum_in_order(values: list[Tensor]) -> Tensor:
    """The sum, from the first to the last, as a path adds up."""
    return functools.reduce(operator.add, values)
