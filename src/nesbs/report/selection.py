"""What was chosen and from what: the members' cells, and every ensemble that was judged."""

from __future__ import annotations

import math
from typing import Any

from nesbs.errors import NesbsError
from nesbs.report import cells, words
from nesbs.report.reading import Record, mapping, sequence
from nesbs.spaces import get_space


def chosen_cells(space_name: str, selection: Record) -> list[dict[str, Any]]:
    """The members' cells as drawings; a text that cannot be read is shown as it is, with the reason."""
    shown: list[dict[str, Any]] = []
    texts = [str(text) for text in sequence(selection.get("architectures"))]
    for index, text in enumerate(texts):
        name, first = f"Member {index + 1}", texts.index(text)
        entry: dict[str, Any] = {"name": name, "text": text, "copy_of": first + 1 if first < index else None}
        try:
            space = get_space(space_name)
            entry.update(drawings=cells.draw(space, space.parse(text), name), problem=None)
        except NesbsError as error:
            entry.update(drawings=[], problem=str(error))
        shown.append(entry)
    return shown


def used_operations(space_name: str, selection: Record) -> list[str]:
    """The operations in the chosen cells, in the space's order; then those of published cells outside it."""
    try:
        space = get_space(space_name)
        parsed = [space.parse(str(text)) for text in sequence(selection.get("architectures"))]
    except NesbsError:
        return []
    used = {op for architecture in parsed for cell in architecture.cells for node in cell for op, _ in node}
    return [op for op in space.operations if op in used] + sorted(used - set(space.operations))


def rounds(selection: Record) -> dict[str, Any] | None:
    """Every ensemble that was judged; its members are named by their number in the table of candidates."""
    if not selection:
        return None
    candidates = {
        str(mapping(entry).get("architecture")): mapping(entry).get("loss")
        for entry in sequence(selection.get("candidates"))
    }
    proposals = [mapping(entry) for entry in sequence(selection.get("proposals"))]
    for texts in [selection, *proposals]:
        for text in sequence(texts.get("architectures")):
            candidates.setdefault(str(text), None)
    numbers = {text: f"A{place}" for place, text in enumerate(candidates, start=1)}

    def row(entry: Record, chosen: bool) -> dict[str, Any]:
        """One line of the table."""
        texts = [str(text) for text in sequence(entry.get("architectures"))]
        return {
            "round": entry.get("round"),
            "delta": entry.get("delta"),
            "loss": entry.get("loss"),
            "duplicates": entry.get("duplicates", len(texts) - len(set(texts))),
            "members": ", ".join(numbers[text] for text in texts),
            "chosen": chosen,
        }

    made_by = (selection.get("round"), selection.get("delta"))
    matching = [
        place
        for place, entry in enumerate(proposals)
        if made_by[0] is not None and (entry.get("round"), entry.get("delta")) == made_by
    ]
    # A δ that was tried twice has two rounds of the same number: the better one was chosen.
    best = min(matching, key=lambda place: _loss(proposals[place]), default=None)
    rows = [row(entry, place == best) for place, entry in enumerate(proposals)]
    # A forward selection picks its members from all rounds, so it is a row of its own.
    if not any(entry["chosen"] for entry in rows):
        rows.append(row(selection, True))
    chosen = next(entry for entry in rows if entry["chosen"])
    return {
        "rows": rows,
        "chosen": chosen,
        "sampler": selection.get("sampler"),
        "with_delta": any(entry["delta"] is not None for entry in rows),
        "judged": len(proposals),
        "highest": max((entry["loss"] for entry in rows if words.is_number(entry["loss"])), default=None),
        "with_duplicates": sum(1 for entry in rows if entry["duplicates"]),
        "candidates": [(numbers[text], text, loss) for text, loss in candidates.items()],
    }


def _loss(entry: Record) -> float:
    """A proposal's loss, infinite where none is known."""
    loss = entry.get("loss")
    return loss if words.is_number(loss) else math.inf
