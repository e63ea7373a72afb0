"""What came of the mutants: a line for each as it is tried, and the record of them all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

EQUIVALENT = Path(__file__).with_name("equivalent.yaml")
OUTCOMES = ("killed", "timeout", "survived", "lost")


def read_results(path: Path) -> dict[str, dict[str, Any]]:
    """The last result of each mutant, by its id."""
    if not path.is_file():
        return {}
    whole = [line for line in path.read_text().split("\n") if line.endswith("}")]  # the last may be cut off
    return {row["id"]: row for row in map(json.loads, whole)}


def add_result(path: Path, row: Mapping[str, Any]) -> None:
    """One more line at the end."""
    with path.open("a") as opened:
        opened.write(json.dumps(row, ensure_ascii=False) + "\n")


def equivalent() -> dict[str, str]:
    """Why a mutant does what the code does, by its id."""
    return yaml.safe_load(EQUIVALENT.read_text()) or {}


def counts(rows: Iterable[Mapping[str, Any]], by: str) -> dict[str, dict[str, int]]:
    """How many were tried, killed, timed out, survived and are equivalent, by `room` or `path`; all of them last."""
    judged, found = equivalent(), dict[str, Counter[str]]()
    for row in rows:
        for name in (row[by], "all"):
            tally = found.setdefault(name, Counter())
            same = row["id"] in judged and row["outcome"] != "killed"
            tally["tried"] += 1
            tally["equivalent" if same else row["outcome"]] += 1
    ordered = [name for name in found if name != "all"]
    return {name: {key: found[name][key] for key in ("tried", *OUTCOMES, "equivalent")} for name in [*ordered, "all"]}


def share(tally: Mapping[str, int]) -> float:
    """Killed among those not judged equivalent; a timeout is no kill."""
    return tally["killed"] / max(1, tally["tried"] - tally["equivalent"])


def table(rows: Iterable[Mapping[str, Any]], by: str) -> str:
    """The counts as a table in Markdown."""
    lines = [
        f"| {by} | tried | killed | timed out | survived | equivalent | killed of those not equivalent |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, tally in counts(rows, by).items():
        alive = tally["survived"] + tally["lost"]
        cells = [tally["tried"], tally["killed"], tally["timeout"], alive, tally["equivalent"]]
        name = name.removeprefix("src/nesbs/")
        lines.append(f"| {name} | {' | '.join(map(str, cells))} | {100 * share(tally):.1f} % |")
    return "\n".join(lines)


def modules(rows: Iterable[Mapping[str, Any]]) -> str:
    """Of each module how many were killed of those not judged equivalent, a line for each folder, in Markdown."""
    folders: dict[str, list[str]] = {}
    for path, tally in sorted(counts(rows, "path").items()):
        *folder, name = path.removeprefix("src/nesbs/").removesuffix(".py").split("/")
        if path != "all":
            share_of = f"{tally['killed']} of {tally['tried'] - tally['equivalent']}"
            folders.setdefault("/".join(folder), []).append(f"{name} {share_of}")
    return "\n".join(f"- {folder or 'beside the rooms'}: {', '.join(found)}" for folder, found in folders.items())


def survivors(rows: Iterable[Mapping[str, Any]]) -> str:
    """Every mutant that was not killed, with what was judged of it, as a table in Markdown."""
    judged = equivalent()
    lines = ["| mutant | place | before | after | judged |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        if row["outcome"] != "killed":
            place = f"{row['path'].removeprefix('src/nesbs/')}, `{row['name']}`"
            reason = judged.get(row["id"]) or ("takes too long" if row["outcome"] == "timeout" else "not equivalent")
            cells = [row["id"], place, *(f"`` {_cell(row[key])} ``" for key in ("before", "after")), reason]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Code in a table: its own bars would end the cell."""
    return text.replace("|", "\\|")
