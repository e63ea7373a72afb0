"""Which tests reach which line, and how long each takes: one run of the default tests, with coverage by test."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from coverage import CoverageData

from mutants.changes import PACKAGE, Mutant
from mutants.copies import PLAIN, Copy, environment

HOUSE = "tests/test_house.py"
SEPARATION = "tests/test_separation.py"  # its stages are made by whichever test comes first, so all of it is run
COVERAGE, OUTCOMES = "coverage", "outcomes.json"
# Tests of kernels, of the page in a browser, of the wheel, and of this: none of them is about the rooms.
LEFT_OUT = ("tests/kernels", "tests/report/test_browser.py", "tests/test_packaging.py", "tests/test_mutants.py")


class Reaching:
    """The map of a folder, made when it is missing."""

    def __init__(self, copy: Copy, folder: Path, *, jobs: int) -> None:
        if not (folder / OUTCOMES).is_file():
            _measure(copy, folder, jobs)
        outcomes = json.loads((folder / OUTCOMES).read_text())
        self.seconds: dict[str, float] = outcomes["seconds"]
        self._sources = outcomes["sources"]
        self._data = CoverageData(str(folder / COVERAGE))
        self._data.read()
        self._measured = {path[path.index(f"/{PACKAGE}/") + 1 :]: path for path in self._data.measured_files()}
        self._by_line: dict[str, dict[int, list[str]]] = {}
        self._in_file: dict[str, set[str]] = defaultdict(set)
        for test in self.seconds:
            self._in_file[test.partition("::")[0]].add(test)
        self._texts = {path: (copy.root / path).read_text() for path in self._in_file if path.startswith("tests/")}

    def tests(self, mutant: Mutant, source: str, budget: float) -> list[str]:
        """The tests to run, those of the module first and then of the room, quickest first, up to so many seconds.

        A line that runs when its module is imported is reached by all: the tests are then those that run anything else
        in the file, those of the room, and those whose file has the constant's or class's name.
        """
        if self._sources.get(mutant.path) != _digest(source):
            raise SystemExit(f"{mutant.path} has changed since coverage was measured: name another folder by --work")
        lines = self._contexts(mutant.path)
        first, last = mutant.lines
        wanted = range(first, last + 1) if mutant.inside else lines
        found = set().union(*(self._known(context) for line in wanted for context in lines.get(line, ())))
        if not mutant.inside:
            word = re.compile(rf"\b{re.escape(mutant.name.split('.')[-1])}\b")
            named = {path for path, text in self._texts.items() if word.search(text)}
            rooms = {path for path in self._in_file if path.startswith(f"tests/{_room(mutant)}/")}
            found = found.union(*(self._in_file[path] for path in named | rooms))
        if not mutant.inside or mutant.line not in range(first, last + 1):  # rules about constants and signatures
            found |= self._in_file[HOUSE]
        if mutant.room == "separation":
            found |= self._in_file[SEPARATION]
        chosen, spent = list[str](), 0.0
        for test in sorted(found, key=lambda test: (distance(test, mutant), self.seconds[test], test)):
            if chosen and spent + self.seconds[test] > budget:
                continue
            chosen.append(test)
            spent += self.seconds[test]
        return chosen

    def _contexts(self, path: str) -> dict[int, list[str]]:
        if path not in self._by_line:
            self._by_line[path] = self._data.contexts_by_lineno(self._measured.get(path, ""))
        return self._by_line[path]

    def _known(self, context: str) -> set[str]:
        """The passing tests of a coverage context: of what a fixture ran, all tests of its file, which may share it."""
        test, _, phase = context.rpartition("|")
        if phase != "run":
            return self._in_file[test.partition("::")[0]] if test else set()
        return {test} & self.seconds.keys()


def _room(mutant: Mutant) -> str:
    return Path(mutant.path).relative_to(PACKAGE).parts[0]


def distance(test: str, mutant: Mutant) -> int:
    """0 for the module's own tests and examples and for those of separation, 1 for the room's, 2 for all others."""
    file = Path(test.partition("::")[0])
    if mutant.room == "separation" and file.as_posix() == SEPARATION:
        return 0
    if file.as_posix() == mutant.path or file.stem == f"test_{Path(mutant.path).stem}":
        return 0
    return 1 if len(file.parts) > 2 and file.parts[-2] == _room(mutant) else 2


def _measure(copy: Copy, folder: Path, jobs: int) -> None:
    """Run the default tests in a copy. Those that fail or are skipped are left out: only what passes can kill."""
    print(f"measuring which tests reach which line, {jobs} at a time …", flush=True)
    outcomes, data = copy.root / OUTCOMES, copy.root / ".coverage"
    command = [sys.executable, "-m", "pytest", "-q", "--tb=line", "-p", "mutants.outcomes", *PLAIN]
    command += ["-n", str(jobs), "--dist", "worksteal"]
    command += ["--cov", "--cov-context=test", "--cov-report=", f"--basetemp={copy.scratch}"]
    command += [f"--ignore={path}" for path in LEFT_OUT]
    variables = environment(copy.root) | {"MUTANTS_OUTCOMES": str(outcomes)}
    variables.pop("PYTHONDONTWRITEBYTECODE")  # the copies of this copy start faster
    with (folder / "tests.log").open("w") as log:
        subprocess.run(command, cwd=copy.root, env=variables, stdout=log, stderr=subprocess.STDOUT, check=False)
    if not outcomes.is_file() or not data.is_file():
        raise SystemExit(f"the tests did not run: see {folder / 'tests.log'}")
    found = json.loads(outcomes.read_text())
    files = sorted((copy.root / PACKAGE).rglob("*.py"))
    found["sources"] = {path.relative_to(copy.root).as_posix(): _digest(path.read_text()) for path in files}
    print(f"{len(found['seconds'])} tests pass, {len(found['failed'])} fail and are left out", flush=True)
    (folder / COVERAGE).write_bytes(data.read_bytes())
    (folder / OUTCOMES).write_text(json.dumps(found))


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode()).hexdigest()
