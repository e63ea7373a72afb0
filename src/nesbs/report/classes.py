"""The ensemble class by class: warnings, errors, and which classes it takes for which."""

from collections.abc import Sequence
from dataclasses import dataclass

from nesbs.records.metrics import ClassRow, PerClass

FEWEST = 20  # training images of a class: with fewer, networks seldom learn it
LISTED = 5  # classes that a warning names
ROWS = 50  # of the table
MATRIX = 20  # classes of a matrix that can be read
PAIRS = 5  # that are confused most


@dataclass(frozen=True)
class ConfusedPair:
    """Images of one class that are taken for another."""

    label: str
    answer: str
    images: int
    share: float  # of the class


def class_warnings(measured: PerClass, *, balanced: bool = False) -> list[str]:
    """Return a line for the classes with too few training images, and one for those that are never predicted.

    `balanced`: training shows every class as often already (`data.class_weights`).

    >>> few = ClassRow(name="cat", train_images=9, test_images=3, error=1.0, predicted=0)
    >>> for line in class_warnings(PerClass(classes=[few])):
    ...     print(line)
    fewer than 20 training images: cat (9); add some, or set data.class_weights=balanced
    never predicted: cat (test images: 3)
    >>> class_warnings(PerClass(classes=[few]), balanced=True)[0]
    'fewer than 20 training images: cat (9); add some'
    """
    rows = measured.classes or ()
    few = [row for row in rows if row.train_images is not None and row.train_images < FEWEST]
    never = [row for row in rows if row.predicted == 0 and row.test_images]
    lines = []
    if few:
        named = _named([f"{row.name} ({row.train_images})" for row in few])
        advice = "add some" if balanced else "add some, or set data.class_weights=balanced"
        lines.append(f"fewer than {FEWEST} training images: {named}; {advice}")
    if never:
        lines.append(f"never predicted: {_named([f'{row.name} (test images: {row.test_images})' for row in never])}")
    return lines


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return ", ".join(names[:LISTED]) + more


def worst_first(measured: PerClass) -> list[ClassRow]:
    """Return the classes of the highest errors first; of very many, those alone."""
    rows = measured.classes or ()
    return sorted(rows, key=lambda row: -1.0 if row.error is None else row.error, reverse=True)[:ROWS]


def small_matrix(measured: PerClass) -> list[tuple[str, list[tuple[int, float]]]]:
    """Return the confusion matrix, a row a class with its name: images and their share of the class, by answer.

    Empty where it is too large to read, or not whole.
    """
    rows, table = measured.classes or (), measured.confusion or ()
    whole = all(len(row) == len(rows) and None not in row for row in table)
    if not 0 < len(table) == len(rows) <= MATRIX or not whole:
        return []
    counts = [[int(value or 0) for value in row] for row in table]
    return [
        (row.name or "?", [(count, count / (sum(line) or 1)) for count in line])
        for row, line in zip(rows, counts, strict=True)
    ]


def confused_pairs(measured: PerClass) -> list[ConfusedPair]:
    """Return the pairs of classes that are confused most, in images."""
    names = [row.name or "?" for row in measured.classes or ()]
    pairs = [
        ConfusedPair(names[label], names[answer], int(count), count / (sum(value or 0 for value in row) or 1))
        for label, row in enumerate(measured.confusion or ())
        for answer, count in enumerate(row)
        if count and label != answer and max(label, answer) < len(names)
    ]
    return sorted(pairs, key=lambda pair: -pair.images)[:PAIRS]
