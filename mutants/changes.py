"""The mutants: what cosmic-ray's operators can change in a room, less what cannot matter, in a random order."""

from __future__ import annotations

import ast
import difflib
import hashlib
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.operators.provider import OperatorProvider

PACKAGE = Path("src/nesbs")
NAMED = Path(__file__).with_name("named.yaml")
EVERYWHERE = ("data", "evaluation", "attacks", "rivals", "runs", "compare", "reproduce")
ROOMS = {
    "samplers": ("samplers",),
    "posterior": ("posterior",),
    "ensemble": ("ensemble",),
    "supernet": ("supernet/train.py", "supernet/estimate.py", "supernet/draw_paths.py", "supernet/untrained.py"),
    "metrics": ("metrics.py",),
    "evaluation": ("evaluation",),
    "attacks": ("attacks",),
    "runs": ("runs",),
    "compare": ("compare",),
    "separation": EVERYWHERE,  # every place that names a part of the images: all of these are tried
    "named": (),  # those of named.yaml: all of these too
}

# What a place that names one part of the images is changed to.
OTHER_PARTS: dict[str, tuple[str, ...]] = {
    "search_train": ("search_valid", "train"),
    "search_valid": ("search_train", "train"),
    "train": ("test",),
    "test": ("train",),
}
OTHER_PARTS_OF_A_REQUEST: dict[str, tuple[str, ...]] = {"train": ("valid",), "valid": ("train",)}  # rivals/request.py
SHARED_BY_PARTS = {"size", "classes", "class_names", "channels", "device"}  # the same whichever part is asked

# `is` between values is `==` where Python happens to keep one copy of them, and between objects the reverse.
VALUES, IDENTITY = ("Eq", "NotEq", "Lt", "LtE", "Gt", "GtE"), ("Is", "IsNot")
INTERNED = {f"ReplaceComparisonOperator_{one}_{other}" for one in VALUES for other in IDENTITY}
INTERNED |= {"ReplaceComparisonOperator_Is_Eq", "ReplaceComparisonOperator_IsNot_NotEq"}

COMPOUND = {"if_stmt", "while_stmt", "for_stmt", "with_stmt", "try_stmt", "classdef"}  # their first line is a statement


@dataclass(frozen=True)
class Mutant:
    """One change of one place. `id` stays the same when other lines of the file change."""

    id: str
    room: str
    path: str  # from the root: src/nesbs/metrics.py
    line: int
    lines: tuple[int, int]  # of the statement
    inside: bool  # in the body of a function: else it runs when the module is imported
    name: str  # of the function, class or constant
    operator: str
    occurrence: int
    before: str
    after: str

    def code(self, source: str) -> str:
        """The whole changed file."""
        if self.room == "named":
            return source.replace(self.before, self.after)
        return _changed(source, self.operator, self.occurrence) or source


class OtherPart(Operator):  # type: ignore[misc]
    """Names another part of the images: `data.search_valid` becomes `data.search_train`."""

    parts = OTHER_PARTS

    def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
        """Every attribute that is a part, once for each other part."""
        if node.type == "name" and node.value in self.parts and _is_attribute(node):
            following = node.get_next_leaf(), node.get_next_leaf().get_next_leaf()
            called = following[0].value == "("
            shared = following[0].value == "." and following[1].value in SHARED_BY_PARTS
            stored = following[0].value == "="
            if not (called or shared or stored):
                for _ in self.parts[node.value]:
                    yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        """The same attribute by another name."""
        node.value = self.parts[node.value][index]
        return node

    @classmethod
    def examples(cls) -> tuple[()]:
        """None: cosmic-ray's own tests want them."""
        return ()


class OtherPartOfARequest(OtherPart):
    """The same of what a one-shot search is given."""

    parts = OTHER_PARTS_OF_A_REQUEST


def mutants(root: Path, room: str, *, seed: int, count: int) -> list[Mutant]:
    """`count` mutants of a room that compile to something else, or as many as there are.

    Places are taken in a random order, each with one of its changes, before any place gets a second one. The order
    hangs on the text of the place and not on its line, so that most of a sample stays when a file is edited.
    """
    if room == "named":
        return [_named(root, **change) for change in yaml.safe_load(NAMED.read_text())]
    chosen: list[Mutant] = []
    for _, _, mutant in sorted(_places(root, room, seed), key=lambda place: place[:2]):
        if len(chosen) == count and room != "separation":
            break
        source = (root / mutant.path).read_text()
        after = mutant.code(source)
        if _is_another(source, after):
            before, changed = _changed_lines(source, after)
            chosen.append(Mutant(**{**vars(mutant), "before": before, "after": changed}))
    return chosen


def _named(root: Path, path: str, before: str, after: str) -> Mutant:
    """A change that is written down, of a text that its file has once."""
    start, *more = (root / path).read_text().split(before)
    if len(more) != 1:
        raise SystemExit(f"{path} has {len(more)} times what {NAMED.name} would change: {before}")
    line = start.count("\n") + 1
    name = re.findall(r"^ *def (\w+)", start, re.M)[-1]
    lines = line, line + before.count("\n")
    return Mutant(_key(path, before, after)[:8], "named", path, line, lines, True, name, "Named", 0, before, after)


def _places(root: Path, room: str, seed: int) -> Iterator[tuple[int, str, Mutant]]:
    """Every change that the rules allow: its number at its place, the place's random key, the mutant."""
    found: dict[str, list[tuple[str, Mutant]]] = {}
    for path in _files(root, room):
        source = (root / path).read_text()
        rows, nodes = source.split("\n"), list(ast_nodes(get_ast(source)))
        alike: dict[tuple[str, ...], list[int]] = {}  # lines with the same text in the same function
        for operator, instance in _operators(room, path).items():
            positions = ((node, *ends) for node in nodes for ends in instance.mutation_positions(node))
            for occurrence, (node, start, end) in enumerate(positions):
                if not _matters(node) or "cuda" in rows[start[0] - 1]:
                    continue
                lines, inside, name = _statement(node, (start[0], end[0]))
                text = (path, name, rows[start[0] - 1].strip(), str(start[1]))
                twins = alike.setdefault(text, [])
                if start[0] not in twins:
                    twins.append(start[0])
                place = _key(str(seed), *text, str(twins.index(start[0])))
                changes = found.setdefault(place, [])
                key = _key(place, operator, str(sum(other.operator == operator for _, other in changes)))
                mutant = Mutant(key[:8], room, path, start[0], lines, inside, name, operator, occurrence, "", "")
                changes.append((key, mutant))
    for place, changes in found.items():
        for number, (_, mutant) in enumerate(sorted(changes, key=lambda change: change[0])):
            yield number, place, mutant


def _files(root: Path, room: str) -> list[str]:
    found = []
    for part in ROOMS[room]:
        path = root / PACKAGE / part
        found += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return [path.relative_to(root).as_posix() for path in found]


def _operators(room: str, path: str) -> dict[str, Any]:
    if room == "separation":
        kind = OtherPartOfARequest if "/rivals/" in path else OtherPart
        return {kind.__name__: kind()}
    return {name: made for name, made in _library().items() if name not in INTERNED}


@cache
def _library() -> dict[str, Any]:
    provider = OperatorProvider()
    return {name: provider[name]() for name in provider if not provider[name].arguments()}


def _changed(source: str, operator: str, occurrence: int) -> str | None:
    own = {kind.__name__: kind for kind in (OtherPart, OtherPartOfARequest)}
    made = own[operator]() if operator in own else _library()[operator]
    code: str | None = mutate_code(source, made, occurrence)
    return code


def _matters(node: Any) -> bool:
    """Not in an annotation, an f-string, a raise, nor a signature's marker `*`: what people and type checkers read."""
    child, parent = node, node.parent
    while parent is not None:
        if parent.type in ("fstring", "raise_stmt") or (child is node and parent.type == "parameters"):
            return False
        if parent.type == "tfpdef" and child is not parent.children[0]:
            return False
        if parent.type == "annassign" and child is parent.children[1]:
            return False
        if parent.type == "funcdef" and child is parent.annotation:
            return False
        child, parent = parent, parent.parent
    return True


def _statement(node: Any, place: tuple[int, int]) -> tuple[tuple[int, int], bool, str]:
    """First and last line of a change's statement, whether a function runs it, the name of what it is in.

    Of a decorator or a default value these are the lines of its function.
    """
    lines = place if node.type in COMPOUND else None
    inside, names, assigned = False, [], ""
    child, parent = node, node.parent
    while parent is not None:
        if lines is None and parent.type == "simple_stmt":
            lines = parent.start_pos[0], parent.get_last_leaf().start_pos[0]
            assigned = parent.get_first_leaf().value
        if lines is None and parent.type in COMPOUND:
            lines = child.start_pos[0], child.get_last_leaf().start_pos[0]
        function = parent.children[-1] if parent.type == "decorated" else parent
        if function.type == "funcdef" and not inside:
            body = function.children[-1]
            if child is not body and child is not function:
                lines = body.get_first_leaf().start_pos[0] + 1, body.get_last_leaf().start_pos[0]
            inside = True
        if parent.type in ("funcdef", "classdef"):
            names.append(parent.name.value)
        child, parent = parent, parent.parent
    return lines or place, inside, ".".join(reversed(names)) or assigned


def _is_attribute(node: Any) -> bool:
    before = node.get_previous_leaf()
    return before is not None and before.value == "."


def _is_another(source: str, changed: str) -> bool:
    """Whether a change compiles and is more than another way to write the same, as `1e+300` is of `1e300`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(changed, "mutant", "exec")
            return ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
    except (SyntaxError, ValueError):
        return False


def _changed_lines(before: str, after: str) -> tuple[str, str]:
    """The lines that differ, without their indentation."""
    lines = list(difflib.ndiff(before.split("\n"), after.split("\n")))
    return tuple(" ".join(line[2:].strip() for line in lines if line.startswith(sign)) for sign in "-+")  # type: ignore[return-value]


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
