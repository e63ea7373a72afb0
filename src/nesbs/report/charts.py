"""Small charts as inline SVG: bars, and lines over steps. Told apart by labels and dashes, not by colour alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from markupsafe import Markup

from nesbs.report import words

WIDTH = 340  # of every chart, so that its text stays legible on a telephone
DASHES = ("none", "7 3", "2 3", "9 3 2 3", "1 4", "14 3")
MOST_POINTS = 240  # of a line; more cannot be told apart at this width


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


def bars(title: str, axis: str, rows: Sequence[tuple[str, float, bool]]) -> Markup:
    """Horizontal bars from zero: (label, share, whether filled), one a row, each with its percentage."""
    left, right, pitch = 118, 64, 26
    height = pitch * len(rows)
    root = svg(title, (0, 0, WIDTH, height + 24), "chart")
    largest = max((share for _, share, _ in rows), default=0) or 1
    for row, (label, share, filled) in enumerate(rows):
        top, length = row * pitch + 4, (WIDTH - left - right) * share / largest
        shape(root, "text", label, x=left - 6, y=top + 14, text_anchor="end")
        shape(root, "rect", css="bar filled" if filled else "bar", x=left, y=top, width=length, height=pitch - 8)
        shape(root, "text", words.percent(share), x=left + length + 5, y=top + 14)
    shape(root, "line", css="axis", x1=left, x2=left, y1=0, y2=height)
    shape(root, "text", axis, css="name", x=left, y=height + 17)
    return markup(root)


def lines(title: str, x_name: str, y_name: str, series: Sequence[tuple[str, Sequence[float]]]) -> Markup:
    """Values over steps counted from 1, one line a series; a legend below where there are several."""
    left, right, top, base = 46, 12, 26, 176
    legend = -(-len(series) // 2) * 18 if len(series) > 1 else 0
    root = svg(title, (0, 0, WIDTH, base + 40 + legend), "chart")
    steps = max((len(values) for _, values in series), default=1)
    known = [value for _, values in series for value in values if words.is_number(value)] or [0.0]
    low, high = min(known), max(known)
    room = 0.06 * (high - low) or 0.1 * abs(high) or 1.0
    low, high = low - room, high + room

    def place(step: float, value: float) -> tuple[float, float]:
        """Where a value lies on the page."""
        across = (step - 1) / (steps - 1) if steps > 1 else 0.5
        return left + (WIDTH - left - right) * across, base - (base - top) * (value - low) / (high - low)

    for tick in ticks(low, high):
        y = place(1, tick)[1]
        shape(root, "line", css="gridline", x1=left, x2=WIDTH - right, y1=y, y2=y)
        shape(root, "text", f"{tick:g}", x=left - 6, y=y + 4, text_anchor="end")
    for tick in sorted({1.0, float(steps)} | {t for t in ticks(1, steps) if t.is_integer() and 1 < t < 0.94 * steps}):
        shape(root, "text", f"{tick:g}", x=place(tick, low)[0], y=base + 16, text_anchor="middle")
    shape(root, "path", css="axis", d=f"M{left},{top}V{base}H{WIDTH - right}")
    shape(root, "text", y_name, css="name", x=4, y=14)
    shape(root, "text", x_name, css="name", x=(left + WIDTH - right) / 2, y=base + 32, text_anchor="middle")
    for index, (name, values) in enumerate(series):
        style, dash = f"line series{index % len(DASHES)}", DASHES[index % len(DASHES)]
        points = [place(step, value) for step, value in thinned(values)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        shape(root, "polyline", css=style, points=path, stroke_dasharray=dash)
        for x, y in points if len(points) <= 12 else []:
            shape(root, "circle", css=f"point series{index % len(DASHES)}", cx=x, cy=y, r=2.5)
        if legend:
            x, y = left + (index % 2) * 140, base + 50 + (index // 2) * 18
            shape(root, "path", css=style, d=f"M{x},{y - 4}h32", stroke_dasharray=dash)
            shape(root, "text", name, x=x + 38, y=y)
    return markup(root)


def thinned(values: Sequence[float]) -> list[tuple[int, float]]:
    """The (step, value) pairs that are numbers, at most about `MOST_POINTS` of them, the last one always.

    >>> thinned([3.0, 2.0])
    [(1, 3.0), (2, 2.0)]
    """
    pairs = [(step, value) for step, value in enumerate(values, start=1) if words.is_number(value)]
    stride = -(-len(pairs) // MOST_POINTS) or 1
    kept = pairs[::stride]
    return kept if not pairs or kept[-1] == pairs[-1] else [*kept, pairs[-1]]


def ticks(low: float, high: float, wanted: int = 4) -> list[float]:
    """Round numbers between two values: multiples of 1, 2 or 5 times a power of ten.

    >>> ticks(0.13, 0.92)
    [0.2, 0.4, 0.6, 0.8]
    """
    if not high > low:
        return [low]
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    return [float(f"{k * step:.10g}") for k in range(math.ceil(low / step), math.floor(high / step) + 1)]
