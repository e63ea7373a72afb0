"""Write a classifier as one file that runs without nesbs: ONNX, or torch's own format.

What is written answers as the ensemble does, or it is not written: it is tried first.
"""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image

from nesbs import files
from nesbs.data.conversion import ArrayView
from nesbs.deploy.classifier import Classifier
from nesbs.deploy.onnx_model import has_extra, onnx_model, quiet, session, traced
from nesbs.deploy.whole_model import INPUT, OUTPUTS, WholeModel
from nesbs.errors import NesbsError, did_you_mean
from nesbs.records.classifier import FORMAT, ExportRecord, PreprocessingRecord
from nesbs.records.predictions import PredictionsRecord
from nesbs.version import __version__

To = Literal["onnx", "torch"]
SUFFIX = {"onnx": ".onnx", "torch": ".pt2"}
HALF = "half"  # no file, but a folder: `nesbs.deploy.half`
TOLERANCE = 1e-5  # of a probability
BATCHES = (1, 7)  # images at once, in the trial
ABOUT = "nesbs.json"  # inside torch's file
Answer = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]


def export_classifier(
    classifier: Classifier, out: Path, *, to: To = "onnx", images: tuple[Image.Image, ...] = ()
) -> ExportRecord:
    """Write a classifier on the CPU as one file, try it, and return what the file says about itself.

    The file takes bytes (images, height, width, channels) at the networks' size and gives `probabilities` (images,
    classes), `label` (images,) and `uncertainty` (images,), the entropy in nats. It is tried on `images` (and random
    bytes where these are fewer than seven): where a probability differs from the ensemble's by more than 1e-5 nothing
    is written. A file there is replaced where it is an export, too.

    >>> import tempfile
    >>> from nesbs.data.conversion import ArrayView
    >>> from nesbs.ensemble import Ensemble
    >>> from nesbs.spaces import toy_edges
    >>> network = toy_edges().network(next(iter(toy_edges())), classes=2, in_channels=1, cells=1, channels=2)
    >>> classifier = Classifier(Ensemble([network]).eval(), ArrayView("L", (8, 8)), ("cat", "dog"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_classifier(classifier, Path(folder) / "model.pt2", to="torch").classes
    ('cat', 'dog')
    """
    check_place(out, to)
    about = describe(classifier)
    program = traced(WholeModel(classifier.ensemble, classifier.temperature), input_shape(classifier))
    texts = {name: json.dumps(value, ensure_ascii=False) for name, value in about.to_json().items()}
    if to == "onnx":
        content = onnx_model(program, OUTPUTS, texts).SerializeToString()
        answer = _onnx_answer(content)
    else:
        buffer = io.BytesIO()
        with quiet():
            torch.export.save(program, buffer, extra_files={ABOUT: json.dumps(about.to_json(), ensure_ascii=False)})
        content = buffer.getvalue()
        answer = _torch_answer(content)
    try_out(answer, classifier, images)
    files.write_bytes(out, content)
    return about


def check_place(out: Path, to: To) -> None:
    """Raise where no file may be written there, or what it needs is missing."""
    if to not in SUFFIX:
        raise NesbsError(f"--to {to}: {did_you_mean(to, [*SUFFIX, 'half'])}")
    if out.suffix != SUFFIX[to]:
        raise NesbsError(f"an export to {to} is a file with the ending {SUFFIX[to]}, found {out}")
    if to == "onnx" and not has_extra():
        raise NesbsError(
            "an export to ONNX needs onnx, onnxscript and onnxruntime: install them with `pip install 'nesbs[export]'`"
        )
    if out.is_dir() or (out.exists() and not is_export(out)):
        raise NesbsError(f"{out} is there and is no export of nesbs: name another file, or remove it")


def is_export(path: Path) -> bool:
    """Whether a file was written by `export_classifier`; nothing in it is run."""
    if not path.is_file():
        return False
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return any(name.rpartition("/")[2] == ABOUT for name in archive.namelist())
        import onnx

        known = {each.key for each in onnx.load(path, load_external_data=False).metadata_props}
    except Exception:  # whatever a broken file leads its reader to
        return False
    return set(ExportRecord.model_fields) <= known


def describe(classifier: Classifier) -> ExportRecord:
    """What an exported file says about itself."""
    view = classifier.view
    normalise = classifier.ensemble.members[0].network.normalise  # type: ignore[union-attr]
    return ExportRecord(
        nesbs=__version__,
        format=FORMAT,
        classes=classifier.class_names,
        preprocessing=PreprocessingRecord(
            mode=view.mode,
            size=view.size,
            resize="interpolate" if isinstance(view, ArrayView) else view.resize,
            share=1.0 if isinstance(view, ArrayView) else view.share,
            mean=tuple(normalise.mean.tolist()),  # type: ignore[union-attr,operator]
            std=tuple(normalise.std.tolist()),  # type: ignore[union-attr,operator]
        ),
        combine=classifier.ensemble.combine,
        temperature=classifier.temperature,
        architectures=tuple(map(str, classifier.ensemble.architectures)),
    )


def input_shape(classifier: Classifier) -> tuple[int, int, int]:
    """Return (height, width, channels) of what the networks take."""
    return (*classifier.view.size, 1 if classifier.view.mode == "L" else 3)


def kept_images(folder: Path) -> tuple[Image.Image, ...]:
    """Return the test images that a run has kept to show them; none where there are none, or they cannot be read."""
    opened = []
    try:
        record = PredictionsRecord.find(folder) or PredictionsRecord()
        for shown in (record.disagreed or ())[: max(BATCHES)]:
            image = Image.open(io.BytesIO(base64.b64decode(shown.picture or "", validate=True)))
            image.load()
            opened.append(image)
    except Exception:  # they are a help, no more
        return ()
    return tuple(opened)


def try_out(answer: Answer, classifier: Classifier, images: tuple[Image.Image, ...] = ()) -> float:
    """Return the largest difference of a probability from the ensemble's; above the tolerance is an error.

    `answer` takes bytes (images, height, width, channels).
    """
    count = max(BATCHES)
    seen = [classifier.view.pixels(image) for image in images[:count]]
    height, width, channels = input_shape(classifier)
    random = np.random.default_rng(0)
    seen += [random.integers(0, 256, (channels, height, width), dtype=np.uint8) for _ in range(count - len(seen))]
    pixels = np.stack(seen)
    expected = classifier.combined(classifier.logits_of(pixels)).exp().numpy()
    largest = 0.0
    for batch in BATCHES:
        probabilities, label, _ = answer(np.ascontiguousarray(pixels[:batch].transpose(0, 2, 3, 1)))
        same = probabilities.shape == expected[:batch].shape and np.isfinite(probabilities).all()
        differs = float(np.abs(probabilities - expected[:batch]).max()) if same else float("inf")
        of_label = np.take_along_axis(expected[:batch], label[:, None], 1)[:, 0] if same else np.zeros(1)
        largest = max(largest, differs, float((expected[:batch].max(1) - of_label).max()))
    if not largest <= TOLERANCE:
        raise NesbsError(
            f"the exported model answers otherwise than the ensemble, by {largest:.1e} of probability where "
            f"{TOLERANCE:.0e} is allowed: nothing was written"
        )
    return largest


def _onnx_answer(content: bytes) -> Answer:
    opened = session(content)

    def answer(images: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        probabilities, label, uncertainty = opened.run(list(OUTPUTS), {INPUT: images})
        return probabilities, label, uncertainty

    return answer


def _torch_answer(content: bytes) -> Answer:
    module = torch.export.load(io.BytesIO(content)).module()

    @torch.no_grad()
    def answer(images: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        probabilities, label, uncertainty = (each.numpy() for each in module(torch.from_numpy(images)))
        return probabilities, label, uncertainty

    return answer
