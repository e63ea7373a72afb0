"""Every public function answers a wrong argument in words: a table of misuses, each a `NesbsError` that says what."""

import math
from types import SimpleNamespace

import pytest
import torch

import nesbs
from nesbs.compare import CurveGrid, compare, curves
from nesbs.data.split import make_split
from nesbs.records import ComparisonRecords, Recipe, RunRecords
from nesbs.rivals import nes_rs, uniform_pool, urs
from nesbs.runs import load_recipe
from nesbs.spaces import toy_edges, toy_pairs

NAN, INF = math.nan, math.inf
SPACE, PAIRS = toy_edges(), toy_pairs()
ONE, TWO = list(SPACE)[-2:]


def rng():
    return torch.Generator().manual_seed(0)


def density(x):
    return -x.square().sum(-1)


@pytest.fixture(scope="module")
def made(noise):
    """What the stages before return, made once."""
    split = noise.train
    colour = make_split(torch.zeros(6, 3, 8, 8, dtype=torch.uint8), torch.arange(6) % 3, ("a", "b", "c"), source="")
    binary = make_split(torch.zeros(6, 1, 8, 8, dtype=torch.uint8), torch.arange(6) % 2, ("a", "b"), source="")
    return SimpleNamespace(
        data=noise,
        empty=split.subset(torch.zeros(0, dtype=torch.int64)),
        colour=colour,
        binary=binary,
        odd=make_split(torch.zeros(6, 1, 9, 9, dtype=torch.uint8), torch.arange(6) % 3, ("a", "b", "c"), source=""),
        supernet=nesbs.train_supernet(SPACE, noise.search_train, epochs=1, channels=2, batch_size=16),
        posterior=nesbs.Posterior(SPACE),
        ensemble=nesbs.train_ensemble(SPACE, [ONE, TWO], split, epochs=1, cells=1, channels=2),
    )


def trained(space, split, **settings):
    return nesbs.train_supernet(space, split, epochs=1, channels=2, batch_size=16, **settings)


def members(space, architectures, split, **settings):
    return nesbs.train_ensemble(space, architectures, split, **{"epochs": 1, "cells": 1, "channels": 2, **settings})


def drawn(sampler, **changes):
    return sampler.propose(
        **{"posterior": nesbs.Posterior(SPACE), "size": 2, "rounds": 1, "generator": rng(), **changes}
    )


def searched(m, **settings):
    return nesbs.search(m.supernet, m.posterior, m.data.search_valid, **settings)


def moved(*, density=density, start=None, **settings):
    start = torch.zeros(2, 3) if start is None else start
    return nesbs.sample_svgd_rd(density, start, **{"steps": 2, **settings})


# What is done, with what the fixture made, and a word of the answer.
MISUSES = {
    # Data.
    "load nothing": (lambda m: nesbs.load_dataset(""), "no data set, folder, .npz or .csv file ''"),
    "load None": (lambda m: nesbs.load_dataset(None), "name must be .*found None"),
    "load a folder of nobody": (lambda m: nesbs.load_dataset("~nobody-of-this-name/x"), "no such home"),
    "load a name with a zero byte": (lambda m: nesbs.load_dataset("a\0b"), "name"),
    "load a name that is too long": (lambda m: nesbs.load_dataset("a" * 5000), "no data set, folder"),
    "load from a root of nobody": (lambda m: nesbs.load_dataset("cifar10", root="~nobody-of-this-name"), "such home"),
    "load with a fraction that is no number": (lambda m: nesbs.load_dataset(valid_fraction=NAN), "valid_fraction"),
    "load with a fraction of all": (lambda m: nesbs.load_dataset(valid_fraction=1), "valid_fraction"),
    "load with a negative seed": (lambda m: nesbs.load_dataset(split_seed=-1), "split_seed"),
    "load at size 0": (lambda m: nesbs.load_dataset(size=0), "size"),
    "load at a huge size": (lambda m: nesbs.load_dataset(size=10**9), "size"),
    "load no images": (lambda m: nesbs.load_dataset(train_limit=0), "train_limit"),
    "load with an unknown keyword": (lambda m: nesbs.load_dataset(limit=3), "did you mean"),
    "a data set of a strange fraction": (lambda m: nesbs.Dataset("", m.data.train, m.data.test, NAN), "valid_fraction"),
    "a data set without splits": (lambda m: nesbs.Dataset("", [1], [2]), "must be a Split each, found a list"),
    "a data set without training images": (lambda m: nesbs.Dataset("", [1], m.data.test), "must be a Split each"),
    "a data set without test images": (lambda m: nesbs.Dataset("", m.data.train, [2]), "must be a Split each"),
    "a split of numbers": (lambda m: nesbs.Split(3, torch.zeros(1), ("a", "b"), None, None), "stored must be"),
    "a split with too few labels": (
        lambda m: nesbs.Split(m.data.train.stored, torch.zeros(3), ("a", "b"), m.data.train.mean, m.data.train.std),
        "64 images but 3 labels",
    ),
    "a subset by a list": (lambda m: m.data.train.subset([1, 2]), "index must be a tensor"),
    "a subset by places that are not there": (lambda m: m.data.train.subset(torch.tensor([64])), "index .*64"),
    # Spaces.
    "parse a number": (lambda m: SPACE.parse(3), "text of an architecture, found 3"),
    "parse pairs from a number": (lambda m: PAIRS.parse(3), "text of an architecture, found 3"),
    "parse a genotype from nothing": (lambda m: nesbs.darts().parse(None), "text of an architecture, found None"),
    "parse nothing": (lambda m: SPACE.parse(""), "nodes"),
    "parse a number of too many digits": (lambda m: SPACE.parse(f"|none~{'9' * 5000}|+|none~0|none~1|"), "4,000"),
    "parse deep brackets": (lambda m: PAIRS.parse(f"normal=[{'(' * 250}{')' * 250}] reduce=[]"), "is not a list"),
    "parse many signs": (lambda m: PAIRS.parse(f"normal=[{'-' * 3900}1] reduce=[]"), "normal is not a list"),
    "draw a word": (lambda m: SPACE.sample("three", generator=rng()), "count must be .*found 'three'"),
    "draw fewer than none": (lambda m: SPACE.sample(-1, generator=rng()), "count must be .*found -1"),
    "draw without randomness": (lambda m: SPACE.sample(generator=None), "generator must be .*found None"),
    "draw from a seed": (lambda m: SPACE.sample(2, generator=0), "generator must be .*found 0"),
    "a network of a text": (lambda m: SPACE.network(str(ONE)), "architecture must be"),
    "a network of another space": (lambda m: nesbs.nasbench201().network(ONE), "not of space nasbench201"),
    "a network of pairs from edges": (lambda m: PAIRS.network(ONE), "not of space toy-pairs"),
    "a network for no classes": (lambda m: SPACE.network(ONE, classes=0), "classes"),
    "a network for classes by name": (lambda m: SPACE.network(ONE, classes="ten"), "classes"),
    "a network of negative width": (lambda m: SPACE.network(ONE, channels=-4), "channels"),
    "a network of half a cell": (lambda m: PAIRS.network(next(iter(PAIRS)), cells=0.5), "cells"),
    "a network with a strange stem": (lambda m: PAIRS.network(next(iter(PAIRS)), stem="mnist"), "stem"),
    "the zoo by number": (lambda m: nesbs.zoo[3], "name of a published cell, found 3"),
    "the zoo by a wrong name": (lambda m: nesbs.zoo["darts"], "did you mean"),
    # Supernets.
    "a supernet on no images": (lambda m: trained(SPACE, m.empty), "no images"),
    "a supernet on images": (lambda m: trained(SPACE, m.data.train.images), "Split"),
    "a supernet on odd images": (lambda m: trained(SPACE, m.odd), "multiples of 4"),
    "a supernet of a word": (lambda m: trained("nasbench201", m.data.search_train), "space must be"),
    "a supernet from a strange seed": (lambda m: trained(SPACE, m.data.search_train, seed="x"), "seed .*'x'"),
    "a supernet from a negative seed": (lambda m: trained(SPACE, m.data.search_train, seed=-1), "seed .*-1"),
    "a supernet that tells a number": (lambda m: trained(SPACE, m.data.search_train, on_epoch=3), "on_epoch .*found 3"),
    "a supernet kept in a number": (lambda m: trained(SPACE, m.data.search_train, checkpoint=3), "checkpoint .*3"),
    "a supernet at a learning rate of NaN": (lambda m: trained(SPACE, m.data.search_train, learning_rate=NAN), "rate"),
    "a supernet of a text": (lambda m: m.supernet(m.data.test.pixels(), str(ONE)), "architecture must be"),
    "a supernet's stranger": (lambda m: m.supernet(m.data.test.pixels(), next(iter(PAIRS))), "not of space toy-edges"),
    "an estimate of no images": (lambda m: nesbs.Estimator(m.supernet, m.empty), "no images"),
    "an estimate of no batch": (lambda m: nesbs.Estimator(m.supernet, m.data.search_valid, batch_size=0), "batch_size"),
    "an estimate of a text": (lambda m: nesbs.Estimator(m.supernet, m.data.search_valid).logits("a"), "architecture"),
    "an estimate of none": (lambda m: nesbs.Estimator(m.supernet, m.data.search_valid).log_probs([]), "architectures"),
    "an estimate of colour": (lambda m: nesbs.Estimator(m.supernet, m.colour), "1 channel"),
    # Posteriors.
    "logits as a list": (lambda m: nesbs.Posterior(SPACE, [[0.0] * 3] * 3), "logits must be a tensor"),
    "logits of another shape": (lambda m: nesbs.Posterior(SPACE, torch.zeros(2)), "logits of shape"),
    "logits that are no numbers": (lambda m: nesbs.Posterior(SPACE, torch.full((3, 3), NAN)), "finite"),
    "an endless temperature": (lambda m: nesbs.Posterior(SPACE, temperature=INF), "temperature"),
    "a temperature in words": (lambda m: m.posterior.tempered("warm"), "temperature"),
    "the probability of a stranger": (lambda m: m.posterior.log_prob(next(iter(PAIRS))), "not of space toy-edges"),
    "the probability of a smaller one": (lambda m: nesbs.Posterior(nesbs.nasbench201()).log_prob(ONE), "not of space"),
    "a draw of none": (lambda m: m.posterior.sample(0, generator=rng()), "count must be .*found 0"),
    "a draw of fewer than none": (lambda m: m.posterior.sample(-3, generator=rng()), "count must be .*found -3"),
    "a draw without randomness": (lambda m: m.posterior.sample(3, generator=None), "generator must be .*found None"),
    "a posterior of no images": (lambda m: nesbs.fit_posterior(m.supernet, m.empty, steps=1), "no images"),
    "a posterior of colour": (lambda m: nesbs.fit_posterior(m.supernet, m.colour, steps=1), "1 channel"),
    "a posterior of two classes": (lambda m: nesbs.fit_posterior(m.supernet, m.binary, steps=1), "3 classes"),
    "a posterior of no steps": (lambda m: nesbs.fit_posterior(m.supernet, m.data.search_valid, steps=0), "steps"),
    "a posterior from ranks in words": (
        lambda m: nesbs.fit_posterior(m.supernet, m.data.search_valid, steps=1, ranks="high"),
        "ranks must be",
    ),
    # Samplers.
    "no delta": (lambda m: nesbs.SvgdRd(delta=()), "delta"),
    "delta None": (lambda m: nesbs.SvgdRd(delta=None), "delta"),
    "negative steps": (lambda m: nesbs.SvgdRd(steps=-1), "steps"),
    "a strange device": (lambda m: nesbs.SvgdRd(device="abacus"), "device"),
    "proposals from a space": (lambda m: drawn(nesbs.MonteCarlo(), posterior=SPACE), "posterior must be"),
    "proposals of no members": (lambda m: drawn(nesbs.MonteCarlo(), size=0), "size"),
    "proposals of half a member": (lambda m: drawn(nesbs.Uniform(), size=0.5), "size"),
    "no proposals": (lambda m: drawn(nesbs.SvgdRd(delta=0.0, steps=1), rounds=0), "rounds"),
    "proposals with strange duplicates": (lambda m: drawn(nesbs.MonteCarlo(), duplicates="keep"), "duplicates"),
    "proposals without randomness": (lambda m: drawn(nesbs.SvgdRd(delta=0.0, steps=1), generator=3), "generator must"),
    "a density that is a number": (lambda m: moved(density=3), "log_density must be a function, found 3"),
    "a density that answers a number": (lambda m: moved(density=lambda x: 3.0), "log_density must return"),
    "a density of another shape": (lambda m: moved(density=lambda x: x.sum()), "log_density must return"),
    "a density without a gradient": (lambda m: moved(density=lambda x: torch.zeros(2)), "log_density must return"),
    "particles on one axis": (lambda m: moved(start=torch.zeros(3)), "particles, dims"),
    "no particles": (lambda m: moved(start=torch.zeros(0, 3)), "particles, dims"),
    "particles of whole numbers": (lambda m: moved(start=torch.zeros(2, 3, dtype=torch.int64)), "particles, dims"),
    "particles that are nowhere": (lambda m: moved(start=torch.full((2, 3), NAN)), "finite"),
    "a delta for other runs": (lambda m: moved(delta=torch.zeros(5)), "delta"),
    # Search.
    "a search of no images": (lambda m: nesbs.search(m.supernet, m.posterior, m.empty), "no images"),
    "a search of another space": (
        lambda m: nesbs.search(m.supernet, nesbs.Posterior(PAIRS), m.data.search_valid),
        "space toy-pairs",
    ),
    "a search for everything": (lambda m: searched(m, size=10**9), "size|larger than space"),
    "a search for a negative size": (lambda m: searched(m, size=-1), "size .*-1"),
    "a search in a range of NaN": (lambda m: searched(m, delta_range=(NAN, 1)), "delta_range"),
    "a search that tells a word": (lambda m: searched(m, on_progress="loud"), "on_progress .*'loud'"),
    "search with the class of a sampler": (lambda m: searched(m, sampler=nesbs.MonteCarlo), "sampler must be .*found"),
    # Rivals, comparisons, recipes.
    "urs of none": (lambda m: urs([ONE, TWO], 0, None), "size must be a whole number, at least 1, found 0"),
    "nes-rs of none": (lambda m: nes_rs([ONE, TWO], 0, None), "size must be a whole number, at least 1, found 0"),
    "a pool of less than none": (lambda m: uniform_pool(SPACE, -1, generator=rng()), "count must be .*found -1"),
    "compare a text": (lambda m: compare(Recipe(), "x", "urs"), r"methods must be a list of names such as \['urs'\]"),
    "compare a list of seeds": (lambda m: compare(Recipe(), "x", ["urs"], seeds=[0, 1]), "--seeds must be .*a list"),
    "curves without a budget": (lambda m: curves(Recipe(), "x", CurveGrid(["urs"], [])), "--budgets: name at least"),
    "a recipe of values": (lambda m: load_recipe({"seed": 1}), "a recipe is given by its name or its file, found a d"),
    "a recipe with a text": (lambda m: load_recipe("toy", "seed=1"), r"changes must be a list .*\['seed=1'\]"),
    "the records of no run": (lambda m: RunRecords.read("tests"), "tests is not a run: name the folder of a run"),
    "the records of no comparison": (lambda m: ComparisonRecords.read("tests"), "tests is no comparison that has"),
    # Ensembles.
    "an ensemble of nobody": (lambda m: members(SPACE, [], m.data.train), "at least one"),
    "an ensemble of None": (lambda m: members(SPACE, None, m.data.train), "architectures must be"),
    "an ensemble of strangers": (lambda m: members(SPACE, list(PAIRS)[:1], m.data.train), "not of space toy-edges"),
    "an ensemble on no images": (lambda m: members(SPACE, [ONE], m.empty), "no images"),
    "an ensemble for minus one epoch": (lambda m: members(SPACE, [ONE], m.data.train, epochs=-1), "epochs"),
    "an ensemble from half a seed": (lambda m: members(SPACE, [ONE], m.data.train, seed=0.5), "seed .*0.5"),
    "an ensemble of numbers": (lambda m: nesbs.Ensemble(3), "members must be"),
    "predictions of images": (lambda m: m.ensemble.predict(m.data.test.images), "Split"),
    "predictions in no batch": (lambda m: m.ensemble.predict(m.data.test, batch_size=0), "batch_size"),
    # Measures.
    "evaluate no images": (lambda m: nesbs.evaluate(m.ensemble, m.empty), "no images"),
    "evaluate colour": (lambda m: nesbs.evaluate(m.ensemble, m.colour), "1 channel"),
    "evaluate two classes": (lambda m: nesbs.evaluate(m.ensemble, m.binary), "3 classes"),
    "evaluate in no bins": (lambda m: nesbs.evaluate(m.ensemble, m.data.test, bins=0), "bins"),
    "evaluate in negative batches": (lambda m: nesbs.evaluate(m.ensemble, m.data.test, batch_size=-1), "batch_size"),
    "attack by number": (lambda m: nesbs.attack_then_defend(m.ensemble, 3, m.data.test), "attack must be"),
    "attack a network": (lambda m: nesbs.attack_then_defend(m.supernet, "fgsm", m.data.test), "ensemble must be"),
    "attack no images": (lambda m: nesbs.attack_then_defend(m.ensemble, "fgsm", m.empty), "no images"),
    "attack colour": (lambda m: nesbs.attack_then_defend(m.ensemble, "fgsm", m.colour), "1 channel"),
    "attack in no batch": (
        lambda m: nesbs.attack_then_defend(m.ensemble, "fgsm", m.data.test, batch_size=0),
        "batch_size",
    ),
    "attack by a class": (lambda m: nesbs.attack_then_defend(m.ensemble, nesbs.Pgd, m.data.test), "attack must be a"),
    "attack from a strange seed": (
        lambda m: nesbs.attack_then_defend(m.ensemble, "fgsm", m.data.test, seed=None),
        "seed .*None",
    ),
    "fgsm of NaN": (lambda m: nesbs.Fgsm(epsilon=NAN), "epsilon"),
    "pgd in no steps": (lambda m: nesbs.Pgd(steps=0), "steps"),
    "pgd with a wrong keyword": (lambda m: nesbs.Pgd(step=3), "unknown setting step: did you mean step"),
    "cw upside down": (lambda m: nesbs.CarliniWagner(c_low=2, c_high=1), "c_low"),
    "autoattack without a size": (lambda m: nesbs.AutoAttack(epsilon=0), "epsilon"),
    "fgsm against a number": (
        lambda m: nesbs.Fgsm().perturb(3, torch.zeros(1, 1, 8, 8), torch.zeros(1, dtype=torch.int64)),
        "model must be",
    ),
    "pgd of a list": (lambda m: nesbs.Pgd().perturb(m.ensemble.members[0], [1], [0]), "images must be"),
    "cw with too few labels": (
        lambda m: nesbs.CarliniWagner().perturb(m.ensemble.members[0], m.data.test.pixels(), torch.zeros(3)),
        "labels must be",
    ),
}  # fmt: skip


@pytest.mark.parametrize("misuse", MISUSES)
def test_a_misuse_is_answered_in_words(misuse, made):
    call, word = MISUSES[misuse]
    with pytest.raises(nesbs.NesbsError, match=word) as answer:
        call(made)
    assert len(str(answer.value)) < 600 or "parse" in misuse
