"""Checks of a recipe before anything is trained, and before a run folder is bound to it."""

import importlib.util
import os
import warnings

import torch

from nesbs.cluster.torchrun import processes
from nesbs.data import Dataset
from nesbs.ensemble import Limits, design_member, member_costs
from nesbs.errors import NesbsError
from nesbs.records.recipe import Recipe
from nesbs.runs.measures import gather
from nesbs.samplers import check_size
from nesbs.spaces import Space, TimedCosts
from nesbs.supernet import design_supernet
from nesbs.training import TrainingSettings
from nesbs.training.ranks import Ranks


def check_recipe(recipe: Recipe, data: Dataset, space: Space, costs: TimedCosts | None = None) -> None:
    """Raise where settings do not go together with each other, with the data or with the space.

    `costs` are the members', where they are known already. More threads than the machine has bring a warning.
    """
    threads, most = recipe.threads or 1, os.cpu_count()
    if most is not None and threads > most:
        warnings.warn(f"threads={threads}, and this machine runs {most} at once: more are slower", stacklevel=2)
    space.check_images(*data.train.size, recipe.members.stem)
    _check_crop(recipe.members.crop, data.train.size, "members.crop")
    if recipe.evaluation.images == "search_valid" and recipe.members.images == "all":
        raise NesbsError("evaluation.images=search_valid measures on images the members learn from: set members.images")
    gather(data, recipe.evaluation)
    fixed = recipe.ensemble.fixed(space)
    if fixed is None:
        _check_search(recipe, data, space, costs or member_costs(space, data.train, recipe.members))
    if fixed is None or recipe.members.images == "search_train":
        _ = data.search_train  # raises where there are too few training images for the search split
    with torch.device("meta"):  # shapes alone: widths and depths that cannot be built
        for architecture in set(fixed or [space.architecture([0] * len(space.variables))]):
            design_member(space, architecture, data.train, recipe.members)
    check_batches(recipe, data, space)


def check_batches(recipe: Recipe, data: Dataset, space: Space) -> None:
    """Raise where the processes that torchrun started cannot share a batch."""
    ranks = Ranks(count=processes())
    if ranks.several:
        images = len(recipe.members.trained_on(data))
        trained: list[tuple[str, TrainingSettings, int]] = [("members", recipe.members, images)]
        if recipe.ensemble.fixed(space) is None:
            trained.append(("supernet", recipe.supernet, len(data.search_train)))
        for section, settings, count in trained:
            try:
                ranks.share(count, settings)
            except NesbsError as error:
                raise NesbsError(f"{section}: {error}") from None


def _check_crop(crop: int, size: tuple[int, int], key: str) -> None:
    height, width = size
    if crop > min(height, width):
        raise NesbsError(f"{key}={crop} shifts images of {height}×{width} pixels out of sight: set it lower")


def _check_search(recipe: Recipe, data: Dataset, space: Space, costs: TimedCosts) -> None:
    space.check_images(*recipe.supernet.size(data.train))
    check_size(space, recipe.ensemble.size, recipe.search.duplicates)
    recipe.search.check_candidates(recipe.ensemble.size)
    if recipe.search.limits.bounds:
        Limits(recipe.search.limits, costs, recipe.ensemble.size).check()
    if recipe.search.judge == "evidence" and recipe.posterior.reference == 0:
        raise NesbsError("search.judge=evidence judges by posterior.reference, which is 0: set it, for example to 256")
    if recipe.search.tune == "bayesian":
        if recipe.sampler.name != "svgd-rd":
            raise NesbsError(f"search.tune=bayesian tunes the δ of svgd-rd; sampler {recipe.sampler.name} has none")
        if importlib.util.find_spec("optuna") is None:
            raise NesbsError("search.tune=bayesian needs Optuna: install it with `pip install 'nesbs[hpo]'`")
    if recipe.posterior.estimator == "straight-through" and recipe.supernet.affine and "none" in space.operations:
        raise NesbsError(f"posterior.estimator=straight-through needs supernet.affine=false on space {space.name}")
    if recipe.posterior.untrained > 0 and (recipe.members.stem != "cifar" or recipe.members.multiply_adds is not None):
        raise NesbsError(
            "posterior.untrained looks at networks with members.cells and members.channels; it knows neither "
            "members.stem=imagenet nor members.multiply_adds"
        )
    _check_crop(recipe.supernet.crop, recipe.supernet.size(data.train), "supernet.crop")
    with torch.device("meta"):
        design_supernet(space, data.train, recipe.supernet)
