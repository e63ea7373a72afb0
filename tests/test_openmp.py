"""What OpenMP needs on a busy machine is in the environment before torch is loaded."""

import subprocess
import sys

import pytest

AT_TORCH = """
import os, sys
class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            print(os.environ.get("OMP_WAIT_POLICY"))
            sys.stdout.flush()
            os._exit(0)
sys.meta_path.insert(0, Watch())
import nesbs.cli
"""


@pytest.mark.parametrize(("user", "found"), [({}, "PASSIVE"), ({"OMP_WAIT_POLICY": "ACTIVE"}, "ACTIVE")])
def test_threads_wait_without_spinning_unless_the_user_says_so(user, found, monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    for name, value in user.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    ended = subprocess.run([sys.executable, "-c", AT_TORCH], capture_output=True, text=True)
    assert ended.stdout.strip() == found, ended.stderr
