"""A benchmark's table of architectures and their accuracies: a truth that nobody has to train for."""

import csv
from pathlib import Path

from nesbs import files
from nesbs.errors import NesbsError, did_you_mean
from nesbs.spaces import Architecture, Space


def accuracy_table(path: Path, column: str | None, space: Space) -> dict[Architecture, float]:
    """Read accuracies in per cent from a CSV file with a column `architecture`; raises where it is not one."""
    texts, accuracies = read_table(path, column)
    architectures = []
    for row, text in enumerate(texts, start=2):  # the first line holds the names
        try:
            architectures.append(space.parse(text))
        except NesbsError as error:
            raise NesbsError(f"{path}, line {row}: {error}") from None
    return dict(zip(architectures, accuracies, strict=True))


def read_table(path: Path, column: str | None) -> tuple[list[str], list[float]]:
    """Architectures and their accuracies in per cent from a CSV file."""
    reader = csv.DictReader(files.read_text(path).removeprefix("\ufeff").splitlines())  # a byte-order mark, as Excel's
    try:
        names, rows = list(reader.fieldnames or []), list(reader)
    except csv.Error as error:
        raise NesbsError(f"{path} is not a table with commas between its fields ({error})") from None
    if "architecture" not in names:
        raise NesbsError(f"{path} needs a column architecture, found {', '.join(names) or 'nothing'}")
    if column is None or column not in names:
        raise NesbsError(f"--column {column or 'NAME'}: {did_you_mean(column or '', names)}")
    accuracies = []
    for line, row in enumerate(rows, start=2):
        if None in row or None in row.values():
            raise NesbsError(f"{path}, line {line}: {len(names)} fields are needed, as in the first line")
        try:
            accuracies.append(float(row[column]))
        except ValueError:
            raise NesbsError(f"{path}, line {line}: column {column} must hold accuracies in per cent") from None
    if len(rows) < 4 or not all(0 <= accuracy <= 100 for accuracy in accuracies):
        raise NesbsError(f"{path}: column {column} must hold four accuracies or more, between 0 and 100")
    if max(accuracies) <= 1:
        raise NesbsError(f"{path}: column {column} must hold per cent, found shares (at most {max(accuracies)})")
    if min(accuracies) == max(accuracies):
        raise NesbsError(f"{path}: column {column} is {accuracies[0]:g} in every row: there is nothing to rank")
    texts = [row["architecture"] for row in rows]
    if len(set(texts)) < len(texts):
        raise NesbsError(f"{path} lists an architecture more than once: {next(t for t in texts if texts.count(t) > 1)}")
    return texts, accuracies
