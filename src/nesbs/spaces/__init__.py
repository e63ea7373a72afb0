"""What can be built: `Architecture`, every operation once, and the search spaces."""

from collections.abc import Callable

from pydantic import Field, field_validator

from nesbs.errors import NesbsError, did_you_mean
from nesbs.settings import Settings
from nesbs.spaces.architecture import Architecture, Variable, duplicates
from nesbs.spaces.darts import PairSpace, darts, toy_pairs
from nesbs.spaces.nasbench201 import EdgeSpace, nasbench201, toy_edges
from nesbs.spaces.network import Member, PathNetwork
from nesbs.spaces.space import Space
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
        raise NesbsError(f"unknown space {name}: {did_you_mean(name, SPACES)}")
    return SPACES[name]()


class SpaceSettings(Settings):
    """What can be built (recipe section `space`)."""

    name: str = Field("nasbench201", description="the search space")

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        get_space(name)
        return name


__all__ = [
    "SPACES",
    "Architecture",
    "EdgeSpace",
    "Member",
    "PairSpace",
    "PathNetwork",
    "Space",
    "SpaceSettings",
    "Variable",
    "darts",
    "duplicates",
    "get_space",
    "nasbench201",
    "toy_edges",
    "toy_pairs",
    "zoo",
]
