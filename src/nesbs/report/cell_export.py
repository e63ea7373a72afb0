"""An architecture outside the page: its cells as an SVG file, and as plain text for a terminal."""

import re
from functools import lru_cache
from importlib import resources
from xml.etree import ElementTree as ET

from nesbs.report import cells
from nesbs.report.charts import shape
from nesbs.spaces import Architecture, Space

MARGIN = 24
HEADING = 30  # height of a line of heading
IN_A_ROW = 5


def draw_cells(space: Space, architecture: Architecture, title: str) -> str:
    """An SVG document, legible on its own, of all cells, five in a row, each under its name.

    >>> from nesbs.spaces import darts, zoo
    >>> draw_cells(darts(), zoo["darts-v2"], "darts-v2").splitlines()[0]
    '<?xml version="1.0" encoding="UTF-8"?>'
    """
    graphs = cells.graphs(space, architecture, title)
    views = [[float(value) for value in graph.attrib["viewBox"].split()] for _, graph in graphs]
    kind_height = HEADING if len(graphs) > 1 else 0
    rows = [range(start, min(start + IN_A_ROW, len(graphs))) for start in range(0, len(graphs), IN_A_ROW)]
    # The heading may be wider than the cells: 10 is about the width of its widest letters.
    width = max(max(sum(views[i][2] + MARGIN for i in row) for row in rows) + MARGIN, 10 * len(title) + 2 * MARGIN)
    heights = [kind_height + max(views[i][3] for i in row) for row in rows]
    height = MARGIN + HEADING + sum(heights) + MARGIN * len(rows)
    size = {"width": f"{width:g}", "height": f"{height:g}", "viewBox": f"0 0 {width:g} {height:g}"}
    root = ET.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img", **size})
    ET.SubElement(root, "title").text = title
    ET.SubElement(root, "style").text = _style()
    shape(root, "rect", width="100%", height="100%", fill="white")
    shape(root, "text", title, css="heading", x=MARGIN, y=MARGIN + 14)
    top = float(MARGIN + HEADING)
    for row, row_height in zip(rows, heights, strict=True):
        x = float(MARGIN)
        for (kind, graph), view in ((graphs[i], views[i]) for i in row):
            if len(graphs) > 1:
                shape(root, "text", _heading(kind), css="kind", x=x, y=top + 14)
            place = f"translate({x - view[0]:g},{top + kind_height - view[1]:g})"
            ET.SubElement(root, "g", {"transform": place}).extend(graph)
            x += view[2] + MARGIN
        top += row_height + MARGIN
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def cells_as_text(space: Space, architecture: Architecture) -> str:
    """Every cell as a heading and a line a node; `none` edges are left out.

    >>> from nesbs.spaces import toy_edges
    >>> space = toy_edges()
    >>> print(cells_as_text(space, space.parse("|nor_conv_3x3~0|+|none~0|skip_connect~1|")))
    cell
      node 1 = nor_conv_3x3(input)
      node 2 = skip_connect(node 1)
      out = node 2
    """
    inputs = ["input"] if space.inputs == 1 else ["cell k-2", "cell k-1"]
    texts = []
    for kind, cell, leaving in zip(
        space.kinds_of(architecture), architecture.cells, space.output_states(architecture), strict=True
    ):
        numbers = range(space.inputs, space.inputs + len(cell))
        names = inputs + [f"node {number}" for number in numbers]
        lines = [_heading(kind)]
        for number, node in zip(numbers, cell, strict=True):
            terms = [f"{op}({names[source]})" for op, source in node if op != "none"]
            lines.append(f"  node {number} = {' + '.join(terms) or 'nothing'}")
        out = names[-1] if space.inputs == 1 else f"concat({', '.join(map(str, leaving))})"
        texts.append("\n".join([*lines, f"  out = {out}"]))
    return "\n\n".join(texts)


def _heading(kind: str) -> str:
    return kind if kind.startswith("cell") else f"{kind} cell"


@lru_cache(maxsize=1)
def _style() -> str:
    """The page's rules for drawings with its light colours written in: some viewers do not read CSS variables."""
    folder = resources.files("nesbs.report")
    page, drawing = (folder.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "drawing.css"))
    light = page.split("@media")[0]
    colours = dict(re.findall(r"--(\w+): (#\w+);", light))
    own = (
        "svg { font-family: system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif; }\n"
        "svg text.heading { font-size: 18px; font-weight: 600; }\n"
        "svg text.kind { font-size: 15px; font-weight: 600; }\n"
    )
    return "\n" + re.sub(r"var\(--(\w+)\)", lambda match: colours[match[1]], drawing) + own
