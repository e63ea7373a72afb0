"""What can be known to fail is said before anything is trained, and before a run folder is bound to its recipe."""

from __future__ import annotations

import importlib.util

import torch

from nesbs.config import Recipe
from nesbs.data import Dataset
from nesbs.errors import NesbsError
from nesbs.evaluation import gather
from nesbs.samplers import check_size
from nesbs.spaces import Space
from nesbs.supernet import design_supernet


def check_recipe(recipe: Recipe, data: Dataset, space: Space) -> None:
    """Raise where settings do not go together with each other, with the data or with the space."""
    space.check_images(*data.train.size)
    _ = data.search_train, data.search_valid  # too few images to split
    gather(data, recipe.evaluation)
    check_size(space, recipe.ensemble.size, recipe.search.duplicates)
    if recipe.search.tune == "bayesian":
        if recipe.sampler.name != "svgd-rd":
            raise NesbsError(f"search.tune=bayesian tunes the δ of svgd-rd; sampler {recipe.sampler.name} has none")
        if importlib.util.find_spec("optuna") is None:
            raise NesbsError("search.tune=bayesian needs Optuna: install it with `pip install 'nesbs[hpo]'`")
    if recipe.posterior.estimator == "straight-through" and recipe.supernet.affine and "none" in space.operations:
        raise NesbsError(f"posterior.estimator=straight-through needs supernet.affine=false on space {space.name}")
    with torch.device("meta"):  # shapes alone: widths and depths that cannot be built
        design_supernet(space, data.search_train, recipe.supernet)
        space.network(
            space.architecture([0] * len(space.variables)),
            channels=recipe.members.channels,
            cells=recipe.members.cells,
        )
