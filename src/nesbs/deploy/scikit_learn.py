"""An ensemble as a scikit-learn classifier (extra `sklearn`)."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from numbers import Real
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike

from nesbs import files
from nesbs.data import DataSettings, from_arrays
from nesbs.data.from_arrays import image_bytes, listed_labels
from nesbs.data.settings import IN_MEMORY
from nesbs.deploy.load import load, usable_device
from nesbs.errors import NesbsError, did_you_mean, expect, expect_all, shown
from nesbs.records import ClassifierRecord, Recipe, SklearnRecord
from nesbs.runs import Run, load_recipe
from nesbs.runs.folder import MEMBERS
from nesbs.training.threads import use_threads

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.class_weight import compute_sample_weight
    from sklearn.utils.validation import check_is_fitted, column_or_1d
except ModuleNotFoundError:
    raise NesbsError("NesbsClassifier needs scikit-learn: install it with `pip install 'nesbs[sklearn]'`") from None

# What a recipe may say of images that it does not name.
OF_DATA = ("size", "valid_fraction", "split_seed", "class_weights")


class NesbsClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """An ensemble of different architectures that is found and trained by `fit`, after scikit-learn's conventions.

    `recipe` is a name from `nesbs recipes` or a YAML file, `settings` changes it (`{"supernet.epochs": 10}`). Of its
    section `data` only `size`, `valid_fraction`, `split_seed` and `class_weights` count. `seed` is the recipe's: the
    same seed gives the same answers. The run is made in `folder`, which `nesbs report` and others take
    and where a `fit` that was killed resumes; by default in a temporary one. `device` is `cpu`, `cuda` or `cuda:1`.

    Images are an array (images, height, width) or (images, height, width, channels) of whole numbers from 0 to 255,
    with 1 or 3 channels; labels are whole numbers or names. `fit` holds nothing out for testing, as scikit-learn's
    estimators do: the search judges on a part of the images (`data.valid_fraction`), the members learn from all of
    them, and no temperature is fitted.

    `class_weight` is "balanced", by which every class counts the same, or weights by label; with `sample_weight` of
    `fit` it says how often an image is shown to the supernet and to the members while they are trained. The posterior
    and the choice see each held-out image once: a likelihood with weights would be that of no data.

    After `fit`: `classes_` (classes,), `image_shape_` (height, width, channels), and `classifier_`, which explains
    answers and gives those of each member (`nesbs.Classifier`).

    >>> images = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    >>> quick = {"space.name": "toy-edges", "supernet.cells": 1, "members.cells": 1}
    >>> estimator = NesbsClassifier("toy", settings=quick).fit(images, ["cat", "dog"] * 20)
    >>> estimator.predict(images).shape, estimator.predict_proba(images).shape, estimator.classes_.tolist()
    ((40,), (40, 2), ['cat', 'dog'])
    """

    def __init__(
        self,
        recipe: str = "demo",
        *,
        seed: int = 0,
        settings: Mapping[str, Any] | None = None,
        class_weight: Literal["balanced"] | Mapping[Any, float] | None = None,
        folder: str | Path | None = None,
        device: str = "cpu",
    ) -> None:
        self.recipe = recipe
        self.seed = seed
        self.settings = settings
        self.class_weight = class_weight
        self.folder = folder
        self.device = device

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Search for an ensemble and train it on images `X` with the labels `y`, one for each image.

        `sample_weight` (images,) is multiplied with that of the image's class.
        """
        if y is None:
            raise NesbsError("fit requires y to be passed, but the target y is None")
        images = image_bytes(np.asarray(X), "X")
        labels = listed_labels(y if isinstance(y, list | tuple) else column_or_1d(y, warn=True), "y")
        classes, numbers = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise NesbsError(f"y: two classes or more are needed, found {len(classes)}")
        weights = None if sample_weight is None else np.asarray(sample_weight)
        if weights is not None and weights.shape != labels.shape:
            raise NesbsError(f"sample_weight must be a number for each image, found shape {weights.shape}")
        expect(self.folder, (str, Path, type(None)), "folder must be a folder for the run, or None")
        if self.class_weight is not None:
            self._check_class_weight(classes)
            weights = compute_sample_weight(self.class_weight, labels) * (1 if weights is None else weights)
        usable_device(self.device)
        recipe = self._recipe(_content(images, numbers, classes, weights))
        chosen = {name: getattr(recipe.data, name) for name in OF_DATA}
        names = [str(one) for one in classes]
        data = from_arrays(images, numbers, class_names=names, sample_weights=weights, test_fraction=0, **chosen)
        threads = torch.get_num_threads()  # a run sets its recipe's
        try:
            with _place(self.folder) as folder:
                Run.create(folder, recipe, device=self.device, data=data).ensemble()
                self._open(folder, classes, _with_channels(images).shape[1:])
                if self.folder is not None:
                    self._record().write(folder / SklearnRecord.FILE)
        finally:
            use_threads(threads)
        return self

    def predict(self, X: ArrayLike) -> np.ndarray:
        """Return the most probable label of each image, (images,)."""
        places = self.predict_proba(X).argmax(1)
        answers: np.ndarray = self.classes_[places]
        return answers

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Return the probability of every class, (images, classes), in the order of `classes_`."""
        check_is_fitted(self)
        images = _with_channels(image_bytes(np.asarray(X), "X"))
        if images.shape[1:] != self.image_shape_:
            found, fitted = ("×".join(map(str, shape)) for shape in (images.shape[1:], self.image_shape_))
            raise NesbsError(f"X has images of {found} (height, width, channels), fit was given {fitted}")
        return self.classifier_.predict_proba(images).numpy()

    def save(self, folder: str | Path) -> None:
        """Write the fitted estimator into a new folder, without pickles; `nesbs predict` takes the folder too."""
        check_is_fitted(self)
        expect(folder, (str, Path), "folder must be the name of a new folder")
        with files.new_folder(files.expanded(folder)) as place:
            for name, content in self._files.items():
                files.write_bytes(place / MEMBERS / name, content)
            self._record().write(place / SklearnRecord.FILE)

    @classmethod
    def load(cls, folder: str | Path, *, device: str = "cpu") -> Self:
        """Return the fitted estimator that `save` wrote, or that was fitted with this `folder`; no code in it is run.

        Its parameter `folder` is None.
        """
        expect(folder, (str, Path), "folder must be the folder of a saved NesbsClassifier")
        place = files.expanded(folder)
        record = SklearnRecord.find(place)
        if record is None:
            raise NesbsError(f"{place} has no {SklearnRecord.FILE}, as a NesbsClassifier has: nesbs.load opens runs")
        if record.recipe is None or record.seed is None or record.labels is None or len(record.image_shape or ()) != 3:
            raise NesbsError(f"{place / SklearnRecord.FILE} does not say all that it should: copy it again")
        weight = record.class_weight
        estimator = cls(
            record.recipe,
            seed=record.seed,
            settings=record.settings,
            class_weight=dict(weight) if isinstance(weight, tuple) else weight,
            device=device,
        )
        return estimator._open(place, np.array(record.labels), tuple(record.image_shape or ()))

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks about an estimator: images are no tables."""
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        return tags

    def _check_class_weight(self, classes: np.ndarray) -> None:
        """Raise where a weight is no number, or is of a class that y does not hold while one that it holds has none."""
        if not isinstance(self.class_weight, Mapping):
            return
        known = classes.tolist()
        lacking = any(one not in self.class_weight for one in known)  # else a part of the data lacks a class
        for name, weight in self.class_weight.items():
            if lacking and name not in known:
                raise NesbsError(f"class_weight: y has no {shown(name)}: {did_you_mean(str(name), map(str, classes))}")
            expect(weight, Real, f"class_weight: the weight of {shown(name)} must be a number")

    def _recipe(self, content: str) -> Recipe:
        """The recipe with the settings; its data are named by their content, so that no others take their place."""
        expect(self.recipe, (str, Path), "recipe must be the name of a recipe or a YAML file")
        expect(self.settings, (Mapping, type(None)), "settings must be values by key, such as {'supernet.epochs': 10}")
        expect_all(list(self.settings or {}), str, "settings must have keys of text, such as 'supernet.epochs'")
        for key in self.settings or {}:
            if str(key).startswith("data.") and str(key).removeprefix("data.") not in OF_DATA:
                raise NesbsError(f"settings: {shown(key)} has no effect, the images are those that fit is given")
        recipe = load_recipe(str(self.recipe), self.settings or {}, seed=self.seed)
        chosen = {name: getattr(recipe.data, name) for name in OF_DATA}
        return recipe.model_copy(update={"data": DataSettings(name=f"{IN_MEMORY}{content}>", **chosen)})

    def _open(self, folder: Path, classes: np.ndarray, shape: tuple[int, ...]) -> Self:
        """Take over the trained members in a folder."""
        self.classifier_ = load(folder, device=self.device)
        if self.classifier_.class_names != tuple(map(str, classes.tolist())):
            raise NesbsError(f"{folder}: {SklearnRecord.FILE} and the members have different classes: copy it again")
        members = [f"{place}.safetensors" for place in range(len(self.classifier_.ensemble.members))]
        self._files = {name: (folder / MEMBERS / name).read_bytes() for name in (ClassifierRecord.FILE, *members)}
        self.classes_, self.image_shape_ = classes, shape
        return self

    def _record(self) -> SklearnRecord:
        weight = self.class_weight
        return SklearnRecord(
            recipe=str(self.recipe),
            seed=_plain(self.seed),
            settings=None if self.settings is None else json.loads(json.dumps(dict(self.settings), default=_plain)),
            class_weight=[(*map(_plain, pair),) for pair in weight.items()] if isinstance(weight, Mapping) else weight,
            labels=self.classes_.tolist(),
            image_shape=self.image_shape_,
        )


def _plain(value: Any) -> Any:
    """A number or text of NumPy as Python's, as JSON takes it."""
    return value.item() if isinstance(value, np.generic) else value


def _content(images: np.ndarray, numbers: np.ndarray, classes: np.ndarray, weights: np.ndarray | None) -> str:
    """A short text that other images, labels or weights do not have."""
    content = hashlib.sha256(json.dumps([images.shape, classes.tolist()]).encode())
    for array in (images, numbers, *([] if weights is None else [weights])):
        content.update(array.tobytes())
    return content.hexdigest()[:16]


def _with_channels(images: np.ndarray) -> np.ndarray:
    """Images with an axis for channels, (images, height, width, channels)."""
    return images[..., None] if images.ndim == 3 else images


@contextlib.contextmanager
def _place(folder: str | Path | None) -> Iterator[Path]:
    """The folder of the run; a temporary one where none is given."""
    if folder is not None:
        yield files.expanded(folder)
        return
    with tempfile.TemporaryDirectory(prefix="nesbs-") as temporary:
        yield Path(temporary)
