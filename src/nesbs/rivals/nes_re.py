"""NES-RE (Zaidi et al., 2021): neural ensemble search by regularised evolution.

    population ← P architectures drawn uniformly, each trained
    until K architectures are trained:
        parents ← ForwardSelect(population, m)
        child ← mutate(one of the parents, drawn uniformly);  train the child
        the child joins the population, the oldest leaves it
    return ForwardSelect(all that were ever trained, n)

An architecture is judged once. A child that was judged before joins the population again without a training,
so K counts different architectures; the evolution also ends after 10 K children, or when the whole space was judged.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import torch

from nesbs.ensemble import Limits, Score, Selection, forward_select
from nesbs.rivals.pools import chosen
from nesbs.rivals.settings import RivalSettings
from nesbs.samplers import Allowed
from nesbs.spaces import Architecture, Space

DEFAULT = RivalSettings()

TRIES = 100  # mutations of a parent, until one is within the limits
PATIENCE = 10  # children for each architecture of the budget


@dataclass(frozen=True)
class Birth:
    """One step of the evolution: who had a child, who left, and the population after it, the oldest first."""

    parent: Architecture
    child: Architecture
    died: Architecture
    population: tuple[Architecture, ...]


def nes_re(
    space: Space,
    start: Sequence[Architecture],
    size: int,
    score: Score,
    *,
    budget: int,
    parents: int = DEFAULT.parents,
    enough: Callable[[Collection[Architecture]], bool] | None = None,
    generator: torch.Generator,
) -> Selection:
    """Evolve the population `start` until `budget` architectures are judged; ForwardSelect over all of them.

    `enough` is called with those judged so far and may end the evolution earlier.

    >>> from nesbs.spaces import toy_edges
    >>> def score(ensembles):  # many convolutions are good
    ...     return torch.tensor([-str(ensemble).count("conv") / len(ensemble) for ensemble in ensembles])
    >>> random = torch.Generator().manual_seed(0)
    >>> str(nes_re(toy_edges(), list(toy_edges())[:3], 1, score, budget=27, generator=random).architectures[0])
    '|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|'
    """
    births = evolve(space, start, score, budget=budget, parents=parents, generator=generator)
    return best_of_births(births, start, size, score, enough=enough)


def best_of_births(
    births: Iterator[Birth],
    start: Sequence[Architecture],
    size: int,
    score: Score,
    *,
    enough: Callable[[Collection[Architecture]], bool] | None = None,
    limits: Limits | None = None,
) -> Selection:
    """ForwardSelect, within the `limits`, over the population `start` and all that are born to it."""
    judged = dict.fromkeys(start)
    for birth in births:
        judged.setdefault(birth.child)
        if enough is not None and enough(judged):
            break
    members, loss = forward_select(list(judged), size, score, counted=None if limits is None else limits.places)
    return chosen("nes-re", members, loss, list(judged), score)


def evolve(
    space: Space,
    start: Sequence[Architecture],
    score: Score,
    *,
    budget: int,
    parents: int = DEFAULT.parents,
    allowed: Allowed | None = None,
    generator: torch.Generator,
) -> Iterator[Birth]:
    """The births of an evolution that begins with the population `start`, the oldest first.

    Where limits say what is `allowed`, a child that is not is mutated again, up to 100 times; then it is as its parent.
    """
    population, judged = deque(start), set(start)
    budget = min(budget, space.size)
    for _ in range(PATIENCE * budget):
        if len(judged) >= budget:
            return
        able, _ = forward_select(list(population), min(parents, len(set(population))), score)
        parent = able[int(torch.randint(len(able), (), generator=generator))]
        mutants = (mutate(space, parent, generator=generator) for _ in range(TRIES))
        child = next((one for one in mutants if allowed is None or allowed((one,))), parent)
        judged.add(child)
        population.append(child)
        yield Birth(parent, child, population.popleft(), tuple(population))


def mutate(space: Space, architecture: Architecture, *, generator: torch.Generator) -> Architecture:
    """Change one operation, one input or nothing, each as likely (where a space has no inputs to choose: one of two).

    An input changes to another that the node does not take yet, and keeps its operation.

    >>> from nesbs.spaces import toy_edges
    >>> parent = next(iter(toy_edges()))
    >>> child = mutate(toy_edges(), parent, generator=torch.Generator().manual_seed(1))
    >>> sum(a != b for a, b in zip(toy_edges().encode(parent), toy_edges().encode(child)))
    1
    """

    def pick(count: int) -> int:
        return int(torch.randint(count, (), generator=generator))

    indices = list(space.encode(architecture))
    inputs = space.input_choices()
    several = [len(variable.choices) > 1 for variable in space.variables]
    operations = [i for i, choice in enumerate(indices) if choice >= 0 and i not in inputs and several[i]]
    kind = pick(3 if inputs else 2)
    if kind == 1 and operations:
        place = operations[pick(len(operations))]
        others = [c for c in range(len(space.variables[place].choices)) if c != indices[place]]
        indices[place] = others[pick(len(others))]
    elif kind == 2:
        root = inputs[pick(len(inputs))]
        now = set(space.children(root, indices[root]))
        near = [
            choice
            for choice in range(len(space.variables[root].choices))
            if len(now & set(space.children(root, choice))) == len(now) - 1
        ]
        choice = near[pick(len(near))]
        then = set(space.children(root, choice))
        [left], [taken] = now - then, then - now
        indices[taken], indices[root] = indices[left], choice
    return space.architecture(indices)
