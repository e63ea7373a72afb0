"""Several runs side by side and comparisons: known numbers, what is missing, what the command writes and refuses."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
from pages import HOSTILE, drawings, plain, rows, without_script
from run_files import RunFiles, comparison, hand_made, render_comparison_page, render_side_by_side, save
from toys import call

from nesbs import files, report
from nesbs.errors import NesbsError
from nesbs.records import ComparisonRecords, is_comparison
from nesbs.report import write_reports


def seeded(seed: int, error: float, best: float) -> RunFiles:
    """The hand-made run under another seed, with other errors."""
    made = copy.deepcopy(hand_made())
    assert made.metrics
    assert made.recipe
    made.metrics["ensemble"].update({"error": error, "nll": 2 * error})
    made.metrics["ensemble"]["members"] = [{"error": best, "nll": 1.0}, {"error": best + 0.01, "nll": 1.1}]
    return replace(made, recipe={**made.recipe, "seed": seed})


def test_runs_stand_in_one_table() -> None:
    page = render_side_by_side(
        [("runs/a", hand_made()), ("runs/b", seeded(8, 0.07, 0.08))], {"runs/a": "a/report.html"}
    )
    table = rows(page, "measures")
    assert table[1][:9] == ["runs/a", "pets", "svgd-rd", "7", "2", "8.12 %", "9.00 %", "+0.88 [+0.12, +1.64]", "9.56 %"]
    assert table[2][:7] == ["runs/b", "pets", "svgd-rd", "8", "2", "7.00 %", "8.00 %"]
    assert '<a href="a/report.html">runs/a</a>' in page
    assert rows(page, "settings") == [["Setting", "runs/a", "runs/b"], ["seed", "7", "8"]]
    errors, _ = drawings(page, "chart")
    assert errors[0].text == "Test error in % of the ensembles: runs/a 8.12, runs/b 7.00"
    assert len(drawings(page, "cell")) == 4


def test_seeds_give_an_interval() -> None:
    runs = [(f"s{seed}", seeded(seed, 0.1 + gap, 0.12 + 2 * gap)) for seed, gap in enumerate((0.0, 0.01, 0.02))]
    said = plain(render_side_by_side(runs)).split("Runs that differ in their seed alone")[1]
    # Gains of 2, 3 and 4 points: mean 3, standard error 1/√3, t = 4.303.
    assert "(seeds 0, 1, 2): mean test error 11.00 % ± 0.58 points" in said
    assert "The gain over the best member is +3.00 points , paired 95 % t interval over seeds +0.52 to +5.48" in said
    two = plain(render_side_by_side(runs[:2]))
    assert "an interval needs three seeds or more" in two
    other = replace(runs[1][1], recipe={**(runs[1][1].recipe or {}), "ensemble": {"size": 9}})
    assert "None of these runs are repetitions" in plain(render_side_by_side([runs[0], ("other", other)]))


def test_an_unfinished_run_stands_with_dashes() -> None:
    page = render_side_by_side([("a", hand_made()), ("b", RunFiles(recipe={"seed": 1}))])
    assert rows(page, "measures")[2] == ["b", "–", "–", "1", *["–"] * 12]
    assert "Without test results, and so with dashes: b." in plain(page)
    assert "The choice of architectures is not there yet" in page
    assert "None of these runs has test results yet" in plain(
        render_side_by_side([("b", RunFiles()), ("c", RunFiles())])
    )


def test_hostile_runs_and_methods_are_escaped() -> None:
    page = render_side_by_side([(HOSTILE, hand_made()), ("b", hand_made())], {HOSTILE: HOSTILE})
    assert "<script" not in without_script(page)
    record = comparison()
    record["methods"][HOSTILE] = record["methods"]["urs"]
    record["data"] = HOSTILE
    assert "<script" not in without_script(render_comparison_page(comparison=record))


def test_a_comparison_has_a_page() -> None:
    page = render_comparison_page(recipe={"seed": 3}, comparison=comparison())
    text = plain(page)
    assert "3 methods over 3 seeds. The error of nesbs is lower than that of urs ." in text
    assert "These seeds do not tell nesbs from deep ." in text
    assert rows(page, "methods")[2][:2] == ["urs", "20.00 ± 0.20"]
    errors, _ = drawings(page, "chart")
    assert len([ring for ring in errors.iter("circle") if ring.get("class") == "ring"]) == 9
    assert ["seed", "0", "3"] in rows(page, "recipe")
    assert page == render_comparison_page(recipe={"seed": 3}, comparison=comparison())


def test_a_comparison_over_images_has_a_second_table() -> None:
    record = comparison()
    interval = {"mean": 0.2, "low": 0.19, "high": 0.21}
    record["methods"]["urs"]["images"] = {"error": interval, "nll": interval, "difference": {"error": interval}}
    page = render_comparison_page(comparison=record)
    assert ["urs", "20.00 [19.00, 21.00]", "+20.00 [+19.00, +21.00]", "0.2000 [0.1900, 0.2100]", "–"] in rows(
        page, "methods"
    )
    assert "intervals over the test images: what other images" in plain(page)
    assert "Over the test images" not in render_comparison_page(comparison=comparison())


def test_curves_have_a_page() -> None:
    points = [
        {
            "method": "nesbs",
            "size": 3,
            "budget": budget,
            "temperature": None,
            "delta": None,
            "mean": {"error": {"mean": 0.1, "standard_error": 0.01}},
        }
        for budget in (5, 10)
    ]
    page = render_comparison_page(curves={"data": "pets", "seeds": [0, 1], "reference": "nesbs", "points": points})
    assert rows(page, "curves") == [["n = 3, budget", "5", "10"], ["nesbs", "10.00 ± 1.00", "10.00 ± 1.00"]]
    assert 'src="data:image/svg+xml;base64,' in page


def test_an_interrupted_comparison_says_so(tmp_path: Path) -> None:
    save(tmp_path / "c", RunFiles(recipe={"seed": 0}))
    for seed in (10, 2):
        save(tmp_path / "c" / f"seed-{seed}", hand_made())
    assert is_comparison(tmp_path / "c")
    assert not is_comparison(tmp_path / "c" / "seed-2")
    text = plain(report.render_comparison_page(ComparisonRecords.read(tmp_path / "c")))
    assert "This comparison is not finished" in text
    assert "Seeds begun: seed-2, seed-10." in text


def test_the_command_writes_every_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = (save(tmp_path / name, hand_made()) for name in ("a", "b c"))
    out = tmp_path / "both.html"
    assert call("report", a, b, "--out", out) == 0
    assert capsys.readouterr().out.splitlines() == [str(a / "report.html"), str(b / "report.html"), str(out)]
    assert '<a href="b%20c/report.html">' in out.read_text(encoding="utf-8")
    first = out.read_bytes()
    assert call("report", a, b, "--out", out, "--quiet") == 0
    assert out.read_bytes() == first
    files.write_json(tmp_path / "c" / "comparison.json", comparison())
    assert call("report", tmp_path / "c") == 0
    assert "nesbs comparison: pets, nasbench201" in (tmp_path / "c" / "report.html").read_text(encoding="utf-8")


def test_what_cannot_be_shown_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    run, other = (save(tmp_path / name, hand_made()) for name in ("run", "other"))
    files.write_json(tmp_path / "c" / "comparison.json", comparison())
    for runs, out, words in (
        ([run, tmp_path / "nowhere"], None, "nowhere is not a run"),
        ([run, tmp_path / "c"], None, "is a comparison, which has a page of its own"),
        ([run], tmp_path / "x.html", "--out names the page of several runs"),
        ([run, other], tmp_path, "is a folder: name a file"),
        ([run, other], tmp_path / "x.txt", "writes a page, such as .*x.html, found .*x.txt"),
        ([run, other], other / "report.html", "is the page of one of these runs: name another file"),
        ([run, other, other / ".." / "run"], None, "a run is named twice"),
    ):
        with pytest.raises(NesbsError, match=words):
            write_reports(runs, out)
    assert not list(tmp_path.rglob("*.html"))
