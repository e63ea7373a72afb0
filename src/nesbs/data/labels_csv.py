"""A CSV file of images, their labels and perhaps their parts: the columns `path`, `label` and `split`."""

import csv
import io
import os
import warnings
from pathlib import Path
from typing import NamedTuple

from nesbs import files
from nesbs.errors import NesbsError, printable, shown

COLUMNS = ("path", "label")
SPLIT = "split"
LIKE_SPLIT = {"subset", "set", "fold", "partition"}  # columns from which one would expect the parts


class LabelledFile(NamedTuple):
    """An image: its file, its label and in lower case the part that it belongs to, "" without the column `split`."""

    file: str
    label: str
    part: str


def read_labels(path: Path) -> list[LabelledFile]:
    """Return the rows in the order of labels and file names; paths are relative to the CSV file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = (Path(folder) / "labels.csv").write_text("path,label\\nphotos/1.jpg,cat\\n")
    ...     [row] = read_labels(Path(folder) / "labels.csv")
    >>> row.file.endswith("/photos/1.jpg"), row.label, row.part
    (True, 'cat', '')
    """
    text = files.read_text(path).removeprefix("\ufeff")  # the mark that spreadsheets write
    rows = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True)
    found: dict[str, LabelledFile] = {}
    try:
        columns = [printable(name.strip()) for name in rows.fieldnames or ()]
        columns = [SPLIT if name.lower() == SPLIT else name for name in columns]
        rows.fieldnames = columns
        if not set(COLUMNS) <= set(columns):
            names = shown(", ".join(columns))
            raise NesbsError(f"{path}: needs the columns path and label with a comma between, found {names}")
        if SPLIT not in columns and (unused := sorted(LIKE_SPLIT.intersection(name.lower() for name in columns))):
            what = f"the column {unused[0]} is not used, a fifth of each class is held out for testing"
            warnings.warn(f"{path}: {what}; parts of your own belong into a column split: train or test", stacklevel=2)
        wanted = [name for name in (*COLUMNS, SPLIT) if name in columns]
        for row in rows:
            cells = {column: (row[column] or "").strip() for column in wanted}
            where = f"{path}, line {rows.line_num}"
            if empty := [column for column in wanted if not cells[column]]:
                raise NesbsError(f"{where}: there is no {empty[0]}")
            file = os.path.normpath(path.parent / cells["path"])
            if file in found:
                raise NesbsError(f"{where}: {shown(cells['path'])} is there twice")
            found[file] = LabelledFile(file, cells["label"], cells.get(SPLIT, "").lower())
    except csv.Error as error:
        raise NesbsError(f"{path} is no CSV file ({error})") from None
    return sorted(found.values(), key=lambda row: (row.label, row.file.split(os.sep)))
