"""What every table and figure says about itself: on which data, at which scale, and what is the paper's."""

from __future__ import annotations

from typing import Any

from nesbs.evaluation import summarise
from nesbs.report import words
from nesbs.report.reading import Record, mapping, sequence
from nesbs.report.table import Number
from nesbs.reproduce.spec import SCALES, Experiment
from nesbs.reproduce.tables import Cell, written

CITED = "Shu et al., Neural Ensemble Search via Bayesian Sampling, UAI 2022"
# How a measure in a record becomes the figure in a table.
FACTORS = {
    "parameters": ("parameters", 1e-6),
    "multiply_adds": ("multiply_adds", 1e-6),
    "search_hours": ("search_seconds", 1 / 3600),
    "search_days": ("search_seconds", 1 / 86400),
}


def title(experiment: Experiment, record: Record, label: str | None = None) -> str:
    """What is shown: ours on which data, beside what in the paper; `label` names one of the paper's data sets."""
    labels = list(mapping(record.get("parts"))) if label is None else [label]
    names = list(dict.fromkeys(name for each in labels if (name := data_name(record, each)) != words.NOTHING))
    mine = f"ours on {', '.join(names)}" if names else "ours" if experiment.kind == "gaussians" else "ours not run"
    theirs = f"the paper's {experiment.shows}{'' if label is None else f' on {label}'}"
    return f"{experiment.name}: {mine}, beside {theirs} ({experiment.about})"


def two_lines(text: str, more: str = "") -> str:
    """A title for a figure, and a line more.

    >>> two_lines("table1: ours on cifar10, beside the paper's Table 1 (NAS)")
    "table1: ours on cifar10, beside the paper's Table 1\\n(NAS)"
    """
    return text.replace(" (", "\n(", 1) + (f"\n{more}" if more else "")


def part(record: Record, label: str) -> Record:
    """The part of a record in the place of one of the paper's data sets; empty where it is missing."""
    return mapping(mapping(record.get("parts")).get(label))


def data_name(record: Record, label: str) -> str:
    """The data set that ours was made on; a dash where the part was not run."""
    return str(part(record, label).get("data") or words.NOTHING)


def ours(entries: Any, measure: str) -> Number | None:
    """Mean and standard error over seeds of a measure in the entries of a method, as a table shows it."""
    name, factor = FACTORS.get(measure, (measure, 100.0))
    values = [factor * e[name] for e in map(mapping, sequence(entries)) if words.is_number(e.get(name))]
    if not values:
        return None
    summary = summarise(values)
    return Number(summary.mean, spread=summary.standard_error)


def beside(number: Number | None, paper: Record, row: str, column: str) -> Cell:
    """Our figure with the paper's for that row and column."""
    text = mapping(mapping(paper.get("rows")).get(row)).get(column)
    return Cell(number, written(text))


def notes(experiment: Experiment, record: Record, paper: Record, *, spread: str) -> tuple[str, ...]:
    """What is said below a table."""
    asked = mapping(record.get("asked"))
    said = [*_made_on(experiment, record), spread, *experiment.notes]
    said += [f"Left out: {name} ({why})." for name, why in mapping(record.get("left_out")).items()]
    if paper.get("rows"):
        said.append(
            f"The paper's figures are those of {paper.get('source')} ({CITED}), made on its own machines and settings."
        )
    if paper.get("says"):
        said.append(f"What the paper finds ({paper.get('source')}): {paper.get('says')}.")
    said.append(f"{words.NOTHING}: not run at this scale, not finished, or not given in the paper.")
    changed = [str(change) for change in sequence(asked.get("set"))]
    if changed:
        said.append(f"Changed by --set: {', '.join(changed)}.")
    if not record.get("complete"):
        said.append("Unfinished: the same command goes on.")
    return tuple(said)


def _made_on(experiment: Experiment, record: Record) -> list[str]:
    name = str(mapping(record.get("asked")).get("scale"))
    scale = next((experiment.scales[known] for known in SCALES if known == name), None)
    said = [f"Scale {name}{'' if scale is None else f': {scale.about}'}; computed on {record.get('device')}."]
    for label, known in mapping(record.get("parts")).items():
        entry = mapping(known)
        if not entry.get("data"):
            continue
        size, epochs = sequence(entry.get("size")), mapping(entry.get("epochs"))
        said.append(
            f"Ours in the place of {label}: {entry.get('data')}, {words.count(entry.get('train_images'))} training and "
            f"{words.count(entry.get('test_images'))} test images of {'×'.join(str(side) for side in size)} pixels, "
            f"space {entry.get('space')}; {_trained(entry, epochs)}."
        )
    if name == "smoke":
        said.append("This scale shows that everything works; its figures are worth nothing beside the paper's.")
    return said


def _trained(entry: Record, epochs: Record) -> str:
    """What was trained there, and for how long."""
    said = []
    if entry.get("searched_on"):
        said.append(f"cells of the search in the place of {entry.get('searched_on')}")
    if words.is_number(epochs.get("supernet")):
        said.append(f"supernet {epochs.get('supernet')} epochs")
    said.append(f"members {epochs.get('members')} epochs" if epochs.get("members") else "the search alone")
    return ", ".join(said)
