"""The recipes of the paper and `nesbs reproduce --scale paper` beside the paper's own numbers, section by section.

What is left different is one table in docs/reproduce.md, which tests/test_docs.py holds against the recipes.
"""

import pytest

from nesbs.attacks import AttackSettings
from nesbs.compare.budgets import ensembles_judged
from nesbs.records.recipe import flatten
from nesbs.reproduce import NAMES, experiment
from nesbs.rivals import RivalSettings
from nesbs.runs.attack import attack_settings
from nesbs.runs.recipe import load_recipe

SEARCHES = ("cifar10-darts-paper", "cifar10-nasbench201-paper")
SEARCH = {
    "data.valid_fraction": 0.3,  # app. B.2: 70 % train the supernet
    "supernet.partial": 2,  # app. B.2: K
    "supernet.epochs": 50,  # app. B.2
    "supernet.schedule": "cosine",
    "supernet.learning_rate": 0.1,
    "supernet.warm_up": 0,
    "supernet.momentum": 0.9,
    "supernet.nesterov": False,
    "supernet.weight_decay": 3e-4,
    "supernet.batch_size": 128,
    "supernet.paths": "one",  # sec. 3.1 and app. B.2: one architecture a step, uniformly
    "supernet.skip_dead": False,
    "posterior.estimator": "straight-through",  # app. B.3
    "posterior.learning_rate": 0.01,
    "posterior.schedule": "constant",
    "posterior.weight_decay": 3e-4,
    "posterior.temperature": 1.0,  # app. B.3: τ
    "posterior.reference": 0,  # sec. 3.2: the evidence is the likelihood
    "posterior.noise": 0.0,
    "posterior.starts": 1,
    "sampler.name": "svgd-rd",
    "sampler.steps": 1000,  # app. B.4: L
    "sampler.step_size": 0.1,
    "sampler.momentum": 0.9,
    "search.rounds": 5,  # sec. 4.2: T
    "search.method": "rounds",  # Algorithm 1, line 8
    "search.tune": "grid",  # app. B.4: grid search or Bayesian optimisation
    "search.duplicates": "allow",  # Algorithms 2 and 3 draw nothing again
    "ensemble.size": 3,  # sec. 4.1 and 4.2: n
    "rivals.pool": 50,  # Table 2, NES-RS
    "rivals.pool_epochs": 50,
    "rivals.drop_path": 0.01,  # Table 2, MC DropPath
}
CIFAR_MEMBERS = {  # app. B.5
    "members.cells": 20,
    "members.channels": 36,
    "members.epochs": 600,
    "members.schedule": "cosine",
    "members.learning_rate": 0.025,
    "members.momentum": 0.9,
    "members.nesterov": False,
    "members.weight_decay": 3e-4,
    "members.batch_size": 96,
    "members.auxiliary": 0.4,  # it says 4
    "members.cutout": 16,  # DARTS's
    "members.drop_path": 0.2,
    "members.drop_path_schedule": "falling",
    "members.images": "all",
}
IMAGENET_MEMBERS = {  # app. B.5
    "members.cells": 14,
    "members.channels": 44,
    "members.multiply_adds": None,
    "members.stem": "imagenet",
    "members.auxiliary": 0.4,
    "members.label_smoothing": 0.1,  # P-DARTS's
    "members.epochs": 250,
    "members.batch_size": 1024,
    "members.momentum": 0.9,
    "members.nesterov": False,
    "members.weight_decay": 3e-5,
    "members.warm_up": 5,
    "members.learning_rate": 0.5,
    "members.schedule": "linear",
    "members.drop_path": 0.0,
    "members.colour_jitter": [0.4, 0.4, 0.4, 0.2],  # P-DARTS's
}


def differing(recipe, expected):
    values = flatten(recipe.model_dump(mode="json"))
    return {key: values[key] for key, value in expected.items() if values[key] != value}


@pytest.mark.parametrize("name", SEARCHES)
def test_the_search_is_the_papers(name):
    recipe = load_recipe(name)
    assert differing(recipe, SEARCH) == {}
    assert (min(recipe.sampler.delta), max(recipe.sampler.delta)) == (-2, 1)  # app. B.4
    # App. B.3: 20 epochs of the 30 % of CIFAR-10's 50,000 training images, in whole batches.
    assert recipe.posterior.steps == 20 * (15_000 // recipe.posterior.batch_size)
    assert recipe.additions() == ()


def test_the_members_are_the_papers():
    assert differing(load_recipe("cifar10-darts-paper"), CIFAR_MEMBERS) == {}
    assert differing(load_recipe("imagenet-darts-paper"), IMAGENET_MEMBERS) == {}
    supernet = load_recipe("cifar10-darts-paper").supernet
    assert (supernet.cells, supernet.channels) == (8, 16)  # app. B.1


def test_the_attacks_are_the_papers():
    """App. B.6, on all test images; AutoAttack, for which it gives no ε, at ours and at its authors'."""
    settings = attack_settings(None, None, experiment("table4").scales["paper"].attack)
    assert settings.attacks == ("fgsm", "pgd", "cw", "autoattack", "autoattack8")
    assert settings.images is None
    assert settings.fgsm.epsilon == 0.01
    assert (settings.pgd.epsilon, settings.pgd.step_size, settings.pgd.steps) == (0.01, 0.008, 40)
    cw = settings.cw
    assert (cw.confidence, cw.c_low, cw.c_high, cw.search_steps, cw.steps) == (0, 0.001, 10, 3, 50)
    assert cw.learning_rate == 0.01
    assert (settings.autoattack.epsilon, settings.autoattack8.epsilon) == (0.01, 8 / 255)
    assert {settings.autoattack.version, AttackSettings().autoattack8.version} == {"standard"}


@pytest.mark.parametrize("name", NAMES)
def test_every_part_of_the_scale_paper_runs_by_a_recipe_of_the_paper(name):
    for label, part in experiment(name).scales["paper"].parts.items():
        recipe = part.resolved()
        assert part.recipe.endswith("-paper")
        assert recipe.additions() == ()
        if label == "ImageNet":
            assert differing(recipe, IMAGENET_MEMBERS) == {}
            continue
        assert differing(recipe, SEARCH) == {}
        wanted = {**CIFAR_MEMBERS, "members.epochs": 100} if name == "table7" else CIFAR_MEMBERS  # app. C.2
        assert name == "table1" or differing(recipe, wanted) == {}
        data = {"CIFAR-10": "cifar10", "CIFAR-100": "cifar100", "ImageNet16-120": "imagenet16-120"}[label]
        assert recipe.data.name == data
        assert part.searched_on == (None if label == "CIFAR-10" else "CIFAR-10")


def test_the_sizes_of_the_experiments_are_the_papers():
    scale = {name: experiment(name).scales["paper"] for name in NAMES}
    assert scale["table1"].seeds == 3  # Table 1: three trials
    assert all(scale[f"fig-{name}"].seeds == 5 for name in ("efficiency", "temperature", "diversity"))  # five trials
    assert scale["fig-tradeoff"].repeats == 10  # Fig. 3: evaluated for ten times
    assert scale["table6"].quality["architectures"] == 10  # app. C.1
    assert scale["table6"].quality["epochs"] == 100
    assert scale["fig-temperature"].sizes == scale["fig-diversity"].sizes == (5,)  # Figs. 6 and 7
    assert {0.1, 10.0} <= set(scale["fig-temperature"].temperatures)  # app. C.4
    assert scale["fig-diversity"].deltas == load_recipe("cifar10-darts-paper").sampler.delta
    figure = scale["fig-delta"]  # Fig. 2
    assert (figure.particles, figure.steps, figure.step_size) == (15, 1000, 0.1)
    # Whole rounds of all δ for every size: no budget of the figures holds nothing.
    for name in ("fig-efficiency", "fig-temperature"):
        assert min(scale[name].budgets) >= max(scale[name].sizes) * len(scale["fig-diversity"].deltas)


@pytest.mark.parametrize("name", SEARCHES)
def test_monte_carlo_judges_as_many_as_svgd_rd_at_the_scale_paper(name):
    recipe = load_recipe(name)
    assert recipe.rivals == RivalSettings()  # nothing sets another number
    assert ensembles_judged(recipe) == 5 * 13
