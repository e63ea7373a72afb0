"""How δ was chosen, on the page: where the points lie, which is marked, in which order the best loss fell."""

from __future__ import annotations

import html
import re
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from run_files import RunFiles, render

from nesbs.report.charts import scatter

CELL = "|nor_conv_3x3~0|+|nor_conv_1x1~0|none~1|+|skip_connect~0|none~1|avg_pool_3x3~2|"
# In the order judged: three δ, two rounds each.
JUDGED = [(1, 0.5, 0.70), (2, 0.5, 0.66), (1, -1.5, 0.80), (2, -1.5, 0.82), (1, 0.25, 0.60), (2, 0.25, 0.62)]


def page_of(
    judged: list[tuple[int, float | None, float]] = JUDGED,
    chosen: tuple[int | None, float | None, float] = (1, 0.25, 0.60),
    search: dict[str, Any] | None = None,
    trace: Any = None,
) -> str:
    def entry(round_: int | None, delta: float | None, loss: float) -> dict[str, Any]:
        return {"architectures": [CELL], "round": round_, "delta": delta, "loss": loss, "duplicates": 0}

    stages = {"selection": {"seconds": 1.0, **({"delta_trace": trace} if trace is not None else {})}}
    page = render(
        RunFiles(
            recipe={"space": {"name": "nasbench201"}, "search": search or {}},
            record={"stages": stages},
            selection={**entry(*chosen), "proposals": [entry(*proposal) for proposal in judged]},
        )
    )
    return page.split('<section id="rounds">')[1].split("</section>")[0]


def words_of(page: str) -> str:
    page = re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", "", page)))


def charts_of(page: str) -> list[ET.Element]:
    return [ET.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)]


def points_of(chart: ET.Element, css: str) -> list[tuple[float, float]]:
    """Where the marks of one kind lie; those in the legend are inside a group."""
    found = []
    for element in chart:
        if element.get("class") == css and element.tag == "circle":
            found.append((float(element.attrib["cx"]), float(element.attrib["cy"])))
        elif element.get("class") == css:
            corners = [tuple(map(float, pair.split(","))) for pair in element.attrib["d"].strip("MZ").split("L")]
            found.append(tuple(sum(axis) / len(corners) for axis in zip(*corners, strict=True)))
    return found


def ticks_of(chart: ET.Element, anchor: str) -> dict[float, float]:
    """Value of each tick, and its place along the axis (`middle`: δ, `end`: the loss)."""
    along = "x" if anchor == "middle" else "y"
    texts = [t for t in chart.iter("text") if t.get("text-anchor") == anchor and t.get("class") is None]
    return {float(str(t.text).replace("−", "-")): float(t.attrib[along]) for t in texts}


def test_points_lie_where_their_numbers_say() -> None:
    (chart,) = charts_of(page_of())
    rings, discs, stars = (points_of(chart, css) for css in ("ring", "disc", "star"))
    assert len(rings) == 3
    assert len(discs) == 2
    assert len(stars) == 1
    # By the ticks of the axes, every mark reads as its own δ and loss.
    across, up = ticks_of(chart, "middle"), ticks_of(chart, "end")

    def read(ticks: dict[float, float], at: float) -> float:
        (v0, p0), (v1, p1) = sorted(ticks.items())[0], sorted(ticks.items())[-1]
        return v0 + (at - p0) * (v1 - v0) / (p1 - p0)

    # A tick's text hangs 4 below its line.
    marks = [(read(across, x), read(up, y + 4)) for x, y in [*rings, *discs, *stars]]
    expected = [(0.5, 0.70), (-1.5, 0.82), (0.25, 0.62), (0.5, 0.66), (-1.5, 0.80), (0.25, 0.60)]
    for mark, wanted in zip(marks, expected, strict=True):
        assert mark == pytest.approx(wanted, abs=0.01)
    names = [text.text for text in chart.iter("text")]
    assert {"δ", "estimated loss in nats", "an ensemble", "lowest of its δ", "chosen"} <= set(names)
    assert str(chart[0].text).endswith("0.8000 at δ = −1.5, 0.6000 at δ = 0.25, 0.6600 at δ = 0.5")


def test_one_delta_has_no_chart() -> None:
    assert charts_of(page_of([(1, 0.5, 0.7), (2, 0.5, 0.6)], (2, 0.5, 0.6))) == []
    assert charts_of(page_of([(1, None, 0.7), (2, None, 0.6)], (2, None, 0.6))) == []


def test_a_grid_has_no_trials() -> None:
    page = page_of(search={"tune": "grid", "trials": 15}, trace=[[0.5, 0.66], [-1.5, 0.8], [0.25, 0.6]])
    assert len(charts_of(page)) == 1
    assert "Bayesian" not in page


def test_forward_selection_has_no_star() -> None:
    page = page_of(chosen=(None, None, 0.55))
    (chart,) = charts_of(page)
    assert points_of(chart, "star") == []
    assert len(points_of(chart, "disc")) == 3
    assert "it has no δ and is not in this chart" in page


def test_a_delta_tried_twice_is_chosen_once() -> None:
    page = page_of([(1, -2.0, 0.9), (1, 1.0, 0.95), (1, -2.0, 0.7)], (1, -2.0, 0.7))
    assert page.count('<tr class="chosen">') == 1
    (chart,) = charts_of(page)
    assert len(points_of(chart, "star")) == 1
    assert "at 0.7000; the highest is 0.9500" in words_of(page)


def test_trials_in_order_from_the_ensembles() -> None:
    page = page_of(search={"tune": "bayesian", "trials": 3})
    assert (
        "δ was chosen by Bayesian optimisation: 3 values of δ were tried and judged. The lowest loss so far was 0.6600 "
        "at number 1 (δ = 0.5); it fell to 0.6000 at number 3 (δ = 0.25)." in words_of(page)
    )
    line = charts_of(page)[1]
    (polyline,) = line.iter("polyline")
    points = [tuple(map(float, point.split(","))) for point in polyline.attrib["points"].split()]
    up = ticks_of(line, "end")
    # 0.66, still 0.66, then 0.60: level, then downwards on the page.
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert points[0][1] == points[1][1] < points[2][1]
    assert points[2][1] == pytest.approx(up[0.6] - 4, abs=0.1)


def test_recorded_trials_come_first() -> None:
    trace = [[1.0, 0.9], [-0.123456, 0.8], [0.0, None], [0.3, 0.85], [0.25, 0.6]]
    page = page_of(search={"tune": "bayesian", "trials": 7}, trace=trace)
    said = words_of(page)
    assert "4 values of δ were tried and judged, out of 7 trials" in said
    assert (
        "was 0.9000 at number 1 (δ = 1); it fell to 0.8000 at number 2 (δ = −0.1235), 0.6000 at number 5 (δ = 0.25)."
        in said
    )
    title = charts_of(page)[1][0].text
    assert title == "Best loss so far: 0.9000 at number 1, 0.8000 at number 2, 0.6000 at number 5"


def test_one_trial() -> None:
    page = page_of([(1, 0.5, 0.7)], (1, 0.5, 0.7), {"tune": "bayesian", "trials": 1})
    assert "1 value of δ was tried and judged. The lowest loss so far was 0.7000 at number 1 (δ = 0.5)." in words_of(
        page
    )
    assert charts_of(page) == []


def test_scatter_escapes_its_words() -> None:
    drawing = scatter("<b>", "<i>", "&", [("<u>", "ring", [(0.0, 1.0)])])
    assert [text.text for text in ET.fromstring(drawing).iter("text")][-3:] == ["&", "<i>", "<u>"]
