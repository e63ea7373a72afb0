"""A full disk, a folder that becomes read-only, a GPU without memory, and two processes in one folder.

The first three are played inside the child, which works for every user and on every machine: from some moment on,
what asks the system for it is refused as the system would refuse it. Where the system lets us, the disk is a real
one, too: a small one in memory.
"""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from soak.children import Case, Child, Ended
from soak.commands import COMMANDS, LONGEST, OUT, References
from soak.judging import Fault, Verdict, different, judge, lost, prints

WRITING = (
    "os.mkdir",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.link",
    "os.symlink",
    "os.chmod",
    "os.utime",
    "os.truncate",
)
Play = Callable[[], None]


def refuse_writing(number: int, after: int, folder: Path) -> Play:
    """From the `after`-th time on, whatever is written below `folder` is refused with the error `number`."""

    def start() -> None:
        left, inside = after, os.path.realpath(folder)

        def hook(event: str, given: tuple[Any, ...]) -> None:
            nonlocal left
            opened = event == "open" and len(given) == 3 and isinstance(given[2], int)
            writes = opened and given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if not writes and event not in WRITING:
                return
            path = given[1] if event == "os.rename" else given[0]
            if isinstance(path, int) or not os.path.realpath(os.fsdecode(path)).startswith(inside):
                return
            if number == errno.ENOSPC and event in ("os.remove", "os.rmdir", "os.chmod", "os.utime"):
                return  # a full disk still lets files go
            left -= 1
            if left < 0:
                raise OSError(number, os.strerror(number), os.fsdecode(path))

        sys.addaudithook(hook)

    return start


def limit_files(size: int) -> Play:
    """Let no file grow beyond `size` bytes: a write stops half way, as on a full disk."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def without_memory(after: int) -> Play:
    """The `after`-th convolution finds no room on the GPU."""

    def start() -> None:
        import torch  # which every fork has already

        left, original = after, torch.nn.functional.conv2d

        def conv2d(*given: Any, **named: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise torch.OutOfMemoryError(
                    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 7.79 GiB of which "
                    "0.5 GiB is free.\nSee documentation for Memory Management"
                )
            return original(*given, **named)

        torch.nn.functional.conv2d = conv2d

    return start


def disturbed(kind: str, number: int, name: str, play: Play, folder: Path, references: References) -> Case[Verdict]:
    """A command in which something fails, then the same again, which must give what an undisturbed one gives."""
    reference = references.made[name]
    arguments = reference.command.arguments
    references.begin(name, folder)
    [ended] = yield [Child(arguments, folder, fault=play, limit=LONGEST)]
    faults = judge(ended)
    before = prints(folder)
    [again] = yield [Child(arguments, folder, limit=LONGEST)]
    faults += judge(again)
    if again.code == 0:
        faults += lost(before, folder) + different(reference.folder, folder / OUT)
    elif not faults:
        faults.append(Fault("lost", f"cannot go on: {again.err.strip()[-300:]}"))
    notes = {"ended": ended.code, "message": ended.err.strip().splitlines()[-1:]}
    return Verdict(kind, number, name, tuple(faults), arguments, notes)


DISTURBED = ("run", "train", "evaluate", "attack", "quality", "compare", "curves")


def full_disk(number: int, seed: int, folder: Path, references: References) -> Case[Verdict]:
    """A disk that is full from some moment on: files that cannot be made, or that stop growing."""
    random = Random(f"{seed} disk {number}")
    name = DISTURBED[number % len(DISTURBED)]
    if number % 2:
        return disturbed("disk", number, name, limit_files(int(10 ** random.uniform(3.3, 5))), folder, references)
    play = refuse_writing(errno.ENOSPC, random.randrange(40), folder)
    return disturbed("disk", number, name, play, folder, references)


def read_only(number: int, seed: int, folder: Path, references: References) -> Case[Verdict]:
    """A folder that becomes read-only at some moment."""
    random = Random(f"{seed} read-only {number}")
    name = DISTURBED[number % len(DISTURBED)]
    play = refuse_writing(random.choice((errno.EROFS, errno.EACCES)), random.randrange(40), folder)
    return disturbed("read-only", number, name, play, folder, references)


def no_gpu_memory(number: int, seed: int, folder: Path, references: References) -> Case[Verdict]:
    """A GPU whose memory is used up at some moment."""
    random = Random(f"{seed} gpu {number}")
    name = DISTURBED[number % len(DISTURBED)]
    return disturbed("gpu", number, name, without_memory(int(10 ** random.uniform(0, 3.5))), folder, references)


def small_disk(number: int, seed: int, folder: Path, references: References) -> Case[Verdict]:
    """A real disk of some kilobytes, in memory; skipped where the system does not let us make one."""
    kilobytes = Random(f"{seed} tmpfs {number}").randrange(8, 120, 4)
    folder.mkdir(parents=True)
    mounting = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "soak", str(folder)]
    try:
        mounted = subprocess.run(mounting, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        return Verdict("small-disk", number, "skipped: no disk in memory can be made here", notes={"skipped": True})
    arguments, faults = references.made["run"].command.arguments, []
    try:
        [ended] = yield [Child(arguments, folder, limit=LONGEST)]
        faults += judge(ended)
        before = prints(folder)
        subprocess.run(["mount", "-o", "remount,size=64m", str(folder)], check=True, capture_output=True)
        [again] = yield [Child(arguments, folder, limit=LONGEST)]
        faults += judge(again) + lost(before, folder)
        if again.code == 0:
            faults += different(references.made["run"].folder, folder / OUT)
    finally:
        subprocess.run(["umount", "-l", str(folder)], capture_output=True)
    notes = {"ended": ended.code, "kilobytes": kilobytes}
    return Verdict("small-disk", number, f"run on {kilobytes} kB", tuple(faults), arguments, notes)


SECOND = ("the same", "evaluate", "quality", "attack", "report", "train")


def two_processes(number: int, seed: int, folder: Path, references: References) -> Case[Verdict]:
    """A run, and a second command that is started in its folder while it is at work.

    The run must end as if it were alone. The second one is refused in a line where it would write;
    a reader may read.
    """
    random = Random(f"{seed} two {number}")
    what = SECOND[number % len(SECOND)]
    reference = references.made["run"]
    first = reference.command.arguments
    second = first if what == "the same" else ("report", OUT) if what == "report" else COMMANDS[what].arguments
    references.begin("run", folder)
    delay = random.uniform(0.1, max(0.2, reference.seconds - references.start))
    one, two = yield [Child(first, folder, limit=LONGEST), Child(second, folder, delay=delay, limit=LONGEST)]
    faults = judge(one) + judge(two)
    if two.code == 0 and what != "report" and worked_together(one, two):
        faults.append(Fault("accepted", f"{what}: both were at work in one folder"))
    if one.code != 0:
        faults.append(Fault("lost", f"the first process was ended by the second: {one.err.strip()[-200:]}"))
        [again] = yield [Child(first, folder, limit=LONGEST)]
        faults += judge(again)
    faults += different_run(reference.folder, folder / OUT, what)
    notes = {"second": two.code, "message": two.err.strip().splitlines()[-1:]}
    return Verdict("two", number, f"run and {what}", tuple(faults), second, notes)


def worked_together(one: Ended, two: Ended) -> bool:
    """Whether the second process did its work while the first was still at its own."""
    return two.ended < one.ended


def different_run(reference: Path, folder: Path, what: str) -> list[Fault]:
    """The differences to a run alone, without the files that the second command adds."""
    added = {"quality": ("quality",), "attack": ("attacks",)}.get(what, ())
    return [fault for fault in different(reference, folder) if not fault.what.startswith(added) or not added]


FAULTS: dict[str, Callable[[int, int, Path, References], Case[Verdict]]] = {
    "disk": full_disk,
    "small-disk": small_disk,
    "read-only": read_only,
    "two": two_processes,
    "gpu": no_gpu_memory,
}
