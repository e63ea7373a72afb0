"""Which code wrote a record: the version and, where nesbs runs from its own checkout, the commit."""

import os
import subprocess
from functools import cache
from pathlib import Path

from nesbs.version import __version__

SECONDS = 5.0  # that git may take


@cache
def provenance() -> dict[str, str | bool | None]:
    """The version as `nesbs`; from a checkout also its `commit`, and whether src/ was `clean`, as committed.

    >>> list(provenance())
    ['nesbs', 'commit', 'clean']
    """
    package = Path(__file__).resolve().parents[1]
    root = package.parents[1]
    values: dict[str, str | bool | None] = {"nesbs": __version__, "commit": None, "clean": None}
    # An installed package may lie inside a checkout of something else, whose commit says nothing about nesbs.
    if package == root / "src" / "nesbs" and (root / "pyproject.toml").is_file() and (root / ".git").exists():
        commit, changes = _git(root, "rev-parse", "HEAD"), _git(root, "status", "--porcelain", "--", "src")
        if commit and changes is not None:
            values |= {"commit": commit, "clean": not changes}
    return values


def _git(root: Path, *command: str) -> str | None:
    """What git says, None where it is missing, fails or takes too long."""
    elsewhere = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")  # set inside git's hooks
    environment = {name: value for name, value in os.environ.items() if name not in elsewhere}
    git = ["git", "--no-optional-locks", "-C", str(root), *command]
    try:
        return subprocess.run(
            git, capture_output=True, text=True, timeout=SECONDS, env=environment, check=True
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
