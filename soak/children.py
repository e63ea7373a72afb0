"""Child processes, some at a time: a fresh `nesbs`, or a fork of this process, which has imported everything already.

A case is a generator. It yields the children that it wants started, gets back how they ended and returns a verdict.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, NoReturn, TypeVar

Found = TypeVar("Found")
Case = Generator["Sequence[Child]", "list[Ended]", Found]

HANGS_AFTER = 60.0  # seconds
AT_WORK_AFTER = 25.0  # seconds: a child that still tells of its progress then is no hang, only long
PROGRESS = re.compile(r": \d+ of \d+,")  # a line every ten seconds, with the command's plain progress
MEMORY = 4 << 30  # bytes that a fork may take beside what it was born with
TICK = 0.01


@dataclass(frozen=True)
class Child:
    """A command to be run in a folder."""

    arguments: tuple[str, ...]
    folder: Path
    fresh: bool = False  # a new interpreter; else a fork
    kill_after: float | None = None  # seconds, then SIGKILL
    delay: float = 0.0  # seconds from the first of those that are started together
    fault: Callable[[], None] | None = None  # called in a fork, before the command
    limit: float = HANGS_AFTER


@dataclass(frozen=True)
class Ended:
    """How a child ended."""

    code: int  # the exit code; of a signal its negative number
    out: str
    err: str
    began: float
    ended: float
    killed: bool = False  # as `kill_after` asks
    hung: bool = False
    at_work: bool = False  # ended by us while it told of its progress

    @property
    def seconds(self) -> float:
        """From start to end."""
        return self.ended - self.began


class Pool:
    """Runs cases, `jobs` at a time."""

    def __init__(
        self, jobs: int, main: Callable[[list[str]], None], program: Sequence[str] = (sys.executable, "-m", "nesbs")
    ) -> None:
        self.jobs = jobs
        self.main = main  # what a fork calls
        self.program = tuple(program)  # what a fresh process is

    def work(self, cases: Iterable[Case[Found]]) -> Iterator[Found]:
        """Yield what each case returns, as they end."""
        waiting, active = iter(cases), list[_Active[Found]]()
        more = True
        try:
            while more or active:
                while more and len(active) < self.jobs:
                    case = next(waiting, None)
                    if case is None:
                        more = False
                        break
                    active.append(_Active(case, self))
                for each in list(active):
                    if each.step():
                        active.remove(each)
                        assert each.found is not None
                        yield each.found
                time.sleep(TICK)
        finally:
            for each in active:
                each.stop()


@dataclass
class _Active(Generic[Found]):
    """A case whose children are at work."""

    case: Case[Found]
    pool: Pool
    found: Found | None = None
    running: list[_Running] = field(default_factory=list)
    begun: bool = False

    def step(self) -> bool:
        """Look after the children; return whether the case has ended."""
        if not self.begun:
            self.begun = True
            return self._advance(None)
        finished = [each.look() for each in self.running]
        return all(finished) and self._advance([each.result() for each in self.running])

    def _advance(self, ended: list[Ended] | None) -> bool:
        try:
            children = next(self.case) if ended is None else self.case.send(ended)
        except StopIteration as stopped:
            self.found = stopped.value
            return True
        start = time.monotonic()
        self.running = [_Running(child, self.pool, start + child.delay) for child in children]
        return False

    def stop(self) -> None:
        for each in self.running:
            each.kill()
        self.case.close()


class _Running:
    """One child."""

    def __init__(self, child: Child, pool: Pool, start: float) -> None:
        self.child, self.pool, self.start = child, pool, start
        self.pid: int | None = None
        self.status: int | None = None
        self.ended = 0.0
        self.reasons: dict[str, bool] = {}

    def look(self) -> bool:
        """Start the child when its time has come, end it when its time is over; return whether it has ended."""
        now = time.monotonic()
        if self.status is not None:
            return True
        if self.pid is None:
            if now >= self.start:
                self.start = now
                self._start()
            return False
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.status, self.ended = os.waitstatus_to_exitcode(status), now
            self._kill_group()  # what it may have left behind
            return True
        if not self.reasons:
            self._end_in_time(now - self.start)
        return False

    def _end_in_time(self, seconds: float) -> None:
        child = self.child
        if child.kill_after is not None and seconds >= child.kill_after:
            self.reasons = {"killed": True}
        elif child.limit <= HANGS_AFTER and seconds > AT_WORK_AFTER and self._at_work():
            self.reasons = {"at_work": True}
        elif seconds > child.limit:
            self.reasons = {"hung": True}
        if self.reasons:
            self._kill_group()

    def _at_work(self) -> bool:
        return len(PROGRESS.findall(_text(self._path("err")))) >= 2

    def _kill_group(self) -> None:
        assert self.pid is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)

    def kill(self) -> None:
        """End it, whatever it does."""
        if self.pid is not None and self.status is None:
            self._kill_group()
            os.waitpid(self.pid, 0)

    def result(self) -> Ended:
        assert self.status is not None
        out, err = (_text(self._path(name)) for name in ("out", "err"))
        return Ended(self.status, out, err, self.start, self.ended, **self.reasons)

    def _path(self, name: str) -> Path:
        return self.child.folder.with_name(f"{self.child.folder.name}.{id(self)}.{name}")

    def _start(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        out, err = (os.open(self._path(name), os.O_CREAT | os.O_WRONLY | os.O_TRUNC) for name in ("out", "err"))
        self.pid = os.fork()
        if self.pid == 0:
            _become(self.child, self.pool, out, err)
        with contextlib.suppress(OSError):  # the child does it too: whoever comes first
            os.setpgid(self.pid, self.pid)
        os.close(out)
        os.close(err)


def _become(child: Child, pool: Pool, out: int, err: int) -> NoReturn:
    """Be the child, to the end."""
    code = 1
    try:
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        os.chdir(child.folder)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, handle in enumerate((nothing, out, err)):
            os.dup2(handle, number)
        if child.fresh:
            program = [*pool.program, *child.arguments]
            os.execv(program[0], program)
        code = _call(child, pool.main)
    finally:
        os._exit(code)


def _call(child: Child, main: Callable[[list[str]], None]) -> int:
    """Call the command as a new interpreter would; return its exit code."""
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 (to the end)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    sys.argv = ["nesbs", *child.arguments]
    code = 0
    try:
        _limit_memory()
        if child.fault is not None:
            child.fault()
        main(list(child.arguments))
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        code = 1
    return code


def _limit_memory() -> None:
    """Let a command that asks for too much be refused by the system before it takes the machine with it."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
    except (OSError, ValueError):
        return
    most = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="backslashreplace")
    except OSError:
        return ""
