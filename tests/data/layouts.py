"""Small data sets written in the real layouts."""

import gzip
import pickle
import struct

import numpy as np
from PIL import Image

CIFAR_TRAIN = [f"data_batch_{number}" for number in range(1, 6)]


def string(text):
    """A byte string as Python 2 pickles it."""
    text = text if isinstance(text, bytes) else text.encode()
    return b"U" + bytes([len(text)]) + text if len(text) < 256 else b"T" + struct.pack("<i", len(text)) + text


def integer(value):
    return b"J" + struct.pack("<i", value)


def array(values):
    """An array of bytes as numpy wrote it under Python 2."""
    shape = b"(" + b"".join(map(integer, values.shape)) + b"t"
    dtype = b"cnumpy\ndtype\n" + string("u1") + b"K\x00K\x01\x87R"
    dtype += b"(K\x03" + string("|") + b"NNN" + integer(-1) + integer(-1) + b"K\x00tb"
    empty = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85" + string("b") + b"\x87R"
    return empty + b"(K\x01" + shape + dtype + b"\x89" + string(values.tobytes()) + b"tb"


def python2_pickle(entries):
    """A dict of strings, lists of numbers, lists of strings and arrays as Python 2 wrote it (protocol 2)."""
    body = b""
    for key, value in entries.items():
        if isinstance(value, np.ndarray):
            item = array(value)
        elif isinstance(value, list):
            item = b"](" + b"".join(string(v) if isinstance(v, str) else integer(int(v)) for v in value) + b"e"
        else:
            item = string(value)
        body += string(key) + item
    return b"\x80\x02}(" + body + b"u."


def python3_pickle(entries, protocol=4):
    return pickle.dumps(entries, protocol=protocol)


def write_cifar10(root, count=4, *, binary=True, dump=python2_pickle, seed=0):
    """CIFAR-10 with `count` random images a file, in either layout; the same seed writes the same images."""
    folder = root / ("cifar-10-batches-bin" if binary else "cifar-10-batches-py")
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    for name in [*CIFAR_TRAIN, "test_batch"]:
        pixels = random.integers(0, 256, (count, 3072), dtype=np.uint8)
        labels = (np.arange(count) + 6) % 10
        if binary:
            records = np.concatenate([labels[:, None].astype(np.uint8), pixels], 1)
            (folder / f"{name}.bin").write_bytes(records.tobytes())
        else:
            names = [f"{i}.png" for i in range(count)]
            content = {"batch_label": name, "labels": labels.tolist(), "data": pixels, "filenames": names}
            (folder / name).write_bytes(dump(content))
    return folder


def write_cifar100(root, count=100, *, binary=True, dump=python2_pickle):
    folder = root / ("cifar-100-binary" if binary else "cifar-100-python")
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    for name in ("train", "test"):
        pixels = random.integers(0, 256, (count, 3072), dtype=np.uint8)
        fine = (np.arange(count) + 19) % 100
        coarse = fine // 5
        if binary:
            records = np.concatenate([coarse[:, None].astype(np.uint8), fine[:, None].astype(np.uint8), pixels], 1)
            (folder / f"{name}.bin").write_bytes(records.tobytes())
        else:
            content = {"fine_labels": fine.tolist(), "coarse_labels": coarse.tolist(), "data": pixels}
            (folder / name).write_bytes(dump(content))
    return folder


def write_imagenet16(root, count=40, dump=python3_pickle):
    """ImageNet16 with `count` images a file and labels spread over 1 … 1000."""
    folder = root / "ImageNet16"
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    for number, name in enumerate([*(f"train_data_batch_{i}" for i in range(1, 11)), "val_data"]):
        pixels = random.integers(0, 256, (count, 768), dtype=np.uint8)
        labels = (np.arange(count) * 10 + number) % 1000 + 1
        (folder / name).write_bytes(dump({"data": pixels, "labels": labels.tolist()}))
    return folder


def write_folder(root, classes=("ant", "bee"), count=10, size=(10, 10), mode="RGB"):
    """A folder of random images, `count` a class, `size` (width, height)."""
    g = np.random.default_rng(0)
    for name in classes:
        (root / name).mkdir(parents=True)
        for i in range(count):
            pixels = g.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
            Image.fromarray(pixels).convert(mode).save(root / name / f"{i}.png")
    return root


def write_fashion_mnist(root, counts=(20, 10), *, packed=True):
    """Fashion-MNIST with so many random images of each part, labels 0 to 9 in turn; bytes of the training images."""
    root.mkdir(parents=True, exist_ok=True)
    random, first = np.random.default_rng(0), None
    for part, count in zip(("train", "t10k"), counts, strict=True):
        pixels = random.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        first = pixels if first is None else first
        labels = np.arange(count, dtype=np.uint8) % 10
        for name, array in ((f"{part}-images-idx3-ubyte", pixels), (f"{part}-labels-idx1-ubyte", labels)):
            content = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()
            path = root / (f"{name}.gz" if packed else name)
            path.write_bytes(gzip.compress(content, 1) if packed else content)
    return first
