"""Rows of several comparisons in one record: paired over the seeds and the images that they share."""

import numpy as np
import pytest
import tables
import torch

from benchmarks.joined import joined, main
from nesbs import files
from nesbs.compare.harness import rival_file
from nesbs.errors import NesbsError
from nesbs.evaluation import over_images, paired
from nesbs.records import ComparisonRecord, RunRecord
from nesbs.records.comparison import OutcomeRecord
from nesbs.records.metrics import Calibrated, EnsembleMetrics, NetworkMetrics, Temperature
from nesbs.records.recipe import RECIPE
from nesbs.runs.recipe import load_recipe

ERRORS = {31: 0.20, 32: 0.25, 33: 0.30, 34: 0.20, 35: 0.25}  # of our method by seed, of 400 images
MORE = {31: 0.10, 32: 0.12, 33: 0.11, 34: 0.10, 35: 0.12}  # by so much the rival is worse


def put(folder, method, seed, error):
    """What a comparison leaves of one method under one seed: the last images are wrong."""
    run = folder / f"seed-{seed}"
    files.write_text(run / RECIPE, load_recipe("toy", ["data.name=/home/me/photos.npz"], seed=seed).to_yaml())
    RunRecord(seed=seed, device="a GPU").write(run / RunRecord.FILE)
    wrong = torch.arange(400) >= round(400 * (1 - error))
    scores = EnsembleMetrics(
        error=error,
        nll=error,
        temperature=Temperature(ensemble=Calibrated(after=NetworkMetrics(nll=0.1, ece=0.0123))),
    )
    OutcomeRecord(
        method=method,
        scores=scores,
        architectures=("one", "two", "three"),
        evaluations=100,
        search_seconds=60.0 + seed,
        training_seconds=0.0 if method == "urs" else 90.0,
        peak_memory=3 * 2**30,
    ).write(rival_file(run, method, "json"))
    of = f"the test images of {method} in {run.name}"
    path = rival_file(run, method, "images.safetensors")
    files.write_tensors(path, {"error": wrong, "nll": wrong.double()}, of=of)


@pytest.fixture(scope="module")
def record(tmp_path_factory):
    """Our method and a rival in folders of their own for every seed, and another recipe's under two seeds."""
    runs = tmp_path_factory.mktemp("runs")
    for seed, error in ERRORS.items():
        put(runs / f"table-{seed}", "nesbs", seed, error)
        put(runs / f"table-{seed}", "urs", seed, error + MORE[seed])
        put(runs / f"paper-{seed}", "nesbs", seed, error + 0.05 * (-1) ** seed)
    put(runs / "pool50-31", "nes-rs", 31, 0.10)
    put(runs / "pool50-32", "nes-rs", 32, 0.15)
    rows = ["nesbs=table-*/seed-*:nesbs", "urs=table-*/seed-*:urs", "paper=paper-*/seed-*:nesbs"]
    rows.append("nes-rs-50=pool50-*/seed-*:nes-rs")
    main([*(row.replace("=", f"={runs}/") for row in rows), "--json", str(runs / "comparison.json")])
    with pytest.raises(NesbsError, match="0 folders are there"):
        joined([f"nesbs={runs}/elsewhere-*:nesbs"])
    with pytest.raises(NesbsError, match="needs a seed of its own"):
        joined([f"nesbs={runs}/*-31/seed-*:nesbs"])
    return ComparisonRecord.read(runs / "comparison.json")


def test_rows_of_several_folders_are_paired_over_the_seeds_that_both_have(record):
    assert record.seeds == tuple(ERRORS)
    assert record.device == "a GPU"
    assert record.data == "photos.npz"  # not in whose folder
    ours, rival, _, few = record.methods.values()
    assert [outcome.seed for outcome in rival.seeds] == list(ERRORS)
    assert rival.difference["error"].mean == pytest.approx(np.mean(list(MORE.values())))
    expected = paired([ERRORS[seed] + MORE[seed] for seed in ERRORS], list(ERRORS.values()))
    assert rival.difference["error"].low == pytest.approx(expected.low)
    assert ours.difference is None
    assert [outcome.seed for outcome in few.seeds] == [31, 32]
    assert few.difference["error"].mean == pytest.approx(-0.10)  # seeds 31 and 32 alone: 0.225 there
    assert few.difference["error"].low is None
    assert few.images.difference["error"].mean == pytest.approx(-0.10)


def test_rows_are_paired_over_images(record):
    table = np.zeros((400, 1))
    for seed, error in ERRORS.items():  # the images on which the rival alone is wrong
        table[round(400 * (1 - error - MORE[seed])) : round(400 * (1 - error))] += 1 / len(ERRORS)
    [expected] = over_images(table)
    found = record.methods["urs"].images.difference["error"]
    assert (found.mean, found.low, found.high) == pytest.approx((expected.mean, expected.low, expected.high))


def test_the_page_says_what_is_beyond_chance_and_what_is_not(record):
    value = record.to_json()
    table = tables.compared(value)
    assert "| `nesbs` (ours) | 5 | 24.00 | 0.2400 | – | – | 0.0123 | – |" in table
    # Seconds as measured, and alone: our search whole, a pool's by the epochs of its candidates, members by theirs.
    assert "| `nesbs` (ours) | 5 | 93 (56) | 90 (51) | 3.0 |" in table
    assert f"| `urs` | 5 | 93 ({100 * 12 * 136 * 0.01092 / 3:.0f}) | 0 | 3.0 |" in table
    assert "| `nesbs` (ours) | 5 | 93 (56) | 90 (426) | 3.0 |" in tables.compared(value, 200)
    assert "| `urs` | +11.00 (+9.76 to +12.24) | +11.00 (" in table
    assert "| `nes-rs` with 50 candidates | −10.00 | −10.00 (" in table
    by_error = (
        "By error, beside `nesbs`:\n\n- **worse beyond chance, over seeds and over images**: `urs`\n"
        "- **better over images, not over seeds**: the paper's method (1 cell)\n"  # under three seeds of five
        "- **better over images, too few seeds**: `nes-rs` with 50 candidates"
    )
    assert tables.beyond_chance(value) == by_error.replace("By error", "By error and by NLL")


def test_a_row_of_an_earlier_record_is_paired_over_seeds_alone(tmp_path):
    for seed, error in ERRORS.items():
        put(tmp_path / f"old-{seed}", "deep", seed, error + 0.1)
        put(tmp_path / f"new-{seed}", "nesbs", seed, error)
    main([f"deep={tmp_path}/old-*/seed-*:deep", "--json", str(tmp_path / "old.json")])
    texts = [f"nesbs={tmp_path}/new-*/seed-*:nesbs", f"deep={tmp_path}/old-*/seed-*:deep"]
    from_folders = joined(texts).methods["deep"]
    from_record = joined([texts[0], f"deep={tmp_path}/old.json:deep"]).methods["deep"]
    assert from_folders.images is not None
    assert from_record == from_folders.replace(images=None)
    with pytest.raises(NesbsError, match="has no row dep: did you mean deep"):
        joined([texts[0], f"deep={tmp_path}/old.json:dep"])
    with pytest.raises(NesbsError, match="image by image: name its folders"):
        joined([f"deep={tmp_path}/old.json:deep"])
