"""What a recipe would cost: counts times measured steps, scaled by multiply-adds, on one GPU and on many.

Run as a program, it writes the step times inside the package anew from the records.
"""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import nesbs
from nesbs.data import DATASETS, DataSettings, load_dataset
from nesbs.ensemble import MemberSettings, build_member
from nesbs.errors import NesbsError
from nesbs.records.step_times import StepRecord, StepTimesRecord
from nesbs.report.cost import cost_as_text
from nesbs.report.formats import duration
from nesbs.runs.cost import ImageCounts, RecipeCosts, recipe_cost
from nesbs.runs.recipe import load_recipe
from nesbs.runs.step_times import STANDS_IN, StepTimes, network_bytes, products
from nesbs.spaces import nasbench201
from nesbs.training import checkpoint

RESULTS = Path(__file__).parents[2] / "results"
TIMES = Path(nesbs.__file__).parent / "runs" / "step_times.json"
MEMBER = StepRecord(kind="member", space="nasbench201", images=8, image=(3, 32, 32), classes=10, cells=1, channels=4)


def record(name):
    return json.loads((RESULTS / name).read_text())


@pytest.fixture(scope="module")
def times():
    return StepTimes.recorded()


def renewed():
    """The times inside the package with the seconds that are in the records now."""
    runs = [record(f"benchmarks/{name}.json") for name in ("h200", "h200-estimation", "h200-members", "h200-small")]
    rows = {row["name"]: row for run in runs for row in run["results"]}
    start, tried = record("darts-start/record.json"), record("benchmarks/h200-tried.json")
    fits = {
        "darts": start["stages"]["posterior"]["seconds"] / (start["data"]["search_valid"] // 128),  # an epoch
        "nasbench201": next(row["seconds"] for row in tried["mixture"] if row["recorded"]),
    }
    results = []
    for row in json.loads(TIMES.read_text())["results"]:
        measured = rows.get(row["name"], {"seconds": fits.get(row["step"]["space"])})
        own = {key: measured[key] for key in ("seconds", "prepare_seconds") if key in measured}
        results.append({"name": row["name"], **own, "step": row["step"]})
    return {"machine": runs[0]["machine"], "results": results}


def test_the_times_inside_the_package_are_those_of_the_records(times):
    assert json.loads(TIMES.read_text()) == renewed()
    assert {row.step.kind for row in times.steps("member", "supernet", "estimate", "fit")} == {
        *("member", "supernet", "estimate", "fit")
    }
    for row in times.steps("member", "supernet", "estimate", "fit"):
        assert row.name.startswith("posterior" if row.step.kind == "fit" else row.step.kind)
        assert ("DARTS" in row.name) == (row.step.space == "darts")
        assert "bfloat16" not in row.name or row.step.precision == "bfloat16"
        for word, value in re.findall(r"(N=|batch |)(\d+)(?: cells)?(?=,|$)", row.name.replace("10,000", "10000")):
            assert not word or int(value) == (row.step.cells if word == "N=" else row.step.images)


def test_what_was_measured_is_taken_as_it_is_and_other_sizes_by_their_multiply_adds(times):
    for row in times.steps("member", "supernet"):
        found = times.of(row.step)
        assert (found.source, found.measured) == (row.name, True)
        assert found.seconds == pytest.approx(row.seconds)
    measured = times.steps("member")[0].step
    twice = times.of(measured.replace(images=2 * measured.images))
    assert (twice.factor, twice.measured) == (2.0, False)
    assert times.of(measured.replace(image=(3, 64, 64))).factor == pytest.approx(4, rel=0.01)  # but for the head
    assert times.of(measured.replace(precision="float32")).measured is False
    other = times.of(measured.replace(space="toy-edges"))  # of which nothing is known: the nearest of any space
    assert other.source.startswith("member")
    assert times.of(StepRecord(kind="dream", space="darts")) is None


def test_a_group_of_paths_counts_each_of_them():
    one = StepRecord(kind="supernet", space="nasbench201", images=8, image=(3, 32, 32), cells=1, channels=4)
    each = products(one)
    assert [products(one.replace(paths=paths)) / each for paths in ("fair", "dense", "mixed")] == [5, 4, 4.5]
    assert products(one.replace(multiply_adds=1000)) == 8000
    assert products(one.replace(cells=None)) == each  # the space's own supernet has one a stage


def test_a_networks_bytes_are_those_of_its_checkpoint():
    split = load_dataset("fashion-mini", train_limit=20).train
    settings, architecture = MemberSettings(cells=1, channels=4), nasbench201().parse(STANDS_IN["nasbench201"])
    member = build_member(nasbench201(), architecture, split, settings, seed=0, name=0)
    momentum = {parameter: {"momentum_buffer": torch.zeros_like(parameter)} for parameter in member.parameters()}
    written = checkpoint.state(member, SimpleNamespace(state=momentum))
    assert network_bytes(MEMBER.replace(image=(1, 28, 28))) == sum(tensor.nbytes for tensor in written.values())
    supernet = nasbench201().supernet(classes=10, in_channels=3, channels=4, cells=3, affine=False, partial=1)
    weights = 8 * sum(parameter.numel() for parameter in supernet.parameters())
    wanted = MEMBER.replace(kind="supernet", cells=3)
    assert network_bytes(wanted) == weights + sum(buffer.nbytes for buffer in supernet.buffers())


def test_images_are_counted_as_they_are_read(tmp_path):
    for settings in (DataSettings(), DataSettings(train_limit=500, size=12, calibration_fraction=0.1)):
        counted, read = ImageCounts.of(settings), load_dataset(**settings.model_dump())
        parts = (len(read.train), len(read.search_train), len(read.search_valid))
        # A part of each class is held out, which rounds.
        assert (counted.train, counted.search_train, counted.search_valid) == pytest.approx(parts, abs=10)
        assert (counted.image, counted.classes) == ((read.train.channels, *read.train.size), read.train.classes)
    npz = tmp_path / "images.npz"
    pixels = np.random.default_rng(0).integers(0, 256, (1000, 8, 8, 3), dtype=np.uint8)
    half = {"x_test": pixels[500:], "y_test": np.arange(500) % 2}
    np.savez(npz, x_train=pixels[:500], y_train=np.arange(500) % 2, **half)
    settings = DataSettings(name=str(npz), calibration_fraction=0.2)
    counted, read = ImageCounts.of(settings), load_dataset(**settings.model_dump())
    parts = (len(read.train), len(read.search_train), len(read.search_valid))
    assert (counted.train, counted.search_train, counted.search_valid) == parts == (400, 280, 120)
    assert counted.bytes_of(400) == 400 * (8 * 8 * 3 + 8)  # they travel: workers have no files of them
    for named in DATASETS.values():
        said = re.search(r"([\d,]+) \+ .* (\d+)×(\d+).*, ([\d,]+) classes|, ([\d,]+) classes, .* (\d+)×", named.about)
        numbers = {int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*\d|\d", named.about)}
        assert said
        assert {named.train_images, named.classes, named.image[1]} <= numbers
        assert ("grey" in named.about) == (named.image[0] == 1)


def test_a_run_is_counts_times_steps(times):
    costs = RecipeCosts(load_recipe("cifar10-darts-paper"), times)
    # 600 epochs of ⌊50,000 / 96⌋ steps, and compiling once.
    members = costs.members("members", 3, 600)
    assert members.seconds == pytest.approx(600 * 520 * 22.9629e-3 + 57.925, rel=1e-4)
    assert (members.count, members.side_by_side, members.measured) == (3, True, True)
    # 50 epochs of ⌊35,000 / 128⌋ steps of 8.97 ms; 20 epochs of the held-out images; 5 rounds of 13 δ of 3 networks.
    assert costs.supernet().seconds == pytest.approx(50 * 273 * 8.9712e-3 + 37.324, rel=1e-4)
    assert costs.posterior().seconds == pytest.approx(2340 * 67.948 / 117)
    assert costs.selection().seconds == pytest.approx(5 * 13 * 3 * 1.5 * 0.121858, rel=1e-4)
    for changes, estimated in (
        (["search.tune=bayesian", "search.trials=20"], 5 * 20 * 3),
        (["search.judge=posterior", "search.gain=1.0"], 5 * 13 * 3 + 64),
        (["search.judge=evidence", "search.gain=1.0", "posterior.reference=256"], 5 * 13 * 3 + 256 + 64),
    ):
        other = RecipeCosts(load_recipe("cifar10-darts-paper", changes), times).selection()
        assert other.seconds == pytest.approx(estimated * 1.5 * 0.121858, rel=1e-4)
    short = costs.members("pool", 1, 2, searching=True)  # too short to compile for, without the held-out images
    assert short.seconds == pytest.approx(2 * 364 * 22.9629e-3, rel=1e-4)
    assert members.data_bytes == 50_000 * (3 * 32 * 32 + 8)


def test_one_gpu_takes_the_sum_and_many_the_longest_chain(times):
    recipe = load_recipe("cifar10-darts-paper", ["evaluation.uniform=true", "ensemble.size=7"])
    cost = recipe_cost(recipe, times, [1, 3, 7, 100], of="it")
    alone = {stage.name: stage.seconds for stage in cost.stages}
    one, three, seven, many = cost.schedules
    searching = alone["supernet"] + alone["posterior"] + alone["selection"]
    assert one.seconds == pytest.approx(searching + 14 * alone["members"])
    assert one.busy == pytest.approx(1)
    assert seven.seconds == pytest.approx(searching + 2 * alone["members"])  # uniform waits for members
    assert many.seconds == pytest.approx(seven.seconds)
    assert many.busy == pytest.approx(one.seconds / (100 * many.seconds))
    # A training moves between GPUs every five minutes: three are busy to the end, but for one task a stage.
    ideal = searching + 2 * 7 / 3 * alone["members"]
    assert ideal * (1 - 1e-9) <= three.seconds <= ideal + 2 * 330
    starts = {stage.name: stage.start for stage in three.stages}
    assert starts["posterior"] == pytest.approx(alone["supernet"])
    assert starts["members"] == pytest.approx(searching)
    # A checkpoint for each task back, and there but for the first of a network.
    [stage] = [stage for stage in cost.stages if stage.name == "members"]
    assert cost.checkpoint_bytes == (2 * cost.tasks - 14) * stage.checkpoint_bytes
    assert cost.image_bytes == stage.data_bytes


def test_what_is_not_measured_is_said(times):
    trained = load_recipe("cifar10-nasbench201", ["search.judge=trained", "search.judge_candidates=5"])
    cost = recipe_cost(trained, times, [2], of="it")
    assert [(stage.name, stage.count) for stage in cost.stages][2:4] == [("candidates", 5), ("selection", 1)]
    assert "untrained networks" in cost.not_counted
    text = cost_as_text(cost)
    assert "side by side: candidates (5), members (3)" in text
    assert "one after another: supernet, posterior, selection" in text
    compiled = {stage.name: stage.compiling for stage in cost.stages if stage.compiling}
    assert list(compiled) == ["supernet", "members"]  # the training of a candidate is too short to be worth it
    assert f"of it compiling, before the first step of each: supernet {duration(compiled['supernet'])}, " in text
    assert "not counted, since never measured: untrained networks, drawing ensembles, evaluation" in text
    slow = StepTimes(StepTimesRecord.from_json({"results": [{"name": "m", "seconds": 2.0, "step": MEMBER.to_json()}]}))
    alone = recipe_cost(load_recipe("imagenet-darts"), slow, [1], of="it")
    assert alone.not_counted == ("evaluation",)
    assert alone.image_bytes == 0  # each machine reads its own
    assert alone.stages[0].factor == pytest.approx(600e6 * 1024 / products(MEMBER))
    assert recipe_cost(load_recipe("toy"), slow, [1], of="it").not_counted[:3] == ("supernet", "posterior", "selection")


def test_a_file_without_step_times_is_refused(tmp_path):
    for text in ("{}", '{"results": [{"name": "SVGD-RD", "seconds": 1}]}', '{"results": 3}'):
        (tmp_path / "bench.json").write_text(text)
        with pytest.raises(NesbsError, match=r"bench.json has no step times: `python -m benchmarks"):
            StepTimes.read(tmp_path / "bench.json")


if __name__ == "__main__":
    TIMES.write_text(json.dumps(renewed(), indent=1) + "\n")
