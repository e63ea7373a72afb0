"""How the members differ on the page: accuracies, the map, the images, the reliability diagram, time and memory."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from pages import HOSTILE, drawings, plain, rows, without_script
from run_files import RunFiles, hand_made, render


@pytest.fixture
def records() -> RunFiles:
    return hand_made()


def section(page: str, name: str) -> str:
    return page.split(f'<section id="{name}">')[1].split("</section>")[0]


def chart(page: str, name: str, said: str) -> ET.Element:
    [found] = [one for one in drawings(section(page, name), "chart") if said in str(one[0].text)]
    return found


def test_members_stand_in_the_bin_of_their_accuracy(records: RunFiles) -> None:
    drawn = chart(render(records), "disagreement", "Accuracy of members")
    assert drawn[0].text == (
        "Accuracy of members 89.00 %, 91.00 %; uniform-random members 88.00 %, 87.00 %; the ensemble 91.88 %"
    )
    boxes = [box for box in drawn.findall("rect") if "bar" in box.get("class", "")]
    ticks = {float(t.text): float(t.attrib["x"]) for t in drawn.iter("text") if t.get("y") == "192.0" and t.text}
    (v0, x0), (v1, x1) = sorted(ticks.items())[0], sorted(ticks.items())[-1]
    scale = (x1 - x0) / (v1 - v0)
    for box, accuracy in zip(boxes, (89, 91, 88, 87), strict=True):
        left = v0 + (float(box.attrib["x"]) - x0) / scale
        assert left - 0.05 <= accuracy < left + float(box.attrib["width"]) / scale + 0.1
    assert [box.get("class") for box in boxes] == ["bar filled", "bar filled", "bar", "bar"]
    line = next(path for path in drawn.iter("path") if "series4" in path.get("class", ""))
    at = float(re.match(r"M([\d.]+)", line.attrib["d"])[1])  # type: ignore[index]
    assert v0 + (at - x0) / scale == pytest.approx(91.88, abs=0.02)
    assert {"accuracy in %", "networks"} <= {text.text for text in drawn.iter("text")}


def test_one_network_has_nobody_to_differ_from(records: RunFiles) -> None:
    metrics = {"ensemble": {"error": 0.0, "members": [{"error": 0.0}], "disagreement_matrix": [[0.0]]}}
    page = render(replace(records, metrics=metrics))
    assert plain(section(page, "disagreement")).strip().endswith("There is one network: nobody to differ from.")
    assert "<img" not in section(page, "images")


def test_members_of_one_accuracy_are_stacked(records: RunFiles) -> None:
    members = [{"error": 0.1}] * 5
    metrics = {"ensemble": {"error": 0.1, "members": members}, "uniform": None}
    drawn = chart(render(replace(records, metrics=metrics)), "disagreement", "Accuracy of members")
    boxes = drawn.findall("rect")
    assert len({box.get("x") for box in boxes}) == 1
    assert len({box.get("y") for box in boxes}) == 5


def test_the_map_joins_the_answers_to_one_image(records: RunFiles) -> None:
    drawn = chart(render(records), "disagreement", "t-SNE of the predictions of 2 members for 3 images")
    joined = [
        [tuple(map(float, point.split(","))) for point in path.attrib["d"].strip("MZ").split("L")]
        for path in drawn.iter("path")
        if path.get("class") == "joined"
    ]
    lengths = [abs(a[0] - b[0]) + abs(a[1] - b[1]) for a, b in joined]
    # The first image's answers are the same, the third's are as far apart as the map is wide.
    assert lengths[0] == 0 < lengths[1] < lengths[2]
    kinds = [element.tag for element in drawn.iter() if element.get("class", "").startswith("point")]
    assert kinds.count("circle") == kinds.count("path") == 3 + 1  # marks and their key


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"map": None}, "needs scikit-learn: pip install 'nesbs[sklearn]' , then nesbs evaluate RUN makes it"),
        ({"map": {"places": [], "points": []}}, "was not asked for ( evaluation.map says for how many images)"),
        (None, "The map is not there yet: nesbs evaluate RUN makes it"),
        ({"map": {"points": [[[0, 1]], [[None, "x"]]]}}, "This run has no t-SNE map"),
    ],
)
def test_no_map_says_why(records: RunFiles, found: Any, words: str) -> None:
    assert words in plain(section(render(replace(records, predictions=found)), "disagreement"))


def test_images_with_everybodys_answer(records: RunFiles) -> None:
    shown = section(render(records), "images")
    assert re.findall(r'<img alt="([^"]*)"', shown) == ["Image 17, labelled dog", "Image 4, labelled dog"]
    text = plain(shown)
    assert "Image 17: dog Ensemble: ✗ cat, 90 % Member 1: ✗ cat, 90 % Member 2: ✓ dog, 61 %" in text
    assert "The images are not there yet" in plain(render(replace(records, predictions=None)))


def test_hostile_images_are_escaped_or_left_out(records: RunFiles) -> None:
    first, second = records.predictions["disagreed"]  # type: ignore[index]
    first.update({"label": HOSTILE, "members": [{"answer": HOSTILE, "probability": HOSTILE}]})
    second["picture"] = '" onerror="alert(1)'
    page = render(records)
    assert "<script" not in without_script(page)
    assert "onerror" not in page
    assert section(page, "images").count("<img") == 1


def test_reliability_points_lie_at_confidence_and_accuracy(records: RunFiles) -> None:
    page = render(records)
    drawn = chart(page, "calibration", "Reliability of the ensemble")
    assert "before scaling: 50 % right at 60 %, 95 % right at 90 %" in str(drawn[0].text)
    first, second = (line.attrib["points"].split() for line in drawn.iter("polyline"))

    def shares(point: str) -> tuple[float, float]:
        x, y = map(float, point.split(","))
        return (x - 46) / (340 - 12 - 46), (176 - y) / (176 - 26)

    assert [shares(point) for point in first] == [pytest.approx(p, abs=0.001) for p in ((0.6, 0.5), (0.9, 0.95))]
    assert [shares(point) for point in second] == [pytest.approx(p, abs=0.001) for p in ((0.55, 0.5), (0.9, 0.9))]
    radii = [float(circle.attrib["r"]) for circle in drawn.iter("circle")]
    assert radii[1] > radii[0]  # 2,000 images and 500
    assert ["500", "60.00 %", "50.00 %", "600", "55.00 %", "50.00 %"] in rows(page, "calibration")
    del records.metrics["ensemble"]["temperature"]["reliability"]  # type: ignore[index]
    assert "The reliability diagram is not there yet" in plain(render(records))


def test_time_and_memory_are_bars(records: RunFiles) -> None:
    page = render(records)
    times = chart(page, "stages", "Time: supernet 200.0 s, posterior 10.0 s")
    widths = [float(bar.attrib["width"]) for bar in times.iter("rect")]
    assert widths == pytest.approx([widths[0] * s / 200 for s in (200, 10, 5, 30, 30, 1)], abs=0.1)
    memory = chart(page, "stages", "Peak memory: supernet 700 MiB")
    assert {"peak memory in MiB", "3,072 MiB"} <= {text.text for text in memory.iter("text")}


def test_what_was_changed_from_the_default(records: RunFiles) -> None:
    table = rows(render(records), "recipe")
    assert ["seed", "0", "7"] in table
    assert ["evaluation.bins", "15", "11"] in table
    assert not [row for row in table if row[0] == "space.name"]  # as it is by default


def test_an_interrupted_run_says_where_it_stopped(records: RunFiles) -> None:
    record = dict(records.record or {})
    stages = {"supernet": record["stages"]["supernet"], "members": {"seconds": 3.0, "losses": [[2.0, 0.5]]}}
    page = render(replace(records, record={**record, "stages": stages}, metrics=None, predictions=None))
    assert "the training of 1 of 2 members: nesbs train RUN makes it" in plain(page)
    assert ["members", "3.0 s so far, not finished: nesbs train RUN", "–", "–"] in rows(page, "stages")
    # A folder of records alone, without posterior.json: later stages ran, so this one ended.
    page = render(replace(records, posterior=None))
    assert ["posterior", "10.0 s", "1 MiB", "–"] in rows(page, "stages")
    page = render(RunFiles(recipe=records.recipe, record={"stages": {"supernet": {"seconds": 61.0}}}))
    assert ["supernet", "1 min 1 s so far, not finished: nesbs search RECIPE --out RUN", "–", "–"] in rows(
        page, "stages"
    )


def test_every_word_with_a_link_is_in_the_glossary(records: RunFiles) -> None:
    page = render(records)
    linked = set(re.findall(r'<a class="term" href="#([^"]*)"', page))
    explained = re.findall(r'<dd id="([^"]*)"', page)
    assert {"term-ate", "term-ppd", "term-ece", "term-delta", "term-tau"} <= linked <= set(explained)
    assert len(set(explained)) == len(explained)
    contents = re.findall(r'<a href="#([^"]*)"', page.split("<nav")[1].split("</nav>")[0])
    assert contents == re.findall(r'<section id="([^"]*)"', page)
