"""Every stage sees the images it may see and no others: told from the pixels that reach a network.

The parts of a data set differ in brightness. A network's first layer tells which of them it is shown, and a gradient
that comes back to its last layer, that weights learned from them; all else counts as judging.
"""

import contextlib
import functools
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from contracts import METHOD_NAMES
from torch.nn.modules.module import register_module_forward_hook

import nesbs
from nesbs.attacks import Fgsm
from nesbs.compare.budgets import estimating
from nesbs.compare.harness import CurveHarness, Harness, Point
from nesbs.compare.methods import METHODS
from nesbs.data import DataSettings, SearchTrain, SearchValid, Split, stratified
from nesbs.errors import NesbsError
from nesbs.posterior import Posterior
from nesbs.reproduce.paper_methods import best_response_of
from nesbs.reproduce.running import run_discrepancy
from nesbs.reproduce.tradeoff import run_tradeoff
from nesbs.rivals import SearchRequest
from nesbs.runs.attack import attack_settings, measure_robustness
from nesbs.runs.quality import measure_quality
from nesbs.runs.recipe import load_recipe
from nesbs.runs.resumable_run import Run
from nesbs.spaces import toy_edges
from nesbs.spaces.operations import Normalise

TRAIN, VALID, TEST = "search_train", "search_valid", "test"
DARKEST = {TRAIN: 60, VALID: 140, TEST: 220}  # of a part's pixels, of which the brightest are 20 brighter
BRIGHTER, APART = 20, 18  # what noise, attacks and untrained networks add or take away is less than APART

SMALL = [
    *("space.name=toy-edges", "threads=1"),
    *("supernet.channels=2", "supernet.cells=1", "supernet.batch_size=24"),
    *("members.channels=2", "members.cells=1", "members.batch_size=24"),
    *("posterior.batch_size=6", "sampler.steps=5", "search.rounds=1", "ensemble.size=1"),
    *("rivals.pool=2", "rivals.parents=1", "rivals.samples=3"),
]
HELD_OUT = ["members.images=search_train"]
# The other way through every stage that has two.
OTHERWISE = [
    *HELD_OUT,
    *("posterior.estimator=straight-through", "posterior.reference=4", "posterior.untrained=1"),
    *("search.tune=bayesian", "search.trials=2", "rivals.judge=supernet"),
]
# The judges that are not in those. Candidates that are trained see what the supernet sees, whatever members see.
TRAINED = ["search.judge=trained", "search.judge_candidates=2", "search.judge_epochs=1", "search.duplicates=allow"]
EVIDENCE = ["search.judge=evidence", "posterior.reference=4", "posterior.untrained=1", "search.noise=10"]
RUNS = {"usual": [], "otherwise": OTHERWISE, "no test": [*HELD_OUT, "evaluation.images=search_valid"]}
QUALITY = {"architectures": 4, "candidates": 6, "epochs": 1, "sizes": (1,)}


@pytest.fixture(scope="module", autouse=True)
def _uncounted():
    """Counting multiply-adds would take longer than everything else here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nesbs.spaces.network_size.multiply_adds", lambda member, image: 0)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with `marked.npz`: 48 and 18 images of 8×8 whose brightness says which part they belong to."""
    random, folder = np.random.default_rng(0), tmp_path_factory.mktemp("separation")
    labels, test_labels = np.arange(48) % 3, np.arange(18) % 3
    settings = DataSettings()
    _, held_out = stratified(torch.tensor(labels), settings.valid_fraction, seed=settings.split_seed)
    darkest = np.full(48, DARKEST[TRAIN])
    darkest[held_out.numpy()] = DARKEST[VALID]

    def images(darkest):
        bright = random.integers(0, BRIGHTER, (len(darkest), 8, 8), endpoint=True)
        return (darkest[:, None, None] + bright).astype(np.uint8)

    np.savez(
        folder / "marked.npz",
        x_train=images(darkest),
        y_train=labels,
        x_test=images(np.full(18, DARKEST[TEST])),
        y_test=test_labels,
    )
    return folder


def parts_of(images):
    """The parts that images in [0, 1] belong to, by their brightest pixel: shifting lets black in from outside."""
    brightest = 255 * images.detach().flatten(1).amax(1)
    parts = set()
    for value in brightest[brightest > 0].tolist():  # multiply-adds are counted with a black image
        [part] = [name for name, dark in DARKEST.items() if dark - APART <= value <= dark + BRIGHTER + APART]
        parts.add(part)
    return parts


def seen(work):
    """The parts that networks learned from and those they were judged on, while `work` is done."""
    learned, judged = set(), set()
    with watching() as passes:
        work()
    for parts, reached in passes:
        (learned if reached else judged).update(parts)
    return learned, judged


@contextlib.contextmanager
def watching():
    """A list of every batch that reaches a network: its parts, and whether a loss was traced back to it."""
    passes = []

    def look(module, inputs, output):
        if isinstance(module, Normalise) and not inputs[0].is_meta:
            passes.append((parts_of(inputs[0]), []))
        if isinstance(module, torch.nn.Linear) and passes and torch.is_grad_enabled():
            # Only `backward` gets here: a gradient with respect to images or to α alone passes by.
            trace = torch.zeros((), requires_grad=True)
            trace.register_hook(passes[-1][1].append)
            return output + trace
        return None

    hook = register_module_forward_hook(look)
    try:
        yield passes
    finally:
        hook.remove()


def begin(folder, name, changes=()):
    recipe = load_recipe("toy", [f"data.name={folder / 'marked.npz'}", *SMALL, *changes], seed=0)
    return Run.create(folder / name, recipe)


def stages_of(folder, name, changes=()):
    """What each stage of a run sees, in the order in which they come."""
    run = begin(folder, name, changes)
    attacks = attack_settings("fgsm,pgd", None, ["epsilons=[]", "pgd.steps=2"])
    return {
        "supernet": seen(run.supernet),
        "posterior": seen(run.posterior),
        "choosing": seen(run.selection),
        "members": seen(run.ensemble),
        "uniform": seen(run.uniform if name == "usual" else lambda: None),
        "scores": seen(run.scores),
        "quality": seen(lambda: measure_quality(run, **QUALITY)),
        "attacks": seen(lambda: measure_robustness(run, attacks)),
    }


@pytest.fixture(scope="module")
def stages(folder):
    """What each stage of a run sees; a run is made when it is first asked for."""
    return functools.cache(lambda name: stages_of(folder, name, RUNS[name]))


@pytest.mark.parametrize(
    ("run", "stage", "learned", "judged"),
    [
        ("usual", "supernet", {TRAIN}, set()),
        ("usual", "posterior", set(), {VALID}),
        ("usual", "choosing", set(), {VALID}),
        ("usual", "members", {TRAIN, VALID}, set()),
        ("usual", "uniform", {TRAIN, VALID}, set()),
        ("usual", "scores", set(), {TEST}),
        ("usual", "quality", {TRAIN, VALID}, {VALID, TEST}),
        ("usual", "attacks", set(), {TEST}),
        # The mixture's gradient is what the posterior learns from; its reference and untrained networks are judged.
        ("otherwise", "posterior", {VALID}, {VALID}),
        ("otherwise", "choosing", set(), {VALID}),  # δ by Bayesian optimisation
        ("otherwise", "members", {TRAIN}, set()),
        ("otherwise", "scores", set(), {VALID, TEST}),  # a temperature is fitted on the held-out images
        ("otherwise", "quality", {TRAIN}, {VALID, TEST}),
        ("otherwise", "attacks", set(), {TEST}),
        ("no test", "scores", set(), {VALID}),
        ("no test", "quality", {TRAIN}, {VALID}),
        ("no test", "attacks", set(), {VALID}),
    ],
)
def test_a_stage_sees_its_images_alone(stages, run, stage, learned, judged):
    assert stages(run)[stage] == (learned, judged)


@pytest.mark.parametrize(("changes", "learned"), [(TRAINED, {TRAIN}), (EVIDENCE, set())], ids=["trained", "evidence"])
def test_judges_are_asked_about_held_out_images_alone(changes, learned, folder, tmp_path):
    run = begin(folder, tmp_path.name, [*changes, "ensemble.size=2"])
    run.posterior()
    with watching() as passes:
        run.selection()
    reached = [bool(traces) for _, traces in passes]
    assert set().union(*(parts for parts, traces in passes if traces)) == learned
    # What is not learned from is held out: estimates by the supernet, untrained networks, predictions of candidates.
    assert set().union(*(parts for parts, traces in passes if not traces)) == {VALID}
    assert any(reached) == bool(learned)


@pytest.fixture(scope="module")
def searched(folder):
    """Two runs with a supernet and a posterior, from which all else follows."""
    for name, changes in (("trained", ()), ("supernet", ["rivals.judge=supernet", "rivals.measure=supernet"])):
        begin(folder, f"judged-{name}", changes).posterior()
    return folder


def harness_of(searched, judge, place):
    return Harness(Run.open(shutil.copytree(searched / f"judged-{judge}", place / "run")))


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_a_method_chooses_on_held_out_images_and_is_measured_on_test_images(name, searched, tmp_path):
    method, harness = METHODS[name], harness_of(searched, "trained", tmp_path)
    trains = method.own_supernet or method.trains_pool(harness.run.recipe)
    unrolled = {TRAIN} if name == "darts-2nd" else set()  # a step of training is tried out before α is changed
    judges = name not in ("random", "drawn", "likeliest")  # which draw and look at nothing
    looked_at = {VALID} | unrolled if judges else set()
    assert seen(lambda: method.selection(harness)) == ({TRAIN} if trains else set(), looked_at)
    # What was chosen is trained in full. No method's predictions have looked at test images before that.
    assert seen(lambda: method.outcome(harness)) == ({TRAIN, VALID}, {TEST})


@pytest.mark.parametrize("name", ["nesbs", "nes-re", "single-best"])
def test_with_the_supernets_weights_too(name, searched, tmp_path):
    method, harness = METHODS[name], harness_of(searched, "supernet", tmp_path)
    assert seen(lambda: method.selection(harness)) == (set(), {VALID})
    assert seen(lambda: method.outcome(harness)) == (set(), {TEST})


def test_a_pool_predicts_held_out_images_where_it_judges_and_test_images_at_the_end(searched, tmp_path):
    harness = harness_of(searched, "trained", tmp_path)
    architectures = [next(iter(harness.run.space))]
    assert seen(lambda: harness.judged.log_probs(architectures)) == ({TRAIN}, {VALID})
    assert seen(lambda: harness.trained.log_probs(architectures)) == ({TRAIN, VALID}, {TEST})


def test_budgets_and_their_curves_are_judged_on_held_out_images(searched, tmp_path):
    run = harness_of(searched, "supernet", tmp_path).run
    path = next(iter(run.space))
    assert seen(lambda: estimating(run)(path)) == (set(), {VALID})
    curves = CurveHarness(run, 4)
    assert seen(lambda: METHODS["urs"].within(curves, Point("urs", 1, 4))) == (set(), {VALID})
    assert seen(lambda: curves.measure([path])) == (set(), {TEST})


def test_the_papers_own_experiments_are_measured_on_test_images(searched, tmp_path):
    harness = harness_of(searched, "trained", tmp_path)
    assert seen(lambda: best_response_of(harness.run)) == ({TRAIN}, {VALID})
    METHODS["nesbs"].selection(harness)
    work = SimpleNamespace(
        one_seed=lambda: [("part", None, harness)],
        all_seeds=lambda: [("part", None, [harness])],
        workers=None,
        methods=lambda *_: ["nesbs"],
        scale=SimpleNamespace(draws=2, repeats=1),
        record=SimpleNamespace(part=lambda _: SimpleNamespace(posteriors=None)),
        save_part=lambda *_, **__: None,
    )
    assert seen(lambda: run_discrepancy(work)) == (set(), {TEST})
    assert seen(lambda: run_tradeoff(work)) == ({TRAIN, VALID}, {TEST})


def test_a_data_set_is_attacked_on_its_test_images(folder):
    data = nesbs.load_dataset(folder / "marked.npz")
    ensemble = nesbs.train_ensemble(toy_edges(), list(toy_edges())[-1:], data.train, epochs=1, cells=1, channels=2)
    assert seen(lambda: nesbs.attack_then_defend(ensemble, Fgsm(), data)) == (set(), {TEST})


def test_a_search_part_stays_what_it_is(noise):
    for part, kind in ((noise.search_train, SearchTrain), (noise.search_valid, SearchValid)):
        assert {type(one) for one in (part, part.to("cpu"), part.subset(torch.arange(3)), part.compact())} == {kind}
        assert repr(part).startswith(f"{kind.__name__}({len(part)} images")
    assert type(noise.train) is type(noise.test) is Split
    assert not set(noise.search_train.index.tolist()) & set(noise.search_valid.index.tolist())


def test_networks_learn_from_no_held_out_image_and_no_other_chooses(noise):
    space, settings = toy_edges(), {"epochs": 1, "channels": 2, "cells": 1}
    held_out = "data.search_valid is held out from the supernet: give what it learns from, such as data.search_train"
    with pytest.raises(NesbsError, match=f"^{held_out}$"):
        nesbs.train_supernet(space, noise.search_valid, **settings)
    supernet = nesbs.train_supernet(space, noise.train, **settings)
    with pytest.raises(NesbsError, match=f"^{held_out}$"):
        nesbs.ensemble.ShortTraining(noise.search_valid)
    with pytest.raises(NesbsError, match=f"^{held_out}$"):
        SearchRequest(space, noise.search_valid, noise.search_valid)
    small = {"size": 1, "rounds": 1, "sampler": nesbs.MonteCarlo()}
    for split in (noise.search_train.subset(torch.arange(9)), noise.train, noise.test):
        found = f"held out from training and test, such as data.search_valid .*, found a {type(split).__name__}$"
        with pytest.raises(NesbsError, match=found):
            nesbs.fit_posterior(supernet, split, steps=1)
        with pytest.raises(NesbsError, match=found):
            nesbs.search(supernet, Posterior(space), split, **small)
        with pytest.raises(NesbsError, match=found):
            SearchRequest(space, noise.search_train, split)
    own = SearchValid(**vars(noise.train.subset(torch.arange(20))))  # of which one says that they are held out
    assert nesbs.search(supernet, nesbs.fit_posterior(supernet, own, steps=1), own, **small).architectures
