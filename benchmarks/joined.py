"""One comparison out of several: rows whose seeds, recipes or machines differ, held against the first of them.

    python -m benchmarks.joined 'nesbs=table-*/seed-*:nesbs' 'oracle=oracle-*/seed-*:deep' … --json FILE

A row is NAME=FOLDERS:METHOD: its name, the run folders (a pattern) inside comparisons' folders, and the method there.
Read are `record.json`, `recipe.yaml` and `rivals/` of each; no data and no weights. Or it is NAME=FILE.json:ROW, a row
of an earlier comparison's record. Rows are paired over the seeds that both have, and over the test images, of which an
earlier record knows nothing.
"""

from __future__ import annotations

import argparse
import glob
import sys
from collections.abc import Sequence
from pathlib import Path

from nesbs.compare.rows import AnyRow, EarlierRow, Row, comparison_of
from nesbs.errors import NesbsError, did_you_mean
from nesbs.records import ComparisonRecord, RunRecord
from nesbs.runs.folder import read_recipe


def joined(texts: Sequence[str]) -> ComparisonRecord:
    """The record of rows that are written as above; the first is the reference, and lies in folders."""
    rows: dict[str, AnyRow] = {}
    for text in texts:
        name, _, rest = text.partition("=")
        pattern, _, method = rest.rpartition(":")
        rows[name] = (
            _earlier(Path(pattern), method) if pattern.endswith(".json") else _in_folders(pattern, method, text)
        )
    reference, ours = next(iter(rows.items()))
    if not isinstance(ours, Row):
        raise NesbsError(f"the first row, {reference}, is held against the others image by image: name its folders")
    first = ours.runs[0]
    device = str((RunRecord.find(first) or RunRecord()).device)
    return comparison_of(rows, reference, read_recipe(first), device)


def _in_folders(pattern: str, method: str, text: str) -> Row:
    runs = tuple(sorted(map(Path, glob.glob(pattern))))
    if not runs or not method:
        raise NesbsError(f"a row is NAME=FOLDERS:METHOD; found {text}, of which {len(runs)} folders are there")
    return Row(method, runs)


def _earlier(path: Path, name: str) -> EarlierRow:
    rows = ComparisonRecord.read(path).methods or {}
    if name not in rows:
        raise NesbsError(f"{path} has no row {name}: {did_you_mean(name, rows)}")
    return EarlierRow(rows[name])


def main(arguments: Sequence[str] | None = None) -> None:
    """Join the rows of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="+", metavar="NAME=FOLDERS:METHOD|NAME=FILE.json:ROW")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    asked = parser.parse_args(arguments)
    joined(asked.rows).write(asked.json)


if __name__ == "__main__":
    try:
        main()
    except NesbsError as error:
        sys.exit(f"error: {error}")
