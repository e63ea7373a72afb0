"""Files appear whole or not at all."""

import os

import pytest
import torch

from nesbs import files
from nesbs.errors import NesbsError


def test_json_round_trips(tmp_path):
    value = {"a": [1, 2.5, None], "δ": "→"}
    files.write_json(tmp_path / "x" / "a.json", value)
    assert files.read_json(tmp_path / "x" / "a.json") == value
    assert os.listdir(tmp_path / "x") == ["a.json"]


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.safetensors"
    files.write_tensors(path, {"w": torch.ones(2)}, note="first")
    with pytest.raises(AttributeError):
        files.write_tensors(path, {"w": "not a tensor"})
    tensors, about = files.read_tensors(path)
    assert torch.equal(tensors["w"], torch.ones(2))
    assert about == {"note": "first"}
    assert os.listdir(tmp_path) == ["a.safetensors"]


def test_broken_files_are_named(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"a": ')
    with pytest.raises(NesbsError, match=r"a\.json is not valid JSON .line 1.: remove it"):
        files.read_json(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NesbsError, match="is not text"):
        files.read_text(path)
    with pytest.raises(NesbsError, match="there is no file"):
        files.read_json(tmp_path / "none.json")
    with pytest.raises(NesbsError, match="cannot read"):
        files.read_text(tmp_path)
    weights = tmp_path / "w.safetensors"
    with pytest.raises(NesbsError, match="there is no file"):
        files.read_tensors(weights)
    files.write_tensors(weights, {"w": torch.ones(100)})
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(NesbsError, match="is not a whole safetensors file"):
        files.read_tensors(weights)
    with pytest.raises(NesbsError, match="does not fit this recipe"):
        files.load_into(torch.nn.Linear(2, 2), {"weight": torch.ones(3)}, weights)


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NesbsError, match=r"cannot write .*a\.json"):
        files.write_json(tmp_path / "file" / "a.json", {})
    (tmp_path / "taken").mkdir()
    with pytest.raises(NesbsError, match="cannot write"):
        files.write_text(tmp_path / "taken", "x")


def test_the_same_tensors_and_words_are_the_same_bytes(tmp_path):
    # Several keys of a safetensors header come in any order: twenty writes would not agree by luck.
    words = {name: name * 3 for name in "abcdefgh"}
    for number in range(20):
        files.write_tensors(tmp_path / f"{number}", {"x": torch.arange(3)}, **words)
    assert len({(tmp_path / f"{number}").read_bytes() for number in range(20)}) == 1
    assert files.read_tensors(tmp_path / "0")[1] == words
