"""Records: every kept file reads and writes the same, broken parts are None, unknown fields stay, code is named."""

import json
import subprocess
from pathlib import Path

import pytest
from pydantic import ValidationError
from run_files import predictions

from nesbs.errors import NesbsError
from nesbs.records import (
    AttacksRecord,
    ComparisonRecord,
    ComparisonRecords,
    CurvesRecord,
    ExperimentRecord,
    MetricsRecord,
    PosteriorRecord,
    PredictionsRecord,
    QualityRecord,
    Recipe,
    RunRecord,
    RunRecords,
    SelectionRecord,
    is_comparison,
    provenance,
)
from nesbs.records.base import Record
from nesbs.records.metrics import EnsembleMetrics, NetworkMetrics
from nesbs.records.run import StageRecord
from nesbs.version import __version__

RESULTS = Path(__file__).parents[2] / "results"
BY_NAME = {
    kind.FILE: kind
    for kind in (RunRecord, PosteriorRecord, SelectionRecord, MetricsRecord, QualityRecord, AttacksRecord, CurvesRecord)
}
BY_FOLDER = {"demo-quality": QualityRecord, "quality-darts": QualityRecord, "attacks": AttacksRecord}
KEPT = {
    path: kind
    for path in sorted(RESULTS.rglob("*.json"))
    if (kind := BY_NAME.get(path.name) or BY_FOLDER.get(path.parent.name))
}

COMPARISON = {
    "data": "toy",
    "seeds": [0, 1],
    "reference": "nesbs",
    "rivals": {"pool": 5},
    "methods": {
        "urs": {
            "seeds": [{"seed": 0, "scores": {"error": 0.25}}, {"seed": 1, "scores": None}],
            "mean": {"error": {"mean": 0.25, "standard_error": None}},
            "difference": None,
        }
    },
}
EXPERIMENT = {
    "left_out": {"autoattack": "not installed"},
    "parts": {
        "A": {"size": [12, 12], "methods": {"urs": [{"error": 0.5, "seed": 0}], "deep": []}},
        "B": {"methods": {"urs": {"clean": {"ensemble": 0.5}, "attacks": {"fgsm": {"attack": 0.1, "images": 4}}}}},
        "C": {"methods": {"urs": {"which": [0], "errors": [0.1], "points": [[1.5, 2]]}}, "plane": "t-SNE"},
        "D": {
            "posteriors": {"best-response": [{"seed": 0, "mode": 0.1}]},
            "points": [{"method": "urs", "delta": None}],
        },
    },
    "asked": {"name": "table1", "scale": "smoke", "set": [], "seed": None},
    "gaussians": {"deltas": [{"delta": 0.5, "particles": [[0.1, 1]]}]},
}


def parts(record):
    """Every record inside a record, itself included."""
    if isinstance(record, Record):
        yield record
        inside = [getattr(record, name) for name in type(record).model_fields]
    else:
        inside = record.values() if isinstance(record, dict) else record if isinstance(record, tuple) else ()
    for part in inside:
        yield from parts(part)


def test_there_are_files_to_read():
    assert len(KEPT) > 30
    assert {*KEPT.values()} == {*BY_NAME.values()}


@pytest.mark.parametrize("path", KEPT, ids=lambda path: str(path.relative_to(RESULTS)))
def test_kept_files_round_trip(path, tmp_path):
    value, record = json.loads(path.read_text()), KEPT[path].read(path)
    assert record.to_json() == value
    known = [part for part in parts(record) if part.model_extra]
    assert all(part is record for part in known), "a field inside is not known"
    record.write(tmp_path / "again.json")
    again = json.loads((tmp_path / "again.json").read_text())
    own = {"nesbs", "commit", "clean"}
    assert {k: v for k, v in again.items() if k not in own} == {k: v for k, v in value.items() if k not in own}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (PredictionsRecord, predictions()),
        (ComparisonRecord, COMPARISON),
        (ExperimentRecord, EXPERIMENT),
        (MetricsRecord, {"data": "toy", "ensemble": None, "future": {"of": ["what", 3]}}),
    ],
)
def test_other_files_round_trip(kind, value):
    record = kind.from_json(value)
    assert json.dumps(record.to_json()) == json.dumps(value)
    assert kind.from_json(record.to_json()) == record


def test_an_experiment_has_entries_of_three_kinds():
    record = ExperimentRecord.from_json(EXPERIMENT)
    assert [row.error for row in record.part("A").rows("urs")] == [0.5]
    assert record.part("B").entry("urs").attacks["fgsm"].images == 4
    assert record.part("C").entry("urs").points == ((1.5, 2),)
    assert record.part("A").entry("urs").attacks is None
    assert record.part("none").rows("urs") == ()
    more = record.with_part("A", verdict="fine")
    assert more.part("A").verdict == "fine"
    assert more.part("A").rows("urs") == record.part("A").rows("urs")


def test_what_is_missing_or_of_another_kind_is_none():
    record = MetricsRecord.from_json(
        {
            "data": 3,
            "test_images": True,
            "uniform": [],
            "ensemble": {
                "error": "0.5",
                "nll": float("nan"),
                "brier": None,
                "members": [None, {"error": 0.25}, 7, {"error": float("inf"), "nll": 1}],
                "disagreement_matrix": [[0.0, "x"], None],
                "parameters": {"a": 1},
                "temperature": 3,
                "human": {},
                "corruptions": {"ensemble": {"by_corruption": {"fog": None}}, "members": "none"},
            },
        }
    )
    assert (record.data, record.test_images, record.uniform) == (None, None, None)
    ensemble = record.ensemble
    assert (ensemble.error, ensemble.nll, ensemble.brier, ensemble.top5_error) == (None,) * 4
    assert [member.error for member in ensemble.members] == [None, 0.25, None, None]
    assert ensemble.disagreement_matrix == ((0.0, None), ())
    assert (ensemble.parameters, ensemble.temperature, ensemble.corruptions.members) == (None, None, None)
    assert ensemble.human is not None
    assert ensemble.corruptions.ensemble.errors("fog") == ()
    assert ensemble.best_member.to_json() == {"error": 0.25, "nll": 1, "brier": None, "ece": None, "top5_error": None}
    assert MetricsRecord.from_json([1]) == MetricsRecord()


def test_stages_have_losses_of_one_network_or_of_each():
    record = RunRecord.from_json(
        {"stages": {"supernet": {"losses": [2, 1.5, None], "parameters": 7}, "members": {"losses": [[2, None], 3]}}}
    )
    assert record.stage("supernet").history == (2, 1.5, None)
    assert record.stage("supernet").total_parameters == 7
    assert record.stage("members").histories == ((2, None), ())
    assert record.stage("none") == StageRecord()
    assert StageRecord.from_json({"parameters": [1, None]}).total_parameters is None


def test_a_record_built_in_python_is_checked_and_frozen():
    with pytest.raises(ValidationError, match="error"):
        NetworkMetrics(error="a lot")
    with pytest.raises(ValidationError, match="frozen"):
        NetworkMetrics(error=0.5).error = 0.25
    kept = EnsembleMetrics.from_json({"error": 0.5, "future": 1}).replace(nll=1.0)
    assert kept.to_json() == {"error": 0.5, "nll": 1.0, "future": 1}
    with pytest.raises(ValidationError):
        kept.replace(nll="low")


def test_a_file_that_is_no_record_is_complained_about(tmp_path):
    (tmp_path / "metrics.json").write_text("[]")
    with pytest.raises(NesbsError, match="must hold a mapping"):
        MetricsRecord.find(tmp_path)
    assert RunRecord.find(tmp_path) is None


def test_a_record_says_which_code_wrote_it(tmp_path):
    root = Path(__file__).parents[2]
    RunRecord(seed=3).write(tmp_path / "record.json")
    record = RunRecord.read(tmp_path / "record.json")
    assert record.nesbs == __version__
    if (root / ".git").exists():
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True)
        assert record.commit == head.stdout.strip()
        assert isinstance(record.clean, bool)


@pytest.mark.parametrize("how", ["no git", "another checkout"])
def test_without_a_checkout_there_is_the_version_alone(monkeypatch, tmp_path, how):
    if how == "no git":
        monkeypatch.setenv("PATH", str(tmp_path))
    else:  # installed into an environment that lies in somebody's checkout
        (tmp_path / ".git").mkdir()
        monkeypatch.setattr(provenance, "__file__", str(tmp_path / ".venv/site-packages/nesbs/records/provenance.py"))
    assert provenance.provenance.__wrapped__() == {"nesbs": __version__, "commit": None, "clean": None}


def test_a_recipe_for_showing_has_defaults_for_what_cannot_be_read():
    values = {"seed": 3, "space": None, "ensemble": {"size": "many"}, "members": {"cells": 5, "wheels": 4}, "what": 1}
    recipe = Recipe.lenient(values)
    assert (recipe.seed, recipe.members.cells) == (3, 5)
    assert recipe == Recipe.of({"seed": 3, "members": {"cells": 5}})
    assert Recipe.lenient({"sampler": {"name": "svgd-rd", "delta": [[]]}}).sampler == Recipe().sampler
    assert Recipe.lenient({"supernet": {"epochs": 7, "colour_jitter": [2, 2, 0, 0]}}).supernet.epochs == 7
    assert Recipe.lenient({"sampler": {"name": "uniform", "delta": "x"}}).sampler.name == "uniform"
    assert Recipe.lenient({"sampler": {"delta": {"a": 1}}, "data": {"size": {"b": {}}}}) == Recipe()


def save(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("seed: 1\n" if name.endswith("yaml") else "{}")


def test_a_run_folder_as_one_value(tmp_path):
    save(tmp_path, "recipe.yaml", "record.json")
    records = RunRecords.read(tmp_path)
    assert (records.recipe, records.record, records.metrics) == (Recipe(seed=1), RunRecord(), None)
    with pytest.raises(NesbsError, match="is not a run"):
        RunRecords.read(tmp_path / "none")


def test_which_folders_are_comparisons(tmp_path):
    save(tmp_path / "run", "recipe.yaml", "record.json", "curves.json")  # the points of one seed
    save(tmp_path / "begun", "recipe.yaml", "seed-10/recipe.yaml", "seed-2/recipe.yaml")
    save(tmp_path / "done", "comparison.json")
    save(tmp_path / "runs", "seed-0/recipe.yaml")  # somebody's folder of runs
    assert [is_comparison(tmp_path / name) for name in ("run", "begun", "done", "runs")] == [False, True, True, False]
    assert ComparisonRecords.read(tmp_path / "begun").seeds == ("seed-2", "seed-10")
    assert is_comparison(RESULTS / "curves")
    assert not is_comparison(RESULTS / "demo" / "0")
