"""Which architectures the supernet is trained on: one a step, drawn uniformly, or a group fair to all operations."""

import itertools
from typing import Literal

import torch

from nesbs import rng
from nesbs.spaces import Architecture, Space

Group = tuple[Architecture, ...]  # the architectures of one step
Paths = Literal["one", "fair", "dense", "mixed"]


def draw_groups(
    space: Space, steps: int, *, seed: int, epoch: int, skip_dead: bool, paths: Paths = "one"
) -> list[Group]:
    """The architectures of every step of an epoch: one each, or a group for each.

    A `fair` group uses every operation, a `dense` one every operation but `none`; `mixed` takes them in turn.
    """
    if paths == "one":
        return [(path,) for path in draw_paths(space, steps, seed=seed, epoch=epoch, skip_dead=skip_dead)]
    random = rng.generator(seed, "supernet", "paths", epoch)
    groups: list[Group] = []
    while len(groups) < steps:
        dense = paths == "dense" or (paths == "mixed" and len(groups) % 2 == 1)
        group = fair_group(space, generator=random, dense=dense)
        if skip_dead:  # the rest stays fair: a dead path would train nothing
            group = tuple(path for path in group if not space.is_dead(path))
        if group:
            groups.append(group)
    return groups


def fair_group(space: Space, *, generator: torch.Generator, dense: bool = False) -> Group:
    """As many architectures as there are operations, which together use each operation of each edge once.

    Every decision goes through its choices in an order of its own, drawn at random (from the start again where it
    has fewer); each architecture alone is uniform. Where an architecture uses some of its edges only (DARTS), those
    it does not use train nothing. With `dense` they do without `none`, which has nothing to train.

    >>> from nesbs.spaces import toy_edges
    >>> group = fair_group(toy_edges(), generator=torch.Generator().manual_seed(0))
    >>> sorted(path.cells[0][0][0][0] for path in group)
    ['none', 'nor_conv_3x3', 'skip_connect']
    """
    left_out = {"none"} if dense else set()
    count = len(set(space.operations) - left_out)
    columns = []
    for variable in space.variables:
        choices = [i for i, choice in enumerate(variable.choices) if choice not in left_out]
        orders = [torch.randperm(len(choices), generator=generator).tolist() for _ in range(-(-count // len(choices)))]
        columns.append([choices[place] for order in orders for place in order])
    return tuple(map(space.architecture, itertools.islice(zip(*columns, strict=False), count)))


def draw_paths(space: Space, steps: int, *, seed: int, epoch: int, skip_dead: bool) -> list[Architecture]:
    """The architectures of one epoch, uniform and independent."""
    random = rng.generator(seed, "supernet", "paths", epoch)
    paths = space.sample(steps, generator=random)
    if skip_dead:
        for i, path in enumerate(paths):
            while space.is_dead(path):
                path = space.sample(generator=random)
            paths[i] = path
    return paths


def count_updates(space: Space, paths: list[Architecture]) -> dict[str, dict[str, int]]:
    """How often each operation of each edge lay on a live path, so was trained: {edge: {operation: count}}.

    Training is fair when the counts of one edge are alike (`none` has nothing to train and is left out).

    >>> from nesbs.spaces import toy_edges
    >>> path = toy_edges().parse("|skip_connect~0|+|none~0|nor_conv_3x3~1|")
    >>> count_updates(toy_edges(), [path, path])["cell 1→2"]
    {'skip_connect': 0, 'nor_conv_3x3': 2}
    """
    trained = [op for op in space.operations if op != "none"]
    counts = {
        f"{kind} {source}→{target}": dict.fromkeys(trained, 0) for kind in space.kinds for target, source in space.edges
    }
    for path in paths:
        for kind, cell in zip(space.kinds, space.live(path), strict=True):
            for target, node in enumerate(cell, start=space.inputs):
                for op, source in node:
                    counts[f"{kind} {source}→{target}"][op] += 1
    return counts
