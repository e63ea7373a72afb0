"""CIFAR-10, CIFAR-100 and ImageNet16-120 from small files in the real layouts, and CIFAR-10 itself."""

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from data.layouts import (
    CIFAR_TRAIN,
    python2_pickle,
    python3_pickle,
    write_cifar10,
    write_cifar100,
    write_imagenet16,
)

from nesbs.data import load_dataset
from nesbs.data.published import CLASSES_100
from nesbs.errors import NesbsError


def same(one, two):
    for a, b in ((one.train, two.train), (one.test, two.test)):
        assert torch.equal(a.stored, b.stored)
        assert a.stored.is_contiguous()
        assert torch.equal(a.labels, b.labels)
        assert torch.equal(a.mean, b.mean)
        assert torch.equal(a.std, b.std)
        assert a.class_names == b.class_names


@pytest.mark.parametrize("dump", [python2_pickle, python3_pickle])
@pytest.mark.parametrize(("name", "write"), [("cifar10", write_cifar10), ("cifar100", write_cifar100)])
def test_both_layouts_load_to_identical_tensors(tmp_path, name, write, dump):
    write(tmp_path / "binary")
    write(tmp_path / "python", binary=False, dump=dump)
    one, two = (load_dataset(name, root=tmp_path / layout) for layout in ("binary", "python"))
    same(one, two)
    assert one.name == name


def test_cifar10_is_read_record_by_record(tmp_path):
    folder = write_cifar10(tmp_path, count=1003)  # more than is read at a time
    data = load_dataset("cifar10", root=tmp_path)
    assert data.train.images.shape == (5 * 1003, 3, 32, 32)
    assert data.train.class_names[6] == "frog"
    assert data.train.labels[:5].tolist() == [6, 7, 8, 9, 0]
    records = np.frombuffer((folder / "data_batch_2.bin").read_bytes(), np.uint8).reshape(-1, 3073)
    assert data.train.labels[1003 + 1001] == records[1001, 0]
    assert data.train.images[1003 + 1001, 2, 1, 5] == records[1001, 1 + 2 * 1024 + 32 + 5]  # blue plane, second row


def test_cifar100_has_its_fine_labels(tmp_path):
    write_cifar100(tmp_path)
    data = load_dataset("cifar100", root=tmp_path)
    assert data.train.labels[:2].tolist() == [19, 20]
    assert data.train.classes == 100
    assert data.train.class_names[19] == "cattle"  # the first training image of the real set
    assert list(CLASSES_100) == sorted(set(CLASSES_100))


def test_the_binary_layout_comes_first(tmp_path):
    write_cifar10(tmp_path)
    write_cifar10(tmp_path, binary=False, seed=1)
    write_cifar10(tmp_path / "other")
    same(load_dataset("cifar10", root=tmp_path), load_dataset("cifar10", root=tmp_path / "other"))


def test_a_broken_binary_cifar_is_refused(tmp_path):
    with pytest.raises(NesbsError, match=r"cifar10 needs data\.root: the folder that holds cifar-10-batches-bin/ or"):
        load_dataset("cifar10")
    with pytest.raises(NesbsError, match="has no folder cifar-10-batches-bin or cifar-10-batches-py: unpack"):
        load_dataset("cifar10", root=tmp_path)
    with pytest.raises(NesbsError, match="has no folder cifar-100-binary .* `nesbs datasets cifar100 --root"):
        load_dataset("cifar100", root=tmp_path)
    folder = write_cifar10(tmp_path)
    (folder / "data_batch_3.bin").write_bytes(b"abc")
    with pytest.raises(NesbsError, match=r"data_batch_3\.bin is 3 bytes long, not a multiple of 3073"):
        load_dataset("cifar10", root=tmp_path)
    (folder / "data_batch_3.bin").write_bytes(b"")
    with pytest.raises(NesbsError, match=r"data_batch_3\.bin is 0 bytes long"):
        load_dataset("cifar10", root=tmp_path)
    (folder / "data_batch_3.bin").unlink()
    with pytest.raises(NesbsError, match=r"there is no file .*data_batch_3\.bin: the copy is not whole"):
        load_dataset("cifar10", root=tmp_path)
    (folder / "data_batch_3.bin").write_bytes(bytes([10]) + bytes(3072))
    with pytest.raises(NesbsError, match="labels must lie between 0 and 9 .10 classes., found 10"):
        load_dataset("cifar10", root=tmp_path)
    folder = write_cifar100(tmp_path)
    (folder / "test.bin").write_bytes(bytes(3073))
    with pytest.raises(NesbsError, match=r"test\.bin is 3073 bytes long, not a multiple of 3074"):
        load_dataset("cifar100", root=tmp_path)


PIXELS = np.zeros((4, 3072), np.uint8)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"labels": [0] * 4}, "has no entry data, found labels"),
        ({"data": PIXELS}, "has no entry labels, found data"),
        ({"data": PIXELS, "labels": [0] * 3}, "4 images but 3 labels"),
        ({"data": PIXELS[:0], "labels": []}, "0 images but 0 labels"),
        ({"data": PIXELS[:, :100], "labels": [0] * 4}, "must be bytes of shape .images, 3072., found uint8 .4, 100"),
        ({"data": PIXELS.astype(float), "labels": [0] * 4}, "must be bytes of shape .images, 3072., found float64"),
        ({"data": "zeros", "labels": [0] * 4}, "found a str"),
        ({"data": PIXELS, "labels": ["a"] * 4}, "labels must be a list of whole numbers, found a list"),
        ({"data": PIXELS, "labels": [2**70] * 4}, "labels must be a list of whole numbers"),
        ({"data": PIXELS, "labels": [0, 1, 2, 11]}, "labels must lie between 0 and 9 .10 classes., found 11"),
    ],
)  # fmt: skip
def test_a_broken_python_cifar_is_refused(tmp_path, content, message):
    folder = write_cifar10(tmp_path, binary=False)
    (folder / "data_batch_2").write_bytes(pickle.dumps(content))
    with pytest.raises(NesbsError, match=message):
        load_dataset("cifar10", root=tmp_path)


def test_a_python_cifar_that_is_cut_missing_or_hostile_is_refused(tmp_path):
    folder = write_cifar10(tmp_path, binary=False)
    whole = (folder / "data_batch_4").read_bytes()
    (folder / "data_batch_4").write_bytes(whole[:5000])
    with pytest.raises(NesbsError, match="data_batch_4 is not a whole pickle"):
        load_dataset("cifar10", root=tmp_path)
    (folder / "data_batch_4").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(NesbsError, match=r"data_batch_4 asks for os\.system, which no data set needs: refused"):
        load_dataset("cifar10", root=tmp_path)
    (folder / "data_batch_4").unlink()
    with pytest.raises(NesbsError, match="there is no file .*data_batch_4: the copy is not whole"):
        load_dataset("cifar10", root=tmp_path)


def test_imagenet16_keeps_the_first_120_classes(tmp_path):
    folder = write_imagenet16(tmp_path, count=100)
    data = load_dataset("imagenet16-120", root=tmp_path)
    assert data.train.images.shape == (120, 3, 16, 16)  # labels 1 … 120, once each
    assert data.train.class_names == tuple(str(number) for number in range(1, 121))
    assert sorted(data.train.labels.tolist()) == list(range(120))
    second = pickle.loads((folder / "train_data_batch_2").read_bytes())  # labels 2, 12, 22, …
    assert data.train.labels[12:14].tolist() == [1, 11]
    assert torch.equal(data.train.images[13], torch.from_numpy(second["data"][1].reshape(3, 16, 16)))
    assert len(data.test) == 12  # labels 11, 21, …, 111 and 1


def test_a_broken_imagenet16_is_refused(tmp_path):
    with pytest.raises(NesbsError, match="has no folder ImageNet16"):
        load_dataset("imagenet16-120", root=tmp_path)
    folder = write_imagenet16(tmp_path)
    (folder / "train_data_batch_10").unlink()
    with pytest.raises(NesbsError, match="there is no file .*train_data_batch_10"):
        load_dataset("imagenet16-120", root=tmp_path)
    pixels = np.zeros((2, 768), np.uint8)
    for content, message in [
        ({"data": pixels, "labels": [0, 1]}, "labels must lie between 1 and 1000, found 0 to 1"),
        ({"data": pixels, "labels": [1]}, "2 images but 1 labels"),
        ({"data": pixels[:, :3], "labels": [1, 2]}, r"must be bytes of shape .images, 768."),
    ]:
        (folder / "train_data_batch_10").write_bytes(pickle.dumps(content))
        with pytest.raises(NesbsError, match=message):
            load_dataset("imagenet16-120", root=tmp_path)
    (folder / "train_data_batch_10").write_bytes(pickle.dumps({"data": pixels, "labels": np.array([1, 1000])}))
    (folder / "val_data").write_bytes(pickle.dumps({"data": pixels, "labels": [999, 1000]}))
    with pytest.raises(NesbsError, match="ImageNet16: no images"):
        load_dataset("imagenet16-120", root=tmp_path)


@pytest.mark.data
def test_cifar10_itself(tmp_path):
    root = Path(os.environ["NESBS_DATA"])
    data = load_dataset("cifar10", root=root)
    assert data.train.images.shape == (50000, 3, 32, 32)
    assert data.test.images.shape == (10000, 3, 32, 32)
    assert data.train.labels[0] == 6  # a frog
    assert data.train.labels.bincount().tolist() == [5000] * 10
    # As published: 0.4914 0.4822 0.4465 and 0.2470 0.2435 0.2616.
    assert [round(value, 4) for value in data.train.mean.tolist()] == [0.4914, 0.4822, 0.4465]
    assert [round(value, 4) for value in data.train.std.tolist()] == [0.2470, 0.2435, 0.2616]
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in [*CIFAR_TRAIN, "test_batch"]:
        records = np.fromfile(root / "cifar-10-batches-bin" / f"{name}.bin", np.uint8).reshape(-1, 3073)
        (folder / name).write_bytes(python2_pickle({"data": records[:, 1:], "labels": records[:, 0].tolist()}))
    same(data, load_dataset("cifar10", root=tmp_path))
