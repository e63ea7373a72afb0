"""Drawings with one use each: members' accuracies, reliability, a map of predictions, methods over seeds."""

import math
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from markupsafe import Markup

from nesbs.report import charts, formats
from nesbs.report.charts import BASE, DASHES, LEFT, RIGHT, TOP, WIDTH, Range, axes, markup, shape, svg, ticks

# Marks of series by their corners, in units of their size; the first is a circle.
MARKS: tuple[tuple[Range, ...], ...] = (
    (),
    ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    ((0, -1.2), (1.15, 0.8), (-1.15, 0.8)),
    ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    ((0, 1.2), (1.15, -0.8), (-1.15, -0.8)),
    ((-1, -1), (1, 1), (1, -1), (-1, 1)),
)


def histogram(title: str, axis: str, groups: Sequence[tuple[str, bool, Sequence[float]]], line: float | None) -> Markup:
    """A numbered box for each network, stacked where values fall into one bin; `line` marks the ensemble's value.

    `groups` are (name, whether filled, values).
    """
    values = [value for _, _, group in groups for value in group]
    drawn = [*values, line] if line is not None else values
    bounds = ticks(*charts.with_room(drawn), wanted=10)
    width = bounds[1] - bounds[0] if len(bounds) > 1 else max(abs(bounds[0]), 1.0) / 10
    first = math.floor(min(drawn) / width)
    count = math.floor(max(drawn) / width) - first + 1
    first, count = first - max(4 - count, 0), max(count, 4)
    stacks = [0] * count
    for value in values:
        stacks[math.floor(value / width) - first] += 1
    tallest = max(stacks)
    root = svg(title, (0, 0, WIDTH, BASE + 58), "chart")
    edges = [(first + k) * width for k in range(count + 1)]
    marks = ticks(edges[0], edges[-1], wanted=5)
    place = axes(root, (axis, "networks"), (edges[0], edges[-1]), (0, max(tallest, 2) * 1.15), marks)
    height = place(0, 0)[1] - place(0, 1)[1]
    stacked = [0] * count
    x, y = 14.0, BASE + 50.0
    for name, filled, group in groups:
        css = "bar filled" if filled else "bar"
        for number, value in enumerate(group, start=1):
            column = math.floor(value / width) - first
            left, top = place(edges[column], stacked[column] + 1)
            right = place(edges[column + 1], 0)[0]
            stacked[column] += 1
            shape(root, "rect", css=css, x=left + 1, y=top, width=right - left - 2, height=height - 1)
            if height >= 15 and right - left >= 9 * len(str(number)):
                css_text, middle = "inside" if filled else "number", (left + right) / 2
                shape(root, "text", str(number), css=css_text, x=middle, y=top + height / 2 + 4, text_anchor="middle")
        key = ET.SubElement(root, "g", {"class": "key"})
        shape(key, "rect", css=css, x=x - 5, y=y - 11, width=12, height=12)
        shape(key, "text", name, x=x + 12, y=y)
        x += 34 + 7 * len(name)
    if line is not None:
        at = place(line, 0)[0]
        shape(root, "path", css="line series4", d=f"M{at:.1f},{TOP}V{BASE}", stroke_dasharray="5 3")
        side = "end" if at > WIDTH / 2 else "start"
        shape(root, "text", "ensemble", x=at + (-4 if side == "end" else 4), y=TOP + 8, text_anchor=side)
    return markup(root)


def reliability(title: str, series: Sequence[tuple[str, Sequence[tuple[float, float, float]]]]) -> Markup:
    """Accuracy over confidence, shares as percentages: (name, points), a point (confidence, accuracy, weight).

    A mark's area grows with its weight; the dashed diagonal is where confidence and accuracy are the same.
    """
    root = svg(title, (0, 0, WIDTH, BASE + 58), "chart")
    marks = [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]
    place = axes(root, ("confidence in %", "accuracy in %"), (0, 100), (0, 100), marks)
    (x0, y0), (x1, y1) = place(0, 0), place(100, 100)
    shape(root, "path", css="line diagonal", d=f"M{x0:.1f},{y0:.1f}L{x1:.1f},{y1:.1f}", stroke_dasharray="2 4")
    heaviest = max((weight for _, points in series for _, _, weight in points), default=1.0) or 1.0
    x, y = 14.0, BASE + 50.0
    for index, (name, points) in enumerate(series):
        dash = DASHES[index % len(DASHES)]
        placed = [(place(100 * confidence, 100 * accuracy), weight) for confidence, accuracy, weight in points]
        path = " ".join(f"{a:.1f},{b:.1f}" for (a, b), _ in placed)
        shape(root, "polyline", css=f"line series{index}", points=path, stroke_dasharray=dash)
        for at, weight in placed:
            _mark(root, at, 2 + 5 * math.sqrt(weight / heaviest), index)
        _mark(root, (x, y - 4), 4.5, index)
        shape(root, "text", name, x=x + 12, y=y)
        x += 34 + 7 * len(name)
    return markup(root)


def prediction_map(title: str, members: Sequence[Sequence[Range]]) -> Markup:
    """Where each member's answer to each image lies, (members, images, 2); the marks of one image are joined."""
    legend = -(-len(members) // 3) * 18
    bottom = 300
    root = svg(title, (0, 0, WIDTH, bottom + 34 + legend), "chart")
    (left, right), (low, high) = (
        charts.with_room([point[axis] for points in members for point in points]) for axis in (0, 1)
    )

    def place(point: Range) -> Range:
        return (
            LEFT - 30 + (WIDTH - LEFT - RIGHT + 30) * (point[0] - left) / (right - left),
            bottom - (bottom - TOP) * (point[1] - low) / (high - low),
        )

    shape(root, "path", css="axis", d=f"M{LEFT - 30},{TOP}V{bottom}H{WIDTH - RIGHT}")
    first, second = (f"{which} t-SNE coordinate, without unit" for which in ("first", "second"))
    shape(root, "text", second, css="name", x=4, y=14)
    shape(root, "text", first, css="name", x=WIDTH / 2, y=bottom + 16, text_anchor="middle")
    for image in zip(*members, strict=True):
        path = "L".join(f"{x:.1f},{y:.1f}" for x, y in map(place, image))
        shape(root, "path", css="joined", d=f"M{path}Z")
    for index, points in enumerate(members):
        for point in points:
            _mark(root, place(point), 3.2, index)
        x, y = 20 + (index % 3) * 105, bottom + 38 + (index // 3) * 18
        _mark(root, (x, y - 4), 4, index)
        shape(root, "text", f"member {index + 1}", x=x + 10, y=y)
    return markup(root)


def forest(title: str, axis: str, rows: Sequence[tuple[str, Sequence[float], Range | None]], places: int = 2) -> Markup:
    """One row a method or run: (label, values, interval). Rings are single values, the bar is the interval.

    A disc is the middle of the interval, or the mean of the values where there is none; its value stands beside it.
    """
    left, right, pitch = 112, 54, 26
    height = pitch * len(rows)
    root = svg(title, (0, 0, WIDTH, height + 44), "chart")
    ends = [end for _, values, reach in rows for end in (*values, *(reach or ()))]
    low, high = charts.with_room(ends)

    def across(value: float) -> float:
        return left + (WIDTH - left - right) * (value - low) / (high - low)

    for tick in ticks(low, high):
        x = across(tick)
        shape(root, "line", css="gridline", x1=x, x2=x, y1=0, y2=height)
        shape(root, "text", formats.short(tick), x=x, y=height + 16, text_anchor="middle")
    for row, (label, values, reach) in enumerate(rows):
        y = row * pitch + 13
        shape(root, "text", label if len(label) <= 17 else label[:16] + "…", x=left - 6, y=y + 4, text_anchor="end")
        for value in values if len(values) > 1 else ():
            shape(root, "circle", css="ring", cx=across(value), cy=y, r=3.5)
        mean = sum(reach) / 2 if reach and not values else sum(values) / len(values)
        if reach is not None:
            path = f"M{across(reach[0]):.1f},{y - 5}v10m0,-5H{across(reach[1]):.1f}m0,-5v10"
            shape(root, "path", css="whisker", d=path)
        shape(root, "circle", css="disc", cx=across(mean), cy=y, r=4.5)
        shape(root, "text", formats.decimal(mean, places), x=WIDTH - right + 8, y=y + 4)
    shape(root, "path", css="axis", d=f"M{left},0V{height}H{WIDTH - right}")
    shape(root, "text", axis, css="name", x=(left + WIDTH - right) / 2, y=height + 34, text_anchor="middle")
    return markup(root)


def _mark(parent: ET.Element, at: Range, size: float, series: int) -> None:
    """One mark; its shape says which series it is of, and so does its colour."""
    corners, css = MARKS[series % len(MARKS)], f"point series{series % len(DASHES)}"
    if not corners:
        shape(parent, "circle", css=css, cx=at[0], cy=at[1], r=size)
        return
    path = "L".join(f"{at[0] + size * x:.1f},{at[1] + size * y:.1f}" for x, y in corners)
    shape(parent, "path", css=css, d=f"M{path}Z")
