"""Try mutants of the core, print how many the tests kill: `python -m mutants [--rooms samplers,metrics] [--jobs 4]`.

A second call goes on where the first stopped; `--work` names the folder that holds what is known.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import queue
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mutants.record import OUTCOMES, add_result, read_results, table

if TYPE_CHECKING:
    from mutants.changes import Mutant
    from mutants.copies import Copy
    from mutants.reaching import Reaching

ROOT = Path(__file__).parents[1]
WITHOUT_MAP = 600.0  # seconds a mutant may take when its tests were named


def main(arguments: list[str] | None = None) -> None:
    chosen = _options(arguments)
    from mutants.copies import Copy
    from mutants.reaching import Reaching

    started, work = time.monotonic(), chosen.work
    work.mkdir(parents=True, exist_ok=True)
    everything = _sample(chosen)
    known = read_results(work / "results.jsonl")
    asked = [mutant for mutant in everything if _to_try(mutant, known, chosen)]
    if chosen.list:
        for mutant in asked:
            print(f"{mutant.id} {mutant.path}:{mutant.line} {mutant.name}\n  - {mutant.before}\n  + {mutant.after}")
        return
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        base = Copy.of(chosen.root, Path(place, "base"))
        if chosen.tests:
            base.check(chosen.tests)
        reaching = None if chosen.tests else Reaching(base, work, jobs=chosen.jobs)
        copies = [Copy.of(base.root, Path(place, str(number))) for number in range(min(chosen.jobs, len(asked)))]
        until = started + chosen.seconds if chosen.seconds else float("inf")
        _try_all(asked, copies, reaching, chosen, until)
    known = read_results(work / "results.jsonl")
    rows = [known[mutant.id] for mutant in everything if mutant.id in known]
    about = {**_provenance(chosen), "seed": chosen.seed, "sample": chosen.sample, "budget": chosen.budget}
    _write(work / "mutants.json", about, rows)
    print(f"{len(rows)} of {len(everything)} mutants tried: {work / 'mutants.json'}\n\n{table(rows, 'room')}")


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutants", description=__doc__)
    add = parser.add_argument
    add("--root", type=Path, default=ROOT, help="the project")
    add("--work", type=Path, default=ROOT / "build" / "mutants", help="folder for coverage, results and the record")
    add("--rooms", type=lambda text: text.split(","), help="these alone, separated by commas")
    add("--sample", type=int, default=50, help="mutants of each room; of `separation` all are tried")
    add("--seed", type=int, default=0, help="of the sample")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="mutants tried at once, each in its own copy")
    add("--seconds", type=float, help="start no mutant after this many")
    add("--budget", type=float, default=60, help="seconds of unchanged tests for one mutant, the nearest tests first")
    add("--slower", type=float, default=3, help="how many times what its tests took a mutant may take, and a minute")
    add("--only", nargs="*", default=[], metavar="ID", help="these alone, whatever is known of them")
    add("--again", nargs="*", default=[], choices=OUTCOMES, help="also those that ended so")
    add("--tests", nargs="*", default=[], metavar="PATH", help="run all of these instead of those that reach the line")
    add("--list", action="store_true", help="print what would be tried, and stop")
    add("--commit", help="for the record, where git cannot tell")
    chosen = parser.parse_args(arguments)
    chosen.work = chosen.work.absolute()
    return chosen


def _sample(chosen: argparse.Namespace) -> list[Mutant]:
    """The mutants of all rooms asked for, the rooms taking turns."""
    from mutants.changes import ROOMS, mutants

    unknown = set(chosen.rooms or ()) - set(ROOMS)
    if unknown:
        raise SystemExit(f"no room is called {', '.join(sorted(unknown))}; there are {', '.join(ROOMS)}")
    rooms = [mutants(chosen.root, room, seed=chosen.seed, count=chosen.sample) for room in chosen.rooms or ROOMS]
    return [mutant for turn in itertools.zip_longest(*rooms) for mutant in turn if mutant is not None]


def _to_try(mutant: Mutant, known: dict[str, dict[str, Any]], chosen: argparse.Namespace) -> bool:
    if chosen.only:
        return mutant.id in chosen.only
    return mutant.id not in known or known[mutant.id]["outcome"] in chosen.again


def _try_all(
    asked: list[Mutant], copies: list[Copy], reaching: Reaching | None, chosen: argparse.Namespace, until: float
) -> None:
    """Try mutants in as many copies as there are, and keep each result as soon as it is known."""
    from mutants.copies import START

    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)
    about, results = {key: _provenance(chosen)[key] for key in ("commit", "date")}, chosen.work / "results.jsonl"

    def attempt(mutant: Mutant, tests: list[str], limit: float) -> dict[str, Any] | None:
        if time.monotonic() > until:
            return None
        copy = free.get()
        try:
            return {**asdict(mutant), **copy.attempt(mutant, tests, limit), **about}
        except Exception as error:  # one mutant must not end all others: it is tried again by --again lost
            failed = {"outcome": "lost", "by": f"{type(error).__name__}: {error}", "tests": len(tests), "seconds": 0.0}
            return {**asdict(mutant), **failed, **about}
        finally:
            free.put(copy)

    with ThreadPoolExecutor(max(1, len(copies))) as pool:
        waiting = []
        for mutant in asked:
            tests, limit = chosen.tests, WITHOUT_MAP
            if reaching is not None:
                tests = reaching.tests(mutant, (chosen.root / mutant.path).read_text(), chosen.budget)
                limit = START + chosen.slower * sum(reaching.seconds[test] for test in tests)
            waiting.append(pool.submit(attempt, mutant, tests, limit))
        for number, future in enumerate(as_completed(waiting), 1):
            row = future.result()
            if row is not None:
                add_result(results, row)
                place = f"{row['path']}:{row['line']}"
                print(f"{number}/{len(asked)} {row['outcome']} {row['seconds']} s {row['id']} {place}", flush=True)


def _provenance(chosen: argparse.Namespace) -> dict[str, Any]:
    from nesbs.records.provenance import provenance

    about = provenance()
    return {
        "nesbs": about["nesbs"],
        "commit": chosen.commit or about["commit"],
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{os.cpu_count()} cores, {platform.platform()}",
        "python": platform.python_version(),
        **{name: version(name) for name in ("cosmic-ray", "torch", "pytest")},
    }


def _write(path: Path, about: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """One mutant a line, so that records can be compared."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    head = json.dumps(about, indent=2, ensure_ascii=False).removesuffix("\n}")
    path.write_text(f'{head},\n  "mutants": [\n{lines}\n  ]\n}}\n')


if __name__ == "__main__":
    main()
