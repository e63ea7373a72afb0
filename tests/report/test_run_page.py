"""The page of a run, from records made by hand: known numbers, marks, edges, words about what is missing."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from pages import HOSTILE, drawings, plain, rows, without_script
from run_files import FIRST, SECOND, RunFiles, hand_made, render, save, scores_as_text

import nesbs.report
from nesbs.errors import NesbsError
from nesbs.records import RunRecords
from nesbs.report import write_report
from nesbs.report.charts import lines, thinned, ticks


@pytest.fixture
def records() -> RunFiles:
    return hand_made()


def test_headline_compares_with_best_member_and_uniform(records: RunFiles) -> None:
    # The best member by error is the second, by NLL the first: each measure on its own.
    page = re.sub(r"\s+([,.;])", r"\1", plain(render(records)))
    assert (
        "The ensemble of 2 has a test error of 8.12 % and an NLL of 0.234; its best single member has 9.00 % and "
        "0.301, the uniform-random ensemble 9.56 % and 0.279." in page
    )
    assert "gain over its best single member (member 2) is +0.88 points of error, 95 % interval +0.12 to +1.64" in page
    assert "+0.067 of NLL, −0.004 to +0.137. The interval of the error excludes zero" in page


@pytest.mark.parametrize(("low", "high", "words"), [(-0.001, 0.02, "holds zero"), (-0.02, -0.01, "is worse")])
def test_headline_says_what_the_interval_means(records: RunFiles, low: float, high: float, words: str) -> None:
    entry = records.metrics["ensemble"]["intervals"]["best"]["error"]  # type: ignore[index]
    entry.update({"low": low, "high": high})
    assert words in plain(render(records)).split("Measured on")[0]


def test_the_terminal_says_the_interval_too(records: RunFiles) -> None:
    assert (
        "over member 2, the best, on the same images: error +0.88 points, 95 % interval +0.12 to +1.64"
        in scores_as_text(records.metrics or {})
    )


def test_headline_without_intervals_knows_the_number_of_images(records: RunFiles) -> None:
    del records.metrics["ensemble"]["intervals"]  # type: ignore[index]
    page = plain(render(records))
    # sqrt(0.0812 × 0.9188 / 2500) = 0.546 %
    assert "± 0.55 points" in page
    assert "intervals over the test images (metrics.json): nesbs evaluate RUN makes it" in page


def test_table_of_measures(records: RunFiles) -> None:
    page = render(records)
    table = rows(page, "measures")
    assert table[0] == ["Network", "Error", "NLL", "Brier", "ECE", "Top-5 error", "ATE", "PPD", "Parameters"]
    # This record is of before the top-5 error was measured.
    assert table[1] == ["Ensemble", "8.12 %", "0.234", "0.125", "0.0321", "–", "10.00 %", "7.77 %", "3,500"]
    assert table[2][:3] == ["Best member by each measure", "9.00 %", "0.301"]
    assert table[4] == ["Member 2", "9.00 %", "0.402", "0.200", "0.0500", "–", "–", "–", "2,500"]
    assert table[5][:2] == ["Uniform-random ensemble", "9.56 %"]
    assert '<td class="low">8.12 %</td>' in page
    assert '<td class="low">9.56 %</td>' not in page


def test_error_bars_are_as_long_as_the_errors(records: RunFiles) -> None:
    chart = drawings(render(records), "chart")[0]
    widths = [float(bar.attrib["width"]) for bar in chart.iter("rect")]
    errors = [0.0812, 0.11, 0.09, 0.0956]
    assert widths == pytest.approx([widths[1] * error / 0.11 for error in errors], abs=0.1)
    # The first member's interval reaches from 9.8 to 12.2 %.
    whisker = [path.attrib["d"] for path in chart.iter("path") if path.get("class") == "whisker"][1]
    low, high = (float(re.search(mark + r"([\d.]+)", whisker)[1]) for mark in "MH")  # type: ignore[index]
    assert (low - 118, high - 118) == pytest.approx((widths[1] * 0.098 / 0.11, widths[1] * 0.122 / 0.11), abs=0.2)


def test_operations_are_on_their_edges(records: RunFiles) -> None:
    first, second = drawings(render(records), "cell")
    edges = {g.get("data-edge"): (g.get("data-operation"), g.get("class")) for g in first.iter("g")}
    assert edges == {
        "0→1": ("nor_conv_3x3", "dead"),
        "0→2": ("nor_conv_1x1", "live"),
        "1→2": ("none", "none"),
        "0→3": ("skip_connect", "live"),
        "1→3": ("none", "none"),
        "2→3": ("avg_pool_3x3", "live"),
    }
    labels = [text.text for text in first.iter("text") if "operation" in text.get("class", "")]
    assert labels == ["nor_conv_3x3", "nor_conv_1x1", "skip_connect", "avg_pool_3x3"]
    assert {g.get("class") for g in second.iter("g")} == {"live"}
    # An arrow into node 2 ends within reach of that node, which lies on the column x = 0.
    arrow = next(g for g in first.iter("g") if g.get("data-edge") == "0→2").findall("path")[1].attrib["d"]
    x, y = map(float, re.findall(r"-?[\d.]+", arrow)[:2])
    assert math.hypot(x, y - 2 * 84) == pytest.approx(15, abs=0.1)


def test_lines_differ_without_colour(records: RunFiles) -> None:
    samples = drawings(render(records), "sample")
    styles = [(path.get("stroke-width"), path.get("stroke-dasharray")) for s in samples for path in s.iter("path")]
    assert len(styles) == 6  # five operations and the dead edge
    assert len(set(styles)) == 6


def test_every_drawing_has_a_role_and_a_title(records: RunFiles) -> None:
    page = render(records)
    found = [ET.fromstring(text) for text in re.findall(r"<svg.*?</svg>", page, flags=re.DOTALL)]
    # cells, samples, errors, losses by δ, curves; accuracies, map, reliability, time, memory
    assert len(found) == 2 + 6 + 1 + 1 + 4 + 5
    for drawing in found:
        assert drawing.get("role") == "img"
        assert drawing[0].tag == "title"
        assert drawing[0].text


def test_posterior_as_numbers_and_shades(records: RunFiles) -> None:
    page = render(records)
    text = plain(page)
    assert "The entropy is 5.25 nats ; the uniform prior over 15,625 architectures has 9.66 nats" in text
    assert "the KL divergence between them is 4.41 nats" in text
    assert "τ = 0.8" in text
    assert rows(page, "posterior")[1] == ["0→1", "0.100", "0.050", "0.200", "0.617", "0.033", "1.11"]
    assert page.count('<td class="heat most" style="--p:0.617">0.617</td>') == 6
    assert "in use" not in text


def test_chosen_round_is_marked_and_duplicates_reported(records: RunFiles) -> None:
    page = render(records)
    table = rows(page, "rounds")
    assert table[1:4] == [
        ["1", "0.5", "0.7500", "1", "A2, A2"],
        ["2 ★ chosen", "0.5", "0.5125", "0", "A2, A1"],
        ["2", "−1", "0.8000", "1", "A1, A1"],
    ]
    assert page.count('<tr class="chosen">') == 1
    assert "Duplicates: 0 in the chosen ensemble; 2 of the ensembles below hold any." in plain(page)
    assert ["A1", "0.9100", SECOND] in table


def test_forward_selection_is_a_row_of_its_own(records: RunFiles) -> None:
    selection = {**(records.selection or {}), "round": None, "delta": None, "loss": 0.49}
    page = render(replace(records, selection=selection))
    assert rows(page, "rounds")[4] == ["forward selection ★ chosen", "–", "0.4900", "0", "A2, A1"]
    assert page.count('<tr class="chosen">') == 1


def test_another_judge_is_named(records: RunFiles) -> None:
    assert "search.judge" not in plain(render(records)).partition("The ensembles that were judged")[2]
    networks = [{"architecture": FIRST, "loss": 0.4}] * 3
    for more, words in (
        ({"judge": "posterior", "score": -1.25}, "by rank shares ( search.judge=posterior ): its score is -1.2500"),
        ({"judge": "trained", "trained": networks}, "3 candidates were trained for a few epochs"),
    ):
        assert words in plain(render(replace(records, selection={**(records.selection or {}), **more})))


def test_many_rounds_fold_away(records: RunFiles) -> None:
    proposals = [
        {"architectures": [FIRST, SECOND], "loss": 0.5 + r / 100, "round": r, "delta": 0.5} for r in range(1, 66)
    ]
    page = render(replace(records, selection={**(records.selection or {}), "proposals": proposals}))
    assert "<summary>All 65 ensembles</summary>" in page
    assert ["2 ★ chosen", "0.5", "0.5200", "0", "A2, A1"] in rows(page, "rounds")


def test_copies_among_the_members_are_named(records: RunFiles) -> None:
    selection = {**(records.selection or {}), "architectures": [FIRST, FIRST]}
    assert "Member 2 (a copy of member 1)" in plain(render(replace(records, selection=selection)))


def test_times_memory_disagreement_and_facts(records: RunFiles) -> None:
    page = render(records)
    assert ["supernet", "3 min 20 s", "700 MiB", "4,321"] in rows(page, "stages")
    assert ["members", "30.0 s", "3.00 GiB", "–"] in rows(page, "stages")
    assert ["Total", "4 min 36 s", "", ""] in rows(page, "stages")
    assert rows(page, "disagreement")[1:] == [["1", "0.00 %", "7.77 %"], ["2", "7.77 %", "0.00 %"]]
    assert ["seed", "7"] in rows(page, "versions")
    assert ["classes (2)", "cat, dog"] in rows(page, "versions")
    assert ["cell 0→1", "98", "1,002"] in rows(page, "curves")
    assert "over 11 bins" in plain(page)
    assert "name: nasbench201" in page


def test_learning_curves_fall_as_the_losses_do(records: RunFiles) -> None:
    charts = drawings(render(records).split('<section id="curves">')[1], "chart")
    assert [chart[0].text for chart in charts[:1]] == [
        "Supernet, mean training loss in nats by epoch: supernet from 2 to 1"
    ]
    for chart in charts:
        for line in chart.iter("polyline"):
            (x0, y0), (x1, y1) = ([float(v) for v in point.split(",")] for point in line.attrib["points"].split())
            assert x1 > x0
            assert y1 > y0  # downwards on the page
    members = charts[2]
    assert len({line.get("stroke-dasharray") for line in members.iter("polyline")}) == 2
    names = [text.text for text in members.iter("text")]
    assert {"epoch", "mean training loss in nats", "member 1", "member 2"} <= set(names)


def test_every_fit_of_the_posterior_has_a_line_of_its_own(records: RunFiles) -> None:
    fitted = {"entropies": [9.0, 8.0, 9.0, 7.0], "starts": 2}
    page = render(replace(records, record={**records.record, "stages": {"posterior": fitted}}))
    [chart] = drawings(page.split('<section id="curves">')[1], "chart")
    assert chart[0].text == "Posterior, entropy in nats by step: fit 1 from 9 to 8; fit 2 from 9 to 7"


def test_what_is_missing_is_named_with_its_command(records: RunFiles) -> None:
    stages = {"supernet": {"seconds": 3.0}}
    page = render(RunFiles(recipe=records.recipe, record={"stages": stages}))
    text = plain(page)
    assert "This run has no test results yet: nesbs evaluate RUN makes them." in text
    assert "the posterior (posterior.json): nesbs search RECIPE --out RUN makes it" in text
    assert "the choice of architectures (selection.json): nesbs search RECIPE --out RUN makes it" in text
    assert "the members' training: nesbs train RUN makes it" in text
    assert "the measures on the test images (metrics.json): nesbs evaluate RUN makes it" in text
    assert "the resolved recipe (recipe.yaml)" not in text
    assert ["members", "not run yet: nesbs train RUN"] in rows(page, "stages")


@pytest.mark.parametrize("name", ["recipe", "record", "posterior", "selection", "metrics"])
def test_any_record_may_be_missing(records: RunFiles, name: str) -> None:
    whole = render(records)
    page = render(replace(records, **{name: None}))
    assert "Missing from this run" not in whole
    assert "Missing from this run" in page
    assert "not there yet" in page


def test_nothing_at_all_still_renders() -> None:
    assert "This run has no test results yet" in render(RunFiles())


def test_parts_of_records_may_be_missing_or_null(records: RunFiles) -> None:
    page = render(
        RunFiles(
            recipe={"space": None},
            record={"stages": {"supernet": None, "members": {"losses": [[], [None, 0.5]]}}, "data": {"name": "pets"}},
            posterior={"variables": [{"name": "0→1", "choices": ["a", "b"], "probabilities": [0.25]}]},
            selection={"architectures": ["no cell"], "proposals": [{"round": 1}]},
            metrics={"ensemble": {"error": 0.5, "members": [{"error": None}]}, "uniform": None},
        )
    )
    assert "The one network has a test error of 50.00 %" in plain(page)
    assert ["0→1", "0.250", "–", "–"] in rows(page, "posterior")
    assert "cannot be drawn" in page


@pytest.mark.parametrize("name", ["recipe", "record", "posterior", "selection", "metrics", "predictions"])
def test_any_part_of_a_record_may_be_null(records: RunFiles, name: str) -> None:
    whole = getattr(records, name)
    for key in whole:
        page = render(replace(records, **{name: {**whole, key: None}}))
        assert page.endswith("</html>\n")
    for key in whole.get("ensemble", {}) if name == "metrics" else ():
        broken = {**whole, "ensemble": {**whole["ensemble"], key: None}}
        assert "Ensemble" in render(replace(records, metrics=broken))


def test_no_uniform_ensemble_asked_for(records: RunFiles) -> None:
    page = render(
        replace(
            records,
            recipe={**(records.recipe or {}), "evaluation": {"uniform": False}},
            metrics={**(records.metrics or {}), "uniform": None},
        )
    )
    assert "A new run with --set evaluation.uniform=true has one" in plain(page)
    assert "Uniform-random ensemble" not in page
    assert "Missing from this run" not in page


def test_hostile_names_are_escaped(records: RunFiles) -> None:
    record = dict(records.record or {})
    record["data"] = {**record["data"], "name": HOSTILE, "classes": [HOSTILE, "dog"]}
    record["stages"] = {**record["stages"], HOSTILE: {"seconds": 1.0}}
    variable = {"name": HOSTILE, "choices": [HOSTILE], "probabilities": [1.0], "activity": 1.0}
    page = render(
        RunFiles(
            recipe={**(records.recipe or {}), "data": {"name": HOSTILE, "root": HOSTILE}},
            record=record,
            posterior={**(records.posterior or {}), "variables": [variable]},
            selection={**(records.selection or {}), "architectures": [HOSTILE], "sampler": HOSTILE},
            metrics={**(records.metrics or {}), "data": HOSTILE},
        )
    )
    assert "<script" not in without_script(page)
    assert "&lt;script&gt;" in page
    assert "cannot be drawn" in page


def test_text_inside_a_drawing_is_escaped() -> None:
    drawing = lines(HOSTILE, "x", HOSTILE, [(HOSTILE, [1.0, 2.0]), ("b", [2.0])])
    assert "<script" not in drawing
    assert ET.fromstring(drawing)[0].text == HOSTILE


def test_page_stands_alone(records: RunFiles) -> None:
    page = render(records)
    assert "http://" not in page
    assert "https://" not in page
    assert not re.search(r"<(script|link|iframe)\b|url\(|@import", without_script(page))
    assert set(re.findall(r'src="([^,]*),', page)) == {"data:image/png;base64"}
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_same_records_same_bytes(records: RunFiles, tmp_path: Path) -> None:
    written = write_report(save(tmp_path / "a", records))
    assert written == tmp_path / "a" / "report.html"
    again = write_report(save(tmp_path / "another place", records))
    assert written.read_bytes() == again.read_bytes()
    assert written.read_text(encoding="utf-8") == nesbs.report.render(RunRecords.read(tmp_path / "a"))


def test_broken_records_are_complained_about(records: RunFiles, tmp_path: Path) -> None:
    folder = save(tmp_path / "run", records)
    (folder / "metrics.json").write_text('{"ensemble": ', encoding="utf-8")
    with pytest.raises(NesbsError, match=r"metrics\.json is not valid JSON \(line 1\)"):
        write_report(folder)
    (folder / "metrics.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(NesbsError, match="must hold a mapping, found list"):
        write_report(folder)
    assert not (folder / "report.html").exists()


def test_a_folder_without_records_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(NesbsError, match="is not a run: `nesbs run RECIPE --out"):
        write_report(tmp_path)
    with pytest.raises(NesbsError, match="is not a run"):
        write_report(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_pair_space() -> None:
    cell = [("skip_connect", 0), ("sep_conv_3x3", 1), ("sep_conv_3x3", 0), ("skip_connect", 2)]
    text = f"normal={cell} reduce={cell[::-1][2:] + cell[2:]}"
    operations = ["skip_connect", "sep_conv_3x3"]
    variables = [
        {"name": "normal 0→2", "choices": operations, "probabilities": [0.3, 0.7], "activity": 1.0},
        {"name": "normal inputs of 3", "choices": ["0+1", "0+2"], "probabilities": [0.4, 0.6], "activity": 1.0},
        {"name": "normal 1→3", "choices": operations, "probabilities": [0.5, 0.5], "activity": 0.4},
        {"name": "reduce 1→3", "choices": operations, "probabilities": [0.9, 0.1], "activity": 0.25},
    ]
    page = render(
        RunFiles(
            recipe={"space": {"name": "toy-pairs"}},
            posterior={"space": "toy-pairs", "entropy": 3.0, "log_size": 7.74, "variables": variables},
            selection={"architectures": [text], "loss": 0.5, "round": None, "delta": None, "sampler": "uniform"},
        )
    )
    assert rows(page, "posterior") == [
        ["Decision", "in use", "skip_connect", "sep_conv_3x3", "entropy , nats"],
        ["0→2", "1.000", "0.300", "0.700", "0.61"],
        ["1→3", "0.400", "0.500", "0.500", "0.69"],
        ["Decision", "0+1", "0+2", "entropy , nats"],
        ["inputs of 3", "0.400", "0.600", "0.67"],
        ["Decision", "in use", "skip_connect", "sep_conv_3x3", "entropy , nats"],
        ["1→3", "0.250", "0.900", "0.100", "0.33"],
    ]
    posterior = page.split('<section id="posterior">')[1].split("</section>")[0]
    assert re.findall(r"<h3>(.*?)</h3>", posterior) == ["The normal cell", "The reduce cell"]
    normal, reduce = drawings(page, "cell")
    assert [(g.get("data-edge"), g.get("data-operation")) for g in normal.iter("g")] == [
        ("0→2", "skip_connect"),
        ("1→2", "sep_conv_3x3"),
        ("0→3", "sep_conv_3x3"),
        ("2→3", "skip_connect"),
    ]
    assert [g.get("data-operation") for g in reduce.iter("g")][:2] == ["skip_connect", "sep_conv_3x3"]
    assert "out" in [text.text for text in normal.iter("text")]
    assert "Member 1, reduce cell" in plain(page)


def test_ticks_and_thinning() -> None:
    assert ticks(1, 12) == [5.0, 10.0]
    assert ticks(2, 2) == [2]
    kept = thinned([float(i) for i in range(10_001)])
    assert len(kept) <= 242
    assert kept[0] == (1, 0.0)
    assert kept[-1] == (10_001, 10_000.0)


def test_the_papers_method_and_what_nesbs_adds(records: RunFiles) -> None:
    recipe = {"posterior": {"estimator": "straight-through"}, "sampler": {"name": "monte-carlo"}}
    page = plain(render(replace(records, recipe=recipe)))
    assert "The paper's method. A supernet shares its weights among all architectures" in page
    assert "Monte Carlo sampling draws ensembles from it (Algorithm 2)" in page
    assert "Added by nesbs: nothing." in page
    added = {
        "posterior": {"reference": 64, "untrained": 0.5, "starts": 3},
        "search": {"method": "forward"},
    }
    page = render(replace(records, recipe=added))
    section = page.split('<section id="method">')[1].split("</section>")[0]
    assert re.findall(r"<li>(.*?)</li>", section) == [
        "leave-one-out gradients for the posterior",
        "rank shares of 64 reference architectures as evidence",
        "untrained networks in the evidence",
        "the best of 3 fits of the posterior",
        "forward selection over all candidates",
    ]
    assert '<section id="method">' not in render(replace(records, recipe=None))
    fixed = plain(render(replace(records, recipe={"ensemble": {"architectures": [FIRST], "size": 1}})))
    assert "The recipe fixes the architectures: nothing was searched. Added by nesbs: nothing." in fixed


def test_the_code_that_wrote_a_record_is_named(records: RunFiles) -> None:
    commit = {"nesbs": "0.2.0", "commit": "0123456789abcdef0123456789abcdef01234567"}
    record, metrics = ({**(one or {}), **commit, "clean": True} for one in (records.record, records.metrics))
    table = rows(render(replace(records, record=record, metrics=metrics)), "versions")
    assert ["nesbs", "0.2.0, commit 0123456789ab (clean)"] in table
    assert not [row for row in table if "metrics.json" in row[0]]
    table = rows(render(replace(records, record=record, metrics={**metrics, "clean": False})), "versions")
    assert ["nesbs of metrics.json", "0.2.0, commit 0123456789ab with changes that were not committed"] in table
    assert ["nesbs", "0.1.0"] in rows(render(records), "versions")  # a record of before commits were kept
