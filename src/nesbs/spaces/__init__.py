"""What can be built: `Architecture`, every operation once, and the search spaces."""

import re
from collections.abc import Callable

from pydantic import Field, field_validator

from nesbs.errors import NesbsError, did_you_mean, named
from nesbs.settings import Settings
from nesbs.spaces.architecture import ARCHITECTURE, Architecture, Variable, differing, duplicates
from nesbs.spaces.choice_cell import ChoiceCell
from nesbs.spaces.darts import darts, toy_pairs
from nesbs.spaces.nasbench201 import EdgeSpace, nasbench201, toy_edges
from nesbs.spaces.network_cost import NetworkCost, NetworkCosts
from nesbs.spaces.network_latency import Milliseconds, OperationTimes, TimedCosts, time_network
from nesbs.spaces.network_size import multiply_adds, parameters, sizes_of, widest
from nesbs.spaces.pairs import PairSpace
from nesbs.spaces.space import Member, PathNetwork, Space, Stem
from nesbs.spaces.zoo import zoo

SPACES: dict[str, Callable[[], Space]] = {
    "nasbench201": nasbench201,
    "darts": darts,
    "toy-edges": toy_edges,
    "toy-pairs": toy_pairs,
}


def get_space(name: str) -> Space:
    """A space by its name.

    >>> get_space("nasbench201").name
    'nasbench201'
    """
    if name not in SPACES:
        raise NesbsError(f"unknown space {named(name)}: {did_you_mean(name, SPACES)}")
    return SPACES[name]()


def named_architecture(space: Space, text: str) -> Architecture:
    """An architecture by its name in the zoo, where this space's networks take it, or from its text.

    >>> named_architecture(darts(), "darts-v2") == zoo["darts-v2"]
    True
    """
    if text in zoo:
        home = zoo.entry(text).space
        if space.name != home:
            raise NesbsError(f"{text} is a cell of space {home}, not of {space.name}: set space.name={home}")
        return zoo[text]
    if re.fullmatch(r"[\w-]+", text):  # a name, not a text
        raise NesbsError(f"no cell {text} in the zoo: {did_you_mean(text, zoo)}")
    return space.parse(text)


class SpaceSettings(Settings):
    """What can be built (recipe section `space`)."""

    name: str = Field("nasbench201", description="the search space")

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        get_space(name)
        return name
