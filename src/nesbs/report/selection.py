"""What was chosen and from what: the members' cells, and every ensemble that was judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from nesbs.errors import NesbsError
from nesbs.records import SelectionRecord
from nesbs.records.search import ProposalRecord
from nesbs.report import cells
from nesbs.spaces import get_space


def chosen_cells(space_name: str | None, texts: Sequence[str]) -> list[dict[str, Any]]:
    """The members' cells as drawings; a text that cannot be read is shown as it is, with the reason."""
    members: list[dict[str, Any]] = []
    for index, text in enumerate(texts):
        name, first = f"Member {index + 1}", texts.index(text)
        member: dict[str, Any] = {"name": name, "text": text, "copy_of": first + 1 if first < index else None}
        try:
            space = get_space(space_name or "")
            member.update(drawings=cells.draw(space, space.parse(text), name), problem=None)
        except NesbsError as error:
            member.update(drawings=[], problem=str(error))
        members.append(member)
    return members


def used_operations(space_name: str | None, texts: Sequence[str]) -> list[str]:
    """The operations in the chosen cells, in the space's order; then those of published cells outside it."""
    try:
        space = get_space(space_name or "")
        architectures = [space.parse(text) for text in texts]
    except NesbsError:
        return []
    used = {op for architecture in architectures for cell in architecture.cells for node in cell for op, _ in node}
    return [op for op in space.operations if op in used] + sorted(used - set(space.operations))


def rounds(selection: SelectionRecord) -> dict[str, Any]:
    """Every ensemble that was judged; its members are named by their number in the table of candidates."""
    proposals = selection.proposals or ()
    losses = {str(candidate.architecture): candidate.loss for candidate in selection.candidates or ()}
    for texts in (selection.architectures, *(proposal.architectures for proposal in proposals)):
        for text in texts or ():
            losses.setdefault(text, None)
    numbers = {text: f"A{place}" for place, text in enumerate(losses, start=1)}

    def row(entry: SelectionRecord | ProposalRecord, chosen: bool) -> dict[str, Any]:
        """One line of the table."""
        texts = entry.architectures or ()
        return {
            "round": entry.round,
            "delta": entry.delta,
            "loss": entry.loss,
            "duplicates": len(texts) - len(set(texts)) if entry.duplicates is None else entry.duplicates,
            "members": ", ".join(numbers[text] for text in texts),
            "chosen": chosen,
        }

    # A δ that was tried twice has two rounds of the same number: the better one was chosen.
    best = min(
        (entry for entry in proposals if _is_choice(selection, entry)),
        key=lambda entry: math.inf if entry.loss is None else entry.loss,
        default=None,
    )
    rows = [row(entry, entry is best) for entry in proposals]
    # A forward selection picks its members from all rounds, so it is a row of its own.
    if best is None:
        rows.append(row(selection, True))
    return {
        "rows": rows,
        "chosen": next(entry for entry in rows if entry["chosen"]),
        "sampler": selection.sampler,
        "with_delta": any(entry["delta"] is not None for entry in rows),
        "judged": len(proposals),
        "highest": max((entry["loss"] for entry in rows if entry["loss"] is not None), default=None),
        "with_duplicates": sum(1 for entry in rows if entry["duplicates"]),
        "candidates": [(numbers[text], text, loss) for text, loss in losses.items()],
    }


def _is_choice(selection: SelectionRecord, proposal: ProposalRecord) -> bool:
    """Whether the choice was drawn in this proposal's round, with its δ; a forward selection was not."""
    own, chosen = (proposal.round, proposal.delta), (selection.round, selection.delta)
    return selection.round is not None and own == chosen
