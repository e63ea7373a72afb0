"""Files appear whole or not at all."""

import contextlib
import errno
import os

import numpy as np
import pytest
import safetensors.torch
import torch

from nesbs import files
from nesbs.errors import NesbsError, out_of_memory


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


def test_what_is_no_file_is_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(NesbsError, match="pipe: it is not a file"):
        files.write_text(pipe, "text")
    assert pipe.is_fifo()


def test_the_same_tensors_and_words_are_the_same_bytes(tmp_path):
    # Several keys of a safetensors header come in any order: twenty writes would not agree by luck.
    words = {name: name * 3 for name in "abcdefgh"}
    for number in range(20):
        files.write_tensors(tmp_path / f"{number}", {"x": torch.arange(3)}, **words)
    assert len({(tmp_path / f"{number}").read_bytes() for number in range(20)}) == 1
    assert files.read_tensors(tmp_path / "0")[1] == words


def test_no_flipped_bit_of_weights_goes_unnoticed(tmp_path):
    path = tmp_path / "w.safetensors"
    weights = {"w": torch.arange(3.0), "steps": torch.tensor(4), "mask": torch.tensor([True]), "none": torch.zeros(0)}
    files.write_tensors(path, weights, note="kept", of="a network")
    whole, messages = path.read_bytes(), []
    for place in range(len(whole)):  # a bit of every byte
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        try:
            tensors, about = files.read_tensors(path, of="a network")
        except NesbsError as error:
            messages.append(str(error))
        else:  # in blanks behind the header, or in the name of the checksum: what counts is whole
            assert tensors.keys() == weights.keys()
            assert all(torch.equal(tensors[name], weights[name]) for name in weights)
            assert about["note"] == "kept"
    assert len(messages) > 0.95 * len(whole)
    assert all(str(path) in each and each.endswith("remove it and run the same command again") for each in messages)


def test_weights_of_something_else_are_refused(tmp_path):
    path = tmp_path / "w.safetensors"
    files.write_tensors(path, {"w": torch.ones(2)}, of="member 1")
    with pytest.raises(NesbsError, match=r"w\.safetensors holds member 1, not member 2: remove it and run"):
        files.read_tensors(path, of="member 2")
    assert files.read_tensors(path, of="member 1")[1] == files.read_tensors(path)[1] == {}


def test_weights_of_before_there_were_checksums_are_read(tmp_path):
    path = tmp_path / "w.safetensors"
    safetensors.torch.save_file({"w": torch.ones(2)}, path, metadata={"about": '{"losses": "[1.0]"}'})
    tensors, about = files.read_tensors(path, of="member 1")
    assert (tensors["w"].tolist(), about) == ([1.0, 1.0], {"losses": "[1.0]"})


@contextlib.contextmanager
def no_room(beyond):
    """Files cannot grow beyond so many bytes, whoever writes them."""
    resource = pytest.importorskip("resource")
    _, most = earlier = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (beyond, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, earlier)


def test_a_disk_that_is_full_leaves_the_old_file(tmp_path, monkeypatch):
    files.write_text(tmp_path / "a.json", "first")
    files.write_tensors(tmp_path / "w.safetensors", {"w": torch.ones(2)})
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with no_room(beyond=1000):
        with pytest.raises(NesbsError, match=r"cannot write .*a\.json: File too large"):
            files.write_text(tmp_path / "a.json", "x" * 5000)
        with pytest.raises(NesbsError, match=r"cannot write .*w\.safetensors: .*File too large"):
            files.write_tensors(tmp_path / "w.safetensors", {"w": torch.ones(2000)})

    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(NesbsError, match=r"a\.json: No space left on device: make room, the same command resumes"):
        files.write_text(tmp_path / "a.json", "second")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, "[" * 60 + "]" * 60, "1" * 5000, '{"a": "\\ud800"}', '{"a": ' * 3000, "{", "nonsense"],
    ids=["deep", "rather deep", "digits", "half a character", "deep mapping", "cut", "words"],
)
def test_broken_json_is_named_in_a_line(text, tmp_path):
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(NesbsError, match=r"record.json is not valid JSON.*: remove it and run the same command again$"):
        files.read_json(tmp_path / "record.json")


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(NesbsError, match=r"pipe.json is not a file"):
        files.read_json(tmp_path / "pipe.json")


@pytest.mark.parametrize("text", [None, "{", "[" * 100_000, "1" * 5000], ids=["none", "cut", "deep", "digits"])
def test_text_about_tensors_that_is_missing_or_broken_is_named(text, tmp_path):
    about = {} if text is None else {"losses": text}
    with pytest.raises(NesbsError, match=r"member.safetensors does not say its losses: remove it"):
        files.about_json(about, "losses", tmp_path / "member.safetensors")


@pytest.mark.parametrize(
    ("error", "amount"),
    [
        (RuntimeError("[enforce fail at alloc_cpu.cpp:117] . DefaultCPUAllocator: not enough memory: you tried"), ""),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 10737418240 bytes."),
            "10.0 GiB",
        ),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of …"), "2.00 GiB"),
        (RuntimeError("CUDA error: out of memory"), ""),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), ""),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), ""),
        (RuntimeError("Storage size calculation overflowed with sizes=[4611686018427387904, 4]"), ""),
        (RuntimeError("numel: integer multiplication overflow"), ""),
        (RuntimeError("std::bad_alloc"), ""),
        (RuntimeError("could not create a memory object"), ""),
        (ValueError("array is too big; `arr.size * arr.dtype.itemsize` is larger than the maximum possible size."), ""),
        (MemoryError(), ""),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), ""),
    ],
    ids=lambda value: str(value)[:40],
)
def test_too_little_memory_is_recognised_by_its_words(error, amount):
    message = out_of_memory(error)
    assert message.startswith(f"not enough memory{f' ({amount} asked for at once)' if amount else ''}: take fewer")
    assert "\n" not in message


@pytest.mark.parametrize("shape", [(2**60,), (2**62, 4)])
def test_torchs_own_words_are_known(shape):
    with pytest.raises(RuntimeError, match="memory|overflow") as raised:
        torch.empty(shape)
    assert out_of_memory(raised.value)


def test_numpys_own_words_are_known():
    with pytest.raises((MemoryError, ValueError)) as raised:
        np.empty(2**58, np.uint8)
    assert "asked for at once" in out_of_memory(raised.value)
    assert out_of_memory(RuntimeError("shape '[2, 3]' is invalid for input of size 5")) is None


def test_a_new_folder_that_could_not_be_filled_is_gone_again(tmp_path):
    def fill(folder):
        with files.new_folder(folder) as place:
            files.write_text(place / "members" / "0", "written")
            raise OSError("full")

    with pytest.raises(OSError, match="full"):
        fill(tmp_path / "half")
    assert not (tmp_path / "half").exists()
    with files.new_folder(tmp_path / "half") as place:
        files.write_text(place / "0", "written")
    with pytest.raises(NesbsError, match="half is there and not empty"), files.new_folder(tmp_path / "half"):
        pass
    assert (tmp_path / "half" / "0").is_file()
