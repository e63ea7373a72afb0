"""Copies of the project in which mutants are tried, one at a time in each, every one in a process of its own."""

from __future__ import annotations

import math
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from mutants.changes import Mutant

NOT_COPIED = {".git", ".venv", ".device", "build", "dist", "runs", "site"}
# Plugins that other machines may have: an order of their own, warnings of their own.
PLAIN = ("-p", "no:randomly", "-p", "no:benchmark")
TOOL = Path(__file__).parents[1]  # where the plugin for pytest is
MEMORY = 8 * 2**30  # bytes a mutant may take: some of them ask for more than any machine has
START = 60.0  # a mutant may take this many seconds, and some times what its tests took


@dataclass(frozen=True)
class Copy:
    """A copy of the project, and a folder beside it for what its tests write."""

    root: Path

    @property
    def scratch(self) -> Path:
        """Emptied by pytest whenever it starts."""
        return self.root.with_name(f"{self.root.name}-scratch")

    @classmethod
    def of(cls, source: Path, root: Path) -> Copy:
        """A new copy, compiled files included."""
        root.mkdir()
        for path in source.iterdir():
            if path.is_dir() and path.name not in NOT_COPIED:
                shutil.copytree(path, root / path.name, symlinks=True)
            elif path.is_file():
                shutil.copy2(path, root)
        return cls(root)

    def attempt(self, mutant: Mutant, tests: list[str], limit: float) -> dict[str, object]:
        """Change the file, run the tests until one fails, put the file back."""
        if not tests:
            return {"outcome": "survived", "by": "", "tests": 0, "seconds": 0.0}
        path, started = self.root / mutant.path, time.monotonic()
        source = path.read_text()
        for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            compiled.unlink()
        try:
            path.write_text(mutant.code(source))
            outcome, by = self._run(tests, limit)
        finally:
            path.write_text(source)
        seconds = round(time.monotonic() - started, 1)
        return {"outcome": outcome, "by": by, "tests": len(tests), "seconds": seconds}

    def check(self, tests: list[str]) -> None:
        """Stop where tests fail on the unchanged code: they would kill every mutant."""
        outcome, by = self._run(tests, float("inf"))
        if outcome != "survived":
            raise SystemExit(f"these tests fail without any change: {by}")

    def _run(self, tests: list[str], limit: float) -> tuple[str, str]:
        options = ["-q", "-x", "--tb=no", "-rfE", "-p", "no:cacheprovider", *PLAIN, f"--basetemp={self.scratch}"]
        names = self.root.with_name(f"{self.root.name}-tests.txt")
        names.write_text("\n".join(tests))  # in a file: a command takes no more than some hundred thousand letters
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, f"@{names}"],
            cwd=self.root,
            env=environment(self.root),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=_little_memory,
        )
        try:
            output, _ = process.communicate(timeout=None if math.isinf(limit) else limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "timeout", ""
        if process.returncode == 0:
            return "survived", ""
        if "ERROR: not found" in output or process.returncode == 5:  # a test went away, which nobody would notice
            return "lost", output[-300:]
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.M)
        return "killed", failed[1] if failed else output.strip()[-120:]


def environment(root: Path) -> dict[str, str]:
    """The variables of a test process: the copy's own code, one thread, no GPU."""
    others = [Path(path).absolute() for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    others = [path for path in others if not (path / "nesbs").is_dir()]
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, [root / "src", root, TOOL, *others])),
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONHASHSEED": "0",
    }


def _little_memory() -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
