"""Recipes: what is wrong is said in the user's words."""

import re

import pytest
import torch

from nesbs.data import Dataset
from nesbs.errors import NesbsError
from nesbs.records.recipe import Recipe
from nesbs.runs.checks import check_recipe
from nesbs.runs.recipe import load_recipe, recipe_names, recipe_text
from nesbs.spaces import toy_edges


@pytest.mark.parametrize("name", recipe_names())
def test_shipped_recipes_load_and_have_a_header(name):
    load_recipe(name)
    header = [line for line in recipe_text(name).splitlines() if line.startswith("#")]
    for word in ("command:", "cost:", "expected:", "seeds:"):
        assert any(word in line for line in header), word
    assert name in recipe_names()


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipes_header_says_what_is_ours(name):
    recipe = load_recipe(name)
    [line] = re.findall(r"^# ours: +(.*?)\n(?=# \w+:)", recipe_text(name), re.M | re.S)
    ours = re.sub(r"\n# +", " ", line)
    found = recipe.additions()
    assert ours.startswith("; ".join(found) or "nothing: ")
    assert ("posterior.evidence=auto" in ours) == (recipe.posterior.evidence == "auto")
    if name.endswith("-paper"):
        assert ours.startswith("nothing: the paper's method")
        assert re.search(r"^# differs: .*?all in docs/reproduce.md\n", recipe_text(name), re.M | re.S)


def test_a_resolved_recipe_reads_back_as_itself(tmp_path):
    recipe = load_recipe("demo", ["sampler.delta=0.5", "data.root=/x"], seed=4)
    path = tmp_path / "recipe.yaml"
    path.write_text(recipe.to_yaml())
    assert load_recipe(str(path)) == recipe
    assert recipe.sampler.delta == 0.5
    assert recipe.differences(load_recipe(str(path), ["sampler.delta=[0.5, 1]"])) == ["sampler.delta"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["supernet.epoch=3"], r"unknown setting supernet\.epoch: did you mean supernet\.epochs\?"),
        (["supernets.epochs=3"], r"did you mean supernet\.epochs\?"),
        (["zzz=3"], "unknown setting zzz: choose one of: seed, threads, data.name"),
        (["supernet.epochs=many"], r"supernet\.epochs: input should be a valid integer.*found 'many'"),
        (["supernet.epochs=0"], r"supernet\.epochs: input should be greater than or equal to 1, found 0"),
        (["supernet.learning_rate=.nan"], r"supernet\.learning_rate: input should be a finite number, found nan"),
        (["sampler.delta=wide"], r"sampler\.delta: .*found 'wide'"),
        (["space.name=nasbench2001"], r"space\.name: unknown space nasbench2001: did you mean nasbench201\?$"),
        (["sampler.name=mcmc"], r"sampler\.name: input should be 'svgd-rd', 'monte-carlo' or 'uniform', found 'mcmc'"),
        (["supernet.epochs"], r"--set takes section\.name=value, found 'supernet\.epochs'"),
        (["supernet.epochs=[1"], "the value is not valid YAML"),
        (["supernet.epochs=0", "members.epochs=-1"], r"supernet\.epochs: .*; members\.epochs: "),
    ],
)
def test_a_wrong_change_is_refused(changes, message):
    with pytest.raises(NesbsError, match=message):
        load_recipe("toy", changes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("# only a comment\n", "is empty"),
        ("- a\n- b\n", "must be sections with settings, found list"),
        ("a: [1\n", "is not valid YAML at line"),
        ("supernet: {epochs: 3, chanels: 4}\n", r"unknown setting supernet\.chanels: did you mean supernet\.channels"),
        ("supernet: 3\n", "supernet: input should be settings, such as {name: value}, found 3"),
        ("seed: 1\nsupernet:\n  epochs: 3\n  epochs: 4\n", "not valid YAML at line 4: epochs is there twice"),
        ("seed: 1\nseed: 1\n", "not valid YAML at line 2: seed is there twice"),
        ("seed: " + "9" * 5000, "not valid YAML: a number or a date in it is none"),
        ("a: " + "[" * 3000 + "]" * 3000, "not valid YAML: it is nested too deeply"),
        ("a: " + "[" * 60 + "]" * 60, "not valid YAML: it is nested too deeply"),
        ("a: &a [*a]", "not valid YAML: it is nested too deeply"),
        ("seed: !!python/object:os.system {}", "not valid YAML at line 1: could not determine a constructor"),
        ("seed: yes", "seed: input should be a number"),
        ('data: {name: "a\\0b"}', "data.name: input should be text without control characters"),
        ("1: 2\n", "must be sections with settings"),
        ("data: {1: 2}\n", "data"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_a_wrong_file_is_refused(text, message, tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(NesbsError, match=message):
        load_recipe(str(path))


def test_a_merged_key_may_be_set_anew(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("supernet: &one {epochs: 3, channels: 4}\nmembers: {<<: *one, epochs: 5}\n")
    recipe = load_recipe(str(path))
    assert (recipe.members.epochs, recipe.members.channels) == (5, 4)


def test_a_section_that_is_not_one_cannot_be_changed(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("supernet: 3\n")
    with pytest.raises(NesbsError, match="section supernet must hold settings, found 3"):
        load_recipe(str(path), ["supernet.epochs=1"])


def test_unknown_recipes_get_a_suggestion(tmp_path):
    with pytest.raises(NesbsError, match="unknown recipe dem: did you mean demo?"):
        load_recipe("dem")
    with pytest.raises(NesbsError, match=r"there is no file .*mine\.yaml"):
        load_recipe(str(tmp_path / "mine.yaml"))
    with pytest.raises(NesbsError, match="is a folder, not a recipe"):
        load_recipe(str(tmp_path))


def test_names_and_paths_are_taken_as_written():
    assert load_recipe("toy", ["data.name=2024-13-45"]).data.name == "2024-13-45"
    assert load_recipe("toy", ["data.root=null"]).data.root is None
    with pytest.raises(NesbsError, match="the value is not valid YAML"):
        load_recipe("toy", ["supernet.epochs=2024-13-45"])


def test_every_setting_has_a_default():
    assert Recipe() == Recipe.of({})


def test_too_few_images_for_a_search_are_refused_before_it_begins(noise):
    few = Dataset("few", noise.train.subset(torch.arange(2)), noise.test)
    with pytest.raises(NesbsError, match="few: 2 training images leave 2 for the supernet and 0 held out"):
        check_recipe(Recipe(), few, toy_edges())
