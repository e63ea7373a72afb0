"""Predict the images of files and folders, a batch at a time, and write the answers as JSON or CSV."""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np

from nesbs import files
from nesbs.data.image_files import walk_images
from nesbs.data.streaming import default_workers
from nesbs.deploy.caution import Caution
from nesbs.deploy.classifier import BATCH_SIZE, Classifier
from nesbs.errors import NesbsError, expect_whole, printable

DIGITS = 6  # of what is written
NO_CAUTION = Caution()
MEASURES = ("entropy", "disagreement", "mutual_information")


@dataclass(frozen=True)
class PredictedImage:
    """The answer to one file: the most probable classes in `top`, first the likeliest, and how unsure it is."""

    file: str
    top: tuple[tuple[str, float], ...]  # (class, probability)
    entropy: float
    disagreement: float
    mutual_information: float
    answered: bool = True  # False where it is too unsure for the error that was asked for
    classes: tuple[str, ...] | None = None  # that hold the right one with the coverage that was asked for


@dataclass(frozen=True)
class UnreadImage:
    """A file or folder that could not be read, and why; the reason names it."""

    file: str
    reason: str


FileAnswer = PredictedImage | UnreadImage


def predict_files(
    classifier: Classifier, places: Iterable[Path], *, top: int = 1, caution: Caution = NO_CAUTION
) -> Iterator[FileAnswer]:
    """Yield an answer for each file, and for each image in each folder and below, in their order.

    Folders of any size take no more memory than a batch. What cannot be read is an `UnreadImage`, and the next follows.
    `top` classes are named, at most as many as there are. `caution` says where not to answer, and asks for sets.

    >>> from nesbs.data.conversion import ArrayView
    >>> from nesbs.ensemble import Ensemble
    >>> from nesbs.spaces import toy_edges
    >>> network = toy_edges().network(next(iter(toy_edges())), classes=2, in_channels=1, cells=1)
    >>> classifier = Classifier(Ensemble([network]).eval(), ArrayView("L", (8, 8)), ("cat", "dog"))
    >>> [answer] = predict_files(classifier, [Path("nowhere.png")])
    >>> answer.reason
    'nowhere.png cannot be read as an image (No such file or directory)'
    """
    expect_whole(top, "top")
    listed = _listed(places)
    with ThreadPoolExecutor(max(1, default_workers())) as pool:  # decoders let go of the interpreter while they work
        while batch := list(islice(listed, BATCH_SIZE)):
            yield from _answers(classifier, batch, list(pool.map(_reader(classifier), batch)), top, caution)


def _listed(places: Iterable[Path]) -> Iterator[str | UnreadImage]:
    """Every file that is named, and every image below a folder that is; a folder that cannot be listed in its place."""
    for place in places:
        if not place.is_dir():
            yield str(place)
            continue
        closed: list[UnreadImage] = []

        def note(error: OSError, closed: list[UnreadImage] = closed) -> None:
            reason = printable(f"{error.filename} cannot be listed ({error.strerror})")
            closed.append(UnreadImage(str(error.filename), reason))

        yield from walk_images(place, note)
        yield from closed


def _reader(classifier: Classifier) -> Callable[[str | UnreadImage], np.ndarray | UnreadImage]:
    def read(file: str | UnreadImage) -> np.ndarray | UnreadImage:
        if isinstance(file, UnreadImage):
            return file
        try:
            return classifier.view.read(file)
        except NesbsError as error:
            return UnreadImage(file, str(error))

    return read


def _answers(
    classifier: Classifier,
    batch: Sequence[str | UnreadImage],
    images: Sequence[np.ndarray | UnreadImage],
    top: int,
    caution: Caution,
) -> Iterator[FileAnswer]:
    pixels = [image for image in images if not isinstance(image, UnreadImage)]
    predicted = iter(_predicted(classifier, np.stack(pixels), top, caution)) if pixels else iter(())
    for file, image in zip(batch, images, strict=True):
        if isinstance(image, UnreadImage):
            yield image
        else:
            yield replace(next(predicted), file=str(file))


def _predicted(classifier: Classifier, pixels: np.ndarray, top: int, caution: Caution) -> list[PredictedImage]:
    """The answer to every image (images, channels, height, width), without its file."""
    logits = classifier.logits_of(pixels)
    explanation = classifier.explained(logits)
    # A stable sort: of equally probable classes the first comes first, as in `predict`.
    values, classes = classifier.combined(logits).exp().sort(dim=-1, descending=True, stable=True)
    rows = zip(classes[:, :top].tolist(), values[:, :top].tolist(), strict=True)
    named = [tuple((classifier.class_names[one], value) for one, value in zip(*row, strict=True)) for row in rows]
    plain = classifier.ensemble.combined(logits)
    columns = (named, *(getattr(explanation, name).tolist() for name in MEASURES), caution.answered(plain))
    sets = [_named(classifier, places) for places in caution.sets(plain)]
    return [PredictedImage("", *row) for row in zip(*columns, sets, strict=True)]


def _named(classifier: Classifier, places: tuple[int, ...] | None) -> tuple[str, ...] | None:
    return None if places is None else tuple(classifier.class_names[place] for place in places)


Write = Callable[[FileAnswer], None]


@contextmanager
def json_file(path: Path) -> Iterator[Write]:
    """A file of answers, `{"images": […], "unread": […]}` with one a line; it appears whole at the end of the block."""
    unread: list[str] = []
    with files.writing(path) as text:
        text.write('{"images": [')
        between = "\n"

        def write(answer: FileAnswer) -> None:
            nonlocal between
            if isinstance(answer, UnreadImage):
                unread.append(_line({"file": answer.file, "reason": answer.reason}))
                return
            label, probability = answer.top[0]
            measures = {name: round(getattr(answer, name), DIGITS) for name in MEASURES}
            top = [{"label": name, "probability": round(value, DIGITS)} for name, value in answer.top]
            first = {"file": answer.file, "label": label, "probability": round(probability, DIGITS)}
            set_of = {} if answer.classes is None else {"set": list(answer.classes)}
            text.write(between + _line({**first, **measures, "top": top, "answered": answer.answered, **set_of}))
            between = ",\n"

        yield write
        text.write('\n],\n"unread": [' + ",".join(f"\n{line}" for line in unread) + "\n]}\n")


def _line(entry: dict[str, object] | list[str]) -> str:
    """One line of JSON; where a name holds what a terminal would obey, or no text, everything unusual is escaped."""
    line = json.dumps(entry, ensure_ascii=False)
    return line if line.isprintable() else json.dumps(entry)


@contextmanager
def csv_file(path: Path, top: int) -> Iterator[Write]:
    """A table of answers with a row for each; it appears whole at the end of the block.

    The last column says why a file could not be read. In names, what is no visible character is an escape.
    """
    with files.writing(path) as text:
        rows = csv.writer(text)
        more = [f"{name}_{place}" for place in range(2, top + 1) for name in ("label", "probability")]
        rows.writerow(["file", "label", "probability", *MEASURES, *more, "answered", "set", "unread"])

        def write(answer: FileAnswer) -> None:
            if isinstance(answer, UnreadImage):
                rows.writerow([printable(answer.file), *[""] * (4 + len(MEASURES) + len(more)), answer.reason])
                return
            pairs = [part for name, value in answer.top for part in (name, f"{value:.{DIGITS}f}")]
            measures = [f"{getattr(answer, name):.{DIGITS}f}" for name in MEASURES]
            classes = "" if answer.classes is None else _line(list(answer.classes))
            caution = ["yes" if answer.answered else "no", classes]
            rows.writerow([printable(answer.file), *pairs[:2], *measures, *pairs[2:], *caution, ""])

        yield write
