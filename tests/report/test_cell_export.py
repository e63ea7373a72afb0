"""Cells outside the page: the text exactly, the SVG by what it names and where it lies."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest
import torch

from nesbs.report import cells_as_text, draw_cells
from nesbs.spaces import Architecture, Space, darts, nasbench201, zoo

EDGES = "|nor_conv_3x3~0|+|nor_conv_1x1~0|none~1|+|skip_connect~0|none~1|avg_pool_3x3~2|"
SVG = "{http://www.w3.org/2000/svg}"


def test_darts_v2_as_text() -> None:
    assert (
        cells_as_text(darts(), zoo["darts-v2"])
        == """\
normal cell
  node 2 = sep_conv_3x3(cell k-2) + sep_conv_3x3(cell k-1)
  node 3 = sep_conv_3x3(cell k-2) + sep_conv_3x3(cell k-1)
  node 4 = skip_connect(cell k-2) + sep_conv_3x3(cell k-1)
  node 5 = skip_connect(cell k-2) + dil_conv_3x3(node 2)
  out = concat(2, 3, 4, 5)

reduce cell
  node 2 = max_pool_3x3(cell k-2) + max_pool_3x3(cell k-1)
  node 3 = max_pool_3x3(cell k-1) + skip_connect(node 2)
  node 4 = max_pool_3x3(cell k-2) + skip_connect(node 2)
  node 5 = max_pool_3x3(cell k-1) + skip_connect(node 2)
  out = concat(2, 3, 4, 5)"""
    )


def test_nasbench201_as_text() -> None:
    space = nasbench201()
    assert (
        cells_as_text(space, space.parse(EDGES))
        == """\
cell
  node 1 = nor_conv_3x3(input)
  node 2 = nor_conv_1x1(input)
  node 3 = skip_connect(input) + avg_pool_3x3(node 2)
  out = node 3"""
    )


def test_a_node_that_nothing_reaches_as_text() -> None:
    space = nasbench201()
    text = cells_as_text(space, space.parse(EDGES.replace("nor_conv_3x3", "none")))
    assert "  node 1 = nothing\n" in text


def drawn(space: Space, architecture: Architecture, title: str) -> ET.Element:
    return ET.fromstring(draw_cells(space, architecture, title))


@pytest.mark.parametrize("name", ["darts-v2", "gdas", "nasnet-a", "amoebanet-a", "enas-script"])
def test_document_names_every_operation_of_every_cell(name: str) -> None:
    root = drawn(darts(), zoo[name], name)
    assert root.tag == f"{SVG}svg"
    cells = [group for group in root.findall(f"{SVG}g") if group.get("transform")]
    assert len(cells) == 2
    for cell, group in zip(zoo[name].cells, cells, strict=True):
        labels = [t.text for t in group.iter(f"{SVG}text") if "operation" in t.get("class", "")]
        assert labels == [op for node in cell for op, _ in node]
        sources = [t.text for t in group.iter(f"{SVG}text") if t.get("class") == "source"]
        assert sources == [str(source) for node in cell for _, source in node]
    headings = [t.text for t in root.findall(f"{SVG}text")]
    assert headings == [name, "normal cell", "reduce cell"]


def test_only_nodes_that_leave_a_cell_have_a_line_to_its_output() -> None:
    root = drawn(darts(), zoo["amoebanet-a"], "a")
    cells = [group for group in root.findall(f"{SVG}g") if group.get("transform")]
    for group, leaving in zip(cells, [(4, 5, 6), (3, 4, 6)], strict=True):
        nodes = {
            t.text: t.attrib["y"] for t in group.iter(f"{SVG}text") if str(t.text).isdigit() and "class" not in t.attrib
        }
        lines = [str(path.get("d")) for path in group.iter(f"{SVG}path") if path.get("class") == "lane"]
        right = [float(line[1:].split(",")[1].split("H")[0]) for line in lines if "V" not in line]
        assert right == [float(nodes[str(state)]) - 4 for state in leaving]
    assert "out = concat(3, 4, 6)" in cells_as_text(darts(), zoo["amoebanet-a"])


def test_robnets_cells_are_drawn_five_in_a_row() -> None:
    root = drawn(darts(), zoo["robnet-free"], "a")
    assert [t.text for t in root.findall(f"{SVG}text")] == ["a", *(f"cell {n}" for n in range(1, 21))]
    assert len({t.attrib["y"] for t in root.findall(f"{SVG}text")[1:]}) == 4


def test_document_stands_alone() -> None:
    space = nasbench201()
    text = draw_cells(space, space.parse(EDGES), "<a & b>")
    root = ET.fromstring(text)
    style = str(root.findtext(f"{SVG}style"))
    assert "var(" not in style
    assert ".edge.convolution { stroke: #1a5fa8; }" in style
    assert text.count("http") == 1  # the namespace
    background = root.find(f"{SVG}rect")
    assert background is not None
    assert (background.get("fill"), background.get("width")) == ("white", "100%")
    assert root.findtext(f"{SVG}title") == "<a & b>"
    assert text == draw_cells(space, space.parse(EDGES), "<a & b>")


def boxes(group: ET.Element) -> list[tuple[float, float, float, float]]:
    """Left, top, right, bottom of the labels, nodes and numbers of one cell."""
    found = []
    for element in group.iter():
        if element.get("class") == "label":
            x, y, w, h = (float(element.attrib[key]) for key in ("x", "y", "width", "height"))
            found.append((x, y, x + w, y + h))
        elif element.tag == f"{SVG}circle":
            x, y, r = (float(element.attrib[key]) for key in ("cx", "cy", "r"))
            found.append((x - r, y - r, x + r, y + r))
    return found


def test_nothing_covers_anything_else_and_all_is_inside() -> None:
    space = darts()
    random = space.sample(3, generator=torch.Generator().manual_seed(0))
    for architecture in [*(zoo[name] for name in zoo if zoo.entry(name).space == "darts"), *random]:
        root = drawn(space, architecture, "a")
        width, height = float(root.attrib["width"]), float(root.attrib["height"])
        groups = [group for group in root.findall(f"{SVG}g") if group.get("transform")]
        for group, cell in zip(groups, architecture.cells, strict=True):
            dx, dy = map(float, re.findall(r"-?[\d.]+", group.attrib["transform"]))
            found = boxes(group)
            edges = [op for node in cell for op, _ in node]
            # Labels, states, numbers of the inputs.
            assert len(found) == len(edges) - edges.count("none") + 2 + len(cell) + len(edges)
            for index, (left, top, right, bottom) in enumerate(found):
                assert 0 <= left + dx <= right + dx <= width
                assert 0 <= top + dy <= bottom + dy <= height
                for other in found[index + 1 :]:
                    assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


def test_a_long_title_widens_the_document() -> None:
    narrow, wide = (float(drawn(darts(), zoo["gdas"], "x" * n).attrib["width"]) for n in (1, 100))
    assert wide == 1048
    assert narrow < 800
