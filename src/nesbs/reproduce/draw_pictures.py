"""Figures 2, 3 and 4 from their records: the two Gaussians, single networks, and the posteriors' discrepancy."""

from __future__ import annotations

from statistics import fmean, stdev
from typing import Any

import numpy as np

from nesbs.evaluation import summarise
from nesbs.report import canvas, words
from nesbs.report.reading import Record, mapping, sequence
from nesbs.report.table import Number
from nesbs.reproduce import facts
from nesbs.reproduce.spec import Experiment
from nesbs.reproduce.tables import Cell, Heading, PaperTable, written

POSTERIORS = ("post-training", "best-response")


def gaussians_tables(experiment: Experiment, record: Record, paper: Record) -> list[PaperTable]:
    """Figure 2 in numbers: for every δ the mean and the spread of log densities over particles."""
    rows = []
    for entry in _deltas(record):
        rows.append((f"δ = {words.short(entry['delta'])}", (Cell(_over(entry, stdev)), Cell(_over(entry, fmean)))))
    headings = (
        Heading("spread of log density", "nats", "", "", 3),
        Heading("mean log density", "nats", "", "", 3),
    )
    spread = "Standard deviation and mean over particles; ± standard error over seeds."
    notes = facts.notes(experiment, record, paper, spread=spread)
    return [PaperTable(facts.title(experiment, record), "δ", headings, tuple(rows), notes)]


def draw_gaussians(experiment: Experiment, record: Record) -> tuple[str, bytes]:
    """Contours of the target and the particles of one seed for every δ; below, their densities over all seeds."""
    found, deltas = mapping(record.get("gaussians")), _deltas(record)
    with canvas.styled() as new:
        figure = new(10.5, 6.2)
        upper, lower = figure.subfigures(2, 1, height_ratios=[1.15, 1])
        panels = upper.subplots(1, max(1, len(deltas)), sharex=True, sharey=True, squeeze=False)[0]
        points = [point for entry in deltas for point in entry["particles"]] or [[0.0, 0.0]]
        across, up = (canvas.padded([point[axis] for point in points], 0.12) for axis in (0, 1))
        x, y = np.meshgrid(np.linspace(*across, 120), np.linspace(*up, 120))
        density = _density(found, x, y)
        for axes, entry in zip(panels, deltas, strict=False):
            axes.contour(x, y, density, levels=8, cmap="cividis", linewidths=0.8)
            axes.plot(*np.array(entry["particles"]).T, "o", color=canvas.PAPER, mec="black", mew=0.5, ms=5)
            axes.set_title(f"δ = {words.short(entry['delta'])}")
            axes.set_xlabel("x₁")
            axes.set_aspect("equal")
        panels[0].set_ylabel("x₂")
        seeds = len(sequence(found.get("seeds")))
        for axes, (name, measure) in zip(
            lower.subplots(1, 2),
            (("spread of log density, nats", stdev), ("mean log density, nats", fmean)),
            strict=True,
        ):
            values = [_over(entry, measure) for entry in deltas]
            axes.errorbar(
                [entry["delta"] for entry in deltas],
                [value.value for value in values],
                yerr=[value.spread or 0.0 for value in values],
                marker="o",
                capsize=3,
                color=canvas.COLOURS[0],
            )
            axes.set_xticks([entry["delta"] for entry in deltas])
            axes.set_xlabel("δ")
            axes.set_ylabel(name)
            axes.set_title(f"over particles; mean of {seeds} seeds, bars: standard error")
            axes.grid(lw=0.3)
        upper.suptitle(
            f"{experiment.name}, after the paper's {experiment.shows}: contours of the target, dots: particles",
            fontsize=9,
        )
        return canvas.saved(figure)


def tradeoff_tables(experiment: Experiment, record: Record, paper: Record) -> list[PaperTable]:
    """Figure 3 in numbers: mean and deviation of the errors of single networks."""
    found = facts.part(record, "CIFAR-10")
    on = facts.data_name(record, "CIFAR-10")
    headings = (
        Heading("mean error of networks (ATE)", "%", on, "CIFAR-10 (Table 5)"),
        Heading("networks", "", "", "", 0),
    )
    rows = []
    for row, method in experiment.rows.items():
        errors = _errors(found, method)
        known = Number(fmean(errors), spread=stdev(errors) if len(errors) > 1 else None) if errors else None
        text = mapping(mapping(paper.get("rows")).get(row)).get("CIFAR-10 ATE")
        rows.append((row, (Cell(known, written(text)), Cell(Number(len(errors)) if errors else None))))
    spread = (
        f"Mean ± standard deviation over single networks, every architecture trained "
        f"{found.get('repeats', words.NOTHING)} times. The map of predictions: {found.get('plane', words.NOTHING)}."
    )
    notes = facts.notes(experiment, record, paper, spread=spread)
    return [PaperTable(facts.title(experiment, record), "method", headings, tuple(rows), notes)]


def draw_tradeoff(experiment: Experiment, record: Record, paper: Record) -> tuple[str, bytes]:
    """Left a histogram of errors for each method, right the map of predictions."""
    found = facts.part(record, "CIFAR-10")
    same_data = found.get("data") == "cifar10"  # the paper's errors belong on no other axis
    known = [error for method in experiment.rows.values() for error in _errors(found, method)]
    with canvas.styled() as new:
        figure = new(10.5, 6.2)
        grid = figure.add_gridspec(len(experiment.rows), 2)
        panels = [figure.add_subplot(grid[0, 0])]
        panels += [figure.add_subplot(grid[r, 0], sharex=panels[0]) for r in range(1, len(experiment.rows))]
        axes_map = figure.add_subplot(grid[:, 1])
        bins = np.linspace(*canvas.padded(known or [0.0], 0.05), 13)
        for number, (axes, (row, method)) in enumerate(zip(panels, experiment.rows.items(), strict=True)):
            errors, colour = _errors(found, method), canvas.COLOURS[number]
            if errors:
                axes.hist(errors, bins=bins, color=colour, alpha=0.35, edgecolor=colour)
                axes.plot(errors, [0.0] * len(errors), "|", color="black", ms=8, clip_on=False)
                axes.axvline(fmean(errors), color=colour, lw=1.8, label=f"mean of ours {fmean(errors):.2f}")
            text = mapping(mapping(paper.get("rows")).get(row)).get("CIFAR-10 ATE")
            if same_data and text:
                axes.axvline(float(text), color="black", lw=1.2, ls=":", label=f"the paper's {text}")
            axes.set_title(row, loc="left")
            axes.set_ylabel("networks")
            axes.label_outer()
            if not errors:
                axes.set_ylim(0, 1)
            else:
                axes.yaxis.get_major_locator().set_params(integer=True)
                axes.legend(loc="upper right", frameon=False)
            points = sequence(mapping(mapping(found.get("methods")).get(method)).get("points"))
            if points:
                axes_map.plot(
                    *np.array(points).T, canvas.MARKS[number], color=colour, mec="black", mew=0.5, ms=7, label=row
                )
        on = facts.data_name(record, "CIFAR-10")
        panels[-1].set_xlabel(f"test error % of single networks, {on}; strokes: each network")
        axes_map.set_xlabel("first axis of the map, no unit")
        axes_map.set_ylabel("second axis of the map, no unit")
        axes_map.set_title(f"predictions: {found.get('plane', words.NOTHING)}")
        axes_map.set_xticks([])
        axes_map.set_yticks([])
        if axes_map.lines:
            axes_map.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2, frameon=False)
        figure.suptitle(facts.two_lines(facts.title(experiment, record)), fontsize=9)
        return canvas.saved(figure)


def discrepancy_tables(experiment: Experiment, record: Record, paper: Record) -> list[PaperTable]:
    """Figure 4 in numbers."""
    on = facts.data_name(record, "CIFAR-10")
    headings = tuple(
        Heading(name, unit, on, "")
        for name, unit in (
            ("likeliest architecture, test error", "%"),
            ("best architecture, test error", "%"),
            ("gap", "points"),
        )
    )
    found = mapping(facts.part(record, "CIFAR-10").get("posteriors"))
    rows = tuple(
        (name, tuple(Cell(facts.ours(found.get(name), measure)) for measure in ("mode", "best", "gap")))
        for name in POSTERIORS
    )
    spread = "Mean ± standard error over seeds."
    notes = facts.notes(experiment, record, paper, spread=spread)
    return [PaperTable(facts.title(experiment, record), "posterior", headings, rows, notes)]


def draw_discrepancy(experiment: Experiment, record: Record) -> tuple[str, bytes]:
    """Left the errors of the likeliest and the best architecture, right their gap; rings are seeds."""
    found = mapping(facts.part(record, "CIFAR-10").get("posteriors"))
    on = facts.data_name(record, "CIFAR-10")
    with canvas.styled() as new:
        figure = new(8, 3.9)
        errors, gaps = figure.subplots(1, 2)
        series = (
            (errors, "mode", "likeliest architecture", 0, -0.1),
            (errors, "best", "best of those drawn", 2, 0.1),
            (gaps, "gap", "gap", 4, 0.0),
        )
        for axes, measure, label, number, shift in series:
            for place, name in enumerate(POSTERIORS):
                entries = [mapping(entry) for entry in sequence(found.get(name))]
                values = [100 * entry[measure] for entry in entries if words.is_number(entry.get(measure))]
                if not values:
                    continue
                summary = summarise(values)
                axes.plot([place + shift + 0.05] * len(values), values, "o", mfc="none", mec="0.55", ms=4)
                axes.errorbar(
                    place + shift,
                    summary.mean,
                    yerr=summary.standard_error or 0.0,
                    fmt=canvas.MARKS[number],
                    color=canvas.COLOURS[number],
                    ms=7,
                    capsize=4,
                    label=label if place == 0 else None,
                )
        for axes, name in ((errors, f"test error %, {on}"), (gaps, "gap: likeliest less best, points")):
            axes.set_xticks([0, 1], POSTERIORS)
            axes.set_xlim(-0.5, 1.5)
            axes.set_xlabel("posterior")
            axes.set_ylabel(name)
            axes.grid(axis="y", lw=0.3)
        gaps.set_ylim(bottom=min(0.0, gaps.get_ylim()[0]))
        canvas.legend_below(figure, errors)
        more = "with the supernet's weights; rings: seeds, bars: standard error"
        figure.suptitle(facts.two_lines(facts.title(experiment, record), more), fontsize=9)
        return canvas.saved(figure)


def _deltas(record: Record) -> list[dict[str, Any]]:
    return [dict(entry) for entry in map(mapping, sequence(mapping(record.get("gaussians")).get("deltas")))]


def _over(entry: dict[str, Any], measure: Any) -> Number:
    """A measure of the particles' log densities, over seeds."""
    summary = summarise([measure(particles) for particles in entry["log_density"]])
    return Number(summary.mean, spread=summary.standard_error)


def _density(found: Record, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The target's density on a grid, up to a constant."""
    variances = sequence(found.get("variances")) or [1.0, 1.0]
    total = np.zeros_like(x)
    for first, second in sequence(found.get("centres")):
        total += np.exp(-0.5 * ((x - first) ** 2 / variances[0] + (y - second) ** 2 / variances[1]))
    return total


def _errors(found: Record, method: str) -> list[float]:
    entry = mapping(mapping(found.get("methods")).get(method))
    return [100 * error for error in sequence(entry.get("errors")) if words.is_number(error)]
