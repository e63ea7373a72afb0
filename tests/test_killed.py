"""What the tests' own forks may not do: end what belongs to threads that a fork does not have."""

import gc
import os
from pathlib import Path

from killed import exit_code


class Ended:
    """Writes which process ended it. It holds itself, so only the collector ends it."""

    def __init__(self, file: Path) -> None:
        self.file, self.itself = file, self

    def __del__(self) -> None:
        with self.file.open("a") as lines:
            lines.write(f"{os.getpid()}\n")


def test_a_fork_ends_nothing_that_it_did_not_make(tmp_path):
    unused, used = tmp_path / "unused", tmp_path / "used"
    kept = [Ended(used)]
    Ended(unused)
    assert exit_code(_forget, kept) == 0
    assert unused.read_text() == f"{os.getpid()}\n"
    assert not used.exists()


def _forget(kept):
    kept.clear()
    gc.collect()
