"""The search on the page: the chosen cells, every ensemble that was judged, and how δ was chosen.

Of δ there are charts: every judged ensemble over δ, and the best loss so far where δ was proposed one by one.
"""

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from markupsafe import Markup

from nesbs.ensemble import LimitSettings, SearchSettings
from nesbs.errors import NesbsError
from nesbs.records import SelectionRecord
from nesbs.records.operation_times import MemberTimes, OperationTimesRecord
from nesbs.records.run import StageRecord
from nesbs.records.search import ProposalRecord
from nesbs.report import cells, charts, formats
from nesbs.spaces import get_space

Point = tuple[float, float, bool]  # δ and loss of a judged ensemble, whether it was chosen
Trace = list[tuple[float, float | None]]  # (δ, lowest loss among its ensembles), in the order tried


class JudgedEnsemble(NamedTuple):
    """An ensemble that was judged; its members are named by their number in the table of candidates."""

    round: int | None
    delta: float | None
    loss: float | None
    duplicates: int
    members: str
    chosen: bool


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

    def row(entry: SelectionRecord | ProposalRecord, is_chosen: bool) -> JudgedEnsemble:
        """One line of the table."""
        texts = entry.architectures or ()
        duplicates = len(texts) - len(set(texts)) if entry.duplicates is None else entry.duplicates
        members = ", ".join(numbers[text] for text in texts)
        return JudgedEnsemble(entry.round, entry.delta, entry.loss, duplicates, members, is_chosen)

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
        "chosen": next(entry for entry in rows if entry.chosen),
        "highest": max((entry.loss for entry in rows if entry.loss is not None), default=None),
        "candidates": [(numbers[text], text, loss) for text, loss in losses.items()],
    }


def latency_lines(record: OperationTimesRecord | None, limits: LimitSettings) -> list[str]:
    """Say what the chosen members take for one image, predicted and measured, and whether that is above the limit.

    >>> times = MemberTimes(predicted=2.0, median=2.75, lower=2.5, upper=3.0)
    >>> latency_lines(OperationTimesRecord(device="cpu", chosen=[times]), LimitSettings(latency=2.5))
    ['Member 1 takes 2.75 ms on cpu (quartiles 2.50 to 3.00, predicted 2.00): above search.limits.latency=2.5.']
    """
    chosen = (record.chosen or ()) if record else ()
    limit, where = limits.latency, f"on {record.device if record else None}"
    if limit is None or not chosen:
        return []

    def line(subject: str, members: Sequence[MemberTimes]) -> str:
        total = {
            name: sum(float(getattr(one, name) or 0.0) for one in members)
            for name in ("median", "lower", "upper", "predicted")
        }
        measured = "{median:.2f} ms {where} (quartiles {lower:.2f} to {upper:.2f}, predicted {predicted:.2f})"
        verdict = "above" if total["median"] > limit else "within"
        return f"{subject} takes {measured.format(where=where, **total)}: {verdict} search.limits.latency={limit:g}."

    if limits.per == "ensemble":
        return [line("The ensemble", chosen)]
    return [line(f"Member {number}", [one]) for number, one in enumerate(chosen, start=1)]


def _is_choice(selection: SelectionRecord, proposal: ProposalRecord) -> bool:
    """Whether the choice was drawn in this proposal's round, with its δ; a forward selection was not."""
    own, chosen = (proposal.round, proposal.delta), (selection.round, selection.delta)
    return selection.round is not None and own == chosen


def choice_of_delta(
    rows: Sequence[JudgedEnsemble], search: SearchSettings, stage: StageRecord
) -> dict[str, Any] | None:
    """Charts and numbers of the judged ensembles; None where no two δ were compared and none was tuned."""
    points = [(row.delta, row.loss, row.chosen) for row in rows if row.delta is not None and row.loss is not None]
    recorded: Trace = [(pair[0], pair[1]) for pair in stage.delta_trace or () if len(pair) == 2 and pair[0] is not None]
    trace: Trace = recorded or list(_lowest(points).items())
    compared = len({delta for delta, _, _ in points}) > 1
    tuned = search.tune == "bayesian" and bool(trace)
    if not compared and not tuned:
        return None
    return {
        "scatter": _scatter(points) if compared else None,
        "marked": any(chosen for _, _, chosen in points),
        "tuned": _tuned(trace, search.trials) if tuned else None,
    }


def _lowest(points: list[Point]) -> dict[float, float]:
    """The lowest loss of each δ, in order of first appearance."""
    lowest: dict[float, float] = {}
    for delta, loss, _ in points:
        lowest[delta] = min(loss, lowest.get(delta, loss))
    return lowest


def _scatter(points: list[Point]) -> Markup:
    """Loss over δ: a ring an ensemble, a disc for the lowest of each δ, a star for the chosen one."""
    lowest = _lowest(points)
    star = [(delta, loss) for delta, loss, chosen in points if chosen]
    discs = [pair for pair in lowest.items() if pair not in star]
    rings = [(delta, loss) for delta, loss, chosen in points if not chosen and loss > lowest[delta]]
    text = ", ".join(
        f"{formats.decimal(loss, 4)} at δ = {formats.short(delta, 4)}" for delta, loss in sorted(discs + star)
    )
    return charts.scatter(
        f"Estimated loss of {len(points)} ensembles by δ; marked are {text}",
        "δ",
        "estimated loss in nats",
        [("an ensemble", "ring", rings), ("lowest of its δ", "disc", discs), ("chosen", "star", star)],
    )


def _tuned(trace: Trace, trials: int) -> dict[str, Any]:
    """How the best loss fell from trial to trial: its chart, and each fall as (number of the trial, δ, loss)."""
    judged = sum(1 for _, loss in trace if loss is not None)
    best = list(accumulate((loss for _, loss in trace), _lower))
    falls = [
        (number, delta, loss)
        for number, ((delta, loss), before) in enumerate(zip(trace, [None, *best], strict=False), start=1)
        if loss is not None and (before is None or loss < before)
    ]
    text = ", ".join(f"{formats.decimal(loss, 4)} at number {number}" for number, _, loss in falls)
    series = [("best so far", best)]
    return {
        "tried": judged,
        "asked": trials if trials > judged else None,
        "falls": falls,
        "chart": charts.lines(
            f"Best loss so far: {text}",
            "δ in the order tried, those passed over last",
            "best loss so far in nats",
            series,
        )
        if len(trace) > 1 and falls
        else None,
    }


def _lower(first: float | None, second: float | None) -> float | None:
    """The lower of two losses, of which any may be missing."""
    return min((loss for loss in (first, second) if loss is not None), default=None)
