"""Try everything, print one table and write one record: `python -m soak [--kills N] [--inputs N] [--only KIND]`."""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.timing import machine
from nesbs import files
from nesbs.cli import main as command
from nesbs.records.provenance import provenance
from soak import bad_images, bad_options, bad_recipes, bad_run_files, bad_settings, kills
from soak.children import Case, Pool
from soak.commands import COMMANDS, References
from soak.faults import DISTURBED, FAULTS
from soak.inputs import Make, try_input
from soak.judging import COLUMNS, Fault, Verdict, plain, repeat

SHARES = {"setting": 0.72, "recipe": 0.07, "run-file": 0.1, "image": 0.05, "option": 0.06}  # of the inputs
EACH_FAULT = 12  # how often each of the other faults is tried
KINDS = ("kill", *SHARES, *FAULTS)
RECORD = Path("results/soak/soak.json")


def counts(chosen: argparse.Namespace) -> dict[str, int]:
    """How often each kind is tried."""
    kinds = chosen.only or KINDS
    shares = {kind: share for kind, share in SHARES.items() if kind in kinds}
    inputs = {kind: round(share / sum(shares.values()) * chosen.inputs) for kind, share in shares.items()}
    every = {"kill": chosen.kills, **inputs, **dict.fromkeys(FAULTS, chosen.faults)}
    return {kind: count for kind, count in every.items() if kind in kinds}


def makers(references: References) -> dict[str, Make]:
    """How each kind of bad input is made."""
    return {
        "setting": bad_settings.make,
        "recipe": bad_recipes.make,
        "run-file": partial(bad_run_files.make, references=references),
        "image": partial(bad_images.make, references=references),
        "option": partial(bad_options.make, references=references),
    }


def cases(
    kind: str, numbers: Sequence[int], seed: int, folder: Path, references: References
) -> Iterator[Case[Verdict]]:
    """The cases of one kind, each begun when its turn comes."""
    make = makers(references).get(kind)
    for number in numbers:
        place = folder / kind / str(number)
        if kind == "kill":
            case = kills.kill(number, seed, place, references)
        elif make is not None:
            case = try_input(kind, number, make, seed, place)
        else:
            case = FAULTS[kind](number, seed, place, references)
        yield guarded(case, kind, number)


def guarded(case: Case[Verdict], kind: str, number: int) -> Case[Verdict]:
    """A case whose own mistakes count as a fault, instead of ending all that is still to come."""
    try:
        return (yield from case)
    except Exception as error:
        return Verdict(kind, number, "the soak test itself", (Fault("tracebacks", f"{type(error).__name__}: {error}"),))


def needed(kind: str, numbers: Sequence[int]) -> list[str]:
    """The undisturbed runs that a kind is compared with."""
    if kind == "kill":
        return sorted({kills.command_of(number) for number in numbers})
    by_kind = {
        "run-file": ["run"],
        "option": ["run"],
        "image": ["search", "train"],
        "two": ["run"],
        "small-disk": ["run"],
    }
    by_kind.update({name: [*DISTURBED] for name in ("disk", "read-only", "gpu")})
    return by_kind.get(kind, [])


def work(chosen: argparse.Namespace, folder: Path, pool: Pool) -> list[Verdict]:
    """Try everything that was asked for; tell of it as it goes."""
    references = References(folder / "undisturbed", pool)
    verdicts: list[Verdict] = []
    for kind, count in counts(chosen).items():
        numbers = range(count) if chosen.number is None else [chosen.number]
        if not numbers:
            continue
        if kind in ("kill", "two"):
            references.measure_start()
        references.make(needed(kind, numbers))
        began = time.monotonic()
        for verdict in pool.work(cases(kind, numbers, chosen.seed, folder, references)):
            verdicts.append(verdict)
            for fault in verdict.faults:
                print(f"{kind} {verdict.number}: {verdict.name}: {fault.column}: {plain(fault.what)}", flush=True)
            if not chosen.keep:
                _clear(folder / kind, verdict.number)
        print(f"{kind}: {len(numbers)} in {time.monotonic() - began:.0f} s", flush=True)
        if chosen.number is None:  # what has been tried is kept, whatever comes
            files.write_json(chosen.json, record(chosen, verdicts))
    return verdicts


def _clear(folder: Path, number: int) -> None:
    shutil.rmtree(folder / str(number), ignore_errors=True)
    for path in folder.glob(f"{number}.*"):
        path.unlink()


def rows(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """A row for each kind: how many were tried, and how many of them have a fault of each column."""
    found = []
    for kind in KINDS:
        mine = [each for each in verdicts if each.kind == kind and not each.notes.get("skipped")]
        faulty = {column: sum(any(f.column == column for f in each.faults) for each in mine) for column in COLUMNS}
        if mine:
            found.append({"kind": kind, "tried": len(mine), **faulty})
    return found


def table(found: Sequence[dict[str, Any]]) -> str:
    """The rows as text."""
    lines = [f"{'kind':<12}{'tried':>8}" + "".join(f"{column:>12}" for column in COLUMNS)]
    for row in found:
        lines.append(f"{row['kind']:<12}{row['tried']:>8}" + "".join(f"{row[column]:>12}" for column in COLUMNS))
    total = {column: sum(row[column] for row in found) for column in ("tried", *COLUMNS)}
    lines.append(f"{'all':<12}{total['tried']:>8}" + "".join(f"{total[column]:>12}" for column in COLUMNS))
    return "\n".join(lines)


def record(chosen: argparse.Namespace, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """What was tried, where, by which code, and what was found."""
    in_order = sorted(verdicts, key=lambda each: (KINDS.index(each.kind), each.number))  # not as they ended
    killed = Counter((each.name, each.notes["stage"]) for each in verdicts if "stage" in each.notes)
    return {
        **provenance(),
        "date": datetime.date.today().isoformat(),
        "machine": {**machine(), "cores": os.cpu_count()},
        "seed": chosen.seed,
        "jobs": chosen.jobs,
        "rows": rows(verdicts),
        "kills": [{"command": name, "stage": stage, "kills": count} for (name, stage), count in sorted(killed.items())],
        "skipped": sorted({each.name for each in verdicts if each.notes.get("skipped")}),
        "failures": [each.to_json(chosen.seed) for each in in_order if each.faults],
    }


def main(arguments: list[str] | None = None, call: Callable[[list[str]], None] = command) -> int:
    """Run what was asked for; return how many cases have a fault."""
    parser = argparse.ArgumentParser(prog="python -m soak", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of all cases")
    parser.add_argument("--kills", type=int, default=100, help=f"over {', '.join(COMMANDS)}")
    parser.add_argument("--inputs", type=int, default=1000, help="bad inputs")
    parser.add_argument("--faults", type=int, default=EACH_FAULT, help="of each other kind")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="cases at a time; the cores by default")
    parser.add_argument("--only", nargs="+", choices=KINDS, help="these kinds alone")
    parser.add_argument("--number", type=int, help="one case of --only alone")
    parser.add_argument("--keep", type=Path, help="a new folder in which all files of all cases are kept")
    parser.add_argument("--json", type=Path, default=RECORD, help="the record")
    chosen = parser.parse_args(arguments)
    if chosen.number is not None and len(chosen.only or ()) != 1:
        parser.error("--number is a number of one kind: add --only KIND")
    with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as temporary:
        verdicts = work(chosen, Path(chosen.keep or temporary).resolve(), Pool(chosen.jobs, call))
    bad = sorted((each for each in verdicts if each.faults), key=lambda each: (each.kind, each.number))
    print(table(rows(verdicts)))
    for each in bad:
        print(f"\n{each.kind} {each.number}: {each.name}")
        print(*(f"    {fault.column}: {plain(fault.what)}" for fault in each.faults), sep="\n")
        print(f"    {repeat(chosen.seed, each.kind, each.number)}")
    return len(bad)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))  # children are ended on the way out
    raise SystemExit(min(main(), 1))
