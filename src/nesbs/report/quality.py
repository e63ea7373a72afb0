"""How good the estimate is: the section of the page, the printed table, a scatter of estimates and truth."""

from typing import Any

from markupsafe import Markup

from nesbs.records import QualityRecord
from nesbs.records.quality import ChoiceQuality, IntervalRecord, QualityAnswer, RankingRecord, Truth
from nesbs.report import charts, formats
from nesbs.report.table import Table

# What estimates are ranked by; the last where the posterior is fitted to something else than the loss.
KINDS = {"loss": "loss", "error": "error", "brier": "Brier score", "evidence": "evidence"}


def quality(record: QualityRecord | None) -> list[dict[str, Any]]:
    """What `quality.json` says, for the page: an entry for each kind of truth that was compared with."""
    answers = (record.trained, record.table) if record else ()
    return [
        {
            "answer": answer,
            "truth": truth_in_words(answer),
            "rows": _rows(answer),
            "scatter": scatter(answer),
            "choice": choice_in_words(answer),
        }
        for answer in answers
        if answer
    ]


def truth_in_words(answer: QualityAnswer) -> str:
    """Where the truth comes from."""
    truth = answer.truth or Truth()
    if truth.kind == "table":
        return f"accuracies of {truth.file}, column {truth.column}"
    measured = "held-out training images" if truth.test is False else "test images"
    return (
        f"training each for {truth.epochs} epochs on {formats.count(truth.images)} images, measured on "
        f"{formats.count(truth.measured_on)} {measured}"
    )


def scatter(answer: QualityAnswer) -> Markup | None:
    """A chart of every architecture: its estimated loss on the x axis, its truth on the y axis."""
    table = answer.truth is not None and answer.truth.kind == "table"
    points = [
        (pair[0], 100 * pair[1] if table else pair[1])
        for pair in (answer.points or {}).get("1", ())
        if len(pair) == 2 and pair[0] is not None and pair[1] is not None
    ]
    if len(points) < 2:
        return None
    name, unit = ("true error", "%") if table else ("true loss", "nats")
    title = f"Estimated loss and {name} of {len(points)} architectures"
    return charts.scatter(title, "estimated loss in nats", f"{name} in {unit}", [("architecture", "ring", points)])


def quality_as_text(answer: QualityAnswer) -> str:
    """The figures as a table for a terminal, and the verdict."""
    table = Table(["estimate, ensembles", "Spearman", "Pearson", "Agreement", "better half"], _rows(answer))
    lines = [
        f"{len(answer.architectures or ())} architectures; truth: {truth_in_words(answer)}",
        table.as_text("<28", ">22", ">22", ">22", ">13"),
        "in brackets: 95 % intervals; better half: Spearman among the truly better half",
    ]
    if mass := answer.mass:
        lines.append(
            f"posterior: expected accuracy {formats.decimal(mass.expected, 2)} % (uniform "
            f"{formats.decimal(mass.uniform, 2)}, best {formats.decimal(mass.best, 2)}), effective "
            f"sample size {formats.decimal(mass.effective, 1)}; its likeliest is number "
            f"{mass.mode_rank} of {mass.architectures}; mass on the best 1 % "
            f"{formats.percent(mass.top1)}, 10 % {formats.percent(mass.top10)}"
        )
    return "\n".join([*lines, *choice_in_words(answer), answer.verdict or ""])


def choice_in_words(answer: QualityAnswer) -> list[str]:
    """What was compared to judge the judge, and what choosing gains over drawing: a sentence or two, or none."""
    choice = answer.choice
    if choice is None:
        return []
    table = answer.truth is not None and answer.truth.kind == "table"
    if not table and choice.judge == "trained":
        return ["The judge trained judges by trainings of its own, which are not repeated here."]
    if not table and choice.known is None:
        return [f"Ensembles of {choice.size}, the recipe's size, are not compared: that takes two architectures more."]
    left_out = (choice.proposals or 0) - (choice.known or 0)
    compared = (
        f"The search drew {choice.proposals} ensembles of {choice.size}, whose truth is their members' mean accuracy. "
        f"{choice.known} are compared, {left_out} with a member that the table lacks are left out."
        if table
        else f"{choice.known} ensembles of {choice.size} were formed of the trained architectures, good and bad. Their "
        "truth is their loss; the choice is the one that the judge prefers."
    )
    if choice.ranking is None:
        reason = "the judge trained gives them no score" if choice.judge == "trained" else "they are too few"
        compared += f" How the judge ranks them is not known: {reason}."
    return [compared, _gain_in_words(choice, table=table)]


def _gain_in_words(choice: ChoiceQuality, *, table: bool) -> str:
    """Whether the choice is better than an unjudged draw, with the figures."""

    def shown(truth: float | None) -> str:
        accuracy = None if truth is None else 1 - truth
        return formats.percent(accuracy) if table else f"a loss of {formats.decimal(truth, 4)}"

    if choice.gain is None:
        return "What choosing gains over an unjudged draw is not known: the table lacks the choice, or every draw."
    who = "" if choice.by_search or not table else " (of the best-judged that the table holds, for it lacks the choice)"
    better = f"{choice.better} of them {'is' if choice.better == 1 else 'are'} better"
    figures = f"{shown(choice.chosen)}{who} against {shown(choice.drawn)} in the mean of {choice.known}; {better}."
    if choice.gain <= 0:
        return f"The choice is no better than an unjudged draw: {figures}"
    points = f"{formats.decimal(100 * choice.gain, 2)} points" if table else formats.decimal(choice.gain, 4)
    return f"The choice is better than an unjudged draw by {points}: {figures}"


def _rows(answer: QualityAnswer) -> list[list[str]]:
    """The cells of the table, a row for each kind of estimate and size of ensembles, then one for the judge."""
    rankings = answer.rankings or {}
    rows = [_row(name, ranking) for kind, name in KINDS.items() for ranking in rankings.get(kind, ())]
    choice = answer.choice
    if choice is not None and choice.ranking is not None:
        rows.append(_row(f"judge {choice.judge}", choice.ranking))
    return rows


def _row(name: str, ranking: RankingRecord) -> list[str]:
    """The cells of one row."""
    what = "alone" if ranking.size == 1 else f"of {ranking.size}"
    figures = map(_with_interval, (ranking.spearman, ranking.pearson, ranking.agreement))
    return [f"{name}, {ranking.ensembles} {what}", *figures, formats.decimal(ranking.better_half, 2)]


def _with_interval(interval: IntervalRecord | None) -> str:
    """A value with its interval."""
    if interval is None:
        return formats.NOTHING
    value, low, high = (formats.decimal(number, 2) for number in (interval.value, interval.low, interval.high))
    return value if interval.low is None else f"{value} [{low}, {high}]"
