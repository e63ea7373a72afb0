"""Imports go one way. This is where the order is written down."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import nesbs

ORDER = [
    *("version", "errors", "settings", "rng", "files", "metrics"),  # the foundation
    *("data", "kernels", "spaces", "training", "supernet", "posterior", "samplers", "ensemble"),
    *("rivals", "attacks", "evaluation", "records", "cluster", "runs", "compare", "deploy", "report", "reproduce"),
    "cli",
]
ROOT = Path(nesbs.__file__).parent
OUTSIDE = {"__init__", "__main__"}  # the public names and the entry point see everything


def imports_of(path):
    """Every (module, name) that a file imports from nesbs, in functions and under TYPE_CHECKING too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "nesbs":
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names if alias.name.split(".")[0] == "nesbs")


def module_graph():
    """The modules that each module imports; a name that a room hands on counts for the module that defines it."""
    paths = {}
    for path in ROOT.rglob("*.py"):
        parts = [part for part in path.relative_to(ROOT).with_suffix("").parts if part != "__init__"]
        paths[".".join(["nesbs", *parts])] = path
    handed_on = {
        module: {name: source for source, name in imports_of(path)}
        for module, path in paths.items()
        if path.name == "__init__.py"
    }

    def defining(module, name):
        if f"{module}.{name}" in paths:
            return f"{module}.{name}"
        source = handed_on.get(module, {}).get(name)
        return module if source is None else defining(source, name)

    return {module: {defining(*one) for one in imports_of(path)} - {module} for module, path in paths.items()}


def test_no_module_imports_in_a_circle():
    TopologicalSorter(module_graph()).prepare()  # raises a CycleError that names the modules


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
