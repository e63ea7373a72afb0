"""A cell as an inline SVG graph: data flows downwards, and each edge carries its operation's name.

With one input every edge is an arc beside a column of nodes. With two inputs, the DARTS shape, each state
has a lane of its own at the left, from which the nodes that take it branch off at its number; those that leave
the cell have a line to the output at the right.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from markupsafe import Markup

from nesbs.report.charts import markup, shape, svg
from nesbs.spaces import Architecture, Space
from nesbs.spaces.architecture import Cell

Point = tuple[float, float]

RADIUS = 15
# Width and dashes tell operations apart without colour; the last word is the family, which has the colour.
STYLES = {
    "none": (1.2, "1 5", "nothing"),
    "skip_connect": (1.6, "none", "skip"),
    "nor_conv_1x1": (2.4, "9 4", "convolution"),
    "nor_conv_3x3": (4.0, "none", "convolution"),
    "avg_pool_3x3": (2.6, "2 4", "pool"),
    "max_pool_3x3": (4.0, "3 4", "pool"),
    "sep_conv_3x3": (4.0, "none", "convolution"),
    "sep_conv_5x5": (5.5, "none", "convolution"),
    "dil_conv_3x3": (3.0, "10 3 3 3", "convolution"),
    "dil_conv_5x5": (4.5, "10 3 3 3", "convolution"),
    "sep_conv_7x7": (7.0, "none", "convolution"),
    "conv_3x1_1x3": (4.0, "14 3", "convolution"),
    "conv_7x1_1x7": (5.5, "14 3", "convolution"),
    "res_sep_3x3": (4.0, "14 2 2 2", "convolution"),
}
OTHER = (2.4, "none", "other")
DEAD = (1.2, "4 4", "nothing")


@dataclass(frozen=True)
class Edge:
    """Where one edge runs: its path, its label's middle, and the end of its arrow with the way it points."""

    path: str
    label: Point
    tip: Point
    way: Point


def draw(space: Space, architecture: Architecture, name: str) -> list[tuple[str, Markup]]:
    """Every cell of an architecture: (kind, drawing), the drawings titled with `name`."""
    return [(kind, markup(root)) for kind, root in graphs(space, architecture, name)]


def graphs(space: Space, architecture: Architecture, name: str) -> list[tuple[str, ET.Element]]:
    """What `draw` draws, as elements: (kind, `svg` element)."""
    drawn = []
    kinds, outputs = space.kinds_of(architecture), space.output_states(architecture)
    for kind, cell, alive, out in zip(kinds, architecture.cells, space.live(architecture), outputs, strict=True):
        text = ", ".join(
            f"{source}→{target} {op}" for target, node in enumerate(cell, start=space.inputs) for op, source in node
        )
        title = f"{name}, {kind}: {text}" if len(kinds) > 1 else f"{name}: {text}"
        drawn.append((kind, _arcs(cell, alive, title) if space.inputs == 1 else _lanes(cell, alive, out, title)))
    return drawn


def legend(operations: Iterable[str]) -> list[tuple[str, Markup]]:
    """A sample of each operation's line: (operation, drawing)."""
    return [(op, _sample(f"the line of {op}", STYLES.get(op, OTHER))) for op in operations]


def dead_sample() -> Markup:
    """A sample of an edge that carries nothing to the output."""
    return _sample("the line of a dead edge", DEAD)


def _sample(title: str, style: tuple[float, str, str]) -> Markup:
    """A short line in a style."""
    root = svg(title, (0, 0, 44, 12), "sample")
    width, dash, family = style
    shape(root, "path", css=f"edge {family}", d="M2,6H42", stroke_width=width, stroke_dasharray=dash)
    return markup(root)


def _arcs(cell: Cell, alive: Cell, title: str) -> ET.Element:
    """One input: a column of nodes, an edge to the next one straight, longer ones as arcs left and right."""
    pitch = 84
    edges: dict[tuple[int, int], Edge] = {}
    for target, node in enumerate(cell, start=1):
        for place, (_, source) in enumerate(node):
            span, side = target - source, 1 if source % 2 else -1
            # So far out that an arc passes outside the labels of the shorter ones it runs around.
            out = side * (75 + 70 * (span - 2)) if span > 1 else 0
            start, end = (0.0, float(pitch * source)), (0.0, float(pitch * target))
            middle = (start[1] + end[1]) / 2
            way = _unit((end[0] - 2 * out, end[1] - middle))
            path = f"M0,{start[1]:g}Q{2 * out},{middle:g} 0,{end[1]:g}"
            tip = (end[0] - RADIUS * way[0], end[1] - RADIUS * way[1])
            edges[target, place] = Edge(path, (out, middle), tip, way)
    half = 50  # half of a label and some air
    left = min([-60.0, *(edge.label[0] - half for edge in edges.values())])
    right = max([80.0, *(edge.label[0] + half for edge in edges.values())])
    root = svg(title, (left, -22, right - left, pitch * len(cell) + 44), "cell")
    _edges(root, cell, alive, 1, edges)
    for state in range(len(cell) + 1):
        _node(root, state, (0, pitch * state), state == 0 or bool(alive[state - 1]))
    shape(root, "text", "input", css="name", x=RADIUS + 6, y=4)
    shape(root, "text", "output", css="name", x=RADIUS + 6, y=pitch * len(cell) + 4)
    return root


def _lanes(cell: Cell, alive: Cell, outputs: Sequence[int], title: str) -> ET.Element:
    """Two inputs: a lane for each state at the left, the nodes' operations beside them, the output at the right."""
    label, gap, line = 96, 17, 25
    pitch = 24 + line * max(len(node) for node in cell)
    states = len(cell) + 2
    used = sorted({source for node in cell for _, source in node})
    lane = {source: float(10 + gap * source) for source in used}
    label_left = 10 + gap * (states - 1) + 12
    column = label_left + label + 26 + RADIUS
    # The first node's labels keep off the inputs, however many they are.
    height = [24.0, 66.0, *(66.0 + 37 + pitch / 2 + pitch * place for place in range(len(cell)))]
    root = svg(title, (0, 0, column + 92, height[-1] + 3 + pitch / 2), "cell")

    edges: dict[tuple[int, int], Edge] = {}
    sources: dict[tuple[int, int], int] = {}
    lowest: dict[int, float] = {}
    for target, node in enumerate(cell, start=2):
        for place, (_, source) in enumerate(node):
            y = height[target] + line * (place - (len(node) - 1) / 2)
            entry = (label_left + label + 4.0, y)
            # Arrows end apart on the circle, so that two wide ones do not cover each other.
            rise = 9 * (2 * place / (len(node) - 1) - 1) if len(node) > 1 else 0.0
            tip = (column - math.sqrt(RADIUS**2 - rise**2), height[target] + rise)
            way = _unit((tip[0] - entry[0], tip[1] - y))
            # The line stops inside the arrow's head: a wide one would blunt its point.
            path = f"M{lane[source]:g},{y:g}H{entry[0]:g}L{tip[0] - 7 * way[0]:.1f},{tip[1] - 7 * way[1]:.1f}"
            edges[target, place] = Edge(path, (label_left + label / 2, y), tip, way)
            sources[target, place] = source
            lowest[source] = y
    for source in used:
        # An input has nothing beside it; a node's lane starts below its own labels.
        down = "" if source < 2 else f"V{height[source] + pitch / 2 - 3:g}"
        shape(root, "path", css="lane", d=f"M{column},{height[source]:g}{down}H{lane[source]:g}V{lowest[source]:g}")
    _edges(root, cell, alive, 2, edges)
    for key, edge in edges.items():
        source = sources[key]
        shape(root, "circle", css="junction", cx=lane[source], cy=edge.label[1], r=7)
        shape(root, "text", str(source), css="source", x=lane[source], y=edge.label[1] + 3.5, text_anchor="middle")
    out = column + 52
    for state in outputs:
        shape(root, "path", css="lane", d=f"M{column},{height[state]:g}H{out}")
    shape(root, "rect", css="node", x=out, y=height[2] - 18, width=34, height=height[-1] - height[2] + 36, rx=6)
    shape(root, "text", "out", x=out + 17, y=(height[2] + height[-1]) / 2 + 4, text_anchor="middle")
    for state in range(states):
        _node(root, state, (column, height[state]), state < 2 or bool(alive[state - 2]))
    shape(root, "text", "cell k−2", css="name", x=column + RADIUS + 6, y=height[0] + 4)
    shape(root, "text", "cell k−1", css="name", x=column + RADIUS + 6, y=height[1] + 4)
    return root


def _edges(root: ET.Element, cell: Cell, alive: Cell, inputs: int, edges: dict[tuple[int, int], Edge]) -> None:
    """Draw the lines of all edges, by target and place in its node, then their labels on top."""
    labels = []
    for target, (node, live) in enumerate(zip(cell, alive, strict=True), start=inputs):
        for place, (op, source) in enumerate(node):
            edge, dead = edges[target, place], op != "none" and (op, source) not in live
            width, dash, family = DEAD if dead else STYLES.get(op, OTHER)
            state = "dead" if dead else "none" if op == "none" else "live"
            group = ET.SubElement(root, "g", {"class": state, "data-edge": f"{source}→{target}", "data-operation": op})
            shape(group, "path", css=f"edge {family}", d=edge.path, stroke_width=width, stroke_dasharray=dash)
            if op != "none":  # a faint line says enough; the legend names it
                shape(group, "path", css=f"arrow {family}", d=_arrow(edge.tip, edge.way, 8 + width))
                labels.append((op, dead, edge.label))
    for op, dead, (x, y) in labels:
        width = 6.7 * len(op) + 10
        shape(root, "rect", css="label", x=x - width / 2, y=y - 10, width=width, height=20, rx=5)
        text = "operation dead" if dead else "operation"
        shape(root, "text", op, css=text, x=x, y=y + 4, text_anchor="middle")


def _node(root: ET.Element, state: int, at: Point, reached: bool) -> None:
    """A numbered circle, dashed where nothing arrives."""
    shape(root, "circle", css="node" if reached else "node unreached", cx=at[0], cy=at[1], r=RADIUS)
    shape(root, "text", str(state), x=at[0], y=at[1] + 4, text_anchor="middle")


def _arrow(tip: Point, way: Point, length: float) -> str:
    """A triangle that ends at `tip`."""
    (x, y), (dx, dy), half = tip, way, 0.45 * length
    back = (x - length * dx, y - length * dy)
    corners = [(x, y), (back[0] - half * dy, back[1] + half * dx), (back[0] + half * dy, back[1] - half * dx)]
    return "M" + "L".join(f"{a:.1f},{b:.1f}" for a, b in corners) + "Z"


def _unit(vector: Point) -> Point:
    """The same direction with length one."""
    length = math.hypot(*vector)
    return vector[0] / length, vector[1] / length
