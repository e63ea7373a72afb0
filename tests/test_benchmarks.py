"""The benchmarks run, at toy size."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from toys import TINY

from benchmarks import apart, batchnorm, darts_ranking, estimators, judges, levers, occupancy, responses, whole
from benchmarks.__main__ import main
from nesbs import files
from nesbs.posterior import Posterior
from nesbs.runs.recipe import load_recipe
from nesbs.runs.resumable_run import Run
from nesbs.spaces import nasbench201
from nesbs.supernet import Estimator

KEPT_OCCUPANCY = Path(__file__).parents[1] / "results" / "benchmarks" / "occupancy.json"


def test_benchmarks_run_and_write_ratios(tmp_path, capsys):
    main(["--toy", "--json", str(tmp_path / "bench.json")])
    assert "ratio" in capsys.readouterr().out
    written = files.read_json(tmp_path / "bench.json")
    assert written["machine"]["threads"] >= 1
    names = [row["name"] for row in written["results"]]
    assert [name.split(",")[0] for name in names] == [
        *("member", "supernet", "estimate", "SVGD-RD", "SVGD-RD"),
        "score 50 ensembles of 5 (5 candidates",
    ]
    assert all(row["ratio"] > 0 and row["repeats"] >= 1 for row in written["results"])


def test_kernels_are_compiled_for_a_gpu_that_is_not_there(tmp_path):
    pytest.importorskip("triton")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "benchmarks.occupancy", "--toy", "--json", str(tmp_path / "found.json")]
    subprocess.run(command, check=True, env=environment, cwd=Path(__file__).parents[1], capture_output=True)
    found, kept = (files.read_json(path)["rows"] for path in (tmp_path / "found.json", KEPT_OCCUPANCY))
    assert [row["kernel"] for row in found] == [row["kernel"] for row in kept if row["channels"] == 16]
    for row in found:
        assert 0 < row["registers"] <= 255
        assert row["at_once"] == occupancy.warps_at_once(row["registers"], row["shared"], row["warps"])[0]


@pytest.mark.slow
def test_levers_are_judged_by_a_table(tmp_path, capsys):
    rows = (Path(__file__).parent / "nasbench201_sample.csv").read_text().splitlines()
    (tmp_path / "table.csv").write_text("\n".join(rows[:10]))
    table, out = str(tmp_path / "table.csv"), str(tmp_path / "levers.json")
    which = ["--data", "fashion-mini", "--table", table, "--column", "valid_acc_cifar10"]
    levers.main(["--toy", *which, "--only", "base", "one path", "--seeds", "1", "--json", out])
    assert "one path (1)" in capsys.readouterr().out
    written = files.read_json(tmp_path / "levers.json")
    assert [(row["name"], row["seed"]) for row in written["rows"]] == [("base", 1), ("one path", 1)]
    assert written["rows"][1]["settings"]["paths"] == "one"
    assert all(row["posteriors"]["leave-one-out"]["architectures"] == 9 for row in written["rows"])
    levers.main(["--toy", *which, "--only", "mixed", "--evidences", "likelihood", "standing", "--json", out])
    [row] = files.read_json(tmp_path / "levers.json")["rows"]
    assert set(row["posteriors"]) == {"leave-one-out", "leave-one-out, standing"}
    assert {"loss", "untrained", "standing"} <= set(row["rankings"])
    others = [
        "--only",
        "convolutions first",
        "averaged",
        "affine",
        "20 epochs, distilled",
        "--evidences",
        "--batches",
        "30",
    ]
    levers.main(["--toy", *which, *others, "--json", out])
    for row in files.read_json(tmp_path / "levers.json")["rows"]:
        assert row["posteriors"] == {}
        assert row["estimates"]["loss"] != row["estimates"]["loss, batches of 30"]


@pytest.mark.slow
def test_leave_one_out_is_unbiased_and_straight_through_is_not(tmp_path):
    estimators.main(["--draws", "60", "--epochs", "1", "--images", "120", "--json", str(tmp_path / "out.json")])
    rows = files.read_json(tmp_path / "out.json")["results"]["at the uniform posterior"]
    by_name = {row["name"]: row for row in rows}
    many = by_name["leave-one-out, 16 architectures"]
    assert many["bias"] < 4 * many["error_of_bias"]  # chance alone
    assert many["deviation"] < by_name["leave-one-out, 2 architectures"]["deviation"]
    soft = by_name["straight-through, Gumbel temperature 3"]
    assert soft["bias"] > 4 * soft["error_of_bias"]


def test_a_whole_search_is_timed_stage_by_stage(tmp_path, capsys):
    small = [part for change in TINY for part in ("--set", change)]
    whole.main(["toy", *small, "--json", str(tmp_path / "whole.json")])
    assert "toy: " in capsys.readouterr().out
    [row] = files.read_json(tmp_path / "whole.json")["rows"]
    assert set(row["stages"]) == {"supernet", "posterior", "selection"}
    assert sum(row["stages"].values()) <= row["seconds"]
    assert row["chosen"]["sampler"] == "svgd-rd"


@pytest.mark.slow
def test_posteriors_fitted_after_and_during_training_are_compared(tmp_path):
    arguments = ["--data", "fashion-mini", "--limit", "300", "--toy", "--epochs", "1", "--column", "valid_acc_cifar10"]
    table = Path(__file__).parent / "nasbench201_sample.csv"
    responses.main([*arguments, "--table", str(table), "--json", str(tmp_path / "found.json")])
    rows = files.read_json(tmp_path / "found.json")["rows"]
    assert [row["name"] for row in rows] == [
        "during (best response)",
        *("after, leave-one-out", "after, leave-one-out, as undecided"),
        *("after, straight-through", "after, straight-through, as undecided"),
    ]
    response, _, *undecided = (row["entropy"] for row in rows)
    assert undecided[::2] == pytest.approx([response] * 2, rel=0.05)
    for row in rows:
        errors = row["errors"]
        assert errors["gap"] == pytest.approx(errors["mode"] - errors["best"])
        assert errors["gap"] >= 0


def test_recalibrated_statistics_are_those_of_the_images_given(tmp_path):
    changes = [*TINY, "space.name=nasbench201", "threads=1"]
    run = Run.create(tmp_path / "run", load_recipe("toy", changes))
    held, train = run.data.search_valid, run.data.search_train
    architecture = run.space.parse("|nor_conv_3x3~0|+|none~0|nor_conv_1x1~1|+|skip_connect~0|none~1|avg_pool_3x3~2|")
    batch = Estimator(run.supernet(), held, batch_size=len(held)).log_probs([architecture])[0]
    supernet = run.supernet()
    norms = batchnorm.keep_statistics(supernet)
    same = batchnorm.recalibrated(supernet, norms, architecture, held, held, len(held))
    torch.testing.assert_close(same, batch, atol=0.05, rtol=0)  # but for n against n − 1 in the variance
    other = batchnorm.recalibrated(supernet, norms, architecture, train, held, len(train))
    assert (other - batch).abs().max() > 2 * (same - batch).abs().max()
    table = str(Path(__file__).parent / "nasbench201_sample.csv")
    which = ["--table", table, "--column", "valid_acc_cifar10", "--rows", "12", "--images", "40", "--batch", "20"]
    batchnorm.main([str(run.folder), *which, "--json", str(tmp_path / "found.json")])
    found = files.read_json(tmp_path / "found.json")
    assert found["rows"] == len(found["losses"]["recalibrated"]) == 12
    assert set(found["rankings"]) == {"of the batch", "recalibrated"}


def test_judges_choose_from_the_same_ensembles(tmp_path, capsys):
    changes = [*TINY, "space.name=nasbench201", "posterior.reference=4", "sampler.delta=[0.0, 1.0]", "ensemble.size=2"]
    Run.create(tmp_path / "run", load_recipe("toy", changes)).posterior()
    rows = (Path(__file__).parent / "nasbench201_sample.csv").read_text().splitlines()
    (tmp_path / "table.csv").write_text("\n".join(rows[:100]))
    which = ["--table", str(tmp_path / "table.csv"), "--gains", "0", "--json", str(tmp_path / "judges.json")]
    judges.main([str(tmp_path / "run"), *which])
    drawn, unjudged, *chosen = files.read_json(tmp_path / "judges.json")["rows"]
    assert drawn["ensembles"] == 2 * unjudged["ensembles"]  # one of two values of δ
    assert [row["judge"] for row in chosen] == ["likelihood", "posterior", "evidence"] * 2
    # Of the ensembles drawn none has more probable members in the mean than the judge of probability takes.
    assert chosen[1]["log_p"] >= max(chosen[0]["log_p"], drawn["log_p"], chosen[2]["log_p"])


@pytest.mark.slow
def test_likely_members_that_differ_are_among_those_drawn(tmp_path):
    (tmp_path / "7").mkdir()
    files.write_json(tmp_path / "7" / "posterior.json", Posterior(nasbench201()).to_json())
    table = Path(__file__).parent / "nasbench201_sample.csv"
    which = ["--table", str(table), "--draws", "1", "--json", str(tmp_path / "apart.json")]
    apart.main([str(tmp_path / "7" / "posterior.json"), *which])
    rows = [row for row in files.read_json(tmp_path / "apart.json")["rows"] if row["chosen"] == "posterior"]
    assert [row["apart"] for row in rows] == [0.0, 0.2, 0.35, 0.5] * 2
    assert all(row["differing"] > row["apart"] - 1e-9 for row in rows)  # of a flat posterior all are far apart


@pytest.mark.slow
def test_what_ranks_darts_is_held_against_a_table(tmp_path):
    rows = (Path(__file__).parents[1] / "results" / "quality-darts" / "all.csv").read_text().splitlines()
    (tmp_path / "table.csv").write_text("\n".join(rows[:9]))
    which = ["--data", "fashion-mini", "--table", str(tmp_path / "table.csv"), "--toy"]
    parts = [str(tmp_path / name) for name in ("sizes.json", "supernet.json")]
    darts_ranking.main([*which, "--only", "sizes", "untrained", "--json", parts[0]])
    darts_ranking.main([*which, "--only", "three cells", "--json", parts[1]])
    darts_ranking.main([*which, "--merge", *parts, "--json", str(tmp_path / "both.json")])
    found = files.read_json(tmp_path / "both.json")["rankings"]
    assert {"sizes: parameters (0)", "three cells: loss, share + untrained (0)"} <= set(found)
    assert {one["ensembles"] for one in found.values()} == {8}
