"""`NesbsClassifier` keeps scikit-learn's conventions; what its checks ask of tables is asked here of images."""

import importlib
import json
import pickle
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from toys import call

import nesbs
from nesbs import NesbsClassifier, NesbsError
from nesbs.spaces import toy_edges

NAMES = np.array(["sky", "both", "earth"])
SMALL = {
    "space.name": "toy-edges",
    "members.cells": 1,
    "members.channels": 4,
    "members.epochs": 3,
    "members.batch_size": 15,
    "members.crop": 0,
    "members.flip": False,
    "members.learning_rate": 0.1,
}
SEARCHED = {
    **SMALL,
    "supernet.cells": 1,
    "supernet.channels": 2,
    "posterior.steps": 2,
    "sampler.name": "monte-carlo",
}
GIVEN = {**SMALL, "ensemble.architectures": [str(list(toy_edges())[-1])], "ensemble.size": 1}
NO_DATA = [
    *("do_not_raise_errors_in_init_or_set_params", "estimator_cloneable", "estimator_repr", "estimator_tags_renamed"),
    *("estimators_unfitted", "get_params_invariance", "mixin_order", "no_attributes_set_in_init"),
    *("parameters_default_constructible", "requires_y_none", "set_params", "valid_tag_types"),
]


def photos(count=60):
    """Grey images of three classes that are easily told apart, and the numbers of their classes."""
    labels = np.arange(count) % 3
    images = np.random.default_rng(0).integers(0, 40, (count, 8, 8))
    images[:, :3] += (labels == 0)[:, None, None] * 180
    images[:, 3:] += (labels == 2)[:, None, None] * 180
    return images.astype(np.uint8), labels


@pytest.fixture(scope="module")
def fitted():
    images, labels = photos()
    return NesbsClassifier("toy", settings=SEARCHED).fit(images, NAMES[labels])


@pytest.mark.parametrize("check", NO_DATA)
def test_scikit_learns_checks_that_need_no_data(check):
    getattr(estimator_checks, f"check_{check}")("NesbsClassifier", NesbsClassifier())


def test_a_fitted_estimator_answers_in_the_names_it_was_given(fitted):
    images, labels = photos()
    assert fitted.classes_.tolist() == ["both", "earth", "sky"]
    assert fitted.score(images, NAMES[labels]) > 0.9
    probabilities = fitted.predict_proba(images[..., None])
    np.testing.assert_allclose(probabilities.sum(1), 1)
    assert fitted.predict(images).tolist() == fitted.classes_[probabilities.argmax(1)].tolist()
    assert fitted.image_shape_ == (8, 8, 1)
    assert fitted.classifier_.explain(list(images)).entropy.shape == (60,)


def test_saved_and_loaded_it_answers_the_same(fitted, tmp_path):
    images, _ = photos()
    fitted.save(tmp_path / "kept")
    loaded = NesbsClassifier.load(tmp_path / "kept")
    copies = [loaded, pickle.loads(pickle.dumps(fitted))]
    loaded.save(tmp_path / "again")
    copies.append(NesbsClassifier.load(tmp_path / "again"))
    for copy in copies:
        assert copy.get_params() == fitted.get_params()
        assert copy.classes_.tolist() == fitted.classes_.tolist()
        np.testing.assert_array_equal(copy.predict_proba(images), fitted.predict_proba(images))
    assert nesbs.load(tmp_path / "kept").predict(images[0]) == fitted.predict(images[:1]).tolist()
    with pytest.raises(NesbsError, match="kept is there and not empty: name a new folder"):
        fitted.save(tmp_path / "kept")


def test_numbers_of_numpy_as_parameters_are_saved_as_numbers(fitted, tmp_path):
    """As scikit-learn's compute_class_weight and a search over parameters hand them over."""
    given = {"seed": np.int64(3), "settings": {**SEARCHED, "members.epochs": np.int64(2)}}
    weights = {np.str_(name): np.float64(1.5) for name in fitted.classes_}
    one = clone(fitted).set_params(**given, class_weight=weights)
    for name in ("classes_", "image_shape_", "_files"):
        setattr(one, name, getattr(fitted, name))
    one.classifier_ = fitted.classifier_
    one.save(tmp_path / "kept")
    loaded = NesbsClassifier.load(tmp_path / "kept").get_params()
    assert {name: loaded[name] for name in given} == given
    assert loaded["class_weight"] == weights


def test_a_saved_one_that_is_not_whole_is_refused(fitted, tmp_path):
    with pytest.raises(NesbsError, match=r"has no sklearn.json, as a NesbsClassifier has: nesbs.load opens runs"):
        NesbsClassifier.load(tmp_path)
    fitted.save(tmp_path / "kept")
    file = tmp_path / "kept" / "sklearn.json"
    whole = json.loads(file.read_text())
    for changes, message in (
        ({"labels": ["both", "earth", 7]}, "sklearn.json does not say all that it should"),
        ({"image_shape": [8]}, "sklearn.json does not say all that it should"),
        ({"labels": [1, 2, 3]}, "sklearn.json and the members have different classes"),
    ):
        file.write_text(json.dumps({**whole, **changes}))
        with pytest.raises(NesbsError, match=message):
            NesbsClassifier.load(tmp_path / "kept")


def test_labels_may_be_any_whole_numbers_and_a_run_is_resumed_with_the_same_images_alone(tmp_path, capsys):
    images, labels = photos()
    estimator = NesbsClassifier("toy", settings=GIVEN, folder=tmp_path / "run").fit(images, 10 * labels - 10)
    assert set(estimator.predict(images)) <= {-10, 0, 10}
    assert NesbsClassifier.load(tmp_path / "run").classes_.tolist() == [-10, 0, 10]
    assert call("report", tmp_path / "run") == 0
    assert call("evaluate", tmp_path / "run") == 2
    assert "this run's images were arrays in memory" in capsys.readouterr().err
    written = (tmp_path / "run/members/0.safetensors").stat().st_mtime_ns
    again = clone(estimator).fit(images, 10 * labels - 10)
    assert (tmp_path / "run/members/0.safetensors").stat().st_mtime_ns == written
    np.testing.assert_array_equal(again.predict_proba(images), estimator.predict_proba(images))
    with pytest.raises(NesbsError, match=r'was made by another recipe: data.name is "<arrays \w+>" there and "<arrays'):
        again.fit(255 - images, 10 * labels - 10)


def test_the_same_seed_gives_the_same_answers_and_leaves_images_and_threads_alone():
    images, labels = photos()
    before = images.copy()
    torch.set_num_threads(2)  # the recipe has one
    quick = {**GIVEN, "members.epochs": 1}
    estimators = [NesbsClassifier("toy", seed=seed, settings=quick).fit(images, labels) for seed in (3, 3, 4)]
    answers = [estimator.predict_proba(images) for estimator in estimators]
    assert torch.get_num_threads() == 2
    np.testing.assert_array_equal(images, before)
    np.testing.assert_array_equal(answers[0], answers[1])
    assert not np.array_equal(answers[0], answers[2])


def test_weights_of_images_and_of_classes(tmp_path):
    images, labels = photos()
    unseen = (labels > 0).astype(int)
    first = NesbsClassifier("toy", settings=GIVEN).fit(images, NAMES[labels], sample_weight=unseen)
    assert "sky" not in first.predict(images)
    second = NesbsClassifier("toy", settings=GIVEN, class_weight={"sky": 0}).fit(images, NAMES[labels])
    np.testing.assert_array_equal(first.predict_proba(images), second.predict_proba(images))
    second.save(tmp_path / "kept")
    assert NesbsClassifier.load(tmp_path / "kept").class_weight == {"sky": 0}
    kinds = {**dict.fromkeys(NAMES.tolist(), 1), "moon": 2}  # as in cross-validation, where a part may lack a class
    NesbsClassifier("toy", settings={**GIVEN, "members.epochs": 1}, class_weight=kinds).fit(images, NAMES[labels])
    for class_weight, message in (
        ("even", "class_weight"),
        ({"eart": 2}, "class_weight: y has no 'eart': did you mean earth"),
        ({"sky": "much"}, "class_weight: the weight of 'sky' must be a number, found 'much'"),
    ):
        with pytest.raises(ValueError, match=message):
            NesbsClassifier("toy", settings=GIVEN, class_weight=class_weight).fit(images, NAMES[labels])
    for wrong, message in (
        ({"settings": {3: 1}}, "settings must have keys of text, .* found 3"),
        ({"folder": 3}, "folder must be a folder for the run, or None, found 3"),
    ):
        with pytest.raises(NesbsError, match=message):
            NesbsClassifier("toy", **wrong).fit(images, NAMES[labels])
    with pytest.raises(NesbsError, match=r"sample_weight must be a number for each image, found shape \(3,\)"):
        first.fit(images, labels, sample_weight=[1, 2, 3])


def test_it_works_in_a_pipeline_and_in_cross_validation():
    images, labels = photos(45)
    inverted = FunctionTransformer(lambda pixels: 255 - pixels)
    pipeline = make_pipeline(inverted, NesbsClassifier("toy", settings={**GIVEN, "members.batch_size": 5}))
    scores = cross_val_score(pipeline, images, NAMES[labels], cv=2, error_score="raise")
    assert scores.mean() > 0.6  # a third by chance


def test_what_is_not_images_and_labels_is_refused(fitted):
    images, labels = photos()
    estimator = NesbsClassifier("toy", settings=GIVEN)
    with pytest.raises(NotFittedError):
        estimator.predict(images)
    with pytest.raises(NotFittedError):
        estimator.save("nowhere")
    for X, y, message in (
        (images[:, 0], labels, r"X: an array is \(images, height, width\) or .*found \(60, 8\)"),
        (images / 255, labels, "X must be whole numbers from 0 to 255, found float64"),
        (images[:0], labels[:0], "two classes or more are needed, found 0"),
        (images, labels * 0, "y: two classes or more are needed, found 1"),
        (images, labels[:9], "60 images but 9 labels"),
        (images, labels / 2, "y must be whole numbers or names, one for each image, found float64"),
    ):
        with pytest.raises(ValueError, match=message):
            estimator.fit(X, y)
    for X, message in (
        (images[:, :4], r"X has images of 4×8×1 \(height, width, channels\), fit was given 8×8×1"),
        (images.astype(float), "X must be whole numbers from 0 to 255, found float64"),
        (images[0], r"X: an array is \(images, height, width\) .*found \(8, 8\)"),
        (images[:0], "there are no images to predict"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.predict(X)


def test_settings_and_recipes_that_there_are_not_are_refused():
    images, labels = photos()
    for parameters, message in (
        ({"recipe": "demos"}, "unknown recipe demos: did you mean demo"),
        ({"recipe": 3}, "recipe must be the name of a recipe or a YAML file, found 3"),
        ({"settings": ["a=b"]}, "settings must be values by key, .* found a list"),
        ({"settings": {"supernet.epoch": 1}}, "unknown setting supernet.epoch: did you mean supernet.epochs"),
        ({"settings": {"data.name": "cifar10"}}, "settings: 'data.name' has no effect, the images are those that fit"),
        ({"device": "abacus"}, "device 'abacus' cannot be used: Expected one of cpu"),
        ({"seed": -1}, "seed: input should be greater than or equal to 0, found -1"),
    ):
        with pytest.raises(NesbsError, match=message):
            NesbsClassifier(**parameters).fit(images, labels)


def test_without_scikit_learn_nesbs_is_there_and_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name == "sklearn" or name.startswith("sklearn.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    for name in ("nesbs", "nesbs.deploy", "nesbs.deploy.scikit_learn"):
        monkeypatch.delitem(sys.modules, name)
    without = importlib.import_module("nesbs")
    with pytest.raises(ValueError, match=r"NesbsClassifier needs scikit-learn: install it with `pip install 'nesbs\["):
        _ = without.NesbsClassifier
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = without.nonsense
