"""Small charts as inline SVG: bars, lines over steps, points. Told apart by labels, dashes and shapes, not by
colour alone.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from xml.etree import ElementTree as ET

from markupsafe import Markup

from nesbs.report import formats

WIDTH = 340  # of every chart, so that its text stays legible on a telephone
DASHES = ("none", "7 3", "2 3", "9 3 2 3", "1 4", "14 3")
MOST_POINTS = 240  # of a line; more cannot be told apart at this width
LEFT, RIGHT, TOP, BASE = 46, 12, 26, 176  # where the axes of lines and points run

Range = tuple[float, float]


def svg(title: str, view: tuple[float, float, float, float], css: str) -> ET.Element:
    """An empty drawing with a name for those who cannot see it; `view` is left, top, width, height."""
    root = ET.Element("svg", {"class": css, "role": "img", "viewBox": " ".join(f"{value:g}" for value in view)})
    ET.SubElement(root, "title").text = title
    return root


def shape(parent: ET.Element, tag: str, text: str | None = None, **attributes: str | float) -> ET.Element:
    """Add an element; `_` in an attribute's name stands for `-`, and `css` for `class`."""
    named = {
        "class" if name == "css" else name.replace("_", "-"): value if isinstance(value, str) else f"{value:.1f}"
        for name, value in attributes.items()
    }
    element = ET.SubElement(parent, tag, named)
    element.text = text
    return element


def markup(root: ET.Element) -> Markup:
    """The drawing as text for the page; ElementTree has escaped what is in it."""
    return Markup(ET.tostring(root, encoding="unicode"))


def bars(
    title: str,
    axis: str,
    rows: Sequence[tuple[str, float, bool]],
    text: Callable[[float], str] = formats.percent,
    reaches: Sequence[Range | None] = (),
) -> Markup:
    """Horizontal bars from zero: (label, value, whether filled), one a row, each with its value as `text` writes it.

    `reaches` are the intervals of the values, one a row where there are any, drawn as whiskers.
    """
    left, right, pitch = 118, 72, 26
    height = pitch * len(rows)
    root = svg(title, (0, 0, WIDTH, height + 24), "chart")
    ends = [reach or (value, value) for reach, (_, value, _) in zip_longest(reaches, rows)]
    largest = max((high for _, high in ends), default=0) or 1

    def across(value: float) -> float:
        return left + (WIDTH - left - right) * max(value, 0.0) / largest

    for row, ((label, value, filled), (low, high)) in enumerate(zip(rows, ends, strict=True)):
        top, middle = row * pitch + 4, row * pitch + 13
        shape(root, "text", label, x=left - 6, y=top + 14, text_anchor="end")
        length = across(value) - left
        shape(root, "rect", css="bar filled" if filled else "bar", x=left, y=top, width=length, height=pitch - 8)
        if high > low:
            tips = f"M{across(low):.1f},{middle - 5}v10m0,-5H{across(high):.1f}m0,-5v10"
            shape(root, "path", css="whisker halo", d=tips)
            shape(root, "path", css="whisker", d=tips)
        shape(root, "text", text(value), x=across(high) + 5, y=top + 14)
    shape(root, "line", css="axis", x1=left, x2=left, y1=0, y2=height)
    shape(root, "text", axis, css="name", x=left, y=height + 17)
    return markup(root)


def lines(
    title: str,
    x_name: str,
    y_name: str,
    series: Sequence[tuple[str, Sequence[float | None]]],
    names: Sequence[str] | None = None,
) -> Markup:
    """Values over steps counted from 1, one line a series; a legend below where there are several.

    `names`, one a step, stand at the steps in place of their numbers.
    """
    columns = 2 if all(len(name) <= 16 for name, _ in series) else 1
    legend = -(-len(series) // columns) * 18 if len(series) > 1 else 0
    root = svg(title, (0, 0, WIDTH, BASE + 40 + legend), "chart")
    steps = max((len(values) for _, values in series), default=1)
    numbers = [value for _, values in series for value in values if value is not None] or [0.0]
    marks = sorted({1.0, float(steps)} | {t for t in ticks(1, steps) if t.is_integer() and 1 < t < 0.94 * steps})
    if names is not None:
        marks = [float(step) for step in range(1, steps + 1)]
    place = axes(root, (x_name, y_name), (1, steps), with_room(numbers), marks, names)
    for index, (name, values) in enumerate(series):
        style, dash = f"line series{index % len(DASHES)}", DASHES[index % len(DASHES)]
        points = [place(step, value) for step, value in thinned(values)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        shape(root, "polyline", css=style, points=path, stroke_dasharray=dash)
        for x, y in points if len(points) <= 12 else []:
            shape(root, "circle", css=f"point series{index % len(DASHES)}", cx=x, cy=y, r=2.5)
        if legend:
            x, y = LEFT + (index % columns) * 140, BASE + 50 + (index // columns) * 18
            shape(root, "path", css=style, d=f"M{x},{y - 4}h32", stroke_dasharray=dash)
            shape(root, "text", name, x=x + 38, y=y)
    return markup(root)


def scatter(
    title: str,
    x_name: str,
    y_name: str,
    groups: Sequence[tuple[str, str, Sequence[Range]]],
    *,
    labels: Mapping[str, Range] | None = None,
) -> Markup:
    """Points (x, y) in groups of (name, shape, points); the shapes are ring, disc and star, the last group on top.

    `labels` are texts beside points; one for which there is no free place is left out.
    """
    root = svg(title, (0, 0, WIDTH, BASE + 58), "chart")
    groups = [group for group in groups if group[2]]
    across, up = (with_room([point[axis] for _, _, points in groups for point in points]) for axis in (0, 1))
    place = axes(root, (x_name, y_name), across, up, ticks(*across, wanted=6))
    x, y = 14.0, BASE + 50.0
    for name, kind, points in groups:
        for point in points:
            _point(root, kind, place(*point))
        _point(ET.SubElement(root, "g", {"class": "key"}), kind, (x, y - 4))
        shape(root, "text", name, x=x + 12, y=y)
        x += 30 + 7 * len(name)
    marks = [place(*point) for _, _, points in groups for point in points]
    named = {name: place(*point) for name, point in (labels or {}).items()}
    for name, (left, base) in free_places(named, marks).items():
        shape(root, "text", name, x=left, y=base)
    return markup(root)


def free_places(
    labels: Mapping[str, tuple[float, float]], marks: Sequence[tuple[float, float]]
) -> dict[str, tuple[float, float]]:
    """Where texts beside their points begin, (left, base line), so that they cover neither each other nor `marks`.

    Tried are the four corners of the point; a text for which none is free is left out.

    >>> free_places({"one": (100.0, 100.0), "two": (103.0, 100.0)}, [(100.0, 100.0), (103.0, 100.0)])
    {'one': (107.0, 95.0), 'two': (110.0, 113.0)}
    """
    found: dict[str, tuple[float, float]] = {}
    taken = [(x - 4, x + 4, y - 4, y + 4) for x, y in marks]
    for name, (x, y) in labels.items():
        width = 7.2 * len(name)
        for left, base in itertools.product((x + 7, x - 7 - width), (y - 5, y + 13)):
            box = left, left + width, base - 10, base + 2
            inside = left >= LEFT and box[1] <= WIDTH and base <= BASE
            if inside and not any(box[0] < b and a < box[1] and box[2] < d and c < box[3] for a, b, c, d in taken):
                found[name] = left, base
                taken.append(box)
                break
    return found


def _point(parent: ET.Element, kind: str, at: tuple[float, float]) -> None:
    """One mark of a scatter."""
    if kind == "star":
        corners = [(9 - 5.2 * (k % 2), math.pi * k / 5) for k in range(10)]
        path = "L".join(f"{at[0] + r * math.sin(turn):.1f},{at[1] - r * math.cos(turn):.1f}" for r, turn in corners)
        shape(parent, "path", css="star", d=f"M{path}Z")
    else:
        shape(parent, "circle", css=kind, cx=at[0], cy=at[1], r=4.5 if kind == "disc" else 3)


def with_room(values: Sequence[float]) -> Range:
    """The range of the values with some air at both ends."""
    low, high = min(values), max(values)
    room = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    return low - room, high + room


def axes(
    root: ET.Element,
    names: tuple[str, str],
    across: Range,
    up: Range,
    marks: Sequence[float],
    labels: Sequence[str] | None = None,
) -> Callable[[float, float], tuple[float, float]]:
    """Draw two axes with `marks` on the first, under their `labels` or as numbers.

    The function returned says where a point lies on the page.
    """
    end = WIDTH - RIGHT

    def place(x: float, y: float) -> tuple[float, float]:
        """Where a point lies."""
        share = (x - across[0]) / (across[1] - across[0]) if across[1] > across[0] else 0.5
        return LEFT + (end - LEFT) * share, BASE - (BASE - TOP) * (y - up[0]) / (up[1] - up[0])

    for tick in ticks(*up):
        y = place(across[0], tick)[1]
        shape(root, "line", css="gridline", x1=LEFT, x2=end, y1=y, y2=y)
        shape(root, "text", formats.short(tick), x=LEFT - 6, y=y + 4, text_anchor="end")
    for tick, name in zip(marks, labels or map(formats.short, marks), strict=True):
        shape(root, "text", name, x=place(tick, up[0])[0], y=BASE + 16, text_anchor="middle")
    shape(root, "path", css="axis", d=f"M{LEFT},{TOP}V{BASE}H{end}")
    shape(root, "text", names[1], css="name", x=4, y=14)
    shape(root, "text", names[0], css="name", x=(LEFT + end) / 2, y=BASE + 32, text_anchor="middle")
    return place


def thinned(values: Sequence[float | None]) -> list[tuple[int, float]]:
    """The (step, value) pairs that are numbers, at most about `MOST_POINTS` of them, the last one always.

    >>> thinned([3.0, 2.0])
    [(1, 3.0), (2, 2.0)]
    """
    pairs = [(step, value) for step, value in enumerate(values, start=1) if value is not None]
    stride = -(-len(pairs) // MOST_POINTS) or 1
    some = pairs[::stride]
    return some if not pairs or some[-1] == pairs[-1] else [*some, pairs[-1]]


def ticks(low: float, high: float, wanted: int = 4) -> list[float]:
    """Round numbers between two values: multiples of 1, 2 or 5 times a power of ten.

    >>> ticks(0.13, 0.92)
    [0.2, 0.4, 0.6, 0.8]
    """
    if not high > low:
        return [float(low)]
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return [float(f"{k * step:.10g}") for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
