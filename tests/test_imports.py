"""Imports go one way. This is where the order is written down."""

import ast
from pathlib import Path

import nesbs

ORDER = [
    *("version", "errors", "settings", "rng", "files", "metrics"),  # the foundation
    *("data", "kernels", "spaces", "training", "supernet", "posterior", "samplers", "ensemble"),
    *("rivals", "attacks", "evaluation", "records", "runs", "compare", "report", "reproduce", "cli"),
]
ROOT = Path(nesbs.__file__).parent
OUTSIDE = {"__init__", "__main__"}  # the public names and the entry point see everything


def rooms_imported(path):
    """The rooms a module imports from, by the first name behind `nesbs`."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "nesbs":
            parts = node.module.split(".")
            rooms |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            rooms |= {a.name.split(".")[1] for a in node.names if a.name.startswith("nesbs.")}
    return rooms


def test_every_import_points_backwards():
    for path in sorted(ROOT.rglob("*.py")):
        room = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if room in OUTSIDE:
            continue
        assert room in ORDER, f"{path} is in no room"
        for other in rooms_imported(path) - {room}:
            assert ORDER.index(other) < ORDER.index(room), f"{path} imports {other}, which comes after {room}"


def test_report_reads_records_alone():
    for path in sorted((ROOT / "report").rglob("*.py")):
        assert not rooms_imported(path) & {"runs", "compare"}, f"{path} imports what makes records, not records alone"


def test_public_names_exist():
    assert all(hasattr(nesbs, name) for name in nesbs.__all__)
