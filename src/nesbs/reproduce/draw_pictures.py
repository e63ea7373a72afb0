"""Figures 2, 3 and 4 from their records: the two Gaussians, single networks, and the posteriors' discrepancy."""

from collections.abc import Callable, Sequence
from statistics import fmean, stdev
from typing import Any

import numpy as np

from nesbs.evaluation import summarise
from nesbs.records.experiment import DeltaRecord, GaussiansRecord, PartRecord
from nesbs.report import canvas, formats
from nesbs.report.table import Quantity, draw_quantities
from nesbs.reproduce.exhibit import Cell, Exhibit, Heading, PaperTable, over_seeds, points_above, titled

POSTERIORS = ("post-training", "best-response")
MEMBER_ERROR = "CIFAR-10 ATE"  # the paper's column
Measure = Callable[[Sequence[float]], float]
DENSITIES: dict[str, Measure] = {"spread of log density": stdev, "mean log density": fmean}  # over particles


def gaussians_tables(exhibit: Exhibit) -> list[PaperTable]:
    """Give Figure 2 in numbers: for every δ the mean and the spread of log densities over particles."""
    rows = [
        (f"δ = {formats.short(entry.delta)}", [Cell(_over_particles(entry, measure)) for measure in DENSITIES.values()])
        for entry in _gaussians(exhibit).deltas or ()
    ]
    headings = [Heading(name, "nats", "", "", 3) for name in DENSITIES]
    spread = "Standard deviation and mean over particles; ± standard error over seeds."
    return [exhibit.table("δ", headings, rows, spread=spread)]


def draw_gaussians(exhibit: Exhibit) -> tuple[str, bytes]:
    """Draw contours of the target and the particles of one seed for every δ; below, their densities over all seeds."""
    target = _gaussians(exhibit)
    deltas = target.deltas or ()
    with canvas.styled() as new:
        figure = new(10.5, 6.2)
        upper, lower = figure.subfigures(2, 1, height_ratios=[1.15, 1])
        panels = upper.subplots(1, max(1, len(deltas)), sharex=True, sharey=True, squeeze=False)[0]
        points = [point for entry in deltas for point in entry.particles or ()] or [(0.0, 0.0)]
        ranges = [canvas.padded(side, 0.12) for side in np.array(points, float).T.tolist()]
        x, y = np.meshgrid(*(np.linspace(*ends, 60) for ends in ranges))
        density = _density(target, x, y)
        for axes, entry in zip(panels, deltas, strict=False):
            axes.contour(x, y, density, levels=8, cmap="cividis", linewidths=0.8)
            axes.plot(*np.array(entry.particles, float).T, "o", color=canvas.PAPER, mec="black", mew=0.5, ms=5)
            axes.set_title(f"δ = {formats.short(entry.delta)}")
            axes.set_xlabel("x₁")
            axes.set_aspect("equal")
        panels[0].set_ylabel("x₂")
        for axes, (name, measure) in zip(lower.subplots(1, 2), DENSITIES.items(), strict=True):
            values, places = [_over_particles(entry, measure) for entry in deltas], [entry.delta for entry in deltas]
            draw_quantities(axes, places, values, marker="o", capsize=3, color=canvas.COLOURS[0])
            axes.set_xticks(places)
            axes.set_xlabel("δ")
            axes.set_ylabel(f"{name}, nats")
            axes.set_title(f"over particles; mean of {len(target.seeds or ())} seeds, bars: standard error")
            axes.grid(lw=0.3)
        name = f"{exhibit.experiment.name}, after the paper's {exhibit.experiment.shows}"
        upper.suptitle(f"{name}: contours of the target, dots: particles", fontsize=9)
        return canvas.saved(figure)


def tradeoff_tables(exhibit: Exhibit) -> list[PaperTable]:
    """Give Figure 3 in numbers: mean and deviation of the errors of single networks."""
    headings = [
        Heading("mean error of networks (ATE)", "%", exhibit.data_name(), "CIFAR-10 (Table 5)"),
        Heading("networks", "", "", "", 0),
    ]
    rows = []
    for row, method in exhibit.experiment.rows.items():
        errors = _errors(exhibit.part, method)
        mean = Quantity(fmean(errors), stdev(errors) if len(errors) > 1 else None) if errors else None
        rows.append((row, [exhibit.beside(mean, row, MEMBER_ERROR), Cell(Quantity(len(errors)) if errors else None)]))
    repeats, plane = exhibit.part.repeats, exhibit.part.plane
    spread = (
        f"Mean ± standard deviation over single networks, every architecture trained "
        f"{formats.NOTHING if repeats is None else repeats} times. The map of predictions: {plane or formats.NOTHING}."
    )
    return [exhibit.table("method", headings, rows, spread=spread)]


def draw_tradeoff(exhibit: Exhibit) -> tuple[str, bytes]:
    """Draw a histogram of errors for each method on the left, the map of predictions on the right."""
    part, methods = exhibit.part, exhibit.experiment.rows
    errors = [error for method in methods.values() for error in _errors(part, method)]
    with canvas.styled() as new:
        figure = new(10.5, 6.2)
        grid = figure.add_gridspec(len(methods), 2)
        panels = [figure.add_subplot(grid[0, 0])]
        panels += [figure.add_subplot(grid[row, 0], sharex=panels[0]) for row in range(1, len(methods))]
        axes_map = figure.add_subplot(grid[:, 1])
        bins = np.linspace(*canvas.padded(errors or [0.0], 0.05), 13)
        for number, (axes, (row, method)) in enumerate(zip(panels, methods.items(), strict=True)):
            paper = exhibit.paper.rows.get(row, {}).get(MEMBER_ERROR)
            # The paper's errors belong on no other axis than that of its own data.
            _histogram(
                axes, _errors(part, method), bins, canvas.COLOURS[number], paper if part.data == "cifar10" else None
            )
            axes.set_title(row, loc="left")
            if points := part.entry(method).points:
                style = {"color": canvas.COLOURS[number], "mec": "black", "mew": 0.5, "ms": 7}
                axes_map.plot(*np.array(points, float).T, canvas.MARKS[number], label=row, **style)
        panels[-1].set_xlabel(f"test error % of single networks, {exhibit.data_name()}; strokes: each network")
        axes_map.set_xlabel("first axis of the map, no unit")
        axes_map.set_ylabel("second axis of the map, no unit")
        axes_map.set_title(f"predictions: {part.plane or formats.NOTHING}")
        axes_map.set_xticks([])
        axes_map.set_yticks([])
        if axes_map.lines:
            axes_map.legend(loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2, frameon=False)
        return titled(figure, exhibit.title())


def _histogram(axes: Any, errors: Sequence[float], bins: np.ndarray, colour: str, paper: str | None) -> None:
    """Draw the errors of one method's networks, their mean, and the paper's mean where it is given."""
    if errors:
        axes.hist(errors, bins=bins, color=colour, alpha=0.35, edgecolor=colour)
        axes.plot(errors, [0.0] * len(errors), "|", color="black", ms=8, clip_on=False)
        axes.axvline(fmean(errors), color=colour, lw=1.8, label=f"mean of ours {fmean(errors):.2f}")
    if paper and abs(float(paper) - bins.mean()) < 1.5 * np.ptp(bins):
        axes.axvline(float(paper), color="black", lw=1.2, ls=":", label=f"the paper's {paper}")
    elif paper:  # ours would fill less than half of an axis that holds both
        axes.plot([], " ", label=f"the paper's {paper}, off the axis")
    axes.set_ylabel("networks")
    axes.label_outer()
    if errors:
        axes.yaxis.get_major_locator().set_params(integer=True)
        beside_title = {"loc": "lower right", "bbox_to_anchor": (1, 1), "borderaxespad": 0, "columnspacing": 0}
        axes.legend(**beside_title, ncols=2, handlelength=1, frameon=False)
    else:
        axes.set_ylim(0, 1)


def discrepancy_tables(exhibit: Exhibit) -> list[PaperTable]:
    """Give Figure 4 in numbers."""
    measures = {
        "mode": ("likeliest architecture, test error", "%"),
        "best": ("best architecture, test error", "%"),
        "gap": ("gap", "points"),
    }
    headings = [Heading(name, unit, exhibit.data_name(), "") for name, unit in measures.values()]
    posteriors = exhibit.part.posteriors or {}
    rows = [
        (name, [Cell(over_seeds(posteriors.get(name, ()), measure)) for measure in measures]) for name in POSTERIORS
    ]
    during, after = (posteriors.get(name, ()) for name in reversed(POSTERIORS))
    rows.append(("best-response less post-training", [Cell(points_above(during, after, key)) for key in measures]))
    spread = "Mean ± standard error over seeds. Last row: paired over seeds, a 95 % t interval from three seeds on."
    return [exhibit.table("posterior", headings, rows, spread=spread)]


def draw_discrepancy(exhibit: Exhibit) -> tuple[str, bytes]:
    """Draw the errors of the likeliest and the best architecture, and beside them their gap; rings are seeds."""
    posteriors = exhibit.part.posteriors or {}
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
                rows = posteriors.get(name, ())
                values = [100 * value for row in rows if (value := getattr(row, measure)) is not None]
                mean = over_seeds(rows, measure)
                if mean is None:
                    continue
                axes.plot([place + shift + 0.05] * len(values), values, "o", mfc="none", mec="0.55", ms=4)
                style = {"fmt": canvas.MARKS[number], "color": canvas.COLOURS[number], "ms": 7, "capsize": 4}
                draw_quantities(axes, [place + shift], [mean], label=label if place == 0 else None, **style)
        for axes, name in (
            (errors, f"test error %, {exhibit.data_name()}"),
            (gaps, "gap: likeliest less best, points"),
        ):
            axes.set_xticks([0, 1], POSTERIORS)
            axes.set_xlim(-0.5, 1.5)
            axes.set_xlabel("posterior")
            axes.set_ylabel(name)
            axes.grid(axis="y", lw=0.3)
        gaps.set_ylim(bottom=min(0.0, gaps.get_ylim()[0]))
        canvas.legend_below(figure, errors)
        more = "with the supernet's weights; rings: seeds, bars: standard error"
        return titled(figure, exhibit.title(), more)


def _gaussians(exhibit: Exhibit) -> GaussiansRecord:
    return exhibit.record.gaussians or GaussiansRecord()


def _over_particles(entry: DeltaRecord, measure: Measure) -> Quantity:
    """Take a measure of the particles' log densities, over seeds."""
    seeds = [[value for value in particles if value is not None] for particles in entry.log_density or ()]
    summary = summarise([measure(densities) for densities in seeds])
    return Quantity(summary.mean, spread=summary.standard_error)


def _density(target: GaussiansRecord, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the target's density on a grid, up to a constant."""
    variances = np.array(target.variances or (1.0, 1.0), float)
    total = np.zeros_like(x)
    for first, second in np.array(target.centres or np.empty((0, 2)), float):
        total += np.exp(-0.5 * ((x - first) ** 2 / variances[0] + (y - second) ** 2 / variances[1]))
    return total


def _errors(part: PartRecord, method: str) -> list[float]:
    """Return the errors of a method's networks, in per cent."""
    return [100 * error for error in part.entry(method).errors or () if error is not None]
