"""The parts beside the scores on the page and in the terminal, from records made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from pages import HOSTILE, drawings, plain, rows, without_script
from run_files import RunFiles, render, scaled, scores_as_text

ROOT = Path(__file__).parents[2]


def scores(error: float, **more: Any) -> dict[str, Any]:
    return {"error": error, "nll": 0.4, "brier": 0.2, "ece": 0.05, "top5_error": error / 10, **more}


def corrupted(shift: float, names: tuple[str, ...] = ("fog", "jpeg")) -> dict[str, Any]:
    errors = [shift + 0.1 * severity for severity in range(1, 6)]
    by_corruption = {name: {"error": errors, "nll": [1.0] * 5, "ece": [0.02] * 5} for name in names}
    by_severity = {"error": errors, "nll": [1.0] * 5, "ece": [0.02] * 5}
    mean = {"error": shift + 0.3, "nll": 1.0, "ece": 0.02}
    return {"by_corruption": by_corruption, "by_severity": by_severity, "mean": mean}


@pytest.fixture
def metrics() -> dict[str, Any]:
    def detected(area: float) -> dict[str, float]:
        return {"auroc": area, "fpr95": 1 - area}

    entry = scores(
        0.08,
        member_error=0.1,
        disagreement=0.07,
        disagreement_matrix=[[0.0, 0.07], [0.07, 0.0]],
        members=[scores(0.11), scores(0.09)],
        architectures=["a", "b"],
        parameters=[10, 20],
        gain_over_best={"error": 0.01, "nll": -0.0021, "brier": 0.0, "ece": 0.001, "top5_error": 0.002},
        gain_over_mean={"error": 0.02, "nll": 0.01, "brier": 0.01, "ece": -0.002, "top5_error": 0.002},
        temperature={
            "fitted_on": "test halves",
            "images": 2500,
            "ensemble": scaled([0.91, 0.95], 0.04),
            "members": [scaled([1.2, 1.3], 0.06), scaled([1.4, 1.5], 0.08)],
        },
        human={
            "file": "people.npz",
            "people": {"error": 0.0123, "entropy": 0.321},
            "ensemble": {"cross_entropy": 0.6, "kl_divergence": 0.2789, "total_variation": 0.1111},
            "members": [{"cross_entropy": 0.7, "kl_divergence": 0.38, "total_variation": 0.12}] * 2,
        },
        unseen={
            "data": "cifar10",
            "images": 10_000,
            "seen_images": 2500,
            "ensemble": {
                "max_probability": detected(0.9),
                "entropy": detected(0.91),
                "mutual_information": detected(0.92),
            },
            "members": [{"max_probability": detected(0.8), "entropy": detected(0.81)}] * 2,
        },
        corruptions={
            "severities": [1, 2, 3, 4, 5],
            "skipped": ["saturation"],
            "ensemble": corrupted(0.0),
            "members": [corrupted(0.04), corrupted(0.02)],
        },
    )
    return {"data": "pets", "test_images": 2500, "ensemble": entry, "uniform": None}


def page_of(metrics: dict[str, Any]) -> str:
    return render(RunFiles(metrics=metrics))


def test_gains_have_their_sign(metrics: dict[str, Any]) -> None:
    table = rows(page_of(metrics), "measures")
    assert table[1][5] == "0.80 %"
    assert ["over the best member by each measure", "+1.00", "−0.002", "0.000", "+0.0010", "+0.20"] in table
    assert ["over the mean member", "+2.00", "+0.010", "+0.010", "−0.0020", "+0.20"] in table


def test_calibration_before_and_after(metrics: dict[str, Any]) -> None:
    page = page_of(metrics)
    table = rows(page, "calibration")
    assert table[1] == ["Ensemble", "0.91 and 0.95", "0.5000", "0.4500", "0.2500", "0.2400", "0.0400", "0.0200"]
    assert [row[0] for row in table[1:]] == ["Ensemble", "Member 1", "Member 2"]
    assert "on one half of the 2,500 test images and used on the other" in plain(page)
    text = plain(page_of({**metrics, "measured_on": "search_valid"}))
    assert "on one half of the 2,500 held-out training images and used on the other" in text
    assert "has an error on held-out training images of" in text
    assert "these test images" not in text
    assert "choice of test images" not in text
    own = render(RunFiles(metrics=metrics, recipe={"members": {"images": "search_train"}}))
    for page, said in ((page_of(metrics), True), (own, False)):
        assert ("the members learned from every training image" in plain(page)) == said
    metrics["ensemble"]["temperature"].update({"fitted_on": "search_valid", "images": 1800})
    metrics["ensemble"]["temperature"]["ensemble"]["temperatures"] = [1.5]
    page = page_of(metrics)
    assert "on 1,800 training images that the members did not learn from" in plain(page)
    assert rows(page, "calibration")[1][1] == "1.50"


@pytest.fixture
def per_class() -> dict[str, Any]:
    def row(name: str, train: int, error: float | None, predicted: int) -> dict[str, Any]:
        tested = 0 if error is None else 10
        return {"name": name, "train_images": train, "test_images": tested, "error": error, "predicted": predicted}

    classes = [row("cat", 80, 0.2, 12), row("dog", 19, 1.0, 0), row("eel", 90, None, 8)]
    return {"classes": classes, "confusion": [[8, 0, 2], [4, 0, 6], [0, 0, 0]]}


def test_class_by_class(metrics: dict[str, Any], per_class: dict[str, Any]) -> None:
    assert "warning" not in scores_as_text(metrics)
    assert 'id="classes"' not in page_of(metrics)  # a record of before there were classes
    metrics["ensemble"]["per_class"] = per_class
    page, text = page_of(metrics), scores_as_text(metrics)
    table = rows(page, "classes")
    assert table[1:4] == [
        ["dog", "100.00 %", "10", "19", "0"],
        ["cat", "20.00 %", "10", "80", "12"],
        ["eel", "–", "0", "90", "8"],
    ]
    assert table[4:] == [
        ["Class", "cat", "dog", "eel"],
        ["cat", "8", "0", "2"],
        ["dog", "4", "0", "6"],
        ["eel", *"000"],
    ]
    assert (
        "dog taken for eel 6 times (60.00 %), dog taken for cat 4 times (40.00 %), cat taken for eel 2 times"
        in plain(page)
    )
    for line in (
        "fewer than 20 training images: dog (19); add some, or set data.class_weights=balanced",
        "never predicted: dog (test images: 10)",
    ):
        assert f"Warning: {line}." in plain(page)
        assert f"\nwarning: {line}" in text
    assert text.count("warning") == 2


def test_very_many_classes_are_shown_in_part(metrics: dict[str, Any]) -> None:
    few = {"train_images": 3, "test_images": 1, "error": 0.5, "predicted": 1}
    metrics["ensemble"]["per_class"] = {"classes": [{"name": f"c{place}", **few} for place in range(60)]}
    page = page_of(metrics)
    assert len(rows(page, "classes")) == 51
    assert "50 of 60 classes" in plain(page)
    assert "fewer than 20 training images: c0 (3), c1 (3), c2 (3), c3 (3), c4 (3) and 55 more;" in plain(page)


def test_broken_and_hostile_classes(metrics: dict[str, Any], per_class: dict[str, Any]) -> None:
    for confusion in ([[1]], [[1, 2, "x"], [1], 7], [[9, 9, 9]] * 5, None, "x"):
        per_class["classes"][0]["name"] = HOSTILE
        metrics["ensemble"]["per_class"] = {**per_class, "confusion": confusion}
        page = page_of(metrics)
        assert HOSTILE not in without_script(page)
        assert rows(page, "classes")[1][0] == "dog"


def test_people(metrics: dict[str, Any]) -> None:
    page = page_of(metrics)
    assert rows(page, "human")[1] == ["Ensemble", "0.6000", "0.2789", "0.1111"]
    assert "Most people did not choose the data set's label for 1.23 % of the images" in plain(page)


def test_unseen(metrics: dict[str, Any]) -> None:
    table = rows(page_of(metrics), "unseen")
    assert table[0] == ["", "maximum probability", "entropy", "mutual information"]
    assert table[1] == ["Network", *["AUROC", "FPR95"] * 3]
    assert table[2] == ["Ensemble", "0.9000", "10.00 %", "0.9100", "9.00 %", "0.9200", "8.00 %"]
    assert table[3] == ["Member 1", "0.8000", "20.00 %", "0.8100", "19.00 %", "–", "–"]


def test_corruptions_by_severity(metrics: dict[str, Any]) -> None:
    metrics["uniform"] = {**metrics["ensemble"], "error": 0.2}
    page = page_of(metrics)
    table = rows(page, "corruptions")
    assert table[0] == ["Error", "clean", *(f"severity {n}" for n in range(1, 6)), "mean, corrupted"]
    assert table[1] == ["Ensemble", "8.00 %", "10.00 %", "20.00 %", "30.00 %", "40.00 %", "50.00 %", "30.00 %"]
    # Members have 2 and 4 points more; on clean images 11 % and 9 %.
    assert table[2] == ["Best member", "9.00 %", "12.00 %", "22.00 %", "32.00 %", "42.00 %", "52.00 %", "32.00 %"]
    assert table[3][:3] == ["Mean member", "10.00 %", "13.00 %"]
    assert table[4][:3] == ["Uniform-random ensemble", "20.00 %", "10.00 %"]
    assert [
        "fog",
        "10.00 %",
        "20.00 %",
        "30.00 %",
        "40.00 %",
        "50.00 %",
        "30.00 %",
        "32.00 %",
        "33.00 %",
        "0.0200",
    ] in table
    assert "under 2 corruptions" in plain(page)
    assert "Left out, since these images are grey: saturation." in plain(page)
    [chart] = drawings(page.split('<section id="corruptions">')[1].split("</section>")[0], "chart")
    assert str(chart[0].text).startswith("Mean error by severity: ensemble 10.00 %, 20.00 %")
    first, second, third, fourth = (line.attrib["points"].split() for line in chart.iter("polyline"))
    assert first == fourth
    for own, best, mean in zip(first, second, third, strict=True):
        heights = [float(point.split(",")[1]) for point in (own, best, mean)]
        assert heights[0] > heights[1] > heights[2]  # downwards on the page is lower


def test_other_severities_have_a_table_and_no_chart(metrics: dict[str, Any]) -> None:
    metrics["ensemble"]["corruptions"]["severities"] = [1, 2, 3, 4, 6]
    page = page_of(metrics)
    assert not drawings(page.split('<section id="corruptions">')[1].split("</section>")[0], "chart")
    assert "severity 6" in plain(page)


def test_parts_that_were_not_asked_for_are_named_once(metrics: dict[str, Any]) -> None:
    whole = page_of(metrics)
    assert "Not asked for" not in whole
    for part in ("temperature", "human", "unseen", "corruptions"):
        del metrics["ensemble"][part]
    page = page_of(metrics)
    assert "unseen data ( nesbs evaluate RUN --unseen NAME )" in plain(page)
    for section in ("calibration", "human", "unseen", "corruptions"):
        assert f'<section id="{section}">' in whole
        assert f'<section id="{section}">' not in page


@pytest.mark.parametrize(
    "broken", [None, 3, [], {}, {"ensemble": None}, {"ensemble": {"by_corruption": {"fog": None}}}]
)
def test_parts_of_parts_may_be_missing(metrics: dict[str, Any], broken: Any) -> None:
    for part in ("temperature", "human", "unseen", "corruptions"):
        metrics["ensemble"][part] = broken
    metrics["ensemble"]["gain_over_best"] = {"error": None}
    assert "8.00 %" in page_of(metrics)


def test_hostile_names_in_parts_are_escaped(metrics: dict[str, Any]) -> None:
    entry = metrics["ensemble"]
    entry["human"]["file"] = entry["unseen"]["data"] = HOSTILE
    entry["corruptions"].update({"ensemble": corrupted(0.0, (HOSTILE,)), "skipped": [HOSTILE], "severities": [HOSTILE]})
    page = page_of(metrics)
    assert "<script" not in without_script(page)
    for text in page.split("<svg")[1:]:
        ET.fromstring("<svg" + text.split("</svg>")[0] + "</svg>")


def test_the_terminal_says_the_same(metrics: dict[str, Any]) -> None:
    text = scores_as_text(metrics).splitlines()
    assert text[1].split() == ["error", "%", "NLL", "Brier", "ECE", "top-5", "%", "ATE", "%", "PPD", "%"]
    assert text[2].split()[2:] == ["8.00", "0.4000", "0.2000", "0.0500", "0.80", "10.00", "7.00"]
    assert text[5:] == [
        "gain (positive is better) over the best member by each measure: error +1.00 points, NLL −0.0021; "
        "over the mean member: error +2.00 points, NLL +0.0100",
        "temperature 0.91 and 0.95, fitted on the other half of the test images: NLL 0.5000 → 0.4500, "
        "Brier 0.2500 → 0.2400, ECE 0.0400 → 0.0200",
        "people (people.npz): KL divergence 0.2789, total variation 0.1111 (lower is nearer)",
        "unseen data cifar10, AUROC (higher is better) and FPR95 (lower): maximum probability 0.9000 and 10.00 %; "
        "entropy 0.9100 and 9.00 %; mutual information 0.9200 and 8.00 %",
        "2 corruptions, mean error: ensemble 30.00 %, best member 32.00 %, mean member 33.00 %; "
        "the ensemble's ECE 0.0200",
    ]


def test_of_five_classes_or_fewer_there_is_no_top_5_error(metrics: dict[str, Any], per_class: dict[str, Any]) -> None:
    metrics["ensemble"]["per_class"] = per_class
    assert scores_as_text(metrics).splitlines()[1].split() == [
        "error",
        "%",
        "NLL",
        "Brier",
        "ECE",
        "ATE",
        "%",
        "PPD",
        "%",
    ]
    table = rows(page_of(metrics), "measures")
    assert table[0] == ["Network", "Error", "NLL", "Brier", "ECE", "ATE", "PPD", "Parameters"]
    assert len(table[1]) == len(table[0])


def test_a_temperature_that_is_not_used_is_said_to_be_so(metrics: dict[str, Any]) -> None:
    said = "no T fits (too few errors, or answers no better than guesses)"
    assert said not in scores_as_text(metrics)
    assert said not in page_of(metrics)
    metrics["ensemble"]["temperature"]["ensemble"]["temperatures"] = [0.01, 0.9]
    assert said in scores_as_text(metrics)
    assert said in page_of(metrics)


@pytest.mark.parametrize("seed", range(5))
def test_records_of_before_the_parts_are_still_read(seed: int) -> None:
    metrics = json.loads((ROOT / "results" / "demo" / str(seed) / "metrics.json").read_text())
    lines = scores_as_text(metrics).splitlines()
    assert lines[2].split()[2] == f"{100 * metrics['ensemble']['error']:.2f}"
    assert rows(page_of(metrics), "measures")[1][0] == "Ensemble"
