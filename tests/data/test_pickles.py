"""Pickles: what published data sets hold is read, and nothing else happens."""

import contextlib
import os
import pickle
import pickletools
import struct

import numpy as np
import pytest
from data.layouts import integer, python2_pickle, string

from nesbs.data.pickles import read_pickle
from nesbs.errors import NesbsError


def read(tmp_path, blob):
    path = tmp_path / "data_batch_1"
    path.write_bytes(blob)
    return read_pickle(path)


PIXELS = np.arange(12, dtype=np.uint8).reshape(3, 4)


def test_what_python_2_wrote(tmp_path):
    found = read(tmp_path, python2_pickle({"data": PIXELS, "labels": [6, 300, -1], "filenames": ["a", "b"]}))
    assert found.keys() == {"data", "labels", "filenames"}
    assert np.array_equal(found["data"], PIXELS)
    assert found["data"].dtype == np.uint8
    assert found["labels"] == [6, 300, -1]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("kind", [np.uint8, np.int64, ">i2", np.float32, bool])
@pytest.mark.parametrize("order", ["C", "F"])
def test_what_python_3_writes(tmp_path, protocol, kind, order):
    array = np.asarray(np.arange(12).reshape(3, 4) % 7, dtype=kind, order=order)
    old_name = pickle.dumps({"data": array, "n": [1, 2.5, None, True, "ü"]}, protocol)
    for blob in (old_name, old_name.replace(b"numpy._core", b"numpy.core") if protocol < 4 else old_name):
        found = read(tmp_path, blob)
        assert np.array_equal(found["data"], array)
        assert found["data"].dtype == array.dtype
        assert found["n"] == [1, 2.5, None, True, "ü"]


class Runs:
    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
@pytest.mark.parametrize("call", [os.system, os.remove, eval, __import__, getattr, np.load, np.memmap])
def test_a_pickle_that_tries_to_run_code_is_refused(tmp_path, protocol, call):
    witness = tmp_path / "witness"
    witness.write_text("alive")
    hostile = pickle.dumps({"data": Runs(call, f"rm {witness}" if call is os.system else str(witness))}, protocol)
    with pytest.raises(NesbsError, match="refused, and nothing of it was run"):
        read(tmp_path, hostile)
    assert witness.read_text() == "alive"


def test_the_refusal_names_what_was_asked_for(tmp_path):
    with pytest.raises(NesbsError, match=r"data_batch_1 asks for (posix|nt)\.system, which no data set needs"):
        read(tmp_path, pickle.dumps(Runs(os.system, "true"), 4))
    with pytest.raises(NesbsError, match=r"asks for (posix|nt)\.system"):
        read(tmp_path, pickle.dumps(Runs(os.system, "true"), 2))


HEAD = b"\x80\x02"
DOUBLED = b"".join(b"h" + bytes([i]) + b"h" + bytes([i]) + b"\x86q" + bytes([i + 1]) for i in range(60))
FUNCTION = b"cnumpy.core.multiarray\n_reconstruct\n"


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (HEAD + b"Pouter\n.", "has the step PERSID outer"),
        (HEAD + string("outer") + b"Q.", "has the step BINPERSID"),
        (HEAD + b"\x82\x01.", "has the step EXT1 1"),
        (HEAD + b"\x83\x01\x00.", "has the step EXT2"),
        (HEAD + b"\x84\x01\x00\x00\x00.", "has the step EXT4"),
        (HEAD + b"(ios\nsystem\n.", "has the step INST os system"),
        (HEAD + b"(cnumpy\ndtype\no.", "has the step OBJ"),
        (HEAD + b"cnumpy\ndtype\n)\x81.", "has the step NEWOBJ"),
        (b"\x80\x05\x97.", "has the step NEXT_BUFFER"),
        (b"cnumpy\nload\n.", "asks for numpy.load"),
        (b"\x80\x04\x8c\x05numpy\x8c\x0bcore.memmap\x93.", "asks for numpy.core.memmap"),
        (b"\x80\x04\x8c\x05numpy\x8c\x10ndarray.__init__\x93.", "asks for numpy.ndarray.__init__"),
        (HEAD + b"cnumpy\nndarray\n" + integer(10**9) + b"\x85R.", "calls numpy.ndarray wrongly"),
        (HEAD + b"cnumpy\ndtype\n" + string("O8") + b"K\x00K\x01\x87R.", "arrays of 'O8' are no numbers"),
        (HEAD + b"cnumpy\ndtype\n" + string("V8") + b"K\x00K\x01\x87R.", "arrays of 'V8' are no numbers"),
        (HEAD + b"cnumpy\ndtype\nR.", "not a whole pickle"),
        # A name that may be imported must not be changed.
        (HEAD + FUNCTION + b"}" + string("x") + b"K\x01sb.", "changes numpy.core.multiarray._reconstruct"),
        (HEAD + FUNCTION + b"N}" + string("_call") + b"K\x01s\x86b.", "changes numpy.core.multiarray._reconstruct"),
        # Room asked for and not paid for: a number for a value, a length, a text said again and again.
        (HEAD + b"K\x01r\xff\xff\xff\x7f.", "numbers its 2 values up to 2147483647"),
        (b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b".", "not a whole pickle"),
        (b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b".", "not a whole pickle"),
        (b"\x80\x04\x95" + struct.pack("<Q", 2**62) + b"N.", "not a whole pickle"),
        (
            HEAD + b"](c_codecs\nencode\nq\x00X\x0a\x00\x00\x000123456789q\x01X\x06\x00\x00\x00latin1q\x02\x86R"
            + b"h\x00h\x01h\x02\x86R" * 100 + b"e.",
            "the same text over and over",
        ),
        (HEAD + b"c_codecs\nencode\nX\x01\x00\x00\x00aX\x03\x00\x00\x00hex\x86R.", "only latin1"),
        # Nested so deeply that hashing would overrun the stack.
        (HEAD + b"})" + b"\x85" * 200_000 + b"K\x01s.", "tuples"),
        (HEAD + b"]" * 100_000 + b"a" * 99_999 + b".", "holds a list, not the dict"),
        # Tuples of one tuple, doubled until hashing them would take years; also behind steps that do nothing.
        (HEAD + b"})q\x00" + DOUBLED + b"K\x01s.", "uses value 0 twice"),
        (HEAD + b"}K\x01\x85Nbq\x00" + DOUBLED + b"K\x01s.", "uses value 0 twice"),
        (HEAD + b"}K\x01\x85(eq\x00" + DOUBLED + b"K\x01s.", "uses value 0 twice"),
        (HEAD + b"}K\x01\x85q\x00q\x01h\x01h\x01\x86K\x01s.", "uses value 1 twice"),
        (b"\x80\x04}K\x01\x85\x95" + struct.pack("<Q", 10) + b"\x94h\x00h\x00\x86K\x01s.", "uses value 0 twice"),
        # Keys that cannot be shown.
        (HEAD + b"})" + b"\x85" * 9000 + b"K\x01s.", "has a key that is a tuple"),
        (HEAD + b"}\x8b" + struct.pack("<i", 5000) + b"\x7f" * 5000 + b"K\x01s.", "has a key that is a int"),
        (HEAD + b"}NK\x01s.", "has a key that is a NoneType"),
        # Lengths that the file does not have.
        (HEAD + b"T" + struct.pack("<i", 2**31 - 1) + b"a.", "not a whole pickle"),
        (HEAD + b"\x8e" + struct.pack("<Q", 2**40) + b"a.", "not a whole pickle"),
        (b"\x80\x05\x96" + struct.pack("<Q", 2**62) + b"a.", "not a whole pickle"),
        (HEAD + b"\x8b" + struct.pack("<i", 2**31 - 1) + b"a.", "not a whole pickle"),
        (HEAD + b"r" + struct.pack("<I", 2**31) + b".", "numbers its"),
        (HEAD + b"}](K\x01es.", "not a whole pickle"),  # odd number of things
        (HEAD + b"}]K\x01s.", "not a whole pickle .unhashable"),
        (HEAD + b"K\x01.", "holds a int, not the dict"),
        (b"", "not a whole pickle"),
        (b"\x89PNG\r\n\x1a\n", "refused|not a whole pickle"),
        (HEAD + b"}", "not a whole pickle"),
    ],
    ids=lambda value: ascii(value)[:40],
)  # fmt: skip
def test_hostile_and_broken_pickles_are_refused(tmp_path, blob, message):
    with pytest.raises(NesbsError, match=message):
        read(tmp_path, blob)


def test_shapes_are_believed_only_with_their_bytes(tmp_path):
    good = python2_pickle({"data": PIXELS})
    assert good.count(integer(4)) == 1
    for wrong in (integer(5), integer(-4), integer(2**31 - 1), b"\x8a\x08" + b"\xff" * 7 + b"\x3f", b"]", b"N"):
        with pytest.raises(NesbsError, match="has an array that does not fit its bytes"):
            read(tmp_path, good.replace(integer(4), wrong))
    with pytest.raises(NesbsError, match="has an array without content"):
        read(tmp_path, HEAD + b"}" + string("data") + FUNCTION + b"NNN\x87Rs.")
    objects = pickle.dumps({"data": np.array([{}, []], dtype=object)}, 4)
    with pytest.raises(NesbsError, match="arrays of 'O8' are no numbers"):
        read(tmp_path, objects)
    records = pickle.dumps({"data": np.zeros(2, dtype=[("a", "u1"), ("b", "O")])}, 4)
    with pytest.raises(NesbsError, match="arrays of 'V9' are no numbers"):
        read(tmp_path, records)


def test_a_pickle_cut_anywhere_is_refused(tmp_path):
    good = python2_pickle({"data": PIXELS, "labels": [1, 2, 3]})
    for end in range(len(good)):
        with pytest.raises(NesbsError, match="not a whole pickle"):
            read(tmp_path, good[:end])


def test_a_damaged_pickle_ends_in_an_error_or_a_dict(tmp_path):
    good = python2_pickle({"data": PIXELS, "labels": [1, 2, 3]})
    random = np.random.default_rng(0)
    for _ in range(800):
        damaged = bytearray(good)
        damaged[random.integers(len(good))] = random.integers(256)
        with contextlib.suppress(NesbsError):
            assert isinstance(read(tmp_path, bytes(damaged)), dict)


def test_every_step_that_is_let_pass_exists():
    from nesbs.data.pickles import STEPS

    assert {step.name for step in pickletools.opcodes} >= STEPS
