"""The rules of the house: few loose modules, short functions, one name for one thing."""

import ast
import inspect
import typing
from collections import defaultdict
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pytest
from test_imports import ORDER

import nesbs
from nesbs.cli.entry_point import COMMANDS
from nesbs.data import DataSettings
from nesbs.deploy.distil import DistilSettings
from nesbs.ensemble import EnsembleSettings, MemberSettings, SearchSettings
from nesbs.posterior import PosteriorSettings
from nesbs.supernet import SupernetSettings

ROOT = Path(nesbs.__file__).parent
FILES = {path.relative_to(ROOT).as_posix(): path for path in sorted(ROOT.rglob("*.py"))}
LINES, PARAMETERS = 60, 8

# Public functions that list sections of the recipe as their keywords: those count neither as lines nor as parameters.
LISTS_SETTINGS = {
    "load_dataset": [DataSettings],
    "from_arrays": [DataSettings],
    "train_supernet": [SupernetSettings],
    "fit_posterior": [PosteriorSettings],
    "search": [SearchSettings, EnsembleSettings],
    "train_ensemble": [MemberSettings],
    "distil": [DistilSettings],
}
# One thing, whose module has the same name in every room: how it is made, what is recorded of it, how it is shown.
SAME_THING = {
    *("run", "recipe", "members", "selection", "scores", "metrics", "quality", "attacks", "comparison", "curves"),
    *("provenance", "predictions", "folder", "classifier", "latency", "held_out_answers", "distilled", "cost"),
    "step_times",
    "settings",  # the recipe's section of each room
    "darts",  # the method and its search space have one name in every paper
}


def functions():
    """Every function outside kernels/, with the name of its file."""
    for name, path in FILES.items():
        if not name.startswith("kernels/"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield name, node


def parameters(function):
    """The names of a function's parameters."""
    arguments = function.args
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def test_at_most_eight_modules_lie_loose():
    loose = {path.stem for path in ROOT.glob("*.py")} - {"__init__", "__main__"}
    assert len(loose) <= 8, sorted(loose)


def test_the_import_order_has_at_most_26_entries():
    assert len(ORDER) == len(set(ORDER)) <= 26


@pytest.mark.parametrize("room", ["report", "reproduce", "runs", "compare", "deploy"])
def test_records_pass_a_rooms_door_as_typed_values(room):
    door = import_module(f"nesbs.{room}")
    functions = [value for value in vars(door).values() if inspect.isfunction(value)]
    assert functions
    for function in functions:
        for name, hint in typing.get_type_hints(function).items():
            loose = [kind for kind in (dict, Mapping) if f"{kind.__name__}[str, typing.Any]" in str(hint)]
            assert not loose, f"{room}.{function.__name__}: {name} is {hint}"


def test_functions_are_short_and_take_few_parameters():
    commands = {command.__name__ for command in COMMANDS}
    long = set()
    for file, function in functions():
        if file.startswith("cli/") and function.name in commands:
            continue
        names = [name for name in parameters(function) if name not in ("self", "cls")]
        first = function.lineno
        if function.name in LISTS_SETTINGS and function.name in nesbs.__all__:
            listed = {name for section in LISTS_SETTINGS[function.name] for name in section.model_fields}
            names = [name for name in names if name not in listed]
            first = function.body[0].lineno
        if function.end_lineno - first + 1 > LINES or len(names) > PARAMETERS:
            long.add(f"{file}:{function.name}")
    assert not long, f"over {LINES} lines or {PARAMETERS} parameters: {sorted(long)}"


def test_one_name_means_one_thing():
    places = defaultdict(set)
    for file, path in FILES.items():
        room = file.partition("/")[0]
        if path.stem != "__init__" and path.stem not in SAME_THING and room != "cli":  # its files are named as commands
            places[path.name].add(room)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].add(file)
    twice = {name: sorted(rooms) for name, rooms in places.items() if len(rooms) > 1}
    assert not twice, f"name these after what each is: {twice}"


COUNTING = {"data/images.py:Broken", "reproduce/work.py:Work"}  # change while they are used


def test_what_passes_between_stages_is_frozen():
    loose = set()
    for file, path in FILES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            for decorator in node.decorator_list if isinstance(node, ast.ClassDef) else ():
                made = ast.unparse(decorator)
                if made.startswith("dataclass") and "frozen=True" not in made:
                    loose.add(f"{file}:{node.name}")
    assert loose == COUNTING


def test_a_seed_that_is_not_given_is_0():
    others = set()
    for file, function in functions():
        arguments = function.args
        places = [*zip(reversed(arguments.args), reversed(arguments.defaults), strict=False)]
        for parameter, default in [*places, *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]:
            if parameter.arg == "seed" and default is not None and ast.unparse(default) not in ("0", "None"):
                others.add(f"{file}:{function.name}")
    assert not others
