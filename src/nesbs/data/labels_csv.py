"""A CSV file of images and their labels: the columns `path` and `label`, others are left alone."""

import csv
import io
import os
import warnings
from pathlib import Path

from nesbs import files
from nesbs.errors import NesbsError, printable, shown

COLUMNS = ("path", "label")
SPLITS = {"split", "subset", "set", "fold", "partition"}  # columns from which one would expect the test part


def read_labels(path: Path) -> list[tuple[str, str]]:
    """Return (file, label) of every row, in the order of labels and file names; paths are relative to the CSV file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "labels.csv").write_text("path,label\\nphotos/1.jpg,cat\\n")
    ...     [(file, label)] = read_labels(Path(folder) / "labels.csv")
    >>> file.endswith("/photos/1.jpg"), label
    (True, 'cat')
    """
    text = files.read_text(path).removeprefix("\ufeff")  # the mark that spreadsheets write
    rows = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True)
    labels: dict[str, str] = {}
    try:
        columns = [printable(name.strip()) for name in rows.fieldnames or ()]
        rows.fieldnames = columns
        if not set(COLUMNS) <= set(columns):
            names = shown(", ".join(columns))
            raise NesbsError(f"{path}: needs the columns path and label with a comma between, found {names}")
        if unused := sorted(SPLITS.intersection(name.lower() for name in columns)):
            what = f"the column {unused[0]} is not used, a fifth of each class is held out for testing"
            warnings.warn(f"{path}: {what}; for parts of your own put files into train/ and test/", stacklevel=2)
        for row in rows:
            name, label = ((row[column] or "").strip() for column in COLUMNS)
            where = f"{path}, line {rows.line_num}"
            if not name or not label:
                raise NesbsError(f"{where}: there is no {'label' if name else 'path'}")
            file = os.path.normpath(path.parent / name)
            if file in labels:
                raise NesbsError(f"{where}: {shown(name)} is there twice")
            labels[file] = label
    except csv.Error as error:
        raise NesbsError(f"{path} is no CSV file ({error})") from None
    return sorted(labels.items(), key=lambda row: (row[1], row[0].split(os.sep)))
