"""The files of a run and of a comparison made by hand, as plain data, for tests of what is shown of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import nesbs.report
from nesbs.records import (
    AttacksRecord,
    ComparisonRecord,
    ComparisonRecords,
    CurvesRecord,
    DistilledRecord,
    LatencyRecord,
    MetricsRecord,
    PosteriorRecord,
    PredictionsRecord,
    QualityRecord,
    Recipe,
    RunRecord,
    RunRecords,
    SelectionRecord,
)

# Edge 0→1 ends in node 1, whose ways out are both `none`: it is dead.
FIRST = "|nor_conv_3x3~0|+|nor_conv_1x1~0|none~1|+|skip_connect~0|none~1|avg_pool_3x3~2|"
SECOND = "|skip_connect~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_1x1~1|nor_conv_3x3~2|"


CLASSES = {
    "record": RunRecord,
    "posterior": PosteriorRecord,
    "selection": SelectionRecord,
    "metrics": MetricsRecord,
    "quality": QualityRecord,
    "attacks": AttacksRecord,
    "predictions": PredictionsRecord,
    "latency": LatencyRecord,
    "distilled": DistilledRecord,
}


@dataclass(frozen=True)
class RunFiles:
    """The files of a run folder as plain data; None for one that is not there."""

    recipe: Mapping[str, Any] | None = None
    record: Mapping[str, Any] | None = None
    posterior: Mapping[str, Any] | None = None
    selection: Mapping[str, Any] | None = None
    metrics: Mapping[str, Any] | None = None
    quality: Mapping[str, Any] | None = None
    attacks: Mapping[str, Any] | None = None
    predictions: Mapping[str, Any] | None = None
    latency: Mapping[str, Any] | None = None
    distilled: Mapping[str, Any] | None = None

    def read(self) -> RunRecords:
        """The records, as they are read from these files."""
        values = {name: getattr(self, name) for name in CLASSES}
        records = {name: CLASSES[name].from_json(value) for name, value in values.items() if value is not None}
        return RunRecords(None if self.recipe is None else Recipe.lenient(self.recipe), **records)


def render(run: RunFiles) -> str:
    """The page of a run with these files."""
    return nesbs.report.render(run.read())


def render_side_by_side(runs: Sequence[tuple[str, RunFiles]], links: Mapping[str, str] | None = None) -> str:
    """The page of several runs with these files."""
    return nesbs.report.render_side_by_side([(name, run.read()) for name, run in runs], links)


def scores_as_text(metrics: Mapping[str, Any] | None) -> str:
    """What the terminal says of a `metrics.json`."""
    return nesbs.report.scores_as_text(MetricsRecord.from_json(metrics))


def render_comparison_page(
    comparison: Mapping[str, Any] | None = None,
    curves: Mapping[str, Any] | None = None,
    recipe: Mapping[str, Any] | None = None,
) -> str:
    """The page of a comparison with these files."""
    records = ComparisonRecords(
        recipe=None if recipe is None else Recipe.lenient(recipe),
        comparison=None if comparison is None else ComparisonRecord.from_json(comparison),
        curves=None if curves is None else CurvesRecord.from_json(curves),
    )
    return nesbs.report.render_comparison_page(records)


def measured(error: float, nll: float, members: list[tuple[float, float]]) -> dict[str, Any]:
    return {
        "error": error,
        "nll": nll,
        "brier": 0.125,
        "ece": 0.0321,
        "member_error": 0.1,
        "disagreement": 0.0777,
        "disagreement_matrix": [[0.0, 0.0777], [0.0777, 0.0]],
        "members": [{"error": e, "nll": n, "brier": 0.2, "ece": 0.05} for e, n in members],
        "architectures": [FIRST, SECOND],
        "parameters": [1000, 2500],
        "temperature": {
            "fitted_on": "test halves",
            "images": 2500,
            "ensemble": scaled([0.9, 1.1], 0.0321),
            "members": [scaled([1.2, 1.3], 0.05)] * 2,
            "reliability": {
                "before": {"images": [0, 500, 2000], "confidence": [None, 0.6, 0.9], "accuracy": [None, 0.5, 0.95]},
                "after": {"images": [0, 600, 1900], "confidence": [None, 0.55, 0.9], "accuracy": [None, 0.5, 0.9]},
            },
        },
        "intervals": {
            "level": 0.95,
            "resamples": 1000,
            "ensemble": {"error": [error - 0.01, error + 0.0108], "nll": [nll - 0.02, nll + 0.02]},
            "members": [{"error": [e - 0.012, e + 0.012], "nll": [n - 0.02, n + 0.02]} for e, n in members],
            "best": {
                "error": {"member": 2, "gain": 0.0088, "low": 0.0012, "high": 0.0164},
                "nll": {"member": 1, "gain": 0.0665, "low": -0.004, "high": 0.137},
            },
        },
    }


def scaled(temperatures: list[float], ece: float) -> dict[str, Any]:
    before = {"nll": 0.5, "brier": 0.25, "ece": ece}
    return {"temperatures": temperatures, "before": before, "after": {"nll": 0.45, "brier": 0.24, "ece": ece / 2}}


def predictions() -> dict[str, Any]:
    """Two images that members disagree on, and a map of three images."""
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR42mNoAAAAggCB2qbHkAAAAABJRU5ErkJggg=="
    answers = [{"answer": "cat", "probability": 0.9}, {"answer": "dog", "probability": 0.61}]
    return {
        "disagreed": [
            {
                "place": place,
                "label": "dog",
                "differ": 1.0,
                "ensemble": answers[0],
                "members": answers,
                "picture": pixel,
            }
            for place in (17, 4)
        ],
        "map": {
            "places": [0, 1, 2],
            "perplexity": 1.67,
            "points": [[[0.0, 0.0], [4.0, 0.0], [4.0, 8.0]], [[0.0, 0.0], [4.0, 1.0], [0.0, 8.0]]],
        },
    }


def hand_made() -> RunFiles:
    """A finished run: every number is known."""
    operations = ["none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3"]
    names = ["0→1", "0→2", "1→2", "0→3", "1→3", "2→3"]
    proposals = [
        {"architectures": [FIRST, FIRST], "loss": 0.75, "round": 1, "delta": 0.5, "duplicates": 1},
        {"architectures": [FIRST, SECOND], "loss": 0.5125, "round": 2, "delta": 0.5, "duplicates": 0},
        {"architectures": [SECOND, SECOND], "loss": 0.8, "round": 2, "delta": -1.0, "duplicates": 1},
    ]
    classes = ["cat", "dog"]
    data = {"name": "pets", "train_images": 6000, "test_images": 2500, "search_train": 4200, "search_valid": 1800}
    return RunFiles(
        recipe={
            "seed": 7,
            "space": {"name": "nasbench201"},
            "sampler": {"name": "svgd-rd"},
            "evaluation": {"bins": 11, "uniform": True},
        },
        record={
            "nesbs": "0.1.0",
            "device": "cpu",
            "seed": 7,
            "data": {**data, "size": [32, 32], "channels": 3, "classes": classes},
            "stages": {
                "supernet": {
                    "seconds": 200.0,
                    "peak_memory": 700 * 2**20,
                    "losses": [2.0, 1.0],
                    "parameters": 4321,
                    "updates": {"cell 0→1": {"skip_connect": 98, "nor_conv_3x3": 1002}},
                },
                "posterior": {"seconds": 10.0, "peak_memory": 2**20, "entropies": [9.0, 8.0]},
                "selection": {"seconds": 5.0},
                "members": {"seconds": 30.0, "peak_memory": 3 * 2**30, "losses": [[2.0, 0.5], [1.9, 0.4]]},
                "uniform": {"seconds": 30.0, "losses": [[2.0, 0.6], [1.9, 0.7]]},
                "evaluation": {"seconds": 1.0},
            },
        },
        posterior={
            "space": "nasbench201",
            "temperature": 0.8,
            "entropy": 5.25,
            "log_size": math.log(15625),
            "variables": [
                {"name": name, "choices": operations, "probabilities": [0.1, 0.05, 0.2, 0.617, 0.033], "activity": 1.0}
                for name in names
            ],
        },
        selection={
            "architectures": [FIRST, SECOND],
            "loss": 0.5125,
            "round": 2,
            "delta": 0.5,
            "sampler": "svgd-rd",
            "duplicates": 0,
            "proposals": proposals,
            "candidates": [{"architecture": SECOND, "loss": 0.91}, {"architecture": FIRST, "loss": 0.92}],
        },
        metrics={
            "data": "pets",
            "test_images": 2500,
            "ensemble": measured(0.0812, 0.2345, [(0.11, 0.301), (0.09, 0.402)]),
            "uniform": measured(0.0956, 0.2789, [(0.12, 0.35), (0.13, 0.36)]),
        },
        predictions=predictions(),
    )


def save(folder: Path, run: RunFiles) -> Path:
    """Write a run folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in CLASSES:
        if getattr(run, name) is not None:
            (folder / f"{name}.json").write_text(json.dumps(getattr(run, name)), encoding="utf-8")
    if run.recipe is not None:
        (folder / "recipe.yaml").write_text(yaml.safe_dump(run.recipe), encoding="utf-8")
    return folder


def comparison() -> dict[str, Any]:
    """A comparison of three methods over three seeds, one of them clearly worse."""

    def entry(errors: list[float], verdict: str | None) -> dict[str, Any]:
        mean = sum(errors) / 3
        spread = {"mean": mean, "standard_error": 0.002}
        difference = {"mean": mean - 0.1, "low": mean - 0.11, "high": mean - 0.09, "verdict": verdict}
        return {
            "seeds": [{"seed": seed, "scores": {"error": e, "nll": 3 * e}} for seed, e in enumerate(errors)],
            "mean": {**dict.fromkeys(("error", "nll", "ece"), spread), "member_error": spread, "disagreement": spread},
            "cost": {key: {"mean": 12.0} for key in ("search_seconds", "training_seconds", "evaluations")},
            "difference": None if verdict == "own" else {"error": difference, "nll": difference},
        }

    return {
        "data": "pets",
        "space": "nasbench201",
        "size": 2,
        "seeds": [0, 1, 2],
        "device": "cpu",
        "reference": "nesbs",
        "sampler": "svgd-rd",
        "rivals": {"judge": "trained", "measure": "trained"},
        "methods": {
            "nesbs": entry([0.09, 0.1, 0.11], "own"),
            "urs": entry([0.19, 0.2, 0.21], "higher"),
            "deep": entry([0.1, 0.1, 0.1], None),
        },
    }
