"""`nesbs cost`: a table, a file, and one line for bad input."""

import pytest
from toys import call

from nesbs import files
from nesbs.records.cost import CostRecord

STEP = {"kind": "member", "space": "nasbench201", "images": 64, "image": [1, 28, 28], "classes": 10}


def test_a_recipes_cost_is_printed_and_written(tmp_path, capsys):
    out = tmp_path / "cost.json"
    changes = ["--set", "ensemble.size=2", "--set", "evaluation.uniform=false"]
    assert call("cost", "cifar10-nasbench201", "--gpus", "1,2", *changes, "--json", out) == 0
    text = capsys.readouterr().out
    assert text.startswith("nesbs run cifar10-nasbench201 --set ensemble.size=2 ")
    assert "estimate by step times of NVIDIA H200" in text
    record = CostRecord.read(out)
    assert record.to_json() == files.read_json(out)
    assert [each.gpus for each in record.schedules] == [1, 2]
    assert record.stages[-1].count == 2
    saved = record.schedules[0].seconds - record.schedules[1].seconds
    assert saved == pytest.approx(record.stages[-1].seconds)  # of two members one is trained beside the other


def test_step_times_of_this_machine_are_taken(tmp_path, capsys):
    row = {"name": "member, mine", "seconds": 0.5, "step": {**STEP, "cells": 1, "channels": 8}}
    files.write_json(tmp_path / "bench.json", {"machine": {"device": "cpu"}, "results": [row]})
    fixed = ["--set", "ensemble.architectures=[resnet]", "--set", "data.size=28", "--set", "ensemble.size=3"]
    assert call("cost", "demo", *fixed, "--steps", tmp_path / "bench.json", "--gpus", "1,3") == 0
    text = capsys.readouterr().out
    assert "step times of cpu" in text
    assert "on 3 workers" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("smoke", "--gpus", "0"), "--gpus takes numbers from 1 to 10,000, found 0"),
        (("smoke", "--gpus", "a"), "--gpus takes whole numbers with commas between them, found 'a'"),
        (("smoke", "--gpus", "1,100000"), "--gpus takes numbers from 1 to 10,000, found 1,100000"),
        (("smok",), "unknown recipe smok: did you mean smoke?"),
        (("table22",), "unknown name table22: did you mean table2?"),
        (("table2", "--scale", "large"), "--scale takes one of smoke, hour, paper, found large"),
        (("smoke", "--steps", "nowhere.json"), "there is no file nowhere.json"),
        (("smoke", "--set", "members.epoch=3"), "unknown setting members.epoch"),
    ],
)
def test_bad_input_is_one_line(words, message, capsys):
    assert call("cost", *words) == 2
    said = capsys.readouterr()
    assert said.err.startswith("error: " + message)
    assert said.err.count("\n") == 1
    assert not said.out
