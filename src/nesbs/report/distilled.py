"""What a distilled network keeps of its ensemble: the table of the page, and the same as text."""

from nesbs.records.distilled import DistilledRecord, KeptGain
from nesbs.report import formats
from nesbs.report.table import Table

COLUMNS = ("Network", "Parameters", "Error", "NLL", "ECE")
NETWORKS = {"ensemble": "ensemble", "student": "distilled", "labels": "trained on labels"}
MEASURES = {"error": "error", "nll": "NLL", "ece": "ECE"}


def distilled_rows(record: DistilledRecord | None) -> list[tuple[str, ...]]:
    """Return the rows of the table, (network, parameters, error, NLL, ECE) as texts.

    >>> from nesbs.records.metrics import NetworkMetrics
    >>> distilled_rows(DistilledRecord(parameters=1200, student=NetworkMetrics(error=0.125, nll=0.5, ece=0.02)))
    [('distilled', '1,200', '12.50 %', '0.500', '2.00 %')]
    """
    rows: list[tuple[str, ...]] = []
    for name, shown in NETWORKS.items() if record else ():
        scores = getattr(record, name)
        if scores is not None:
            count = formats.count(getattr(record, "ensemble_parameters" if name == "ensemble" else "parameters"))
            rows.append(
                (shown, count, formats.percent(scores.error), formats.decimal(scores.nll), formats.percent(scores.ece))
            )
    return rows


def kept_in_words(record: DistilledRecord) -> list[str]:
    """Return sentences about what the distilled network keeps of the ensemble's gain over the label-trained one.

    >>> kept = {"error": KeptGain(gain=0.01), "nll": KeptGain(share=0.5, low=0.25, high=0.75), "ece": KeptGain()}
    >>> for sentence in kept_in_words(DistilledRecord(kept=kept)):
    ...     print(sentence)
    of the ensemble's gain over training on labels it keeps 50 % (25 to 75) in NLL
    no share can be told in error, ECE: on these images the ensemble has no clear gain there
    """
    kept = {shown: each for name, shown in MEASURES.items() if (each := (record.kept or {}).get(name))}
    shares = [f"{share} in {shown}" for shown, each in kept.items() if (share := _share(each))]
    unclear = [shown for shown, each in kept.items() if not _share(each)]
    first = [f"of the ensemble's gain over training on labels it keeps {', '.join(shares)}"] if shares else []
    last = f"no share can be told in {', '.join(unclear)}: on these images the ensemble has no clear gain there"
    return [*first, last] if unclear else first


def distilled_as_text(record: DistilledRecord) -> str:
    """Return the table and what is kept, for a terminal."""
    table = Table(COLUMNS, distilled_rows(record)).as_text("<18", ">12", ">10", ">8", ">10")
    return "\n".join([table, f"on {formats.count(record.images)} images; {record.decided}", *kept_in_words(record)])


def _share(kept: KeptGain) -> str | None:
    """The share with its interval, None where there is none."""
    if kept.share is None or kept.low is None or kept.high is None:
        return None
    return f"{100 * kept.share:.0f} % ({100 * kept.low:.0f} to {100 * kept.high:.0f})"
