"""A pytest plugin: which tests passed and how long each took, as JSON in the file that MUTANTS_OUTCOMES names."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

_seconds: dict[str, float] = defaultdict(float)
_passed: set[str] = set()
_failed: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """One phase of one test: the setup counts too, since whoever runs a test alone pays for it."""
    _seconds[report.nodeid] += report.duration
    if report.failed:
        _failed.add(report.nodeid)
    elif report.when == "call" and report.passed:
        _passed.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Written once, by the process that hears of all tests."""
    if not hasattr(session.config, "workerinput"):
        passed = {test: round(_seconds[test], 3) for test in sorted(_passed - _failed)}
        outcomes = {"seconds": passed, "failed": sorted(_failed)}
        Path(os.environ["MUTANTS_OUTCOMES"]).write_text(json.dumps(outcomes, indent=0))
